"""One hosted agent, without HTTP: what it learns, what it keeps, and what comes back after a crash."""

import base64
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from axonrl import Agent, RunConfig
from axonrl.estimators.stepping import Stepper
from axonrl.memories import ReplayMemory
from axonrl.runs import history
from axonrl.serving.catalogue import Recipe
from axonrl.serving.hosting import asleep
from axonrl.serving.hosting.agent import HostedAgent, to_bytes
from axonrl.serving.hosting.failures import RefusedError
from axonrl.serving.hosting.opening import open_stepper
from axonrl.serving.hosting.programs import ProgramMissingError

Built = Callable[..., Recipe]
Weights = dict[str, NDArray[Any]]
DQN = {"state_size": 4, "action_size": 2, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
PPO = {"state_size": 4, "action_size": 2, "discrete": True, "hidden_layers": [8], "rollout_length": 16}
PPO |= {"batch_size": 16, "num_epochs": 1}


class Host:
    """Opens agents below a folder, and leaves them at the end."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.agents: list[HostedAgent] = []

    def stepper_of(self, recipe: Recipe, fresh: bool) -> Stepper:
        return open_stepper(recipe, self.programs, fresh)

    def open(self, name: str, recipe: Recipe | None = None) -> HostedAgent:
        agent = HostedAgent.open(self.folder / name, self.stepper_of, recipe)
        self.agents.append(agent)
        return agent

    def again(self, agent: HostedAgent, name: str) -> HostedAgent:
        """As after a kill -9: nothing is saved."""
        agent.abandon()
        return self.open(name)


@pytest.fixture
def host(programs: Path, tmp_path: Path) -> Iterator[Host]:
    host = Host(programs, tmp_path / "agents")
    yield host
    for agent in host.agents:
        agent.abandon()


def weights(agent: HostedAgent) -> bytes:
    """Every variable, byte for byte."""
    found: str = agent.get_state().value["encoded_network"]
    return base64.b64decode(found)


def body(k: int, done: bool | None = None, environment: str | None = None, action: Any = None, **more: Any) -> bytes:
    """Step k of a made-up environment, whose episodes have 20 steps."""
    rng = np.random.default_rng(7)
    states = rng.normal(size=(1_000, 4)).round(3).tolist()
    data = {
        "state": states[k],
        "action": [k % 2] if action is None else action,
        "reward": states[k][0],
        "next_state": states[k + 1],
        "done": k % 20 == 19 if done is None else done,
        **({} if environment is None else {"environment": environment}),
        **more,
    }
    return json.dumps({"step_data": data}).encode()


def feed(agent: HostedAgent, begin: int, end: int, environments: int = 1) -> None:
    for k in range(begin, end):
        agent.step(body(k, environment=f"e{k % environments}"), f"key-{k}")
        agent.sync()


def refused(call: Callable[[], object]) -> RefusedError:
    with pytest.raises(RefusedError) as error:
        call()
    return error.value


# -- learning ---------------------------------------------------------------------------------------------------------


def test_it_learns_what_train_learns_from_the_same_transitions(built: Built, host: Host, tmp_path: Path) -> None:
    recipe = built("dqn", {**DQN, "seed": 3})
    memory = ReplayMemory(500, 8)
    trained = Agent("dqn", params=recipe.params, memory=memory, model_dir=tmp_path, config=RunConfig(seed=3))
    trained.train("CartPole-v1", first_update=recipe.first_update, update_frequency=1, timesteps=200)
    agent = host.open("a", recipe)
    for k in range(200):
        one: Any = memory.get_by_index(k)
        data = {"state": one["observation"].tolist(), "action": [int(one["action"])], "reward": float(one["reward"])}
        data |= {"next_state": one["next_observation"].tolist(), "done": bool(one["terminated"])}
        agent.step(json.dumps({"step_data": {**data, "truncated": bool(one["truncated"])}}).encode(), None)
    agent.finish()
    counters = agent.info().value["counters"]
    assert (counters["global_timestep"], counters["global_step"]) == (200, 193)
    found = safetensors.numpy.load(weights(agent))
    for name, value in trained.get_weights().items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(("model", "config"), [("dqn", DQN), ("ppo", PPO)])
def test_a_batch_of_steps_is_the_same_as_one_after_another(
    built: Built, host: Host, model: str, config: dict[str, Any]
) -> None:
    """Also where two rollouts end within it, and the policy with which later steps are compared is another one."""
    recipe = built(model, config)
    one, many = host.open("one", recipe), host.open("many", recipe)
    for k in range(40):
        one.step(body(k), None)
    steps = [json.loads(body(k))["step_data"] for k in range(40)]
    answer = many.step(json.dumps({"steps": steps}).encode(), None, several=True)
    assert answer.value == {"accepted": 40, "seq": 40}
    expected = one.get_state().value
    assert many.get_state().value == expected
    assert host.again(many, "many").get_state().value == expected


def test_acting_changes_nothing_that_is_learned(built: Built, host: Host) -> None:
    recipe = built("dqn", DQN)
    quiet, acting = host.open("quiet", recipe), host.open("acting", recipe)
    for k in range(60):
        quiet.step(body(k), None)
        acting.act(b"[0.1, 0.2, 0.3, 0.4]", 0.5)
        acting.act(b'{"observation": [1, 2, 3, 4], "explore": true}')
        acting.step(body(k), None)
        acting.act(b'{"observations": [[1, 2, 3, 4], [5, 6, 7, 8]], "explore": false}')
    assert weights(quiet) == weights(acting)


def test_a_relaxed_agent_acts_with_the_weights_before_an_update_while_that_runs(built: Built, host: Host) -> None:
    strict = host.open("strict", built("dqn", {**DQN, "lr": 0.05}))
    relaxed = host.open("relaxed", built("dqn", {**DQN, "lr": 0.05, "freshness": "relaxed"}))
    rng = np.random.default_rng(0)
    seen = json.dumps({"observations": rng.normal(size=(200, 4)).tolist()}).encode()

    def acts(agent: HostedAgent) -> Any:
        return agent.act(seen).value["actions"]

    for agent in (strict, relaxed):
        feed(agent, 0, 40)
        agent.finish()
    before = acts(strict)
    assert acts(relaxed) == before
    relaxed.updating = True
    for agent in (strict, relaxed):
        feed(agent, 40, 80)
        agent.finish()
    assert acts(relaxed) == before
    relaxed.updating = False
    assert acts(relaxed) == acts(strict) != before
    assert weights(relaxed) == weights(strict)


def test_noise_is_the_probability_of_a_random_action(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    observation = b"[0.1, 0.2, 0.3, 0.4]"
    (greedy,) = {tuple(agent.act(observation).value["action"]) for _ in range(20)}
    drawn = [agent.act(observation, 1).value["action"][0] for _ in range(400)]
    assert 120 < sum(drawn) < 280  # 200 expected, of a standard deviation of 10
    half = [agent.act(observation, 0.5).value["action"][0] == greedy[0] for _ in range(400)]
    assert 250 < sum(half) < 350  # 300, of 8.7


# -- several environments ---------------------------------------------------------------------------------------------


def test_steps_of_two_environments_are_stored_in_runs_of_one(built: Built, host: Host) -> None:
    recipe = built("dqn", {**DQN, "n_steps": 3})
    agent = host.open("a", recipe)
    for k in range(4):  # the only environment: each is stored as it comes
        agent.step(body(k, environment="a", reward=float(k)), None)
    agent.finish()
    assert len(agent.memory) == 4
    for k in range(4, 7):
        agent.step(body(k, environment="b", reward=float(k)), None)
        agent.step(body(k + 10, environment="a", reward=float(k + 10)), None)
    agent.finish()
    assert len(agent.memory) == 4  # the others wait for the ends of their runs
    assert agent.info().value["counters"]["global_timestep"] == 10
    agent.step(body(7, environment="b", reward=7.0, done=True), None)
    agent.end_episode(b'{"environment": "a"}', None)
    agent.finish()
    stored = agent.memory.gather(np.arange(11))
    assert stored["reward"].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 14, 15, 16]
    assert stored["terminated"].tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert stored["truncated"].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    episodes = [(e["environment"], e["length"], e["episode_return"], e["terminated"]) for e in agent.episodes().value]
    assert episodes == [("b", 4, 22.0, True), ("a", 7, 51.0, False)]


def test_a_run_of_one_environment_is_32_steps(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", {**DQN, "n_steps": 3}))
    agent.step(body(0, environment="a"), None)
    for k in range(33):
        agent.step(body(k, done=False, environment="b"), None)
    agent.finish()
    assert len(agent.memory) == 1 + 32


def test_an_environment_too_many_closes_the_one_unused_longest(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    for k in range(65):
        agent.step(body(k, done=False, environment=f"e{k}"), None)
    agent.finish()
    (episode,) = agent.episodes().value
    assert (episode["environment"], episode["length"], episode["truncated"]) == ("e0", 1, True)


def test_ppo_stores_what_the_act_recorded(built: Built, host: Host) -> None:
    agent = host.open("a", built("ppo", PPO))
    state = [0.5, -0.5, 0.25, 1.0]
    action = agent.act(json.dumps(state).encode()).value["action"]
    agent.step(
        json.dumps({"step_data": json.loads(body(0, action=action))["step_data"] | {"state": state}}).encode(), None
    )
    other = [1 - action[0]]  # a human took over: what the policy says of that is computed anew
    agent.step(
        json.dumps({"step_data": json.loads(body(1, action=other))["step_data"] | {"state": state}}).encode(), None
    )
    agent.finish()
    stored = agent.memory.gather(np.arange(2))
    assert stored["action"].tolist() == [action[0], other[0]]
    assert np.exp(np.asarray(stored["log_prob"], np.float64)).sum() == pytest.approx(1, abs=1e-6)
    assert stored["value"][0] == stored["value"][1]


def test_ppo_learns_when_a_rollout_is_full_and_the_rest_begins_the_next_one(built: Built, host: Host) -> None:
    agent = host.open("a", built("ppo", PPO))
    steps = [json.loads(body(k))["step_data"] for k in range(20)]
    agent.step(json.dumps({"steps": steps}).encode(), None, several=True)
    agent.finish()
    assert agent.info().value["counters"]["global_step"] == 1
    assert len(agent.memory) == 4


# -- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "config"), [("dqn", DQN), ("dqn", {**DQN, "n_steps": 3}), ("ppo", PPO)])
def test_a_crash_loses_nothing(built: Built, host: Host, model: str, config: dict[str, Any]) -> None:
    recipe = built(model, config)
    agent, twin = host.open("a", recipe), host.open("twin", recipe)
    for begin in range(0, 120, 30):
        feed(agent, begin, begin + 30, environments=2)
        if begin == 30:
            agent.save()
        agent = host.again(agent, "a")
    feed(twin, 0, 120, environments=2)
    state, expected = agent.get_state().value, twin.get_state().value
    assert {name for name in expected if state[name] != expected[name]} == set()
    times = [[{**episode, "time": 0} for episode in one.episodes().value] for one in (agent, twin)]
    assert times[0] == times[1]


def test_a_replay_says_that_it_gets_on(built: Built, host: Host) -> None:
    """By which a worker that replays a long journal is told from one that hangs."""
    feed(host.open("a", built("dqn", DQN)), 0, 30)
    host.agents[-1].abandon()
    calls = list[None]()
    host.agents.append(HostedAgent.open(host.folder / "a", host.stepper_of, gets_on=lambda: calls.append(None)))
    assert len(calls) == 30 + 30 + 23  # records, transitions, and updates from the eighth step on


def test_a_key_is_applied_once_also_after_a_crash(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    first = agent.step(body(0), "k")
    assert (first.value, first.replayed) == ({"accepted": 1, "seq": 1}, False)
    agent.step(body(1), "other")
    for _ in range(2):
        again = agent.step(body(0), "k")
        assert (again.value, again.replayed) == (first.value, True)
        agent = host.again(agent, "a")
    agent.save()
    agent = host.again(agent, "a")
    assert agent.step(body(0), "k").replayed
    assert refused(lambda: agent.step(body(0, reward=9.0), "k")).code == "idempotency_key_reused"
    assert agent.info().value["counters"]["global_timestep"] == 2


def known(agent: HostedAgent, path: Path) -> tuple[dict[str, Any], dict[str, Any], int]:
    """What is known of an agent without opening it, the same of what it says itself, and the bytes of its files."""
    files = [one for one in path.rglob("*") if one.is_file() and not one.name.startswith("lock")]
    found, info = asleep.known(path), agent.info().value
    return found, {name: info[name] for name in found}, sum(one.stat().st_size for one in files)


def test_what_is_known_without_opening_it_is_true_also_after_a_crash(built: Built, host: Host) -> None:
    path, agent = host.folder / "a", host.open("a", built("dqn", DQN))
    assert asleep.known(host.folder / "nosuch") == {}
    feed(agent, 0, 45)
    agent.save()
    found, said, size = known(agent, path)
    assert found == said
    assert found["counters"] == {"global_timestep": 45, "global_step": 38, "global_episode": 2}
    assert (found["bytes"], found["episode_return_mean"] is None) == (size, False)
    for begin in (45, 50):  # the journal of a process that was killed, and of the next one
        feed(agent, begin, begin + 5)
        found, said, size = known(agent, path)
        assert (found["bytes"], said["bytes"]) == (size, size)
        agent.abandon()
        assert found == asleep.known(path)
        assert found["counters"] == {"global_timestep": begin + 5, "global_step": 38, "global_episode": 2}
        agent = host.open("a")
        assert agent.info().value["bytes"] == size
    agent.close()
    found, said, size = known(agent, path)
    assert (found, found["bytes"]) == (said, size)
    assert found["counters"] == {"global_timestep": 55, "global_step": 48, "global_episode": 2}


def test_a_damaged_checkpoint_is_made_up_for_by_the_one_before_and_the_journal(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    for begin in (0, 20, 40):
        feed(agent, begin, begin + 20)
        agent.save()
    feed(agent, 60, 70)
    expected = weights(agent)
    newest = max((host.folder / "a" / "checkpoints").iterdir())
    (newest / "arrays.safetensors").write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="damaged"):
        agent = host.again(agent, "a")
    assert weights(agent) == expected


def test_an_agent_that_is_put_away_again_and_again_keeps_two_checkpoints_and_the_journal_between(
    built: Built, host: Host
) -> None:
    agent = host.open("a", built("dqn", DQN))
    for begin in range(0, 60, 10):
        feed(agent, begin, begin + 10)
        expected = weights(agent)
        agent.close()
        agent = host.open("a")
    folder = host.folder / "a"
    assert len(list((folder / "journal").iterdir())) == 1
    older, newer = sorted((folder / "checkpoints").iterdir())
    (newer / "arrays.safetensors").write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="damaged"):
        agent = host.again(agent, "a")
    assert weights(agent) == expected
    assert older.is_dir()


def damage(agent: HostedAgent) -> Path:
    """Kill an agent, and flip a bit in the middle of its journal."""
    agent.abandon()
    (file,) = (agent._folder.path / "journal").iterdir()
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return file


def test_a_damaged_record_is_named_and_what_is_before_it_goes_on(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 10)
    file = damage(agent)
    agent = host.open("a")
    info = agent.info().value
    before = info["counters"]["global_timestep"]
    assert (info["status"], 3 < before < 7) == ("failed", True)
    unopened = asleep.known(host.folder / "a")
    assert (unopened["status"], unopened["counters"]["global_timestep"]) == ("failed", before)
    assert unopened["status_detail"] == info["status_detail"]
    assert str(file) in info["status_detail"]
    assert refused(lambda: agent.step(body(0), None)).code == "agent_failed"
    assert agent.act(b"[1, 2, 3, 4]").value["action"] in ([0], [1])
    assert agent.patch(None, recover=True).value == {"lost": 10 - before}
    agent.step(body(10), None)
    agent.sync()
    agent = host.again(agent, "a")
    assert agent.info().value["counters"]["global_timestep"] == before + 1
    assert any(path.suffix != ".log" for path in file.parent.iterdir())  # nothing is thrown away


def test_a_whole_record_that_is_none_of_this_agent_is_named_by_file_and_place(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 3)
    first = agent._folder.journal.length
    agent._folder.journal.append(4, b"a record of something else")
    feed(agent, 3, 5)
    agent = host.again(agent, "a")
    (file,) = (host.folder / "a" / "journal").iterdir()
    assert agent.failure == f"{file} is damaged at byte {first}: 3 records from there on cannot be applied"


def test_updates_that_are_not_finite_stop_the_agent_not_its_acts(built: Built, host: Host) -> None:
    recipe = built("dqn", {**DQN, "lr": 1e30, "max_grad_norm": None})
    agent = host.open("a", recipe)
    initial = weights(agent)
    for k in range(40):
        if agent.failure is not None:
            break
        agent.step(body(k), None)
        agent.finish()
    assert "loss" in str(agent.failure)
    assert agent.act(b"[1, 2, 3, 4]").value["action"] in ([0], [1])
    agent = host.again(agent, "a")
    assert agent.failure is not None  # the journal leads there again
    assert agent.patch(None, recover=True).value["lost"] > 8
    assert agent.info().value["status"] == "ready"
    assert weights(agent) == initial
    assert agent.info().value["counters"]["global_timestep"] == 0


def test_learning_can_be_switched_off(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    agent.patch(False, recover=False)
    agent = host.again(agent, "a")
    assert refused(lambda: agent.step(body(0), None)).code == "learning_off"
    agent.patch(True, recover=False)
    agent.step(body(0), None)


# -- what is refused --------------------------------------------------------------------------------------------------

BAD_STEPS: list[tuple[dict[str, Any], str]] = [
    ({"state": [1, 2, 3]}, "step_data.state"),
    ({"state": [1, 2, 3, None]}, "step_data.state[3]"),
    ({"state": [1, 2, 3, "4"]}, "step_data.state[3]"),
    ({"state": [1, 2, 3, True]}, "step_data.state[3]"),
    ({"state": [[1, 2, 3, 4]]}, "step_data.state"),
    ({"state": []}, "step_data.state"),
    ({"next_state": [1, 1e39, 3, 4]}, "step_data.next_state[1]"),
    ({"action": [2]}, "step_data.action[0]"),
    ({"action": [-1]}, "step_data.action[0]"),
    ({"action": [0.5]}, "step_data.action[0]"),
    ({"action": [True]}, "step_data.action[0]"),
    ({"action": [0, 1]}, "step_data.action"),
    ({"reward": 1e39}, "step_data.reward"),
    ({"reward": "1"}, "step_data.reward"),
    ({"done": "yes"}, "step_data.done"),
    ({"done": 1}, "step_data.done"),
    ({"environment": ""}, "step_data.environment"),
    ({"environment": "a\nb"}, "step_data.environment"),
    ({"nosuch": 1}, "step_data.nosuch"),
]


@pytest.fixture(scope="module")
def untouched(built: Built, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedAgent]:
    host = Host(programs, tmp_path_factory.mktemp("untouched"))
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 30)
    yield agent
    for agent in host.agents:
        agent.abandon()


@pytest.mark.parametrize(("change", "where"), BAD_STEPS)
def test_a_bad_step_is_named_and_changes_nothing(untouched: HostedAgent, change: dict[str, Any], where: str) -> None:
    before = untouched.get_state().value, untouched.info().value
    assert before[1]["counters"] == {"global_timestep": 30, "global_step": 23, "global_episode": 1}
    data = {**json.loads(body(0))["step_data"], **change}
    error = refused(lambda: untouched.step(json.dumps({"step_data": data}).encode(), "key"))
    assert (error.status, error.errors[0][0]) == (422, where)
    assert (untouched.get_state().value, untouched.info().value) == before


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"step_data": NaN}', 400),
        (b"[" * 10_000, 400),
        (b'"\\ud800"', 400),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"step_data": []}', 422),
        (b'{"step_data": {}, "more": 1}', 422),
    ],
)
def test_a_body_that_is_no_step_is_refused(untouched: HostedAgent, content: bytes, status: int) -> None:
    assert refused(lambda: untouched.step(content, None)).status == status


@pytest.mark.parametrize(
    ("content", "noise", "where"),
    [
        (b"[1, 2, 3]", 0, "state"),
        (b"[1, 2, 3, 1e999]", 0, "state[3]"),
        (b"[1, 2, 3, 4]", 2, "noise"),
        (b"[1, 2, 3, 4]", "1", "noise"),
        (b'{"observation": [1, 2, 3, 4], "explore": 1}', 0, "explore"),
        (b'{"observation": [1, 2, 3, 4], "environments": ["a"]}', 0, "environments"),
        (b'{"observations": []}', 0, "observations"),
        (b'{"observations": [[1, 2, 3, 4]], "environments": []}', 0, "environments"),
        (b'{"observations": [[1, 2, 3, 4], [1, 2, 3]]}', 0, "observations[1]"),
    ],
)
def test_a_bad_act_is_named(untouched: HostedAgent, content: bytes, noise: Any, where: str) -> None:
    assert refused(lambda: untouched.act(content, noise)).errors[0][0] == where


def test_a_batch_with_one_bad_step_is_refused_whole(untouched: HostedAgent) -> None:
    before = untouched.get_state().value, untouched.info().value
    steps = [json.loads(body(k))["step_data"] for k in range(3)]
    steps[1]["action"] = [7]
    error = refused(lambda: untouched.step(json.dumps({"steps": steps}).encode(), None, several=True))
    assert error.errors[0][0] == "steps[1].action[0]"
    assert (untouched.get_state().value, untouched.info().value) == before


# -- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "config"), [("dqn", DQN), ("dqn", {**DQN, "n_steps": 3}), ("ppo", PPO)])
def test_a_state_makes_another_agent_the_same_one(built: Built, host: Host, model: str, config: dict[str, Any]) -> None:
    first, second = host.open("a", built(model, config)), host.open("b", built(model, {**config, "seed": 1}))
    feed(first, 0, 70, environments=2)
    feed(second, 100, 110)
    state = first.get_state().value
    second.put_state(to_bytes(state), host.stepper_of)
    assert second.step(body(100, environment="e0"), "key-100").replayed  # accepted before, and not applied again
    second = host.again(second, "b")
    assert second.get_state().value == state
    for agent in (first, second):
        feed(agent, 70, 100, environments=2)
    assert second.get_state().value == first.get_state().value


def test_what_is_accepted_after_an_upload_is_kept_whatever_the_journal_had(built: Built, host: Host) -> None:
    recipe = built("dqn", DQN)
    giver = host.open("giver", recipe)
    feed(giver, 0, 40)
    state = to_bytes(giver.get_state().value)
    damaged = host.open("damaged", recipe)
    feed(damaged, 0, 10)
    damage(damaged)
    diverged = host.open("diverged", built("dqn", {**DQN, "lr": 1e30, "max_grad_norm": None}))
    feed(diverged, 0, 12)  # updates fail with the ninth step, and the journal has some behind it
    diverged.abandon()
    for name in ("damaged", "diverged"):
        agent = host.open(name)
        assert agent.failure is not None
        agent.put_state(state, host.stepper_of)
        assert agent.info().value["status"] == "ready"
        for k in range(40, 60):
            agent.step(body(k, environment="e0"), f"new-{k}")
        agent.sync()
        expected = agent.get_state().value
        agent = host.again(agent, name)
        assert (agent.failure, agent.get_state().value) == (None, expected)


CONFIGS: list[tuple[str, Any]] = [
    ("owed", 1),
    ("owed", 1 << 52),
    ("sampler", None),
    ("sampler", {"maximum": 1.0}),
    ("learning", {"loss": 10**400}),
    ("learning", {"td_error": 1.0}),
    ("environments.0.length", 10**30),
    ("environments.0.length", True),
    ("environments.0.waiting", 32),
    ("environments.0.environment", "a\nb"),
    ("environments.0.environment", "e1"),
    ("environments.0.episode_return", "1"),
    ("counters.global_step", -1),
    ("hyperparameters", []),
]


@pytest.mark.parametrize(("where", "value"), CONFIGS)
def test_a_state_with_a_value_that_no_agent_has_is_refused(
    untouched: HostedAgent, host: Host, where: str, value: Any
) -> None:
    state = untouched.get_state().value
    config = json.loads(base64.b64decode(state["encoded_config"]))
    config["environments"] = [
        {"environment": name, "running": True, "episode_return": 0.0, "length": 1, "waiting": 0}
        for name in ("e0", "e1")
    ]
    *parents, last = where.split(".")
    inside: Any = config
    for name in parents:
        inside = inside[int(name) if name.isdigit() else name]
    inside[last] = value
    sent = {**state, "encoded_config": base64.b64encode(json.dumps(config).encode()).decode()}
    error = refused(lambda: untouched.put_state(to_bytes(sent), host.stepper_of))
    assert error.code == "invalid_value"
    assert error.errors[0][0].startswith("encoded_config." + where.replace(".0", "")[:8])
    assert untouched.get_state().value == state


def test_a_rollout_that_is_full_has_been_learned_from_and_is_no_state(built: Built, host: Host) -> None:
    agent = host.open("a", built("ppo", PPO))
    feed(agent, 0, 15)
    state = agent.get_state().value
    longer = host.open("b", built("ppo", {**PPO, "rollout_length": 32, "batch_size": 32}))
    feed(longer, 0, 16)
    state["encoded_buffer"] = longer.get_state().value["encoded_buffer"]
    error = refused(lambda: agent.put_state(to_bytes(state), host.stepper_of))
    assert (error.status, error.errors[0][0]) == (422, "encoded_buffer")


def test_a_state_of_another_agent_is_refused(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    other = host.open("b", built("dqn", {**DQN, "hidden_layers": [9]}))
    feed(agent, 0, 20)
    expected = agent.get_state().value
    network = other.get_state().value["encoded_network"]
    changes: list[tuple[dict[str, Any], str]] = [
        ({"model": "ppo"}, "state_mismatch"),
        ({"state_size": 5}, "state_mismatch"),
        ({"action_size": "2"}, "state_mismatch"),
        ({"encoded_network": network}, "state_mismatch"),
        ({"encoded_network": "gASVCgAAAAAAAAB9lC4="}, "unsafe_state"),  # a pickle
        ({"encoded_config": "gASVCgAAAAAAAAB9lC4="}, "unsafe_state"),
        ({"encoded_buffer": "not base64"}, "unsafe_state"),
        ({"encoded_buffer": None}, "unsafe_state"),
        ({"more": 1}, "invalid_value"),
    ]
    for change, code in changes:
        sent = to_bytes({**expected, **change})
        with pytest.raises(RefusedError) as error:
            agent.put_state(sent, host.stepper_of)
        assert error.value.code == code
    del expected["encoded_buffer"]
    with pytest.raises(RefusedError) as error:
        agent.put_state(to_bytes(expected), host.stepper_of)
    assert error.value.errors[0][0] == "encoded_buffer"
    expected = {**expected, "encoded_buffer": agent.get_state().value["encoded_buffer"]}
    assert agent.get_state().value == expected


def test_1000_damaged_states_are_refused_or_load_whole(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 30)
    whole = agent.get_state().value
    rng = random.Random(0)
    outcomes = set()
    unused: list[Stepper] = []

    def stepper_of(recipe: Recipe, fresh: bool) -> Stepper:
        if recipe != agent.recipe or not unused or len(unused[0].memory):
            unused[:] = [host.stepper_of(recipe, fresh)]
        return unused[0]

    for _ in range(1_000):
        field = rng.choice(["encoded_config", "encoded_network", "encoded_buffer"])
        content = bytearray(base64.b64decode(whole[field]))
        at = rng.randrange(len(content))
        if rng.random() < 0.3:
            del content[at:]
        else:
            content[at] ^= 1 << rng.randrange(8)
        state = {**whole, field: base64.b64encode(content).decode()}
        try:
            agent.check_state(to_bytes(state), stepper_of)
            outcomes.add("loaded")
        except ProgramMissingError:
            outcomes.add("loaded")  # other hyperparameters, which another program has
        except RefusedError as error:
            outcomes.add(error.code)
    assert outcomes >= {"loaded", "unsafe_state", "invalid_value"}
    assert outcomes <= {"loaded", "unsafe_state", "invalid_value", "state_mismatch"}


# -- the folder -------------------------------------------------------------------------------------------------------


def test_its_folder_is_an_ordinary_run_folder(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 30)
    agent.save()
    found = safetensors.numpy.load(weights(agent))
    agent.close()
    run = Agent(None, model_dir=host.folder / "a")
    for name, value in run.get_weights().items():
        np.testing.assert_array_equal(found[name], value)
    anything = gymnasium.spaces.Box(-np.inf, np.inf, (4,))
    env = gymnasium.wrappers.TransformObservation(gymnasium.make("CartPole-v1"), lambda seen: seen, anything)
    assert run.evaluate(env, episodes=1)["episode_return_mean"] >= 1


def test_episodes_are_rows_of_its_folder_once_each(built: Built, host: Host) -> None:
    """Also after a crash, whose replay brings them again, and a line that was cut short."""
    agent = host.open("a", built("dqn", DQN))
    feed(agent, 0, 50)
    agent.save()
    path = host.folder / "a" / "episodes.csv"
    path.write_text(path.read_text() + "3,6")
    feed(agent, 50, 70)
    agent = host.again(agent, "a")
    agent.save()
    feed(agent, 70, 90, environments=2)
    agent = host.again(agent, "a")
    agent.close()
    rows = history.read_episodes(host.folder / "a")
    returns = [sum(json.loads(body(k))["step_data"]["reward"] for k in range(at - 20, at)) for at in (20, 40, 60)]
    assert [row[:2] + row[3:4] for row in rows] == [
        (1, 20, 20),
        (2, 40, 20),
        (3, 60, 20),
        (4, 80, 5),
    ]  # of e1: 71, 73 .. 79
    assert [row.episode_return for row in rows[:3]] == pytest.approx(returns)
    giver = host.open("giver", built("dqn", DQN))
    giver.put_state(to_bytes(host.open("a").get_state().value), host.stepper_of)
    feed(giver, 90, 101)
    giver.close()
    assert [row[:2] for row in history.read_episodes(host.folder / "giver")] == [(5, 100)]


def test_no_tensorflow_is_loaded(built: Built, host: Host, tmp_path: Path) -> None:
    recipe = built("dqn", DQN)
    recipe_file = tmp_path / "recipe.json"
    recipe_file.write_text(json.dumps(recipe.to_json()))
    program = f"""
import json, pathlib, sys
from axonrl.serving.catalogue import Recipe
from axonrl.serving.hosting.agent import HostedAgent
from axonrl.serving.hosting.opening import open_stepper
recipe = Recipe.from_json(json.loads(pathlib.Path({str(recipe_file)!r}).read_text()))
programs = pathlib.Path({str(host.programs)!r})
agent = HostedAgent.open(pathlib.Path({str(tmp_path / "a")!r}), lambda made, _: open_stepper(made, programs), recipe)
for _ in range(20):
    agent.step({body(0)!r}, None)
agent.act(b"[1, 2, 3, 4]")
agent.close()
print(sorted(name for name in ("tensorflow", "keras", "fastapi", "sqlalchemy") if name in sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout.strip(), run.returncode) == ("[]", 0), run.stderr


def test_a_program_that_is_not_there_is_asked_for(built: Built, programs: Path, tmp_path: Path) -> None:
    recipe = built("dqn", DQN)
    with pytest.raises(ProgramMissingError) as error:
        Host(tmp_path / "empty", tmp_path / "agents").open("a", recipe)
    assert error.value.recipe == recipe
    with pytest.raises(ProgramMissingError):
        Host(programs, tmp_path / "agents").open("b", recipe.with_seed(77))
    shutil.rmtree(tmp_path / "agents")
