"""The three programs of the documentation, run against a server; shortened by their own constants."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from axonrl.serving import EncodedAgentState
from axonrl.serving.catalogue import Recipe

from .service import PASSWORD, Service, serving

Built = Callable[..., Recipe]

ELSEWHERE = '''
import gymnasium
from axonrl.serving import RemoteAgent

env = gymnasium.make("CartPole-v1")
with RemoteAgent("cart", lr=1e-3, warm_up=500) as agent:      # url and credentials from the environment
    if not agent.exists:
        agent.create_agent(state_size=4, action_size=2, agent_model="dqn")
    for episode in range(300):
        state, ended = env.reset()[0], False
        while not ended:
            action = agent.act(state, noise=max(0.02, 1 - episode / 100))
            after, reward, done, truncated, _ = env.step(action)
            agent.step(state, action, reward, after, done, truncated=truncated)
            state, ended = after, done or truncated
    print(agent.info()["episode_return_mean"])
'''

HEATER = '''
from axonrl.serving import RemoteAgent

heater = RemoteAgent("heater", url="https://agents.example.org", access_token=open("token").read().strip())
if not heater.exists:
    heater.create_agent(state_size=2, action_size=1, agent_model="ddpg")   # power from 0 to 1
inside, outside = 15.0, 5.0
for minute in range(10_000):
    state = [inside / 10 - 2, outside / 10]
    power = heater.act(state, noise=0.2)
    inside += 0.6 * power[0] - 0.02 * (inside - outside)
    heater.step(state, power, -abs(inside - 20) - 0.1 * power[0], [inside / 10 - 2, outside / 10], False)
heater.get_state().save("heater.json")
'''

PLAYERS = '''
import random, threading
from axonrl.serving import RemoteAgent

def play(seed):
    me, dice = RemoteAgent("market", environment=f"player-{seed}"), random.Random(seed)
    for _ in range(500):
        stock = [dice.random(), dice.random()]
        bought = me.act(stock, noise=0.3)
        me.step(stock, bought, float(stock[bought] < 0.5), stock, True)

RemoteAgent("market", seed=1).create_agent(2, 2, "dqn")
players = [threading.Thread(target=play, args=(seed,)) for seed in range(4)]
[player.start() for player in players], [player.join() for player in players]
print(RemoteAgent("market").act_batch([[0.1, 0.9], [0.9, 0.1]], explore=False))   # [0, 1]
'''


@pytest.fixture(scope="module")
def service(built: Built, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    built("dqn", {"lr": 1e-3, "warm_up": 500, "state_size": 4, "action_size": 2})
    built("dqn", {"seed": 1, "state_size": 2, "action_size": 2})
    built("ddpg", {"state_size": 2, "action_size": 1})
    with serving(tmp_path_factory.mktemp("service") / "data", programs) as started:
        yield started


def run(service: Service, program: str, folder: Path, **changes: str) -> str:
    """What a program prints, with some of its constants changed."""
    for constant, value in changes.items():
        assert program.count(constant) == 1
        program = program.replace(constant, value)
    login = {"AXONRL_URL": service.url, "AGENTS_BAR_USER": "alice", "AGENTS_BAR_PASS": PASSWORD}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=folder, env={**os.environ, **login},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_usual_loop_somewhere_else(service: Service, tmp_path: Path) -> None:
    mean = run(service, ELSEWHERE, tmp_path, **{"range(300)": "range(20)"})
    assert 8 < float(mean) < 100
    assert service.agent("cart").info()["counters"]["global_episode"] == 20


def test_a_heater(service: Service, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{service.token}\n")
    run(service, HEATER, tmp_path, **{"10_000": "300", "https://agents.example.org": service.url})
    state = EncodedAgentState.load(tmp_path / "heater.json")
    assert (state.model, state.state_size, state.action_size) == ("ddpg", 2, 1)
    assert service.agent("heater").info()["counters"]["global_timestep"] == 300


def test_many_players(service: Service, tmp_path: Path) -> None:
    assert run(service, PLAYERS, tmp_path) == "[0, 1]\n"
    assert service.agent("market").info()["counters"]["global_timestep"] == 2000
