"""Models with recurrent state: declared by a call without it, carried by calls with it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.core.protocols import ArraySpec, EstimatorSpec
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.tests.runtimes.networks import Make


def test_dict_observations_stand_beside_the_state(trace: Make) -> None:
    seen: list[Any] = []

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        seen.append(features)
        observation = features.get("observation", features)
        count = features["state"]["count"] + 1 if "state" in features else tf.zeros_like(observation["a"])
        return EstimatorSpec(mode, {"action": observation["b"] + count}, state={"count": count})

    program = trace(model_fn, observation={name: ArraySpec((), np.float32) for name in ("a", "b")})
    assert [set(features) for features in seen] == [{"a", "b"}, {"observation", "state"}]
    one = np.ones(2, np.float32)
    predictions, state = TensorFlowExecutor(program).act(
        {"observation": {"a": one, "b": 5 * one}, "state": {"count": 3 * one}}
    )
    assert predictions["action"].tolist() == [9, 9]
    assert state is not None
    assert state["count"].tolist() == [4, 4]


def test_what_the_declaring_call_creates_is_forgotten(trace: Make) -> None:
    """It may return before the network is built, and be random."""
    calls: list[int] = []

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        calls.append(1)
        if not isinstance(features, dict):
            tf.Variable(0.0, name="declaring")
            return EstimatorSpec(mode, {}, state={"h": tf.zeros([tf.shape(features)[0], 3])})
        weight = tf.Variable(tf.random.normal([4, 3]), name="weight")
        h = features["state"]["h"] + features["observation"] @ weight
        return EstimatorSpec(mode, {"action": tf.argmax(h, -1)}, state={"h": h})

    assert list(trace(model_fn).store.variables()) == ["0000.weight"]
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("following", "message"),
    [
        (lambda h: None, "it returned {}"),
        (lambda h: {"h": h[:, :2]}, "it returned {'h': ArraySpec(shape=(2,), dtype=dtype('float32'))}"),
    ],
)
def test_a_wrong_next_state_is_refused(following: Make, message: str, trace: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        if not isinstance(features, dict):
            h = tf.zeros([tf.shape(features)[0], 3])
            return EstimatorSpec(mode, {"action": h[:, 0]}, state={"h": h})
        return EstimatorSpec(mode, {"action": features["observation"][:, 0]}, state=following(features["state"]["h"]))

    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        trace(model_fn)
    declared = "{'h': ArraySpec(shape=(3,), dtype=dtype('float32'))}"
    assert f"it must return the next state, as declared: {declared}; " in str(caught.value)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (lambda x: {"h": tf.zeros([1, 3])}, "state['h'] must have shape [B, ...]"),
        (lambda x: {"h": None}, "state['h'] must be a tensor, got None"),
        (lambda x: [x], "state must be a mapping of names to tensors"),
    ],
)
def test_a_declaration_that_is_none_is_refused(state: Make, message: str, trace: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return EstimatorSpec(mode, {"action": features[:, 0]}, state=state(features))

    with pytest.raises(ValueError, match=re.escape(message)):
        trace(model_fn)
