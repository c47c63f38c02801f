"""The optimizers that a policy or a baseline may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .opening import Argument, Check, Entry, Room
from .room_checks import IGNORED, fed, flag, keyword_arguments, one_of, or_none, parameter, real, whole

KERAS_ARGUMENTS: Final[Mapping[str, Mapping[str, Check]]] = {
    "adadelta": {"rho": real(at_least=0, at_most=1), "epsilon": real(at_least=0)},
    "adagrad": {"initial_accumulator_value": real(at_least=0), "epsilon": real(at_least=0)},
    "adam": {"amsgrad": flag},
    "adamax": {},
    "adamw": {"weight_decay": real(at_least=0), "amsgrad": flag},
    "ftrl": {
        "learning_rate_power": real(at_most=0),
        "initial_accumulator_value": real(at_least=0),
        "l1_regularization_strength": real(at_least=0),
        "l2_regularization_strength": real(at_least=0),
        "l2_shrinkage_regularization_strength": real(at_least=0),
        "beta": real(at_least=0),
    },
    "nadam": {},
    "rmsprop": {
        "rho": real(at_least=0, at_most=1),
        "momentum": real(at_least=0),
        "epsilon": real(at_least=0),
        "centered": flag,
    },
    "sgd": {"momentum": real(at_least=0), "nesterov": flag},
}
"""Optimizers of Keras, and the arguments that each takes beside its learning rate."""
_MOMENTS: Final = {"beta_1": real(at_least=0), "beta_2": real(at_least=0), "epsilon": real(at_least=0)}


def _keras_optimizer(name: str, checks: Mapping[str, Check]) -> Entry:
    own = {**_MOMENTS, **checks} if name in {"adam", "adamax", "adamw", "nadam"} else checks
    clipping = fed("gradient_norm_clipping", 1.0, parameter(above=0))
    return Entry((fed("learning_rate", 3e-4, parameter(at_least=0)), clipping, *keyword_arguments(own)))


_INNER: Final = Argument("optimizer", room="optimizer")
_NONE: Final = "it has no replacement"
OPTIMIZERS: Final = Room(
    "optimizer",
    {
        **{name: _keras_optimizer(name, checks) for name, checks in KERAS_ARGUMENTS.items()},
        "multi_step": Entry((_INNER, Argument("num_steps", check=whole(1)))),
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
                Argument("ls_max_iterations", 10, whole(1)),
                fed("ls_accept_ratio", 0.9, parameter(at_least=0)),
                Argument("ls_mode", "exponential", one_of("exponential", "linear")),
                fed("ls_parameter", 0.5, parameter(above=0)),
            )
        ),
        "natural_gradient": Entry(
            (
                Argument("learning_rate", check=parameter(at_least=0), fed=True),
                Argument("cg_max_iterations", 10, whole(1)),
                fed("cg_damping", 1e-3, parameter(at_least=0)),
            )
        ),
        "tf_optimizer": Entry((Argument("optimizer", check=one_of(*KERAS_ARGUMENTS)),), open=True),
        "wrapper": Entry(
            (
                _INNER,
                Argument("multi_step", 1, whole(1)),
                Argument("subsampling_fraction", 1.0, real(above=0, at_most=1)),
                Argument("clipping_threshold", None, or_none(parameter(above=0))),
                Argument("optimizing_iterations", 0, whole(0)),
            ),
            open=True,
            classes=("OptimizerWrapper",),
        ),
    },
    default="wrapper",
    refused={
        "synchronization": "it is for baselines, which it copies the policy to: give it as baseline_optimizer",
        "evolutionary": f"{_NONE}; the nearest is multi_step",
        "global_optimizer": f"{_NONE}: agents share nothing here",
        "plus": f"{_NONE}; use one of the two optimizers",
        "lazyadam": "use adam",
        "lookahead": "use adam",
        "moving_average": "use adam",
        "radam": "use adam",
        "ranger": "use adam",
        "sgdw": "use sgd, or adamw",
        "decoupled_weight_decay": "use adamw",
    },
    ignored={**IGNORED, "unroll_loop": False, "cg_unroll_loop": False},
)
"""Optimizers of policies. In modules.py ``wrapper`` and ``tf_optimizer`` become others."""

_SYNCHRONIZATION: Final = Entry(
    (
        fed("sync_frequency", 1, parameter(at_least=1, is_whole=True)),
        fed("update_weight", 1.0, parameter(at_least=0, at_most=1)),
    )
)
BASELINE_OPTIMIZERS: Final = Room(
    "baseline optimizer",
    {**OPTIMIZERS.entries, "synchronization": _SYNCHRONIZATION},
    default="wrapper",
    refused={name: instead for name, instead in OPTIMIZERS.refused.items() if name != "synchronization"},
    ignored=OPTIMIZERS.ignored,
)
