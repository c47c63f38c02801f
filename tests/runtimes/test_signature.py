"""With which arguments a model_fn is called, and what is said about one that cannot be."""

import functools
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.core.protocols import EstimatorSpec, Modes, RunConfig
from axonrl.errors import ArgumentError
from axonrl.runtimes.tracing.signature import EXPECTED, BoundModelFn, Labels, check_signature, describe
from axonrl.tests.raising import raised

CONFIG = RunConfig(seed=7)
FOLDER = Path("somewhere")


def spec_of(**arguments: Any) -> EstimatorSpec:
    """A spec whose predictions are the arguments that a model_fn received."""
    return EstimatorSpec(arguments["mode"], predictions=arguments)


def received(model_fn: Any, params: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    predictions = BoundModelFn(model_fn, params, CONFIG, FOLDER)("f", None, Modes.PREDICT).predictions
    assert predictions is not None
    return predictions


def three(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    return spec_of(features=features, labels=labels, mode=mode)


def four(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
    return spec_of(features=features, labels=labels, mode=mode, params=params)


def six(features: Any, labels: Any, mode: str, params: Any, config: Any, model_dir: Any) -> EstimatorSpec:
    return spec_of(features=features, labels=labels, mode=mode, params=params, config=config, model_dir=model_dir)


def keyword_only(*, mode: str, config: Any, labels: Any, features: Any) -> EstimatorSpec:
    return spec_of(features=features, labels=labels, mode=mode, config=config)


def anything(**arguments: Any) -> EstimatorSpec:
    return spec_of(**arguments)


def with_defaults(features: Any, labels: Any, mode: str, params: Any = "own", units: int = 3) -> EstimatorSpec:
    return spec_of(features=features, labels=labels, mode=mode, params=params, units=units)


class Model:
    def __call__(self, features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
        return spec_of(features=features, labels=labels, mode=mode, params=params)

    def method(self, features: Any, labels: Any, mode: str, model_dir: Any) -> EstimatorSpec:
        return spec_of(features=features, labels=labels, mode=mode, model_dir=model_dir)


ALWAYS = {"features": "f", "labels": None, "mode": "predict"}


@pytest.mark.parametrize(
    ("model_fn", "more"),
    [
        (three, {}),
        (six, {"params": {}, "config": CONFIG, "model_dir": FOLDER}),
        (keyword_only, {"config": CONFIG}),
        (anything, {"params": {}, "config": CONFIG, "model_dir": FOLDER}),
        (Model().method, {"model_dir": FOLDER}),
        (functools.partial(anything, config="filled in"), {"params": {}, "config": "filled in", "model_dir": FOLDER}),
        (functools.partial(with_defaults, units=5), {"params": "own", "units": 5}),
    ],
)
def test_a_function_gets_the_arguments_it_names(model_fn: Any, more: dict[str, Any]) -> None:
    assert received(model_fn) == {**ALWAYS, **more}


@pytest.mark.parametrize("model_fn", [with_defaults, Model()])
def test_params_given_are_passed(model_fn: Any) -> None:
    assert received(model_fn, {"units": 8})["params"] == {"units": 8}


def test_what_a_call_takes_out_of_params_is_there_at_the_next() -> None:
    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
        return EstimatorSpec(mode, predictions={"units": params.pop("units"), "last": params["hidden"].pop()})

    given = {"units": 8, "hidden": [4, 2]}
    bound = BoundModelFn(model_fn, given, CONFIG, None)
    assert [bound("f", None, Modes.PREDICT).predictions for _ in range(2)] == [{"units": 8, "last": 2}] * 2
    assert given == {"units": 8, "hidden": [4, 2]}


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"learning_rate": 0.1, "units": 8}, "lr", "(did you mean 'learning_rate'?); it has learning_rate, units"),
        ({"units": 8}, "unit", "params has no 'unit' (did you mean 'units'?); it has units"),
        (None, "units", "params has no 'units'; it has nothing"),
    ],
)
def test_a_param_that_is_missing_is_named_with_those_that_there_are(given: Any, key: str, message: str) -> None:
    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
        return EstimatorSpec(mode, predictions={"value": params[key]})

    error = raised(KeyError, received, model_fn, given, match=re.escape(message))
    assert isinstance(error, ArgumentError)
    assert (error.argument, error.value) == ("params", key)


def test_params_are_no_attributes() -> None:
    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
        return EstimatorSpec(mode, predictions={"value": params.units})

    assert raised(AttributeError, received, model_fn, {"units": 8}, match=r"write params\['units'\]").name == "units"


def no_labels(features: Any, mode: str) -> None: ...
def one_too_many(features: Any, labels: Any, mode: str, units: int) -> None: ...
def positional_only(features: Any, labels: Any, mode: str, /) -> None: ...


HERE = __name__


@pytest.mark.parametrize(
    ("model_fn", "message"),
    [
        (no_labels, f"{HERE}.no_labels lacks the argument 'labels'; expected {EXPECTED}"),
        (one_too_many, f"{HERE}.one_too_many requires an unknown argument 'units'; expected {EXPECTED}"),
        (positional_only, f"{HERE}.positional_only: argument 'features' is positional-only"),
        (functools.partial(three, None), f"{HERE}.three lacks the argument 'features'"),
        ("dqn", f"model_fn must be a function {EXPECTED}, got 'dqn'"),
    ],
)
def test_a_signature_that_does_not_fit_is_refused_by_function_and_argument(model_fn: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        check_signature(model_fn)


def test_a_function_whose_signature_python_cannot_read_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^builtins\.dict has no readable signature"):
        check_signature(dict)  # type: ignore[arg-type]


@pytest.mark.parametrize("model_fn", [three, functools.partial(four, params={})])
def test_params_are_refused_by_a_function_that_takes_none(model_fn: Callable[..., Any]) -> None:
    name = re.escape(describe(model_fn))
    with pytest.raises(ValueError, match=f"^{name} takes no argument 'params', but params were given: units, rate$"):
        BoundModelFn(model_fn, {"units": 8, "rate": 0.1}, CONFIG, None)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ((1, 2), "must return an EstimatorSpec; in mode 'predict' it returned (1, 2)"),
        (EstimatorSpec(Modes.TRAIN, loss=1), "was called in mode 'predict' and returned a spec of mode 'train'"),
    ],
)
def test_what_is_no_spec_of_the_mode_is_refused(returned: Any, message: str) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        return returned

    with pytest.raises(ValueError, match=re.escape(f"{describe(model_fn)} {message}")):
        BoundModelFn(model_fn, None, CONFIG, None)("f", None, Modes.PREDICT)


@pytest.mark.parametrize(
    ("model_fn", "name"),
    [(functools.partial(functools.partial(three)), "three"), (Model(), "Model"), (Model().method, "Model.method")],
)
def test_functions_are_named_by_module_and_name(model_fn: Any, name: str) -> None:
    assert describe(model_fn) == f"{HERE}.{name}"


def test_labels_that_do_not_exist_are_refused_with_those_that_do() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return spec_of(mode=mode, reward=labels["rewards"])

    with pytest.raises(ArgumentError) as caught:
        BoundModelFn(model_fn, None, CONFIG, FOLDER)("f", {"reward": 1, "action": 2}, Modes.TRAIN)
    assert (caught.value.argument, caught.value.value) == ("labels", "rewards")
    assert str(caught.value) == "labels has no 'rewards' (did you mean 'reward'?); it has action, reward"
    with pytest.raises(ArgumentError, match="did you mean 'terminated'"):
        Labels(terminated=0)["done"]


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.numpy(),
        lambda x: x[0].item(),
        lambda x: float(x[0]),
        lambda x: int(x[0]),
        lambda x: round(math.sqrt(x[0])),
        lambda x: range(tf.shape(x)[0]),
        lambda x: 1 if x[0] > 0 else 2,
        list,
        lambda x: f"{x[0]:.3f}",
        np.tanh,
        lambda x: tf.Variable(x).numpy(),
    ],
)
def test_the_value_of_a_traced_tensor_is_not_there(read: Callable[[Any], Any]) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return spec_of(mode=mode, seen=read(features))

    def call(features: Any) -> Any:
        return BoundModelFn(model_fn, None, CONFIG, FOLDER)(features, None, Modes.PREDICT)

    with pytest.raises(ValueError, match=r"model_fn reads the value of a tensor \(\.numpy\(\), .*which has none"):
        tf.function(call, autograph=False)(tf.zeros(2))


@pytest.mark.parametrize("wrong", [lambda x: x.shpae, lambda x: x["position"]])
def test_other_errors_of_a_model_fn_are_its_own(wrong: Callable[[Any], Any]) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return spec_of(mode=mode, seen=wrong(features))

    def call(features: Any) -> Any:
        return BoundModelFn(model_fn, None, CONFIG, FOLDER)(features, None, Modes.PREDICT)

    with pytest.raises((AttributeError, TypeError)):
        tf.function(call, autograph=False)(tf.zeros(2))


def test_keras_models_and_tf_functions_are_no_model_fn() -> None:
    with pytest.raises(ArgumentError, match="got a Keras model or layer"):
        check_signature(keras.Sequential())
    with pytest.raises(ArgumentError, match=r"got a tf\.function \(.*spec_of\)"):
        check_signature(tf.function(spec_of))
