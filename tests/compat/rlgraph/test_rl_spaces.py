"""Spaces of RLgraph's interface, and what reads their values."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces as gym_spaces

from axonrl.compat.rlgraph.agents import RandomAgent
from axonrl.compat.rlgraph.spaces import BoolBox, Dict, FloatBox, IntBox, Space, Tuple, space_of, stacked
from axonrl.compat.rlgraph.spaces.readers import ActionsReader, actions_out
from axonrl.compat.rlgraph.utils.rlgraph_errors import RLGraphError

from .agents import refused

NEST = Dict(b=Tuple(IntBox(3), FloatBox(shape=(2,))), a={"c": bool})


def test_boxes_have_the_forms_of_the_original() -> None:
    four = IntBox(4)
    assert four.dtype == np.int32
    assert (int(four.low), int(four.high), four.shape, four.num_categories) == (0, 4, (), 4)
    assert IntBox(2, 5, (3,)).num_categories == 3
    assert IntBox((0, 0), (3, 2)).num_categories is None  # different ranges
    assert IntBox().num_categories is None
    assert IntBox(256, shape=(2, 2), dtype="uint8").dtype == np.uint8
    assert FloatBox(1.0) == FloatBox(0.0, 1.0)
    assert FloatBox((4,)) == FloatBox(shape=(4,))
    assert FloatBox(shape=(4,)).unbounded
    assert FloatBox([0, 0], [1, 1]) == FloatBox(0, 1, shape=(2,))
    assert FloatBox(-1e39, 1e39) == FloatBox()  # no bounds of float32
    assert (FloatBox(shape=(4, 2)).rank, FloatBox(shape=(4, 2)).flat_dim, FloatBox().flat_dim) == (2, 8, 1)
    ranked = BoolBox((2,), add_batch_rank=True, add_time_rank=5, time_major=True)
    assert (ranked.has_batch_rank, ranked.has_time_rank, ranked.time_major) == (True, 5, True)
    assert ranked == BoolBox((2,))
    assert ranked.with_batch_rank(False).has_batch_rank is False
    assert ranked.has_batch_rank is True
    assert IntBox(dtype="uint8") != IntBox(256, dtype="uint8")  # without bounds there are no categories
    assert FloatBox.from_spec({"shape": (3,)}, low=0, high=2) == FloatBox(0, 2, (3,))
    assert refused(IntBox.from_spec, "float").argument == "IntBox.from_spec: spec"


@pytest.mark.parametrize(
    ("spec", "space"),
    [
        ("FloatBox((256,))", FloatBox(shape=(256,))),
        ("Tuple(IntBox(2, shape=(3,)), BoolBox())", Tuple(IntBox(2, shape=(3,)), BoolBox())),
        ({"type": {"type": "int", "high": 2, "low": 0}}, Dict({"type": IntBox(2)})),
        (gym_spaces.Discrete(3, start=1), IntBox(1, 4)),
        (gym_spaces.MultiDiscrete([28, 28], np.int8, start=[100, 100]), IntBox(100, 128, (2,))),
        (gym_spaces.Box(-(2**31), 2**31 - 1, (2,), np.int32), IntBox(shape=(2,))),  # no categories
        (gym_spaces.Box(np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32)), None),
        (gym_spaces.Dict(z=gym_spaces.Discrete(2), a=gym_spaces.MultiBinary(1)), Dict(a=BoolBox((1,)), z=IntBox(2))),
    ],
)
def test_specifications_make_spaces_that_json_and_text_keep(spec: Any, space: Space | None) -> None:
    made = space_of("x", spec)
    assert space is None or made == space
    assert Space.from_spec(json.loads(json.dumps(made.to_spec(), allow_nan=False))) == made
    if "inf" not in repr(made) and not isinstance(made, Dict):
        assert Space.from_spec(repr(made)) == made
    assert hash(made) == hash(Space.from_spec(made.to_spec()))


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: IntBox(0), "IntBox: high"),
        (Tuple, "Tuple: components"),
        (lambda: space_of("Agent: state_space", {"x": "flaot"}), "Agent: state_space['x']"),
        (lambda: space_of("s", gym_spaces.MultiDiscrete([2, 3])), "s"),
        (lambda: space_of("s", gym_spaces.Tuple([gym_spaces.Text(3)])), "s[0]"),
    ],
)
def test_wrong_spaces_are_refused(call: Any, argument: str) -> None:
    assert refused(call).argument == argument


def test_a_space_of_different_sizes_is_advised_by_its_numbers() -> None:
    error = refused(space_of, "s", gym_spaces.MultiDiscrete([2, 3], start=[0, 5]))
    assert str(error).endswith("its sizes differ; use Tuple((Discrete(2), Discrete(3, start=5)))")


def test_samples_are_of_the_space_and_leave_the_global_generator() -> None:
    before = str(np.random.get_state())  # noqa: NPY002
    mixed = FloatBox([-np.inf, 1.0, -np.inf, 2.0], [np.inf, np.inf, -1.0, 3.0])
    for space in (IntBox(2, 5, (3,)), FloatBox(-1, 2), BoolBox((2,)), mixed, NEST, IntBox()):
        assert space.contains(space.sample())
        assert space.contains(space.zeros()) == (space not in (IntBox(2, 5, (3,)), mixed))
    assert str(np.random.get_state()) == before  # noqa: NPY002
    rng = np.random.default_rng(0)
    assert FloatBox().sample(4, rng=rng).tolist() == (
        np.random.default_rng(0).standard_normal(4).astype(np.float32).tolist()
    )
    assert np.unique(IntBox(2, 5).sample(200, rng=rng)).tolist() == [2, 3, 4]
    assert np.shape(FloatBox(0, 1, (3,)).sample((4, 2))) == (4, 2, 3)
    assert type(IntBox(3).sample()) is np.int32
    assert type(FloatBox().zeros()) is np.float32
    drawn, again = (NEST.sample(2, rng=np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(drawn["b"][1], again["b"][1])
    assert drawn["b"][1].shape == (2, 2)


def test_contains_tells_type_shape_and_bounds() -> None:
    assert IntBox(4).contains(3)
    assert IntBox(4).contains(np.float64(3))  # whole
    assert not any(IntBox(4).contains(one) for one in (4, -1, 1.5, True, [1], "x", None))
    assert not any(FloatBox(0, 1).contains(one) for one in (1.1, np.nan, "x", False))
    assert FloatBox(0, 1).contains(1)
    floats = FloatBox(0.1, 0.7)  # float32(0.1) is above 0.1, and float32(0.7) below 0.7
    assert [floats.contains(one) for one in (0.1, 0.7, 0.7000001)] == [True, True, False]
    assert ActionsReader("A", floats)("observe", [0.1, 0.7])[0][""].tolist() == [np.float32(0.1), np.float32(0.7)]
    assert not FloatBox(shape=(2,)).contains([np.inf, 0])
    assert BoolBox().contains(1)
    assert not BoolBox().contains(2)
    assert NEST.contains({"a": {"c": True}, "b": (1, [0.0, 1.0])})
    assert not NEST.contains({"a": {"c": True}, "b": (1,)})
    assert not NEST.contains({"a": {"c": True}})


def test_nests_are_flat_by_names() -> None:
    value = {"b": (2, [0.5, 1.0]), "a": {"c": True}}
    assert NEST.flat() == {"a/c": BoolBox(), "b/0": IntBox(3), "b/1": FloatBox(shape=(2,))}
    assert NEST.flatten(value) == {"a/c": True, "b/0": 2, "b/1": [0.5, 1.0]}
    assert NEST.unflatten(NEST.flatten(value)) == value
    assert (NEST.shape, NEST.flat_dim) == ((((),), ((), (2,))), 4)
    assert FloatBox().flat() == {"": FloatBox()}
    batch = stacked(NEST, [value, {"a": {"c": False}, "b": (0, [0.0, 0.0])}])
    assert (batch["b"][0].tolist(), batch["b"][1].tolist()) == ([2, 0], [[0.5, 1.0], [0.0, 0.0]])
    assert FloatBox(shape=(2,)).force_batch([1.0, 2.0]).tolist() == [[1.0, 2.0]]
    assert FloatBox(shape=(2,)).force_batch([[1.0, 2.0]]).tolist() == [[1.0, 2.0]]
    ranked: Any = NEST.with_batch_rank()
    assert ranked["b"][0].has_batch_rank is True
    assert NEST["b"][0].has_batch_rank is False


@pytest.mark.parametrize(
    ("states", "argument"),
    [
        ({"a": {"c": True}}, "states"),
        ({"a": {"c": True}, "b": (3, [0, 0])}, "states['b/0']"),
        ({"a": {"c": [True]}, "b": (1, [0, 0])}, "states['b/0']"),
    ],
)
def test_wrong_states_of_parts_are_named(states: Any, argument: str) -> None:
    agent = RandomAgent(NEST, IntBox(2))
    assert agent.get_action({"a": {"c": [True, False]}, "b": ([1, 2], np.zeros((2, 2)))}).shape == (2,)
    assert refused(agent.get_action, states).argument == f"RandomAgent.get_action: {argument}"


def test_actions_come_out_as_they_go_in() -> None:
    shifted = IntBox(1, 4)
    read, out = ActionsReader("A", shifted), actions_out(shifted)
    arrays, single = read("observe", 3)
    assert (arrays[""].tolist(), single) == ([3], True)
    action = out(arrays, True)
    assert (type(action), action) == (np.int32, 3)
    assert out({"": np.array([1, 3])}, False).tolist() == [1, 3]
    value = {"a": {"c": np.True_}, "b": (np.int32(2), np.array([0.5, 1.0], np.float32))}
    arrays, single = ActionsReader("A", NEST)("observe", value)
    back = actions_out(NEST)(arrays, single)
    assert (back["a"]["c"], back["b"][0], back["b"][1].tolist()) == (True, 2, [0.5, 1.0])
    assert type(back["b"][0]) is np.int32
    back["b"][1][0] = 9.0
    assert arrays["b/1"].tolist() == [[0.5, 1.0]]
    assert ActionsReader("A", IntBox(2))("observe", np.int64(1))[0][""].tolist() == [1]
    with pytest.raises(RLGraphError, match=r"^A\.observe: actions must be integers, got 0\.5$"):
        ActionsReader("A", IntBox(2))("observe", 0.5)
    for space, wrong in ((IntBox(2), 2), (shifted, 0), (FloatBox(-1, 1), 1.5)):
        with pytest.raises(RLGraphError, match=r"A\.observe: actions must be"):
            ActionsReader("A", space)("observe", wrong)
