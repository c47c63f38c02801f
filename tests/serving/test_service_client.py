"""The client against a running server: what its documentation promises."""

import base64
import json
import multiprocessing
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.serving import (
    AuthenticationError,
    Conflict,
    InvalidRequest,
    NotFound,
    RemoteAgent,
    wait_until_agent_exists,
)
from axonrl.serving.catalogue import Recipe

from .for_accounts import PASSWORD
from .service import Service, dropping, serving

Built = Callable[..., Recipe]
Named = Callable[..., RemoteAgent]
SMALL: dict[str, Any] = {"seed": 0, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}
VARIABLES = ("URL", "ACCESS_TOKEN", "USER", "USERNAME", "PASS", "PASSWORD")
OBSERVATION = [0.1, 0.2, 0.3, 0.4]
STEP = (OBSERVATION, 1, 1.0, [0.2, 0.3, 0.4, 0.5], False)


@pytest.fixture(scope="module")
def service(built: Built, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    built("dqn", {**SMALL, "state_size": 4, "action_size": 2})
    built("dqn", {**SMALL, "state_size": 2, "action_size": 2})
    built("dqn", {**SMALL, "state_size": 1, "action_size": 2, "n_steps": 3})
    with serving(tmp_path_factory.mktemp("service") / "data", programs) as started:
        yield started
        assert "Traceback" not in started.log.read_text()


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"AGENTS_BAR_{name}", raising=False)
        monkeypatch.delenv(f"AXONRL_{name}", raising=False)


@pytest.fixture
def named(service: Service, request: pytest.FixtureRequest) -> Iterator[Named]:
    """Clients of agents that have the test's name in theirs, and are removed after it."""
    clients: list[RemoteAgent] = []
    prefix = request.node.originalname.removeprefix("test_")[:50]

    def client(name: str = "a", **more: Any) -> RemoteAgent:
        clients.append(service.agent(f"{prefix}-{name}", **{**SMALL, **more}))
        return clients[-1]

    yield client
    for one in clients:
        one.remove(agent_name=one.agent_name)
        one.close()


@pytest.fixture
def a(named: Named) -> RemoteAgent:
    agent = named()
    agent.create_agent(4, 2, "DQN")
    return agent


def timesteps(agent: RemoteAgent) -> int:
    found: int = agent.info()["counters"]["global_timestep"]
    return found


# -- credentials ------------------------------------------------------------------------------------------------------


def test_no_credentials_are_a_value_error_without_a_request() -> None:
    with pytest.raises(ValueError, match="AGENTS_BAR_ACCESS_TOKEN"):
        RemoteAgent("a", url="http://127.0.0.1:9")


def test_a_wrong_password_is_refused_and_not_repeated_in_the_error(service: Service) -> None:
    with pytest.raises(AuthenticationError) as error:
        RemoteAgent("a", url=service.url, username="alice", password="wrong-battery-staple")
    assert isinstance(error.value, ValueError)
    assert error.value.status == 400
    assert "wrong-battery-staple" not in f"{error.value} {error.value!r} {error.value.__dict__}"


def test_an_explicit_wrong_token_beats_a_right_one_in_the_environment(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTS_BAR_ACCESS_TOKEN", service.token)
    assert RemoteAgent("nobody", url=service.url).exists is False
    with pytest.raises(AuthenticationError):
        RemoteAgent("nobody", url=service.url, access_token="axp_" + "0" * 46).exists  # noqa: B018


@pytest.mark.parametrize(("user", "password"), [("USER", "PASS"), ("USERNAME", "PASSWORD")])
def test_both_names_of_the_variables_log_in(
    service: Service, monkeypatch: pytest.MonkeyPatch, user: str, password: str
) -> None:
    monkeypatch.setenv(f"AGENTS_BAR_{user}", "alice")
    monkeypatch.setenv(f"AGENTS_BAR_{password}", PASSWORD)
    monkeypatch.setenv("AXONRL_URL", service.url)
    monkeypatch.setenv("AGENTS_BAR_URL", "http://127.0.0.1:9")
    agent = RemoteAgent("nobody")
    assert agent.url == f"{service.url}/api/v1"
    assert agent.exists is False


# -- creating ---------------------------------------------------------------------------------------------------------


def test_an_agent_that_was_created_exists_at_once(named: Named) -> None:
    agent = named()
    assert not agent.exists
    created = agent.create_agent(4, 2, "DQN")
    assert created["name"] == agent.agent_name
    assert (created["model"], created["is_active"], created["discrete"]) == ("dqn", True, True)
    assert [agent.exists, agent.is_active] == [True, True]
    with pytest.raises(Conflict) as error:
        agent.create_agent(4, 2, "DQN")
    assert (error.value.status, error.value.code, isinstance(error.value, RuntimeError)) == (409, "name_taken", True)


def test_an_unknown_model_is_refused_with_the_known_ones(named: Named) -> None:
    with pytest.raises(ValueError, match="dqn, ppo, ddpg, rainbow"):
        named().create_agent(4, 2, "nosuch")


def test_a_bad_hyperparameter_is_named_and_nothing_is_created(named: Named) -> None:
    agent = named(lr=-1)
    with pytest.raises(InvalidRequest) as error:
        agent.create_agent(4, 2, "dqn")
    assert [one["where"] for one in error.value.errors] == ["config.lr"]
    assert "lr" in str(error.value)
    assert agent.exists is False


def test_hyperparameters_and_sizes_are_known_also_to_a_second_client(a: RemoteAgent, named: Named) -> None:
    hparams = a.hparams
    assert (hparams["state_size"], hparams["action_size"], hparams["lr"]) == (4, 2, 3e-4)
    assert {type(value) for value in hparams.values()} <= {int, float, str}
    second = named()
    second.sync()
    assert (second.state_size, second.obs_size, second.action_size, second.agent_model) == (4, 4, 2, "dqn")
    assert second.hparams == hparams


# -- acting and stepping ----------------------------------------------------------------------------------------------


def test_acting(a: RemoteAgent) -> None:
    chosen = [a.act(OBSERVATION) for _ in range(20)]
    assert type(chosen[0]) is int
    assert chosen[0] in (0, 1)
    assert set(chosen) == {chosen[0]}
    assert a.act(tuple(OBSERVATION)) == a.act(np.array(OBSERVATION, np.float32)) == chosen[0]
    assert {a.act(OBSERVATION, noise=1) for _ in range(200)} == {0, 1}


@pytest.mark.parametrize(
    ("state", "noise"), [([1.0, 2.0, 3.0], 0), ([1.0, 2.0, 3.0, float("nan")], 0), (OBSERVATION, 2)]
)
def test_what_cannot_be_acted_on_is_a_value_error(a: RemoteAgent, state: list[float], noise: float) -> None:
    with pytest.raises(ValueError, match="must"):
        a.act(state, noise)


def test_ddpg_acts_within_its_bounds(built: Built, named: Named) -> None:
    usual, wide = named("usual"), named("wide")
    bounds: dict[str, Any] = {"action_low": -2.0, "action_high": 2.0}
    none: dict[str, Any] = {}
    sizes: list[tuple[RemoteAgent, Any, dict[str, Any]]] = [(usual, 3, none), (wide, (1, 3), bounds)]
    for agent, size, given in sizes:
        built("ddpg", {**SMALL, "state_size": 3, "action_size": size, **given})
        agent.create_agent(3, size, "ddpg", **given)
    action = usual.act([0.1, 0.2, 0.3])
    assert isinstance(action, list)
    assert [type(item) for item in action] == [float] * 3
    noisy = [item for _ in range(30) for item in usual.act([0.1, 0.2, 0.3], noise=1)]  # type: ignore[union-attr]
    assert all(0 <= item <= 1 for item in [*action, *noisy])
    assert (usual.action_size, wide.action_size) == (3, (1, 3))
    rows: list[Any] = [wide.act([0.1, 0.2, 0.3], noise=1) for _ in range(30)]
    far = [item for (row,) in rows for item in row]
    assert wide.step([0.1, 0.2, 0.3], rows[0], 0.0, [0.1, 0.2, 0.3], False)
    with pytest.raises(InvalidRequest) as refused:
        wide.step([0.1, 0.2, 0.3], [[0.0, 0.0, 2.5]], 0.0, [0.1, 0.2, 0.3], False)
    assert [one["where"] for one in refused.value.errors] == ["step_data.action[0][2]"]
    with pytest.raises(ValueError, match=r"actions?\[0\] must have 3 entries, got 2"):
        wide.step([0.1, 0.2, 0.3], [[0.0, 0.0]], 0.0, [0.1, 0.2, 0.3], False)
    assert wide.upload_state(wide.get_state())
    assert all(-2 <= item <= 2 for item in far)
    assert min(far) < 0
    assert max(far) > 1


def test_ppo_with_discrete_actions(built: Built, service: Service) -> None:
    small = {"seed": 0, "hidden_layers": [8], "rollout_length": 16, "batch_size": 16, "num_epochs": 1}
    built("ppo", {**small, "state_size": 4, "action_size": 2, "discrete": True})
    agent = service.agent("ppo", **small)
    agent.create_agent(4, 2, "ppo", discrete=True)
    assert {type(agent.act(OBSERVATION)) for _ in range(20)} == {int}
    assert len({agent.act(OBSERVATION, explore=False) for _ in range(20)}) == 1
    assert {agent.act(OBSERVATION) for _ in range(100)} == {0, 1}


def test_steps_are_counted_when_they_are_acknowledged(a: RemoteAgent) -> None:
    for k in range(3):
        assert a.step(*STEP) is True
        assert timesteps(a) == k + 1
    with pytest.raises(InvalidRequest, match="action"):
        a.step(OBSERVATION, 2, 1.0, OBSERVATION, False)
    assert timesteps(a) == 3
    assert a.step_batch([OBSERVATION] * 5, [0] * 5, [0.0] * 5, [OBSERVATION] * 5, [False] * 5) == 5
    assert timesteps(a) == 8


def test_a_key_is_applied_once(a: RemoteAgent) -> None:
    assert a.step(*STEP, key="k") is True
    assert a.step(*STEP, key="k") is True
    assert timesteps(a) == 1
    with pytest.raises(InvalidRequest) as error:
        a.step(OBSERVATION, 1, 2.0, [0.2, 0.3, 0.4, 0.5], False, key="k")
    assert error.value.code == "idempotency_key_reused"
    assert timesteps(a) == 1


def test_steps_through_a_proxy_that_drops_answers_are_counted_once(service: Service, a: RemoteAgent) -> None:
    with dropping(service.url) as (url, proxy):
        through = service.agent(a.agent_name, url=url)
        for k in range(300):
            through.step(OBSERVATION, k % 2, float(k), OBSERVATION, k % 20 == 19)
        through.close()
        assert proxy.answers >= 449  # each third one is lost: of 449, 300 arrived
    assert timesteps(a) == 300


def test_it_learns_which_number_is_larger(named: Named) -> None:
    agent, dice = named(lr=0.003), random.Random(0)
    agent.create_agent(2, 2, "dqn")
    for _ in range(8):
        states = [[dice.random(), dice.random()] for _ in range(100)]
        actions = agent.act_batch(states, noise=1)
        rewards = [float(state[action] == max(state)) for state, action in zip(states, actions, strict=True)]  # type: ignore[index]
        agent.step_batch(states, actions, rewards, states, [True] * 100)
    assert agent.act_batch([[0.1, 0.9], [0.9, 0.1]]) == [1, 0]
    assert agent.loss["loss"] >= 0


# -- states -----------------------------------------------------------------------------------------------------------


def test_a_state_makes_another_agent_act_like_the_first(a: RemoteAgent, named: Named) -> None:
    rng = np.random.default_rng(0)
    for k in range(40):
        a.step(rng.normal(size=4), k % 2, float(k % 2), rng.normal(size=4), False)
    state = a.get_state()
    fields = ["model", "state_size", "action_size", "encoded_config", "encoded_network", "encoded_buffer"]
    assert list(vars(state)) == fields
    assert json.loads(base64.b64decode(state.encoded_config))["counters"]["global_timestep"] == 40
    b = named("b", seed=0)
    b.create_agent(4, 2, "dqn")
    assert b.upload_state(state) is True
    observations = rng.normal(size=(50, 4)).tolist()
    assert [b.act(one) for one in observations] == [a.act(one) for one in observations]
    assert timesteps(b) == 40
    assert b.get_state() == state
    other = named("other")
    other.create_agent(2, 2, "dqn")
    before = other.get_state()
    with pytest.raises(InvalidRequest) as error:
        other.upload_state(state)
    assert error.value.code == "state_mismatch"
    assert other.get_state() == before


# -- removing and waiting ---------------------------------------------------------------------------------------------


def test_removing(a: RemoteAgent) -> None:
    with pytest.warns(RuntimeWarning):
        assert a.remove(agent_name="another") is False
    assert a.exists
    with pytest.raises(ValueError, match="agent_name"):
        a.remove(agent_name="another", quite=False)
    assert a.remove(agent_name=a.agent_name) is True
    assert [a.exists] == [False]
    with pytest.raises(NotFound):
        a.info()
    assert a.remove(agent_name=a.agent_name) is False


def test_waiting_for_an_agent(named: Named) -> None:
    agent, other = named(), named()
    began = time.monotonic()
    assert wait_until_agent_exists(agent, max_seconds=0.6, verbose=False) is False
    assert 0.6 <= time.monotonic() - began < 1.6
    creating = threading.Timer(0.2, other.create_agent, (4, 2, "dqn"))
    creating.start()
    try:
        assert wait_until_agent_exists(agent, verbose=False) is True
    finally:
        creating.join()


def play(url: str, token: str, name: str, environment: str, lengths: list[int]) -> None:
    """Episodes of these lengths, with a reward of the length at each step."""
    agent = RemoteAgent(name, url=url, access_token=token, environment=environment)
    for length in lengths:
        for k in range(length):
            agent.step([k / 10], k % 2, float(length), [(k + 1) / 10], k == length - 1)


def test_two_processes_have_a_stream_of_experience_each(service: Service, named: Named) -> None:
    agent = named(n_steps=3)
    agent.create_agent(1, 2, "dqn")
    lengths = {"left": [3, 7, 1, 40], "right": [11, 2, 5]}
    spawn = multiprocessing.get_context("spawn")
    players = [
        spawn.Process(target=play, args=(service.url, service.token, agent.agent_name, environment, each))
        for environment, each in lengths.items()
    ]
    for player in players:
        player.start()
    for player in players:
        player.join(60)
        assert player.exitcode == 0
    episodes = agent.episodes()
    for environment, each in lengths.items():
        found = [episode for episode in episodes if episode["environment"] == environment]
        assert [episode["length"] for episode in found] == each
        assert [episode["episode_return"] for episode in found] == [float(n * n) for n in each]
        assert all(episode["terminated"] and not episode["truncated"] for episode in found)
    assert timesteps(agent) == 69
