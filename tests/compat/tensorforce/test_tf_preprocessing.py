import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl.compat.common.value_specs import ValueSpec
from axonrl.compat.tensorforce import Agent
from axonrl.compat.tensorforce.processing.preprocessors import Preprocessing, make_preprocessing

from .agents import generic, refused


def made(layers: Any, shape: tuple[int, ...] = (2,), kind: str = "float") -> Preprocessing:
    state = ValueSpec("state", kind, shape, num_values=9 if kind == "int" else None)
    return make_preprocessing("preprocessing", {"state": layers}, {"state": state})


def steps(preprocessing: Preprocessing, *values: Any, lane: int = 0) -> list[Any]:
    """What comes out, as lists; checks that it is what the spec says."""
    spec, found = preprocessing.states["state"], []
    for value in values:
        out = preprocessing.apply(lane, {"state": np.asarray(value, spec.dtype)})["state"]
        assert isinstance(out, np.ndarray)
        assert (out.shape, out.dtype) == (spec.shape, spec.dtype)
        found.append(out.tolist())
    return found


def test_clipping() -> None:
    assert steps(made({"type": "clipping", "upper": 2}), [-5, 1], [3, -1]) == [[-2, 1], [2, -1]]
    assert steps(made({"type": "clipping", "upper": {"value": 2}, "lower": 0}), [-5, 1]) == [[0, 1]]
    idle = made({"type": "dropout", "rate": 0.5})
    given = np.ones(2, np.float32)
    assert idle.apply(0, {"state": given})["state"] is given


def test_deltafier() -> None:
    deltafier = made("deltafier")
    assert steps(deltafier, [1, 2], [4, 2], [4, 0]) == [[0, 0], [3, 0], [0, -2]]
    deltafier.reset(0)
    given = np.full(2, 9, np.float32)
    deltafier.apply(0, {"state": given})
    given[:] = 5  # the history is not the caller's array
    assert steps(deltafier, [9, 9]) == [[0, 0]]
    assert steps(made({"type": "deltafier", "concatenate": 0}), [1, 2], [4, 2]) == [[1, 2, 0, 0], [4, 2, 3, 0]]


def test_sequences() -> None:
    sequence = made({"type": "sequence", "length": 3})
    assert steps(sequence, [1, 2], [3, 4]) == [[1, 2, 1, 2, 1, 2], [1, 2, 1, 2, 3, 4]]
    assert steps(sequence, [5, 6], [7, 8]) == [[1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 7, 8]]
    sequence.reset(0)
    assert steps(sequence, [9, 9]) == [[9] * 6]
    stacked = {"type": "sequence", "length": 2, "concatenate": False}
    assert steps(made(stacked), [1, 2], [3, 4]) == [[[1, 1], [2, 2]], [[1, 3], [2, 4]]]
    assert steps(made({**stacked, "axis": 0}), [1, 2], [3, 4]) == [[[1, 2], [1, 2]], [[1, 2], [3, 4]]]
    assert steps(made({**stacked, "length": 3}, ()), 1, 2) == [[1, 1, 1], [1, 1, 2]]
    assert steps(made({"type": "sequence", "length": 1}), [1, 2], [3, 4]) == [[1, 2], [3, 4]]
    whole = made({"type": "sequence", "length": 2}, kind="int")
    assert steps(whole, [1, 2], [3, 4]) == [[1, 2, 1, 2], [1, 2, 3, 4]]
    assert (whole.states["state"].type, whole.states["state"].num_values) == ("int", 9)
    assert steps(made({"type": "sequence", "length": 2}, kind="bool"), [True, False]) == [[True, False, True, False]]


def test_lanes_have_histories_of_their_own() -> None:
    preprocessing = made(["deltafier", {"type": "sequence", "length": 2}], (1,))
    assert steps(preprocessing, [1], [4]) == [[0, 0], [0, 3]]
    assert steps(preprocessing, [7], [5], lane=1) == [[0, 0], [0, -2]]
    preprocessing.reset(1)
    for _ in range(2):
        assert preprocessing.peek(0, {"state": np.full(1, 5, np.float32)})["state"].tolist() == [3, 1]
    assert steps(preprocessing.independent(), [9], [6]) == [[0, 0], [0, -3]]
    assert steps(preprocessing, [5]) == [[3, 1]]
    assert steps(preprocessing, [5], lane=1) == [[0, 0]]
    preprocessing.reset()
    assert steps(preprocessing, [8]) == [[0, 0]]


def test_images_are_resized_by_area_and_in_grey() -> None:
    image = np.arange(16.0).reshape(4, 4, 1)
    assert steps(made({"type": "image", "height": 2, "width": 2}, (4, 4, 1)), image) == [
        [[[2.5], [4.5]], [[10.5], [12.5]]]
    ]
    larger = made({"type": "image", "height": 1, "width": 4}, (1, 2, 2))
    assert steps(larger, [[[1, 5], [2, 6]]]) == [[[[1, 5], [1, 5], [2, 6], [2, 6]]]]
    grey = made({"type": "image", "grayscale": True}, (1, 2, 3))
    assert np.ravel(steps(grey, [[[1, 0, 0], [0, 1, 1]]])) == pytest.approx([0.299, 0.701])
    narrow = made({"type": "image", "width": 2, "grayscale": True}, (4, 8, 3))
    assert narrow.states["state"].shape == (1, 2, 1)  # one side follows from the other
    weighted = made({"type": "image", "grayscale": [2, 1], "height": 1, "width": 1}, (1, 2, 2))
    assert steps(weighted, [[[1, 10], [3, 20]]]) == [[[[19]]]]


def test_exponential_normalization() -> None:
    # 1 and 3 weigh 0.5 and 1: mean 7/3, variance (0.5 * 16/9 + 4/9) / 1.5 = 8/9; (3 - 7/3) / sqrt(8/9) = sqrt(1/2).
    normalization = made({"type": "exponential_normalization", "decay": 0.5}, (1,))
    assert steps(normalization, [1]) == [[0]]
    normalization.reset(0)  # does not forget
    assert np.ravel(steps(normalization, [3], lane=1)) == pytest.approx([math.sqrt(0.5)])
    # 0 as the third: weights 0.25, 0.5, 1: mean 1, variance (4 * 0.5 + 1) / 1.75 = 12/7.
    assert np.ravel(steps(normalization, [0])) == pytest.approx([-math.sqrt(7 / 12)])
    normalization = made("exponential_normalization", (2, 2))
    assert steps(normalization, [[1, 10], [3, 10]]) == [[[-1, 0], [1, 0]]]
    assert steps(made({"type": "exponential_normalization", "axes": [0]}), [1, 3]) == [[-1, 1]]
    assert steps(made("exponential_normalization", ()), 5) == [0]


def test_instance_normalization() -> None:
    assert steps(made("instance_normalization"), [1, 3], [7, 7]) == [[-1, 1], [0, 0]]
    over_rows = made({"type": "instance_normalization", "axes": [1]}, (2, 2))
    assert steps(over_rows, [[1, 3], [60, 20]]) == [[[-1, 1], [1, -1]]]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("crelu", [0, 2, 1, 0]),
        ("selu", [-1.111331, 2.101402]),
        ("softmax", [0.047426, 0.952574]),
        ("swish", [-0.268941, 1.761594]),
    ],
)
def test_activations(name: Any, wanted: Any) -> None:
    activation = made({"type": "activation", "nonlinearity": name})
    assert np.ravel(steps(activation, [-1, 2])) == pytest.approx(wanted, abs=1e-5)
    assert np.isfinite(steps(activation, [-1e4, 1e4])).all()  # and no warning of an overflow


def test_a_name_goes_before_a_type() -> None:
    states = {
        "eye": ValueSpec("eye", "float", (1,)),
        "ear/left": ValueSpec("ear/left", "float", (1,)),
        "cell": ValueSpec("cell", "int", (), 4),
    }
    spec = {"float": {"type": "clipping", "upper": 1}, "ear/left": {"type": "clipping", "upper": 2}, "bool": []}
    preprocessing = make_preprocessing("preprocessing", spec, states)
    mask = np.array([True, False])
    five = np.full(1, 5, np.float32)
    given = {"eye": five, "ear/left": five, "cell": np.array(3, np.int32), "a_mask": mask}
    out = preprocessing.apply(0, given)
    assert list(out) == list(given)
    assert [float(out[name].item()) for name in ("eye", "ear/left", "cell")] == [1, 2, 3]
    assert out["a_mask"] is mask
    assert preprocessing.reward(5.0, 0) == 5.0  # is a float, and is no state
    assert list(preprocessing.states) == list(states)


def test_rewards() -> None:
    state = {"state": ValueSpec("state", "float", (1,))}
    spec = {"reward": ["deltafier", {"type": "clipping", "upper": 1}]}
    preprocessing = make_preprocessing("preprocessing", spec, state)
    assert [preprocessing.reward(value, 0) for value in (5, 5.5, 9, 0)] == [0, 0.5, 1, -1]
    assert preprocessing.reward(3, 1) == 0
    preprocessing.reset(0)
    assert preprocessing.reward(3, 0) == 0
    assert isinstance(preprocessing.reward(3, 0), float)


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [(["deltafier"], "preprocessing"), (dict(state=3), "preprocessing['state'][0]"), (dict(stat=3), "stat")],
)
def test_an_agents_preprocessing_is_named_in_errors(wrong: Any, argument: str) -> None:
    error = refused(generic, preprocessing=wrong)
    assert error.argument.removeprefix("TensorforceAgent: ") == argument
    assert str(error).startswith("TensorforceAgent: preprocessing")


def test_the_state_of_other_layers_is_refused_and_changes_nothing() -> None:
    one, other = made("exponential_normalization"), made(["deltafier", "exponential_normalization"])
    for preprocessing in (one, other):
        steps(preprocessing, [1, 2])
    before = one.state_dict()
    independent = one.independent()
    steps(independent, [5, 5])
    assert refused(one.load_state_dict, other.state_dict()).argument == "preprocessing['state']"
    np.testing.assert_equal(one.state_dict(), before)  # nor has the independent one changed it
    one.load_state_dict({})
    assert independent.state_dict() == {"state": {}}


@pytest.mark.parametrize(
    ("spec", "shape", "argument"),
    [
        ({"state": ["deltafier", {"type": "dense", "size": 3}]}, (2,), "preprocessing['state'][1]['type']"),
        ({"state": {"type": "deltafier", "concatenate": 1}}, (2,), "preprocessing['state'][0]['concatenate']"),
        ({"state": {"type": "image", "height": 2}}, (4, 4), "preprocessing['state'][0]"),
        ({"stat": "deltafier"}, (2,), "stat"),
        (["deltafier"], (2,), "preprocessing"),
    ],
)
def test_mistakes_are_named(spec: Any, shape: Any, argument: str) -> None:
    state = {"state": ValueSpec("state", "float", shape)}
    assert refused(make_preprocessing, "preprocessing", spec, state).argument == argument


def test_independent_acts_have_histories_of_their_own(tmp_path: Path) -> None:
    """What is acted on is the difference from the timestep before: 0 in the first, then 2."""
    state, action = dict(type="float", shape=(1,)), dict(type="float", shape=())
    agent = generic(states=state, actions=action, preprocessing=dict(state="deltafier"))
    agent.save(directory=str(tmp_path))
    mean = dict(query="action-distribution-mean")
    first, second = agent.act([1.0], **mean)[1], agent.observe(0.0) or agent.act([3.0], **mean)[1]
    agent.observe(0.0)
    actor = Agent.load(str(tmp_path), format="pb-actonly")
    for one in (agent, actor):

        def act(value: float, parallel: int = 0, one: Any = one) -> float:
            return float(one.act([value], parallel=parallel, evaluation=True))

        assert [act(1.0), act(3.0), act(5.0, parallel=4), act(3.0)] == pytest.approx([first, second, first, first])
        one.initial_internals(4)
        assert [act(5.0), act(7.0, parallel=4)] == pytest.approx([second, first])
        one.initial_internals([0, 4])
        assert [act(1.0), act(7.0, parallel=4)] == pytest.approx([first, first])
        assert refused(one.initial_internals, "0").argument == "Agent.initial_internals: parallel"
        one.initial_internals()
        assert act(9.0) == pytest.approx(first)
    assert agent.act([5.0], **mean)[1] == second  # the training's is its own
    agent.reset()
    assert float(agent.act([11.0], evaluation=True)) == pytest.approx(first)
    assert abs(first - second) > 1e-3
