"""The exported actor: light, without TensorFlow, exact, and clear about what is wrong with what it is given."""

import copy
import dataclasses
import json
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from axonrl import EstimatorSpec
from axonrl.core.protocols import NO_LEGAL_ACTION, ArraySpec
from axonrl.environments.actions import actions_for
from axonrl.environments.spaces import to_json
from axonrl.errors import ArgumentError, BrokenEnvironmentError
from axonrl.estimators.export import parts_of
from axonrl.explorations import EpsilonGreedy, GaussianNoise, OrnsteinUhlenbeck
from axonrl.policies.boundary import ObservationsIn, actions_out
from axonrl.policies.description import Part, space_attributes
from axonrl.runtimes import Policy
from axonrl.tests.damage import damages
from axonrl.tests.estimators.fakes import Counting, agent
from axonrl.tests.raising import raised

FLOATS = Box(-np.inf, np.inf, (2,), np.float32)


class Spaces(Counting):
    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__(action_space=action_space)
        self.observation_space = observation_space

    def observation(self) -> Any:
        return self.observation_space.sample()


def floats(values: Any) -> Any:
    return np.array(values, np.float32)


def exported(directory: Path, model: Any, env: Any) -> Path:
    """What an untrained model is exported as."""
    made = agent(directory / "run", model=model)
    made.check(env)
    return made.export(directory / "exported")


def acting(value: Callable[[Any], Any], exploration: Any = None) -> Any:
    """A model whose action is a function of the features; it learns one number."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        bias = tf.Variable(0.0, name="bias")
        action = value(features)
        if action.dtype.is_floating:
            action += bias
        if mode == "predict":
            return EstimatorSpec(mode, {"action": action}, exploration=exploration)
        loss = tf.reduce_mean((bias - 1.0) ** 2)
        return EstimatorSpec(mode, loss=loss, train_op=bias.assign_sub(0.1 * tf.gradients(loss, bias)[0]))

    return model_fn


def sign(features: Any) -> Any:
    """1 where the sum of the features is above zero."""
    return tf.cast(tf.reduce_sum(features, axis=1) > 0, tf.int32)


SIGN = acting(sign, EpsilonGreedy(0.5, Discrete(2)))
TWICE = acting(lambda features: 2 * features, GaussianNoise(0.5, Box(-1, 1, (2,), np.float32)))


@pytest.fixture(scope="module")
def discrete(tmp_path_factory: Any) -> Path:
    return exported(tmp_path_factory.mktemp("discrete"), SIGN, Counting())


@pytest.fixture(scope="module")
def box(tmp_path_factory: Any) -> Path:
    space = Box(np.array([-1, -np.inf]), np.array([1, 3]), (2,), np.float64)
    return exported(tmp_path_factory.mktemp("box"), TWICE, Counting(action_space=space))


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: Any) -> Path:
    return exported(tmp_path_factory.mktemp("remembering"), summing, Counting(action_space=Discrete(1000)))


def summing(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """Recurrent: its action is the sum of the first numbers of all observations of the episode."""
    if not isinstance(features, dict):
        return EstimatorSpec(mode, {"action": tf.cast(features[:, 0], tf.int32)}, state={"sum": features[:, 0]})
    rate = tf.Variable(1.0, name="rate")
    following = features["state"]["sum"] + features["observation"][:, 0]
    spec = {"action": tf.cast(following, tf.int32), "total": following * rate}
    if mode == "predict":
        return EstimatorSpec(mode, spec, state={"sum": following})
    loss = tf.reduce_mean((rate - 2.0) ** 2)
    return EstimatorSpec(mode, loss=loss, train_op=rate.assign_sub(tf.gradients(loss, rate)[0]))


def copied(directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(directory, tmp_path / "copy"))


def changed(directory: Path, tmp_path: Path, change: Callable[[Any], Any]) -> Path:
    """A copy whose description ``change`` has changed."""
    copy = copied(directory, tmp_path)
    path = copy / "policy.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    return copy


CHILD = """
import sys
from importlib.abc import MetaPathFinder

class Refusing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        named = {"axonrl", "ai_edge_litert", "numpy", "safetensors"}  # by README.md and docs/export.md
        if name.partition(".")[0] not in named | sys.stdlib_module_names:
            raise ModuleNotFoundError(f"{name} is not here")

sys.meta_path.insert(0, Refusing())
import numpy as np
from axonrl.policies import Learner, Policy
policy = Policy.load(sys.argv[1])
for number in range(100):
    policy.act(np.full(4, number / 100, np.float32))
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(Learner.__name__, int(peak) / 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read as Linux tells it")
def test_a_process_that_acts_needs_three_packages_and_little_memory(tmp_path: Path) -> None:
    made = exported(tmp_path, SIGN, gymnasium.make("CartPole-v1"))
    command = [sys.executable, "-c", CHILD, str(made)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    assert float(run.stdout.split()[1]) < 80  # MB


def test_one_observation_and_a_batch(discrete: Path) -> None:
    policy = Policy.load(discrete)
    one = policy.act(np.array([1, 2], np.float32))
    assert (one, one.dtype, one.shape) == (1, np.int64, ())
    assert Discrete(2).contains(one)
    many = policy.act(np.array([[1, 2], [-1, 0], [0, 1]], np.float32))
    assert (many.tolist(), many.dtype) == ([1, 0, 1], np.int64)
    assert policy.act(np.array([[-1, 0]], np.float32)).tolist() == [0]
    assert policy.act(np.array([-1, 0], np.float32)) == 0


@pytest.mark.parametrize("observation", [[1, 2], np.array([1.0, 2.0])])
def test_numbers_of_any_type_are_taken(discrete: Path, observation: Any) -> None:
    assert Policy.load(discrete).act(observation) == 1


def test_an_entry_may_have_no_numbers() -> None:
    """NumPy cannot infer the size of a batch of such entries."""
    sizes = {"a": 2, "b": 0}
    reads = ObservationsIn([Part(name, ArraySpec((size,), np.float32)) for name, size in sizes.items()], True, {})
    for rows in ((), (3,)):
        arrays, single = reads({name: np.ones((*rows, size), np.float32) for name, size in sizes.items()})
        assert [array.shape for array in arrays] == ([(1, 2), (1, 0)] if single else [(3, 2), (3, 0)])


def test_arrays_in_any_order_of_memory(box: Path) -> None:
    policy = Policy.load(box)
    row, batch = floats([0.25, 9, 0.5, 9]), np.asfortranarray(floats([[0.25, 0.5], [0.125, 0]]))
    assert policy.act(row[::2]).tolist() == [0.5, 1.0]
    assert policy.act(batch).tolist() == [[0.5, 1.0], [0.25, 0.0]]
    assert policy.act(row[::2].astype(">f4")).tolist() == [0.5, 1.0]


def test_actions_of_a_box_are_clipped_and_of_its_dtype(box: Path) -> None:
    policy = Policy.load(box)
    action = policy.act(np.array([0.25, -50], np.float32))
    assert (action.tolist(), action.dtype) == ([0.5, -100], np.float64)
    assert policy.act(np.array([[5, 1], [-5, 2]], np.float32)).tolist() == [[1, 2], [-1, 3]]
    assert policy.predict(np.array([[5, 1]], np.float32))["action"].tolist() == [[10, 2]]  # what the model says


def test_what_comes_out_is_the_caller_s_to_keep(box: Path) -> None:
    policy = Policy.load(box)
    first = policy.act(np.array([0.25, 0.5], np.float32))
    policy.act(np.array([-0.25, -0.5], np.float32))
    assert first.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("space", "action", "expected"),
    [
        (Discrete(2, start=5), lambda f: sign(f) + 5, 6),
        (MultiDiscrete([300, 4]), lambda f: tf.stack([200 * sign(f), 3 * sign(f)], 1), [200, 3]),
        (MultiBinary(2), lambda f: tf.stack([sign(f), 0 * sign(f)], 1), [1, 0]),
    ],
)
def test_kinds_of_actions(tmp_path: Path, space: Any, action: Any, expected: Any) -> None:
    policy = Policy.load(exported(tmp_path, acting(action), Counting(action_space=space)))
    found = policy.act(np.array([1, 2], np.float32))
    assert found.tolist() == expected
    assert space.contains(found)
    assert policy.act(np.ones((3, 2), np.float32)).tolist() == [expected] * 3


def test_a_discrete_observation(tmp_path: Path) -> None:
    policy = Policy.load(exported(tmp_path, acting(lambda f: f % 2), Spaces(Discrete(9), Discrete(2))))
    assert [policy.act(7), policy.act(np.int64(8))] == [1, 0]
    assert policy.act([1, 2, 3]).tolist() == [1, 0, 1]


def test_an_observation_of_many_kinds(tmp_path: Path) -> None:
    """The action is 1 where each of the parts is what it was."""
    parts = (FLOATS, MultiDiscrete([3, 3]), MultiBinary(2), Box(0, 255, (2,), np.uint8))
    space = Dict({"number": Discrete(9, start=1), "more": Tuple(parts)})
    row = (floats([4, 0]), np.array([2, 1]), np.array([0, 1], np.int8), np.array([201, 0], np.uint8))

    def equals(features: Any) -> Any:
        found = tf.cast(features["number"] == 9, tf.int32)
        for i, part in enumerate(row):
            same = tf.cast(features[f"more/{i}"], tf.float32) == tf.constant(part, tf.float32)
            found *= tf.cast(tf.reduce_all(same, axis=1), tf.int32)
        return found

    policy = Policy.load(exported(tmp_path, acting(equals), Spaces(space, Discrete(2))))
    assert policy.act({"more": row, "number": 9}) == 1
    assert policy.act({"number": 8, "more": row}) == 0
    flat = {f"more/{i}": np.stack([part, part, 0 * part]) for i, part in enumerate(row)}
    assert policy.act({**flat, "number": [9, 1, 9]}).tolist() == [1, 0, 0]


def test_exploring_follows_the_seed(discrete: Path) -> None:
    observation = np.ones((1000, 2), np.float32)  # the greedy action is 1
    first, again, other = (Policy.load(discrete, seed=seed).act(observation, explore=True) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()
    assert 200 < np.sum(first == 0) < 300  # epsilon 0.5, of which half is the greedy action
    rngs = [np.random.default_rng(5) for _ in range(2)]
    one, two = (Policy.load(discrete).act(observation, explore=True, rng=rng) for rng in rngs)
    assert one.tolist() == two.tolist()


def test_noise_is_clipped(box: Path) -> None:
    policy = Policy.load(box, seed=0)
    actions = policy.act(np.full((1000, 2), 0.5, np.float32), explore=True)  # around 1, with deviation 0.5
    assert actions.dtype == np.float64
    assert 400 < np.sum(actions[:, 0] == 1) < 600
    assert abs(np.std(actions[:, 1]) - 0.5) < 0.05


def test_noise_that_drifts_begins_anew_with_every_episode(tmp_path: Path) -> None:
    drifting = acting(lambda features: 0 * features, OrnsteinUhlenbeck(0.5, Box(-9, 9, (2,)), theta=0.25))
    policy = Policy.load(exported(tmp_path, drifting, Counting(action_space=Box(-9, 9, (2,)))))
    rng, same = np.random.default_rng(0), np.random.default_rng(0)
    first, second, third, fourth = (same.standard_normal((2, 2), np.float32) for _ in range(4))
    batch = floats([[0, 0], [0, 0]])
    noise = [policy.act(batch, explore=True, rng=rng) for _ in range(2)]
    policy.reset(np.array([False, True]))
    noise.append(policy.act(batch, explore=True, rng=rng))
    policy.reset()
    noise.append(policy.act(batch, explore=True, rng=rng))
    expected = [first / 2, 0.75 * first / 2 + second / 2]
    expected += [expected[1] * [[0.75], [0]] + third / 2, fourth / 2]
    np.testing.assert_allclose(noise, expected, rtol=1e-5)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
def test_a_pickled_policy_continues_as_the_original(remembering: Path, tmp_path: Path, duplicate: Any) -> None:
    """In the middle of an episode: with its state, its random numbers, the state of its noise, and its weights."""
    policy = Policy.load(remembering)
    policy.set_weights({name: 3 * weight for name, weight in policy.get_weights().items()})
    assert policy.act(floats([1, 0])) == 1
    other = duplicate(policy)
    assert [one.act(floats([2, 0])) for one in (policy, other, other)] == [3, 3, 5]
    assert other.predict(floats([2, 0]))["total"].tolist() == [6]
    drifting = acting(lambda features: 0 * features, OrnsteinUhlenbeck(0.5, Box(-9, 9, (2,)), theta=0.25))
    policy = Policy.load(exported(tmp_path, drifting, Counting(action_space=Box(-9, 9, (2,)))), seed=1, num_threads=2)
    policy.act(floats([0, 0]), explore=True)
    other = duplicate(policy)
    noise = [[one.act(floats([0, 0]), explore=True).tolist() for _ in range(3)] for one in (policy, other)]
    assert noise[0] == noise[1] != [[0, 0]] * 3


def test_a_recurrent_policy_keeps_its_state_until_an_episode_begins(remembering: Path) -> None:
    policy = Policy.load(remembering)
    assert [policy.act(floats([n, 0])) for n in (1, 2, 3)] == [1, 3, 6]
    policy.reset()
    assert policy.act(floats([5, 0])) == 5
    policy = Policy.load(remembering)
    policy.act(floats([10, 0]))
    assert policy.predict(floats([[1, 0], [2, 0]]))["total"].tolist() == [1, 2]
    assert policy.act(floats([1, 0])) == 11


def test_a_refused_exploration_leaves_the_state(remembering: Path, tmp_path: Path) -> None:
    policy = Policy.load(changed(remembering, tmp_path, lambda described: described.update(exploration=None)))
    assert policy.act(floats([1, 0])) == 1
    raised(ValueError, policy.act, floats([2, 0]), explore=True, match="without its behaviour policy")
    assert policy.act(floats([3, 0])) == 4


def test_episodes_of_a_batch_begin_one_by_one(remembering: Path) -> None:
    policy = Policy.load(remembering)
    batch = floats([[1, 0], [2, 0]])
    assert policy.act(batch).tolist() == [1, 2]
    policy.reset(np.array([False, True]))
    assert policy.act(batch).tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"the recurrent state is for 2 episodes, got 1 observation: call reset"):
        policy.act(floats([1, 0]))
    raised(ValueError, policy.reset, [0, 1], match=r"mask must be bool \[2\], got int64 \[2\]")
    policy.reset()
    assert policy.act(floats([1, 0])) == 1


def test_other_weights(box: Path) -> None:
    policy = Policy.load(box)
    ((name, bias),) = policy.get_weights().items()
    assert (name, bias.tolist()) == ("0000.bias", 0.0)
    policy.set_weights({name: np.array(0.125, np.float32)})
    assert policy.act(np.zeros(2, np.float32)).tolist() == [0.125, 0.125]
    kept = policy.get_weights()
    kept[name][...] = 7  # a copy
    assert policy.get_weights()[name] == 0.125


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([np.zeros(2)], r"weights must be a mapping of names to arrays, .*got \[array"),  # as Keras returns them
        ({}, r"unknown \[\], missing \['0000.bias'\]"),
        ({"0000.bias": np.zeros(2, np.float32)}, r"0000.bias of .* must be float32\(\), got float32\(2,\)"),
        ({"0000.bias": np.float32(np.nan)}, r"the weight 0000.bias of .* has NaN or infinity"),
    ],
)
def test_weights_that_do_not_fit_change_nothing(box: Path, weights: Any, message: str) -> None:
    policy = Policy.load(box)
    policy.set_weights({"0000.bias": np.array(0.5, np.float32)})
    raised(ValueError, policy.set_weights, weights, match=message)
    assert policy.act(np.zeros(2, np.float32)).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(3, np.float32), r"observation must have the shape \[2\] or \[B, 2\], got \[3\]"),
        (np.zeros((0, 2), np.float32), r"got \[0, 2\]"),
        (np.array(["a", "b"]), "observation must be float32, got <U1"),
        ([[1, 2], [3]], "observation must be an array: "),
        (np.array([np.nan, 0], np.float32), r"observation has NaN or infinity: array\(\[nan, 0.\]"),
    ],
)
def test_an_observation_that_does_not_fit_is_refused(discrete: Path, observation: Any, message: str) -> None:
    policy = Policy.load(discrete)
    for call in (policy.act, policy.predict):
        raised(ValueError, call, observation, match=message)
    assert policy.act(np.ones(2, np.float32)) == 1  # it has come to no harm


ACTION = Part("", ArraySpec((), np.int32), 0, 8)
TWO = [dataclasses.replace(ACTION, name=name) for name in ("b", "a")]


@pytest.mark.parametrize(
    ("parts", "observation", "message"),
    [
        ([ACTION], [0, -1], r"observation must be in 0 .. 8, got \[0, -1\]"),
        ([ACTION], 2**40, "observation has values that int32 cannot hold"),
        (TWO, {"b": 1}, "observation must have the entries a, b, got b"),
        (TWO, {"a": 1, "b": [1, 0]}, r"differ in batch size .*: {'a': None, 'b': 2}"),
    ],
)
def test_discrete_observations_that_do_not_fit(parts: Any, observation: Any, message: str) -> None:
    raised(ValueError, ObservationsIn(parts, parts is TWO, {}), observation, match=message)


def test_an_action_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    policy = Policy.load(exported(tmp_path, acting(lambda f: sign(f) * 7), Counting()))
    assert policy.act(floats([-1, 0])) == 0
    with pytest.raises(ValueError, match=r"the model's action 7 is not in 0 .. 1"):
        policy.act(floats([1, 0]))
    with pytest.raises(ValueError, match=r"the model's action .* is not in 0 .. 1"):
        policy.act(floats([[1, 0], [0, 0]]))


@pytest.mark.parametrize(
    ("space", "actions", "message"),
    [
        (Discrete(3, dtype=np.uint8), [1, 258], r"action \[1, 258\] is not in 0 .. 2"),
        (MultiBinary(2), [[1, 0], [256, 1]], r"is not in 0 .. 1"),
        (MultiDiscrete([3, 2], dtype=np.int8), [[1, 0], [NO_LEGAL_ACTION, 1]], "observation 1 has a mask without a"),
        (Discrete(3), [0.0, 1.5], r"is float64 \[\], but the Discrete action space takes integers \[\]"),
        (Box(-1, 1, (2,)), [[0, 1], [1, 1]], r"is int32 \[2\], but the Box action space takes floats \[2\]"),
    ],
)
def test_no_cast_makes_an_action_of_what_is_none(space: Any, actions: Any, message: str) -> None:
    """As in training: neither by wrapping around nor by rounding. Behaviour policies may return anything."""
    predicted = ArraySpec(space.shape, np.float32 if isinstance(space, Box) else np.int32)
    take, given = actions_out(space_attributes(to_json(space)), {"action": predicted}), np.array(actions)
    given = given.astype(np.int32) if given.dtype.kind == "i" else given
    raised(ValueError, take, given, False, match=message)
    raised(ValueError, take, given[1:], True, match=r"action|mask")
    with pytest.raises((ArgumentError, BrokenEnvironmentError)):
        actions_for(space, 2).batch(given)


def test_bounds_beyond_the_dtype_of_the_space_are_numbers_all_the_same() -> None:
    space: Any = MultiDiscrete(np.array([10], np.uint8), dtype=np.uint8, start=np.array([250], np.uint8))
    take = actions_out(space_attributes(to_json(space)), {"action": ArraySpec((1,), np.int32)})
    assert take(np.array([[255]], np.int32), True).tolist() == [255]
    assert parts_of(space)[""]["high"] == [259]


@pytest.mark.parametrize(
    ("file", "damage"),
    [("policy.tflite", "missing"), ("policy.tflite", "truncated"), ("weights.safetensors", "changed")],
)
def test_a_damaged_file_is_named(discrete: Path, tmp_path: Path, file: str, damage: str) -> None:
    path = copied(discrete, tmp_path) / file
    content = bytearray(path.read_bytes())
    expected = {
        "missing": f"{path} cannot be read: No such file",
        "truncated": f"{path} is damaged: it has {len(content) // 2} bytes instead of {len(content)}",
        "changed": f"{path} is damaged: its SHA-256 differs",
    }
    content[len(content) // 2] ^= 1
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[: len(content) // 2] if damage == "truncated" else content)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the path would have to be escaped)
        Policy.load(path.parent)
    assert expected[damage] in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "policy.json cannot be read .*: is this the right directory?"),
        ("[]", "policy.json is not of format"),
        (
            '{"format": "axonrl policy", "format_version": 2}',
            "has format version 2, but this version of axonrl reads 1",
        ),
        ('{"format": "axonrl policy", "format_version": 1}', r"policy\.json: model is missing"),
    ],
)
def test_what_is_no_description_is_named(discrete: Path, tmp_path: Path, text: str | None, message: str) -> None:
    copy = copied(discrete, tmp_path)
    (copy / "policy.json").unlink()
    if text is not None:
        (copy / "policy.json").write_text(text)
    raised(ValueError, Policy.load, copy, match=message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d["observation"]["arrays"][""].update(shape=[3]),
            r"program takes float32\[-1, 2\], but .*\[-1, 3\]",
        ),
        (lambda d: d["predictions"].update(q={"shape": [], "dtype": "float32"}), "has 1 outputs, but .* has 2"),
        (lambda d: d["weights"]["arrays"]["0000.bias"].update(dtype="int32"), "keeps float32"),
        (lambda d: d["exploration"].update(epsilon=2), r"policy\.json: exploration .* epsilon must stay in 0 .. 1"),
        (
            lambda d: d["action"]["space"].update(type="Text"),
            r"policy\.json: action\.space\.type must be .* got 'Text'",
        ),
    ],
)
def test_a_description_of_another_program_is_refused(discrete: Path, tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Policy.load(changed(discrete, tmp_path, change))


def test_each_damaged_field_is_named(box: Path, tmp_path: Path) -> None:
    path = copied(box, tmp_path) / "policy.json"
    whole = json.loads(path.read_text())
    whole["normalization"] = {
        **{"kind": "NormalizeObservation", "epsilon": 1e-8, "clip": 10.0},
        **{moment: {"values": [0.5, 1.5], "dtype": "float64"} for moment in ("mean", "var")},
    }
    bounds = [f"{kind}.space.{bound}" for kind in ("observation", "action") for bound in ("low", "high")]
    free = ["format_version", "made_with", *bounds]  # of all components together, or of each
    optional = ["action.array", "exploration.relative", "normalization.clip"]
    for field, damaged in [("", whole), *damages(whole, free, optional)]:
        path.write_text(json.dumps(damaged))
        if not field:
            Policy.load(path.parent)
            continue
        error = str(raised(ValueError, Policy.load, path.parent))
        assert "policy.json" in error, field
        assert field.partition(".")[0] in error, field


def test_threads_and_seeds_are_checked(discrete: Path) -> None:
    with pytest.raises(ArgumentError, match="num_threads must be an integer of at least 1, got 0"):
        Policy.load(discrete, num_threads=0)
    makes: list[Callable[..., Policy]] = [partial(Policy.load, discrete), Policy.load(discrete, seed=0).copy]
    for make in makes:
        for seed in (-1, "1", 0.5):
            raised(ValueError, make, seed=seed, match=f"seed must be an integer of at least 0, got {seed!r}")
