import json
import math
from typing import Any

import numpy as np
import pytest

from axonrl.interfaces.common.value_specs import ValueSpec
from axonrl.interfaces.tensorforce.processing.preprocessing import Preprocessing, make_preprocessing
from axonrl.interfaces.tensorforce.values.errors import TensorforceError


def made(layers: Any, shape: tuple[int, ...] = (2,), lanes: int = 1, kind: str = "float") -> Preprocessing:
    state = ValueSpec("state", kind, shape, num_values=9 if kind == "int" else None)
    return make_preprocessing("preprocessing", {"state": layers}, {"state": state}, lanes)


def steps(preprocessing: Preprocessing, *values: Any, lane: int = 0) -> list[Any]:
    """What comes out, as lists; checks that it is what the spec says."""
    spec, found = preprocessing.states["state"], []
    for value in values:
        out = preprocessing.apply(lane, {"state": np.asarray(value, spec.dtype)})["state"]
        assert isinstance(out, np.ndarray)
        assert (out.shape, out.dtype) == (spec.shape, spec.dtype)
        found.append(out.tolist())
    return found


def refused(*arguments: Any, **keywords: Any) -> str:
    with pytest.raises(TensorforceError) as caught:
        made(*arguments, **keywords)
    return caught.value.argument


@pytest.mark.parametrize("spec", [None, {"state": {"type": "dropout", "rate": 0.5}}])
def test_nothing_to_do(spec: Any) -> None:
    state = ValueSpec("state", "float", (2,), min_value=0.0, max_value=1.0)
    preprocessing = make_preprocessing("preprocessing", spec, {"state": state}, 1)
    assert preprocessing.idle
    assert preprocessing.states["state"].shape == (2,)
    given = np.ones(2, np.float32)
    assert preprocessing.apply(0, {"state": given})["state"] is given
    assert preprocessing.reward(0.1, 0) == 0.1


def test_clipping() -> None:
    assert steps(made({"type": "clipping", "upper": 2}), [-5, 1], [3, -1]) == [[-2, 1], [2, -1]]
    assert steps(made({"type": "clipping", "upper": {"value": 2}, "lower": 0}), [-5, 1]) == [[0, 1]]
    assert not made({"type": "clipping", "upper": 2}).idle


def test_deltafier() -> None:
    deltafier = made("deltafier")
    assert steps(deltafier, [1, 2], [4, 2], [4, 0]) == [[0, 0], [3, 0], [0, -2]]
    deltafier.reset(0)
    assert steps(deltafier, [9, 9]) == [[0, 0]]
    assert steps(made({"type": "deltafier", "concatenate": 0}), [1, 2], [4, 2]) == [[1, 2, 0, 0], [4, 2, 3, 0]]


def test_the_history_is_not_the_callers_array() -> None:
    deltafier, given = made("deltafier"), np.zeros(2, np.float32)
    deltafier.apply(0, {"state": given})
    given[:] = 5
    assert deltafier.apply(0, {"state": given})["state"].tolist() == [5, 5]


def test_sequence() -> None:
    sequence = made({"type": "sequence", "length": 3})
    assert steps(sequence, [1, 2], [3, 4]) == [[1, 2, 1, 2, 1, 2], [1, 2, 1, 2, 3, 4]]
    assert steps(sequence, [5, 6], [7, 8]) == [[1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 7, 8]]
    sequence.reset(0)
    assert steps(sequence, [9, 9]) == [[9] * 6]


def test_a_sequence_may_be_a_new_axis() -> None:
    stacked = {"type": "sequence", "length": 2, "concatenate": False}
    assert steps(made(stacked), [1, 2], [3, 4]) == [[[1, 1], [2, 2]], [[1, 3], [2, 4]]]
    assert steps(made({**stacked, "axis": 0}), [1, 2], [3, 4]) == [[[1, 2], [1, 2]], [[1, 2], [3, 4]]]
    assert steps(made({**stacked, "length": 3}, ()), 1, 2) == [[1, 1, 1], [1, 1, 2]]
    assert steps(made({"type": "sequence", "length": 1}), [1, 2], [3, 4]) == [[1, 2], [3, 4]]


def test_sequences_of_other_types_keep_them() -> None:
    whole = made({"type": "sequence", "length": 2}, kind="int")
    assert steps(whole, [1, 2], [3, 4]) == [[1, 2, 1, 2], [1, 2, 3, 4]]
    assert (whole.states["state"].type, whole.states["state"].num_values) == ("int", 9)
    assert steps(made({"type": "sequence", "length": 2}, kind="bool"), [True, False]) == [[True, False, True, False]]


def test_lanes_have_histories_of_their_own() -> None:
    preprocessing = made(["deltafier", {"type": "sequence", "length": 2}], (1,), lanes=2)
    assert steps(preprocessing, [1], [4]) == [[0, 0], [0, 3]]
    assert steps(preprocessing, [7], [5], lane=1) == [[0, 0], [0, -2]]
    preprocessing.reset(1)
    assert steps(preprocessing, [5]) == [[3, 1]]
    assert steps(preprocessing, [5], lane=1) == [[0, 0]]


def test_images_are_resized_by_area() -> None:
    image = np.arange(16.0).reshape(4, 4, 1)
    assert steps(made({"type": "image", "height": 2, "width": 2}, (4, 4, 1)), image) == [
        [[[2.5], [4.5]], [[10.5], [12.5]]]
    ]
    larger = made({"type": "image", "height": 1, "width": 4}, (1, 2, 2))
    assert steps(larger, [[[1, 5], [2, 6]]]) == [[[[1, 5], [1, 5], [2, 6], [2, 6]]]]


def test_images_in_grey() -> None:
    assert np.ravel(
        steps(made({"type": "image", "grayscale": True}, (1, 2, 3)), [[[1, 0, 0], [0, 1, 1]]])
    ) == pytest.approx([0.299, 0.701])
    weighted = made({"type": "image", "grayscale": [2, 1], "height": 1, "width": 1}, (1, 2, 2))
    assert steps(weighted, [[[1, 10], [3, 20]]]) == [[[[19]]]]


def test_one_side_of_an_image_follows_from_the_other() -> None:
    assert made({"type": "image", "height": 2}, (4, 8, 3)).states["state"].shape == (2, 4, 3)
    assert made({"type": "image", "width": 2, "grayscale": True}, (4, 8, 3)).states["state"].shape == (1, 2, 1)
    assert made({"type": "image", "width": 1}, (1, 8, 3)).states["state"].shape == (1, 1, 3)


def test_exponential_normalization() -> None:
    # 1 and 3 weigh 0.5 and 1: mean 7/3, variance (0.5 * 16/9 + 4/9) / 1.5 = 8/9; (3 - 7/3) / sqrt(8/9) = sqrt(1/2).
    normalization = made({"type": "exponential_normalization", "decay": 0.5}, (1,), lanes=2)
    assert steps(normalization, [1]) == [[0]]
    normalization.reset(0)  # does not forget
    assert np.ravel(steps(normalization, [3], lane=1)) == pytest.approx([math.sqrt(0.5)])
    # 0 as the third: weights 0.25, 0.5, 1: mean 1, variance (4 * 0.5 + 1) / 1.75 = 12/7.
    assert np.ravel(steps(normalization, [0])) == pytest.approx([-math.sqrt(7 / 12)])


def test_exponential_normalization_is_over_all_but_the_last_axis() -> None:
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
        ("leaky-relu", [-0.2, 2]),
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
    preprocessing = make_preprocessing("preprocessing", spec, states, 1)
    mask = np.array([True, False])
    given = {
        "eye": np.full(1, 5, np.float32),
        "ear/left": np.full(1, 5, np.float32),
        "cell": np.int32(3),
        "a_mask": mask,
    }
    out = preprocessing.apply(0, given)
    assert list(out) == list(given)
    assert [float(out[name].item()) for name in ("eye", "ear/left", "cell")] == [1, 2, 3]
    assert out["a_mask"] is mask
    assert preprocessing.reward(5.0, 0) == 5.0  # is a float, and is no state
    assert list(preprocessing.states) == list(states)


def test_rewards() -> None:
    state = {"state": ValueSpec("state", "float", (1,))}
    spec = {"reward": ["deltafier", {"type": "clipping", "upper": 1}]}
    preprocessing = make_preprocessing("preprocessing", spec, state, 2)
    assert [preprocessing.reward(value, 0) for value in (5, 5.5, 9, 0)] == [0, 0.5, 1, -1]
    assert preprocessing.reward(3, 1) == 0
    preprocessing.reset(0)
    assert preprocessing.reward(3, 0) == 0
    assert isinstance(preprocessing.reward(3, 0), float)


EVERYTHING = [
    {"type": "image", "height": 2, "width": 2, "grayscale": [1, 2]},
    {"type": "exponential_normalization", "decay": 0.9},
    {"type": "deltafier", "concatenate": -1},
    {"type": "dropout", "rate": 0.1},
    {"type": "sequence", "length": 3},
    {"type": "instance_normalization"},
    {"type": "activation", "nonlinearity": "swish"},
    {"type": "clipping", "upper": np.float32(0.75)},
]


def everything(lanes: int = 2) -> Preprocessing:
    spec = {"float": EVERYTHING, "reward": "exponential_normalization"}
    return make_preprocessing("preprocessing", spec, {"state": ValueSpec("state", "float", (4, 4, 2))}, lanes)


def views(count: int) -> list[dict[str, Any]]:
    return [{"state": view} for view in np.random.default_rng(0).normal(size=(count, 4, 4, 2)).astype(np.float32)]


def test_independent_acts_see_what_the_next_timestep_would_and_leave_no_trace() -> None:
    one, other = everything(), everything()
    for lane, view in enumerate(views(6)):
        seen = one.apply_independent(lane % 2, view)["state"]
        one.apply_independent(1 - lane % 2, views(1)[0])
        wanted = other.apply(lane % 2, view)["state"]
        assert np.array_equal(seen, wanted)
        assert np.array_equal(one.apply(lane % 2, view)["state"], wanted)


def test_spec_and_state_make_the_same_again() -> None:
    first = everything()
    for index, view in enumerate(views(5)):
        first.apply(index % 2, view)
        first.reward(index, 0)
    stored = json.loads(json.dumps(first.spec))
    state = {"state": ValueSpec("state", "float", (4, 4, 2))}
    again, fewer = (make_preprocessing("saved", stored, state, lanes) for lanes in (2, 1))
    for one in (again, fewer):
        one.load_state_dict(first.state_dict())
        assert (one.spec, one.states) == (first.spec, first.states)
        assert np.array_equal(
            one.apply_independent(0, views(6)[5])["state"], first.apply_independent(0, views(6)[5])["state"]
        )
    wanted = first.apply(1, views(6)[5])["state"]
    assert np.array_equal(again.apply(1, views(6)[5])["state"], wanted)
    assert first.reward(2.0, 0) == again.reward(2.0, 0)


def test_the_state_of_other_layers_is_refused_and_changes_nothing() -> None:
    deltafier = made("deltafier")
    steps(deltafier, [1, 2])
    for other in (made("deltafier", (3,)), made({"type": "sequence", "length": 2}), made("exponential_normalization")):
        steps(other, np.zeros(other.states["state"].shape)[: 2 if other.states["state"].shape != (3,) else 3])
        with pytest.raises(TensorforceError) as caught:
            deltafier.load_state_dict(other.state_dict())
        assert caught.value.argument == "preprocessing['state']"
    assert steps(deltafier, [2, 2]) == [[1, 0]]
    deltafier.load_state_dict({})
    assert steps(deltafier, [2, 2]) == [[0, 0]]


@pytest.mark.parametrize(
    ("layers", "shape", "argument"),
    [
        (["deltafier", {"type": "dense", "size": 3}], (2,), "preprocessing['state'][1]['type']"),
        ({"type": "deltafier", "concatenate": 1}, (2,), "preprocessing['state'][0]['concatenate']"),
        ({"type": "image", "height": 2}, (4, 4), "preprocessing['state'][0]"),
        ({"type": "image", "grayscale": "yes"}, (4, 4, 3), "preprocessing['state'][0]['grayscale']"),
        ({"type": "activation", "nonlinearity": "softmax"}, (), "preprocessing['state'][0]"),
    ],
)
def test_mistakes_are_named(layers: Any, shape: Any, argument: Any) -> None:
    assert refused(layers, shape) == argument


@pytest.mark.parametrize(("spec", "argument"), [({"stat": "deltafier"}, "stat"), (["deltafier"], "preprocessing")])
def test_wrong_keys_and_rewards_are_named(spec: Any, argument: Any) -> None:
    with pytest.raises(TensorforceError) as caught:
        make_preprocessing("preprocessing", spec, {"state": ValueSpec("state", "float", (2,))}, 1)
    assert caught.value.argument == argument
