"""One hosted agent, without HTTP: what it learns, what it refuses, and its state as it travels."""

import base64
import functools
import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from axonrl import Agent, RunConfig
from axonrl.core.protocols import ACTION_MASK, ArraySpec
from axonrl.environments import spaces
from axonrl.estimators.stepper import Stepper
from axonrl.memories import ReplayMemory
from axonrl.serving.catalogue import Recipe
from axonrl.serving.hosting import agent_files, durable
from axonrl.serving.hosting.agent import HostedAgent, to_bytes
from axonrl.serving.hosting.programs import ProgramMissingError
from axonrl.serving.hosting.requests import RequestReader
from axonrl.serving.hosting.tensors import Group, check_groups
from axonrl.serving.refusals import RefusedError

from .hosted import DQN, PPO, Built, Host, body, data, feed, refused, timesteps, weights


def test_it_learns_what_train_learns_from_the_same_transitions_however_it_acts(
    built: Built, host: Host, tmp_path: Path
) -> None:
    recipe = built("dqn", {**DQN, "seed": 3})
    memory = ReplayMemory(500, 8)
    trained = Agent("dqn", params=recipe.params, memory=memory, model_dir=tmp_path, config=RunConfig(seed=3))
    trained.train("CartPole-v1", first_update=recipe.first_update, update_frequency=1, timesteps=200)
    agent = host.open("a", recipe)
    for k in range(200):
        one: Any = memory.get_by_index(k)
        told = {"state": one["observation"].tolist(), "action": [int(one["action"])], "reward": float(one["reward"])}
        told |= {"next_state": one["next_observation"].tolist(), "done": bool(one["terminated"])}
        agent.act(b"[0.1, 0.2, 0.3, 0.4]", 0.5)
        agent.act(b'{"observation": [1, 2, 3, 4], "explore": true}')
        agent.step(json.dumps({"step_data": {**told, "truncated": bool(one["truncated"])}}).encode(), None)
        agent.act(b'{"observations": [[1, 2, 3, 4], [5, 6, 7, 8]], "explore": false}')
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
    steps = [data(k) for k in range(40)]
    answer = many.step(json.dumps({"steps": steps}).encode(), None, several=True)
    assert answer.value == {"accepted": 40, "seq": 40}
    expected = one.get_state().value
    assert many.get_state().value == expected
    assert host.again(many, "many").get_state().value == expected


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


@pytest.mark.parametrize("freshness", ["strict", "relaxed"])
def test_an_agent_whose_weights_cannot_be_saved_acts_as_it_was_saved(built: Built, host: Host, freshness: str) -> None:
    agent = host.open("a", built("dqn", {**DQN, "freshness": freshness}))
    feed(agent, 0, 12)
    agent.save()
    observations = json.dumps({"observations": np.random.default_rng(0).normal(size=(50, 4)).tolist()}).encode()
    saved = agent.act(observations).value
    assert [1] in saved["actions"]  # without numbers, the first action is the best
    feed(agent, 12, 13)
    agent.finish()
    stepper = agent._stepper
    stepper.set_weights({name: one * np.nan for name, one in stepper.executor.get_predict_weights().items()})
    agent.act(observations)
    agent.save()
    assert "is NaN or infinite" in str(agent.failure)
    assert agent.act(observations).value == saved


def test_an_agent_without_finite_outputs_says_that_it_cannot_act(built: Built, host: Host) -> None:
    """Until an update or a checkpoint notices it."""
    agent = host.open("a", built("ppo", {**PPO, "discrete": False, "action_size": 1}))
    stepper = agent._stepper
    stepper.set_weights({name: one * np.nan for name, one in stepper.executor.get_predict_weights().items()})
    observation = {"observation": [0.0] * 4}
    mean = "SquashedGaussian: predictions['mean'] has NaN or infinity: [[nan]]"
    for asked, why in (({}, mean), ({"explore": False}, "its action is not finite")):
        error = refused(functools.partial(agent.act, json.dumps({**observation, **asked}).encode()))
        assert (error.code, str(error)) == ("agent_failed", f"the agent cannot act: {why}")
    error = refused(lambda: agent.step(body(0, action=[0.5]), None))  # it was not chosen by an act
    assert (error.code, str(error)) == ("agent_failed", f"the agent cannot act: {mean}")
    assert timesteps(agent) == 0


def test_relaxed_agents_of_one_program_do_not_explore_alike(built: Built, host: Host) -> None:
    """Nor does one after it is opened again; the chance that 200 of their actions are equal is below 1e-30."""
    recipe = built("ppo", {**PPO, "freshness": "relaxed"})
    one, other = host.open("one", recipe), host.open("other", recipe)
    batch = json.dumps({"observations": [[0.0] * 4] * 200}).encode()
    acted = [agent.act(batch).value["actions"] for agent in (one, other)]
    acted.append(host.again(one, "one").act(batch).value["actions"])
    assert all(found != before for before, found in itertools.combinations(acted, 2))


def test_noise_is_the_probability_of_a_random_action(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    observation = b"[0.1, 0.2, 0.3, 0.4]"
    (greedy,) = {tuple(agent.act(observation).value["action"]) for _ in range(20)}
    drawn = [agent.act(observation, 1).value["action"][0] for _ in range(400)]
    assert 120 < sum(drawn) < 280  # 200 expected, of a standard deviation of 10
    half = [agent.act(observation, 0.5).value["action"][0] == greedy[0] for _ in range(400)]
    assert 250 < sum(half) < 350  # 300, of 8.7
    asked = json.dumps({"observations": [[0.1, 0.2, 0.3, 0.4]] * 400, "explore": True}).encode()
    own = [one[0] for one in agent.act(asked).value["actions"]]  # its epsilon is 1 before the first timestep
    assert 120 < sum(own) < 280


def test_random_actions_of_noise_are_legal(built: Built, host: Host) -> None:
    space = Dict({"observation": Box(-1, 1, (2,)), ACTION_MASK: MultiBinary(4)})
    others = {name: value for name, value in DQN.items() if name != "state_size"}
    agent = host.open("a", built("dqn", {**others, "action_size": 4, "observation_space": spaces.to_json(space)}))
    seen = {"observation": [0.5, -0.5], ACTION_MASK: [0, 1, 0, 1]}
    asked = json.dumps({"observations": [seen] * 100}).encode()
    assert {one[0] for one in agent.act(asked, 1).value["actions"]} == {1, 3}
    nothing = {**seen, ACTION_MASK: [0] * 4}
    calls: list[tuple[dict[str, Any], float, str]] = [
        *(({"observation": nothing}, noise, "observation") for noise in (0.0, 1.0)),
        ({"observation": nothing, "explore": True}, 0.0, "observation"),
        ({"observations": [seen, nothing, nothing]}, 0.0, "observations[1]"),
    ]
    for asking, noise, where in calls:
        error = refused(functools.partial(agent.act, json.dumps(asking).encode(), noise))
        assert (error.code, str(error)) == ("invalid_value", f"{where}: its mask allows no action")


def memory_of(agent: HostedAgent) -> Any:
    return agent.learning.stepper.memory


def test_steps_of_two_environments_are_stored_in_runs_of_one(built: Built, host: Host) -> None:
    recipe = built("dqn", {**DQN, "n_steps": 3})
    agent = host.open("a", recipe)
    for k in range(4):  # the only environment: each is stored as it comes
        agent.step(body(k, environment="a", reward=float(k)), None)
    agent.finish()
    assert len(memory_of(agent)) == 4
    for k in range(4, 7):
        agent.step(body(k, environment="b", reward=float(k)), None)
        agent.step(body(k + 10, environment="a", reward=float(k + 10)), None)
    agent.finish()
    assert len(memory_of(agent)) == 4  # the others wait for the ends of their runs
    assert timesteps(agent) == 10
    agent.step(body(7, environment="b", reward=7.0, done=True), None)
    assert agent.end_episode(b'{"environment": "a"}', None).value == {"accepted": 0, "seq": 11}
    agent.finish()
    stored = memory_of(agent).gather(np.arange(11))
    assert stored["reward"].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 14, 15, 16]
    assert stored["terminated"].tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert stored["truncated"].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    episodes = [(e["environment"], e["length"], e["episode_return"], e["terminated"]) for e in agent.episodes().value]
    assert episodes == [("b", 4, 22.0, True), ("a", 7, 51.0, False)]
    for k in range(33):
        agent.step(body(k, done=False, environment="b"), None)
    agent.finish()
    assert len(memory_of(agent)) == 11 + 32  # the longest run


def test_a_step_that_is_done_and_truncated_is_terminal(built: Built, host: Host) -> None:
    agent = host.open("a", built("dqn", DQN))
    for k, (done, truncated) in enumerate([(True, True), (False, True), (True, False)]):
        agent.step(body(k, done=done, truncated=truncated), None)
    agent.finish()
    stored = memory_of(agent).gather(np.arange(3))
    assert stored["terminated"].tolist() == [True, False, True]
    assert stored["truncated"].tolist() == [False, True, False]
    ends = [(one["terminated"], one["truncated"]) for one in agent.episodes().value]
    assert ends == [(True, False), (False, True), (True, False)]
    pages = [agent.episodes(after, 2).value for after in (None, 0, 2, 3)]  # None is the newest, 0 the beginning
    assert [[one["episode"] for one in page] for page in pages] == [[2, 3], [1, 2], [3], []]


def test_actions_of_numbers_stay_within_their_bounds(built: Built, host: Host) -> None:
    agent = host.open("a", built("ddpg", DQN))
    first, second = agent.act(b"[1, 2, 3, 4]").value["action"]
    assert {type(first), type(second)} == {float}
    far = [item for _ in range(500) for item in agent.act(b"[1, 2, 3, 4]", 1).value["action"]]
    assert (min(far), max(far)) == (0, 1)
    for k in range(20):
        agent.step(body(k, action=[k / 20, 1]), None)
    before = agent.get_state().value
    error = refused(lambda: agent.step(body(20, action=[0.0, 1.001]), None))
    assert error.errors[0][0] == "step_data.action[1]"
    assert agent.get_state().value == before
    assert agent.put_state(to_bytes(before), host.stepper_of).value["status"] == "ready"


def test_ppo_stores_what_the_act_recorded(built: Built, host: Host) -> None:
    agent = host.open("a", built("ppo", PPO))
    state = [0.5, -0.5, 0.25, 1.0]
    action = agent.act(json.dumps(state).encode()).value["action"]
    agent.step(body(0, state=state, action=action), None)
    other = [1 - action[0]]  # a human took over: what the policy says of that is computed anew
    agent.step(body(1, state=state, action=other), None)
    agent.finish()
    stored = memory_of(agent).gather(np.arange(2))
    assert stored["action"].tolist() == [action[0], other[0]]
    assert np.exp(np.asarray(stored["log_prob"], np.float64)).sum() == pytest.approx(1, abs=1e-6)
    assert stored["value"][0] == stored["value"][1]


BAD_STEPS: list[tuple[dict[str, Any], str]] = [
    ({"state": [1, 2, 3, None]}, "step_data.state[3]"),
    ({"next_state": [1, 1e39, 3, 4]}, "step_data.next_state[1]"),
    ({"action": [2]}, "step_data.action[0]"),
    ({"action": [True]}, "step_data.action[0]"),
    ({"reward": 1e39}, "step_data.reward"),
    ({"done": 1}, "step_data.done"),
    ({"environment": "a\nb"}, "step_data.environment"),
]


@pytest.mark.parametrize(("change", "where"), BAD_STEPS)
def test_a_bad_step_is_named_and_changes_nothing(untouched: HostedAgent, change: dict[str, Any], where: str) -> None:
    before = untouched.get_state().value, untouched.info().value
    error = refused(lambda: untouched.step(body(0, **change), "key"))
    assert (error.status, error.errors[0][0]) == (422, where)
    batch = json.dumps({"steps": [data(0), data(1, **change), data(2)]}).encode()
    error = refused(lambda: untouched.step(batch, "key", several=True))
    assert error.errors[0][0] == where.replace("step_data", "steps[1]")
    assert (untouched.get_state().value, untouched.info().value) == before


@pytest.mark.parametrize(
    ("content", "status"), [(b'{"step_data": NaN}', 400), (b"[" * 10_000, 400), (b'{"step_data": {}, "more": 1}', 422)]
)
def test_a_body_that_is_no_step_is_refused(untouched: HostedAgent, content: bytes, status: int) -> None:
    assert refused(lambda: untouched.step(content, None)).status == status


@pytest.mark.parametrize(
    ("content", "noise", "where"),
    [
        (b"[1, 2, 3, 1e999]", 0, "state[3]"),
        (b"[1, 2, 3, 4]", "1", "noise"),
        (b'{"observation": [1, 2, 3, 4], "environments": ["a"]}', 0, "environments"),
        (b'{"observations": [[1, 2, 3, 4]], "environments": []}', 0, "environments"),
        (b'{"observations": [[1, 2, 3, 4], [1, 2, 3]]}', 0, "observations[1]"),
    ],
)
def test_a_bad_act_is_named(untouched: HostedAgent, content: bytes, noise: Any, where: str) -> None:
    assert refused(lambda: untouched.act(content, noise)).errors[0][0] == where


@pytest.mark.parametrize(
    ("action", "where"),
    [([[0.5, 2.001, 0.5]], "action[0][1]"), ([[-0.001, 0.5, 0.5]], "action[0][0]"), ([[0.5, 0.5]], "action[0]")],
)
def test_an_action_of_numbers_has_its_shape_and_its_bounds(action: Any, where: str) -> None:
    bodies = RequestReader(Box(-np.inf, np.inf, (3,)), Box(0, np.array([[1, 2, 3]], np.float32)))
    good = {"state": [0.0] * 3, "action": [[0.0, 2.0, 0.5]], "reward": 1.0, "next_state": [0.0] * 3, "done": False}
    steps = {"steps": [good, {**good, "action": action}]}
    assert refused(lambda: bodies.steps(json.dumps(steps).encode())).errors[0][0] == f"steps[1].{where}"


SPACE = Dict(
    {
        "box": Box(-1, 1, (2, 2)),
        "pair": Tuple((Discrete(3, start=2), MultiDiscrete([2, 3]))),
        "mask": Box(0, 1, (2,), np.bool_),
        "pixels": Box(0, 255, (2, 1), np.uint8),
    }
)
SEEN: dict[str, Any] = {"box": [[1, 2], [3, 4.5]], "pair": [2, [1, 2]], "mask": [True, 0], "pixels": [[1], [2.0]]}


def test_an_observation_has_an_array_for_each_part_of_its_space() -> None:
    read = RequestReader(SPACE, Discrete(2)).act(json.dumps(SEEN).encode()).observations
    assert isinstance(read, dict)
    assert {name: (array.dtype.name, array[0].tolist()) for name, array in read.items()} == {
        "box": ("float32", [[1, 2], [3, 4.5]]),
        "pair/0": ("int32", 2),
        "pair/1": ("int32", [1, 2]),
        "mask": ("bool", [True, False]),
        "pixels": ("uint8", [[1], [2]]),
    }


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"box": [[1, 2], [3]]}, "box[1]"),
        ({"box": [[1, 1e39], [3, 4]]}, "box[0][1]"),
        ({"box": [["1", 2], [3, 4]]}, "box[0][0]"),
        ({"pair": [5, [1, 2]]}, "pair[0]"),
        ({"pair": [2, [2, 2]]}, "pair[1][0]"),
        ({"pair": [2]}, "pair"),
        ({"mask": [True, 2]}, "mask[1]"),
        ({"pixels": [[1], [256]]}, "pixels[1][0]"),
        ({"pixels": [[1.5], [2]]}, "pixels[0][0]"),
        ({"pixels": [[True], [2]]}, "pixels[0][0]"),
        ({"more": 1}, "more"),
    ],
)
def test_a_value_that_is_none_of_its_space_is_named(change: dict[str, Any], where: str) -> None:
    bodies = RequestReader(SPACE, Discrete(2))
    body = json.dumps({"observations": [SEEN, {**SEEN, **change}]}).encode()
    assert refused(lambda: bodies.act(body)).errors[0][0] == f"observations[1].{where}"


def test_observations_of_a_step_have_one_of_two_names() -> None:
    bodies = RequestReader(Box(-1, 1, (1,)), Discrete(2))
    step = {"obs": [1], "action": 1, "reward": 1, "next_obs": [2], "done": False}
    ((_, row),) = bodies.step(json.dumps({"step_data": step}).encode())
    assert (row["observation"].tolist(), row["next_observation"].tolist()) == ([1], [2])
    both = json.dumps({"step_data": {**step, "state": [1]}}).encode()
    assert refused(lambda: bodies.step(both)).errors[0][0] == "step_data.obs"


def test_of_many_wrong_places_a_few_are_named() -> None:
    bodies = RequestReader(Box(-np.inf, np.inf, (10_000,)), Discrete(2))
    for wrong in (["x"] * 10_000, {f"x{k}": 1 for k in range(10_000)}):
        assert len(refused(lambda: bodies.act(json.dumps({"observation": wrong}).encode())).errors) == 1  # noqa: B023
    many = json.dumps({"step_data": {f"x{k}": 1 for k in range(10_000)}}).encode()
    assert len(refused(lambda: bodies.step(many)).errors) == 1


@pytest.mark.parametrize("character", ["x", "\U0001f600"])
def test_a_batch_of_as_many_environments_with_as_long_names_as_there_may_be(
    built: Built, host: Host, character: str
) -> None:
    agent = host.open("a", built("dqn", {**DQN, "warm_up": 100_000}))
    names = [f"{k:03}" + character * 125 for k in range(1000)]
    batch = json.dumps({"steps": [data(k, name, done=False) for k, name in enumerate(names)]}).encode()
    assert agent.step(batch, "key", several=True).value == {"accepted": 1000, "seq": 1000}
    agent.sync()
    assert agent_files.stored_info(host.folder / "a")["counters"]["global_timestep"] == 1000  # by its records' heads
    agent = host.again(agent, "a")
    assert agent.step(batch, "key", several=True).replayed
    config = json.loads(base64.b64decode(agent.get_state().value["encoded_config"]))
    assert [one["environment"] for one in config["environments"]] == names[-64:]
    episode = agent.episodes().value[-1]  # the one unused longest was closed for the last
    assert (episode["environment"], episode["length"], episode["truncated"]) == (names[-65], 1, True)


def test_steps_that_no_record_holds_are_refused(built: Built, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = host.open("a", built("dqn", DQN))
    monkeypatch.setattr(durable, "LARGEST", 1000)
    batch = json.dumps({"steps": [data(k) for k in range(30)]}).encode()
    assert refused(lambda: agent.step(batch, None, several=True)).code == "body_too_large"
    assert agent.step(body(0), None).value == {"accepted": 1, "seq": 1}


@pytest.mark.parametrize(("model", "config", "as_file"), [("dqn", {**DQN, "n_steps": 3}, True), ("ppo", PPO, False)])
def test_a_state_makes_another_agent_the_same_one(
    built: Built, host: Host, model: str, config: dict[str, Any], as_file: bool
) -> None:
    first, second = host.open("a", built(model, config)), host.open("b", built(model, {**config, "seed": 1}))
    feed(first, 0, 70, environments=2)
    feed(second, 100, 110)
    state = first.get_state().value
    sent = first.get_state(as_file=True).value if as_file else to_bytes(state)
    second.put_state(sent, host.stepper_of, is_file=as_file)
    assert second.step(body(100, environment="e0"), "key-100").replayed  # accepted before, and not applied again
    second = host.again(second, "b")
    assert second.get_state().value == state
    for agent in (first, second):
        feed(agent, 70, 100, environments=2)
    assert second.get_state().value == first.get_state().value


def test_a_state_may_be_of_an_agent_that_records_other_values(built: Built, host: Host) -> None:
    """A value of intrinsic rewards, which is in the memory, in the waiting steps, and in the journal."""
    giver = host.open("a", built("ppo", {**PPO, "intrinsic_coefficient": 0.5, "rnd_units": 8}))
    taker = host.open("b", built("ppo", PPO))
    feed(giver, 0, 40, environments=2)
    feed(taker, 0, 10)
    taker.put_state(to_bytes(giver.get_state().value), host.stepper_of)
    assert taker.get_state().value == giver.get_state().value
    for agent in (giver, taker):
        feed(agent, 40, 70, environments=2)
    taker = host.again(taker, "b")
    assert taker.get_state().value == giver.get_state().value
    taker.put_state(to_bytes(host.open("c", built("ppo", PPO)).get_state().value), host.stepper_of)
    feed(taker, 70, 90)
    assert timesteps(host.again(taker, "b")) == 20


CONFIGS: list[tuple[str, Any]] = [
    ("pending_updates", 1),
    ("sampler", {"maximum": 1.0}),
    ("learning", {"loss": 10**400}),
    ("environments.0.length", 1 << 53),
    ("environments.0.waiting", 32),
    ("environments.0.environment", "e1"),
    ("environments.0.length", 30),  # with the one of the other environment more than it was told
    ("environments.0.running", False),
    ("environments.0.episode_return", "1"),
    ("environments.0.episode_return", 1e39),
    ("counters.global_step", -1),
    ("counters.global_step", 1 << 48),
    ("counters.global_timestep", (1 << 53) - 1),
    ("counters.global_episode", 31),
    ("learning", {"loss": 1e39}),
    ("generators.noise.state.inc", 2),
    ("generators.memory.has_uint32", 7),
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


ARRAYS: dict[str, list[tuple[str, str, float]]] = {
    "dqn": [
        ("encoded_network", "iteration", -1),
        ("encoded_network", "iteration", 1 << 48),
        ("encoded_network", "kernel_velocity", -1e-9),
        ("encoded_network", "kernel_momentum", 1e3),
        ("encoded_network", "dense1/bias", 3e38),
        ("encoded_buffer", "memory/reward", 3e38),
        ("encoded_buffer", "memory/priority", 1e308),
        ("encoded_buffer", "waiting/observation", 1e20),
    ],
    "ppo": [
        ("encoded_network", "policy/log_std", -1e3),
        ("encoded_buffer", "memory/log_prob", -1e3),
        ("encoded_buffer", "memory/value", 3e38),
    ],
}


@pytest.mark.parametrize(
    ("model", "config"),
    [("dqn", {**DQN, "n_steps": 3, "sampler": {"kind": "prioritized"}}), ("ppo", {**PPO, "discrete": False})],
)
def test_a_state_with_an_array_with_which_an_agent_would_fail_is_refused(
    built: Built, host: Host, model: str, config: dict[str, Any]
) -> None:
    agent = host.open("a", built(model, config))
    for k in range(41):  # some of which wait
        action = [k / 41, 0.5] if model == "ppo" else [k % 2]
        agent.step(body(k, f"e{k % 2}", action=action), None)
    state = agent.get_state().value
    agent.check_state(to_bytes(state), host.stepper_of)
    for field, ending, value in ARRAYS[model]:
        found = safetensors.numpy.load(base64.b64decode(state[field]))
        name = next(one for one in sorted(found) if one.endswith(ending))
        found[name] = found[name].copy()
        found[name].reshape(-1)[-1:] = value
        sent = {**state, field: base64.b64encode(safetensors.numpy.save(found)).decode()}
        error = refused(lambda: agent.check_state(to_bytes(sent), host.stepper_of))  # noqa: B023
        assert error.code == "invalid_value", name
        assert error.errors[0][0] in ("encoded_network", "encoded_buffer"), name


def test_columns_without_rows_are_no_state() -> None:
    """Of an agent with scalar observations, where each of them has the shape of one row."""
    group = Group("memory/", "encoded_buffer", {"observation": ArraySpec((), np.int32)}, 10)
    assert check_groups({"memory/observation": np.zeros(0, np.int32)}, group)[0]["observation"].shape == (0,)
    error = refused(lambda: check_groups({"memory/observation": np.zeros((), np.int32)}, group))
    assert str(error) == "encoded_buffer holds observation as int32[], this agent's is int32[0]"


def test_a_rollout_that_is_full_has_been_learned_from_and_is_no_state(built: Built, host: Host) -> None:
    agent = host.open("a", built("ppo", PPO))
    feed(agent, 0, 15)
    state = agent.get_state().value
    agent.check_state(to_bytes(state), host.stepper_of)
    buffer = safetensors.numpy.load(base64.b64decode(state["encoded_buffer"]))
    grown = {name: np.concatenate([rows, rows[-1:]]) for name, rows in buffer.items() if name.startswith("memory/")}
    state["encoded_buffer"] = base64.b64encode(safetensors.numpy.save({**buffer, **grown})).decode()
    error = refused(lambda: agent.check_state(to_bytes(state), host.stepper_of))
    assert (error.status, error.errors[0][0]) == (422, "encoded_buffer")


def test_damaged_states_are_refused_or_load_whole(learned: tuple[Host, HostedAgent]) -> None:
    host, agent = learned
    whole = agent.get_state().value
    rng = random.Random(0)
    outcomes = set()
    unused: list[Stepper] = []

    def stepper_of(recipe: Recipe, fresh: bool) -> Stepper:
        if recipe != agent.recipe or not unused or len(unused[0].memory):
            unused[:] = [host.stepper_of(recipe, fresh)]
        return unused[0]

    for _ in range(600):
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
