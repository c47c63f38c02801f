"""How a ``model_fn`` is called: with the arguments it names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..contracts import EstimatorSpec, ModelFn, RunConfig

REQUIRED = ("features", "labels", "mode")
OPTIONAL = ("params", "config", "model_dir")
EXPECTED = "model_fn(features, labels, mode[, params[, config[, model_dir]]])"


class BoundModelFn:
    """A ``model_fn`` with its ``params``, ``config`` and ``model_dir`` filled in, as far as it names them.

    Args:
        model_fn: the user's function.
        params: its hyperparameters, or None.
        config: the run's configuration with the spaces.
        model_dir: the run's directory.

    Raises:
        ValueError: the signature is not one of the contract's; names function and argument.
    """

    def __init__(
        self, model_fn: ModelFn, params: Mapping[str, Any] | None, config: RunConfig, model_dir: Path | None
    ) -> None:
        self._model_fn = model_fn
        self.name = describe(model_fn)
        names = check_signature(model_fn, params)
        given = {"params": {} if params is None else params, "config": config, "model_dir": model_dir}
        self._fixed = {name: given[name] for name in names if name in given}

    def __call__(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        """Call the user's function and check what it returns."""
        spec: object = self._model_fn(features=features, labels=labels, mode=mode, **self._fixed)
        if not isinstance(spec, EstimatorSpec):
            raise ValueError(f"{self.name} must return an EstimatorSpec; in mode {mode!r} it returned {spec!r:.200}")
        if spec.mode != mode:
            raise ValueError(f"{self.name} was called in mode {mode!r} and returned a spec of mode {spec.mode!r}")
        return spec


def check_signature(model_fn: ModelFn, params: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Names of the contract's arguments that ``model_fn`` takes.

    Raises:
        ValueError: it is not callable, lacks an argument, requires one that the contract has not, or takes no
            ``params`` although some were given.
    """
    name = describe(model_fn)
    if not callable(model_fn):
        raise ValueError(f"model_fn must be a function {EXPECTED}, got {model_fn!r}")
    parameters = inspect.signature(model_fn).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for argument in REQUIRED:
        if argument not in parameters and not takes_any:
            raise ValueError(f"{name} has no argument {argument!r}; expected {EXPECTED}")
    for argument, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ValueError(f"{name}: argument {argument!r} is positional-only, but arguments are passed by name")
        if argument not in (*REQUIRED, *OPTIONAL) and parameter.default is parameter.empty:
            raise ValueError(f"{name} requires an argument {argument!r} that nobody passes; expected {EXPECTED}")
    if params is not None and "params" not in parameters and not takes_any:
        raise ValueError(f"{name} takes no argument 'params', but params were given: {sorted(params)}")
    return tuple(n for n in (*REQUIRED, *OPTIONAL) if n in parameters or takes_any)


def describe(model_fn: Any) -> str:
    """``module.name`` of a function, for messages."""
    while hasattr(model_fn, "func"):  # functools.partial
        model_fn = model_fn.func
    name = getattr(model_fn, "__qualname__", type(model_fn).__qualname__)
    return f"{getattr(model_fn, '__module__', '?')}.{name}"
