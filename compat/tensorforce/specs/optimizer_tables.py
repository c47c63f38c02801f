"""The optimizers of policies and baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ....core.checks import shortened
from ...common.specs.argument_checks import flag, keyword_arguments, one_of, or_none
from ...common.specs.module_specs import merge, parse_spec
from ...common.specs.tables import ABSENT, Argument, Check, Entry
from ..spaces.errors import refuse, refuse_unknown
from .table_checks import IGNORED, SpecTable, fed_argument, integer, parameter, real

_MOMENTS: Final = ("beta_1", "beta_2", "epsilon")
_REGULARIZATION: Final = (
    *("l1_regularization_strength", "l2_regularization_strength"),
    "l2_shrinkage_regularization_strength",
)
KERAS_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "adadelta": ("rho", "epsilon"),
    "adagrad": ("initial_accumulator_value", "epsilon"),
    "adam": (*_MOMENTS, "amsgrad"),
    "adamax": _MOMENTS,
    "adamw": (*_MOMENTS, "weight_decay", "amsgrad"),
    "ftrl": ("learning_rate_power", "initial_accumulator_value", *_REGULARIZATION, "beta"),
    "nadam": _MOMENTS,
    "rmsprop": ("rho", "momentum", "epsilon", "centered"),
    "sgd": ("momentum", "nesterov"),
}
"""Optimizers of Keras, and the arguments of each besides its learning rate."""
_CHECKS: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("amsgrad", "centered", "nesterov"), flag),
    "learning_rate_power": real(at_most=0),
    "rho": real(at_least=0, at_most=1),
}
"""Checks by argument; others are numbers of at least 0."""


def _keras_optimizer(names: Sequence[str]) -> Entry:
    own = keyword_arguments({name: _CHECKS.get(name, real(at_least=0)) for name in names})
    clipping = fed_argument("gradient_norm_clipping", 1.0, parameter(above=0))
    return Entry((fed_argument("learning_rate", 3e-4, parameter(at_least=0)), clipping, *own))


def _rewrite(where: str, name: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Replace ``tf_optimizer`` by the optimizer it names; separate the arguments of ``wrapper`` and its optimizer."""
    if name == "tf_optimizer" and "optimizer" in given:
        kind = one_of(*KERAS_ARGUMENTS)(f"{where}['optimizer']", given["optimizer"])
        return kind, {key: value for key, value in given.items() if key != "optimizer"}
    return (name, _wrapper_arguments(where, given)) if name == "wrapper" else (name, given)


def _wrapper_arguments(where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A wrapper's arguments; those that are not its own go to its optimizer."""
    if "optimizer" not in given:
        refuse(f"{where}['optimizer']", f"is missing: an optimizer without type needs it; got {shortened(given)}", None)
    name, arguments = parse_spec(f"{where}['optimizer']", given["optimizer"], OPTIMIZERS)
    entry, own = OPTIMIZERS.entries[name], OPTIMIZERS.entries["wrapper"].names
    extra = {key: value for key, value in given.items() if key not in own}
    if not entry.open:
        refuse_unknown(where, extra, [*own, *entry.names, *OPTIMIZERS.ignored])
    inner = {"type": name, **merge(where, arguments, extra)}
    return {**{key: value for key, value in given.items() if key in own}, "optimizer": inner}


def _unwrap(_: str, values: dict[str, Any]) -> dict[str, Any]:
    """A wrapper's optimizer, inside the modifiers given by its other arguments."""
    optimizer: dict[str, Any] = values["optimizer"]

    def around(name: str, **arguments: Any) -> dict[str, Any]:
        return _complete(OPTIMIZERS.entries[name], {"type": name, "optimizer": optimizer, **arguments})

    if values["optimizing_iterations"] > 0:
        optimizer = around("optimizing_step", ls_max_iterations=values["optimizing_iterations"])
    if values["clipping_threshold"] is not None:
        optimizer = around("clipping_step", threshold=values["clipping_threshold"])
    if values["subsampling_fraction"] < 1.0:
        optimizer = around("subsampling_step", fraction=values["subsampling_fraction"])
    if values["multi_step"] > 1:
        optimizer = around("multi_step", num_steps=values["multi_step"])
    return optimizer


def _complete(entry: Entry, values: dict[str, Any]) -> dict[str, Any]:
    """Add the defaults of missing arguments, in the entry's order."""
    defaults = {argument.name: argument.default for argument in entry.arguments if argument.default is not ABSENT}
    return {"type": values["type"], **defaults, **values}


_INNER: Final = Argument("optimizer", module="optimizer")
OPTIMIZERS: Final = SpecTable(
    "optimizer",
    {
        **{name: _keras_optimizer(names) for name, names in KERAS_ARGUMENTS.items()},
        "multi_step": Entry((_INNER, Argument("num_steps", check=integer(1)))),
        "subsampling_step": Entry((_INNER, Argument("fraction", check=real(above=0, at_most=1)))),
        "clipping_step": Entry(
            (
                _INNER,
                Argument("threshold", check=parameter(above=0), fed=True),
                Argument("mode", "global_norm", one_of("global_norm", "norm", "value")),
            )
        ),
        "optimizing_step": Entry(
            (
                _INNER,
                Argument("ls_max_iterations", 10, integer(1)),
                fed_argument("ls_accept_ratio", 0.9, parameter(at_least=0, at_most=1)),
                Argument("ls_mode", "exponential", one_of("exponential", "linear")),
                fed_argument("ls_parameter", 0.5, parameter(above=0, at_most=1)),
            )
        ),
        "natural_gradient": Entry(
            (
                Argument("learning_rate", check=parameter(at_least=0), fed=True),
                Argument("cg_max_iterations", 10, integer(1)),
                fed_argument("cg_damping", 1e-3, parameter(at_least=0)),
            )
        ),
        "evolutionary": Entry(
            (
                Argument("learning_rate", check=parameter(at_least=0), fed=True),
                Argument("num_samples", 1, integer(1)),
            )
        ),
        "plus": Entry((Argument("optimizer1", module="optimizer"), Argument("optimizer2", module="optimizer"))),
        "tf_optimizer": Entry(
            (Argument("optimizer", check=one_of(*KERAS_ARGUMENTS)),), open=True, classes=("TFOptimizer",)
        ),
        "wrapper": Entry(
            (
                _INNER,
                Argument("multi_step", 1, integer(1)),
                Argument("subsampling_fraction", 1.0, real(above=0, at_most=1)),
                Argument("clipping_threshold", None, or_none(parameter(above=0))),
                Argument("optimizing_iterations", 0, integer(0)),
            ),
            open=True,
            finish=_unwrap,
            classes=("OptimizerWrapper",),
        ),
    },
    default="wrapper",
    refused={
        "synchronization": "it copies the policy to a baseline: pass it as baseline_optimizer",
        "global_optimizer": "there is no replacement: agents share no weights here",
        "lazyadam": "use adam",
        "lookahead": "use adam",
        "moving_average": "use adam",
        "radam": "use adam",
        "ranger": "use adam",
        "sgdw": "use sgd, or adamw",
        "decoupled_weight_decay": "use adamw",
    },
    ignored={**IGNORED, **dict.fromkeys(("unroll_loop", "cg_unroll_loop", "ls_unroll_loop"), False)},
    rewrite=_rewrite,
)
"""Optimizers of policies. ``wrapper`` and ``tf_optimizer`` are replaced by others."""

_SYNCHRONIZATION: Final = Entry(
    (
        fed_argument("sync_frequency", 1, parameter(at_least=1, is_whole=True)),
        fed_argument("update_weight", 1.0, parameter(at_least=0, at_most=1)),
    )
)
BASELINE_OPTIMIZERS: Final = SpecTable(
    "baseline optimizer",
    {**OPTIMIZERS.entries, "synchronization": _SYNCHRONIZATION},
    default="wrapper",
    refused={name: instead for name, instead in OPTIMIZERS.refused.items() if name != "synchronization"},
    ignored=OPTIMIZERS.ignored,
    rewrite=_rewrite,
)
