from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.core.protocols import ArraySpec, EstimatorSpec, Modes
from axonrl.runtimes.litert.conversion import ConversionError, convert
from axonrl.runtimes.tracing.program import Program, Train
from axonrl.runtimes.trial import Trial
from axonrl.tests.raising import raised

Make = Callable[..., Any]


def model(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
    weight = tf.Variable(1.0, name="weight")
    if mode == Modes.PREDICT:
        action = tf.gather([3, 4], tf.cast(features[:, 0] < 2, tf.int32))
        return EstimatorSpec(mode, {"action": action, "value": weight * features[:, 1] + params.get("bias", 0.0)})
    loss = tf.reduce_mean(weight * features * params.get("factor", 1.0))
    weight.assign_sub(params.get("rate", 0.5))
    action = labels["action"] - params.get("start", 0)
    chosen = tf.gather(features, action, axis=1, batch_dims=1)
    return EstimatorSpec(mode, loss=loss, metrics={"chosen": tf.reduce_mean(chosen) + params.get("offset", 0.0)})


def try_out(program: Program, train: Train | None, content: bytes) -> None:
    trial = Trial(program, train)
    trial.compare(content, trial.expected())


@pytest.fixture(scope="module")
def made(trace: Make, batch_specs: Make) -> Callable[..., tuple[Program, Train, bytes]]:
    """``made(**params)`` returns what was traced with these, and what it was converted to."""
    kept: dict[str, tuple[Program, Train, bytes]] = {}

    def make(**params: Any) -> tuple[Program, Train, bytes]:
        if repr(params) not in kept:
            program = trace(model, params=params)
            train = program.trace_train(batch_specs(6))
            functions = {"act": program.predict.function, "train": train.function}
            kept[repr(params)] = program, train, convert(functions, list(program.store.variables().values()))
        return kept[repr(params)]

    return make


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": 1.0}, r"predictions\['value'\] is 1\.\d+ instead of 0\.\d+"),
        ({"offset": 1.0}, r"chosen is 1\.\d+ instead of 0\.\d+"),
        ({"rate": 0.25}, r"loss is 0\.\d+ instead of 0\.\d+"),  # seen in the second update
        ({"bias": float("nan")}, r"predictions\['value'\] is nan instead of 0\.\d+"),
    ],
)
def test_a_conversion_that_computes_something_else_is_caught(change: Any, message: str, made: Make) -> None:
    program, train, _ = made()
    (variable,) = program.store.variables().values()
    variable.assign(1.0)
    caught = raised(ConversionError, try_out, program, train, made(**change)[2], match=f"^{message}$")
    assert caught.code == "differs"
    assert variable.numpy() == 1


def test_images_are_not_black(trace: Make) -> None:
    def scaling(by: float) -> Any:
        def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
            q = tf.cast(features, tf.float32) * by
            return EstimatorSpec(mode, {"action": tf.argmax(q, -1), "q": q})

        return trace(model_fn, observation=ArraySpec((4,), np.uint8))

    program = scaling(1.0)
    content = convert({"act": scaling(-7.0).predict.function}, [])
    raised(ConversionError, try_out, program, None, content, match=r"predictions\['q'\] is")


def test_where_tensorflow_refuses_bytes_zeros_are_tried(trace: Make) -> None:
    """Three kinds of tiles, embedded."""

    def embedding(by: float) -> Any:
        def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
            q = tf.gather(tf.constant([[1.0], [2.0], [3.0]]), tf.cast(features, tf.int32)) * by
            return EstimatorSpec(mode, {"action": tf.zeros_like(features[:, 0], tf.int32), "q": q})

        return trace(model_fn, observation=ArraySpec((4,), np.uint8))

    program = embedding(1.0)
    try_out(program, None, convert({"act": program.predict.function}, []))
    with pytest.raises(ConversionError, match=r"predictions\['q'\] is 2 instead of 1"):
        try_out(program, None, convert({"act": embedding(2.0).predict.function}, []))


def test_what_tensorflow_itself_refuses_shows_nothing(made: Make) -> None:
    """The made-up action 0 is none of those of an action space that begins at 1."""
    program, train, content = made(start=1)
    (variable,) = program.store.variables().values()
    try_out(program, train, content)
    assert variable.numpy() == 1
    with pytest.raises(tf.errors.OpError):
        train.function(*tf.nest.map_structure(tf.zeros_like, _inputs(train)))


def test_what_only_litert_refuses_is_caught(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    program, train, content = made()
    monkeypatch.setattr("axonrl.policies.lite_executor.LiteRTExecutor.act", _refuse)
    with pytest.raises(ConversionError, match=r"^LiteRT cannot run the converted program: no$"):
        try_out(program, train, content)


def _refuse(*arguments: Any) -> None:
    raise RuntimeError("no")


def _inputs(train: Train) -> Any:
    return tf.nest.map_structure(
        lambda spec: np.zeros(spec.shape, spec.dtype.as_numpy_dtype), train.function.structured_input_signature[0]
    )
