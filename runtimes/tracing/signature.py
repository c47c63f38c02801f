"""Calls of a ``model_fn``, with the arguments that it names."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ...core.checks import FLOAT32_MAX, did_you_mean
from ...core.errors import ArgumentError, MissingKeyError
from ...core.protocols import EstimatorSpec, ModelFn, RunConfig
from ...core.trees import copied

REQUIRED = ("features", "labels", "mode")
OPTIONAL = ("params", "config", "model_dir")
EXPECTED = "model_fn(features, labels, mode[, params[, config[, model_dir]]])"
_NEEDS_VALUE = re.compile(
    r"not '?SymbolicTensor|'SymbolicTensor' object cannot be|SymbolicTensor\.__format__"
    r"|symbolic tf\.Tensor .* to a numpy|^numpy\(\)"
)
"""Messages of Python, NumPy and TensorFlow where a value is needed."""


class BoundModelFn:
    """A ``model_fn`` bound to those of ``params``, ``config`` and ``model_dir`` that it names.

    Args:
        model_fn: the user's function.
        params: its hyperparameters. None: the function's default for ``params``, else an empty dict.
        config: the run's configuration, with the spaces.
        model_dir: the run's directory.

    Raises:
        ValueError: the signature is invalid; names function and argument.
    """

    def __init__(
        self, model_fn: ModelFn, params: Mapping[str, Any] | None, config: RunConfig, model_dir: Path | None
    ) -> None:
        self._model_fn = model_fn
        self.name = describe(model_fn)
        names = check_signature(model_fn, params)
        self.spaces = config.observation_space, config.action_space
        """Spaces of one environment; None if unknown."""
        given: dict[str, Any] = {"params": params or {}, "config": config, "model_dir": model_dir}
        self._fixed = {name: given[name] for name in names if name in given}
        self.numbers = numbers_of(params)
        """Numbers of ``params``, which may be inputs of TRAIN."""

    def __call__(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        """Call the user's function and check its result.

        Raises:
            ValueError: it does not return an EstimatorSpec of this mode.
        """
        fixed = dict(self._fixed)
        if "params" in fixed:
            # A copy, as the function is called once for each mode and may modify it.
            fixed["params"] = Hyperparameters(copied(dict(fixed["params"])))
        if labels is not None:
            labels = Labels(labels)
        try:
            spec: object = self._model_fn(features=features, labels=labels, mode=mode, **fixed)
        except (AttributeError, NotImplementedError, TypeError) as error:
            if not _reads_value(error):
                raise
            raise ValueError(
                f"{self.name} reads the value of a tensor (.numpy(), float(), if, for or NumPy), which has none during"
                " tracing. Compute with TensorFlow ops; return values to observe as EstimatorSpec(metrics={...})"
            ) from error
        if not isinstance(spec, EstimatorSpec):
            raise ValueError(f"{self.name} must return an EstimatorSpec; in mode {mode!r} it returned {spec!r:.200}")
        if spec.mode != mode:
            raise ValueError(f"{self.name} was called in mode {mode!r} and returned a spec of mode {spec.mode!r}")
        return spec


def _reads_value(error: Exception) -> bool:
    """Whether the function failed because Python or NumPy needed the value of a symbolic tensor or a variable."""
    if isinstance(error, AttributeError):
        return error.name in ("numpy", "item")
    # TensorFlow's OperatorNotAllowedInGraphError is a TypeError; NumPy's conversion is not implemented.
    return type(error).__name__ == "OperatorNotAllowedInGraphError" or _NEEDS_VALUE.search(str(error)) is not None


class _Named(dict[str, Any]):
    """A mapping whose errors for missing names suggest the nearest, and list all."""

    what = ""
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Names in other libraries, mapped to ours."""

    def __missing__(self, key: str) -> Any:
        listed = ", ".join(sorted(map(str, self))) or "nothing"
        meant = self.elsewhere.get(key, key)
        message = f"{self.what} has no {key!r}{did_you_mean(meant, self)}; it has {listed}"
        raise MissingKeyError(message, self.what, key)

    def __getattr__(self, name: str) -> Any:
        message = f"{self.what} is a mapping, which has no attribute {name!r}: write {self.what}[{name!r}]"
        raise AttributeError(message, name=name, obj=self)


class Labels(_Named):
    """The labels of a batch."""

    what = "labels"
    elsewhere: ClassVar[Mapping[str, str]] = {"done": "terminated", "dones": "terminated"}


class Hyperparameters(_Named):
    """The params of an Agent."""

    what = "params"


def check_signature(model_fn: ModelFn, params: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Names of the arguments that ``model_fn`` takes.

    Arguments bound by a ``functools.partial`` are kept.

    Raises:
        ValueError: it is not callable, lacks an argument, requires an unknown one, or takes no ``params`` although
            some were given.
    """
    if not callable(model_fn):
        raise ValueError(f"model_fn must be a function {EXPECTED}, got {model_fn!r}")
    name = describe(model_fn)
    if hasattr(model_fn, "trainable_variables"):
        raise ArgumentError(
            f"model_fn must be a function {EXPECTED}, got a Keras model or layer ({name}): build it inside a model_fn",
            "model_fn",
            model_fn,
        )
    if hasattr(model_fn, "get_concrete_function"):
        message = f"model_fn must be a plain function, got a tf.function ({name}): leave it out, as axonrl traces it"
        raise ArgumentError(message, "model_fn", model_fn)
    try:
        parameters = dict(inspect.signature(model_fn).parameters)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} has no readable signature ({error}); expected {EXPECTED}") from error
    filled = model_fn.keywords if isinstance(model_fn, functools.partial) else {}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    takes = {n for n in (*REQUIRED, *OPTIONAL) if (n in parameters or takes_any) and n not in filled}
    for argument in REQUIRED:
        if argument not in takes:
            raise ValueError(f"{name} lacks the argument {argument!r}; expected {EXPECTED}")
    for argument, parameter in parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ValueError(f"{name}: argument {argument!r} is positional-only, but arguments are passed by name")
        variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        if not variadic and parameter.default is parameter.empty and argument not in takes:
            raise ValueError(f"{name} requires an unknown argument {argument!r}; expected {EXPECTED}")
    if params is not None and "params" not in takes:
        raise ValueError(f"{name} takes no argument 'params', but params were given: {', '.join(map(str, params))}")
    if params is None and "params" in parameters and parameters["params"].default is not inspect.Parameter.empty:
        takes.discard("params")
    return tuple(n for n in (*REQUIRED, *OPTIONAL) if n in takes)


def numbers_of(params: Mapping[str, Any] | None) -> dict[str, float]:
    """Finite numbers among params, by name, in TensorFlow's order."""
    found = {} if params is None else {name: value for name, value in params.items() if _is_number(value)}
    return {name: float(found[name]) for name in sorted(found)}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= FLOAT32_MAX


def describe(model_fn: Any) -> str:
    """``module.name`` of a function, for messages."""
    while isinstance(model_fn, functools.partial):
        model_fn = model_fn.func
    named = model_fn if hasattr(model_fn, "__qualname__") else type(model_fn)  # a callable object
    return f"{named.__module__}.{named.__qualname__}"
