"""The layers of networks: their arguments, with defaults and checks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.checks import shortened
from ...common import refusals
from ...common.refusals import as_array, choice, refuse
from ...common.specs.argument_checks import (
    Only,
    categories,
    flag,
    integer,
    one_or_several,
    or_none,
    real,
    several,
    text,
)
from ...common.specs.modules import resolve
from ...common.specs.tables import ABSENT, Argument, Entry, SpecTable, without_case

ACTIVATIONS: Final = {
    **{name: name for name in ("crelu", "elu", "relu", "selu", "sigmoid", "softmax", "softplus", "softsign", "swish")},
    **{"tanh": "tanh", "linear": "none", "lrelu": "leaky-relu", "leaky_relu": "leaky-relu"},
}
"""Names of activation functions, and their names in ``common.layers``."""

INITIALIZERS: Final = SpecTable(
    "initial value",
    {
        "truncated_normal": Entry((Argument("mean", 0.0, real()), Argument("stddev", 1.0, real(above=0)))),
        "xavier": Entry(),
        "zeros": Entry(),
    },
    aliases={"truncated": "truncated_normal", "xavier_uniform": "xavier", "glorot_uniform": "xavier"},
    normalized=without_case,
    dotted=False,
)


def activation(where: str, value: Any) -> str:
    """The name of an activation function in ``common.layers``; None is linear."""
    if value is None:
        return "none"
    name = value.lower().replace("-", "_") if isinstance(value, str) else value
    return ACTIVATIONS[choice(where, name, ACTIVATIONS)]


def weights(where: str, value: Any) -> Any:
    """Initial values: None for the default, a number, an array as a list, or an initializer."""
    if value is None or (isinstance(value, bool) and value):
        return None
    if isinstance(value, str | dict):
        return resolve(where, value, "initializer", {"initializer": INITIALIZERS})
    array = as_array(where, value)
    if isinstance(value, bool) or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        refuse(
            where,
            f"must be a number, an array, or one of {', '.join(INITIALIZERS.entries)}; got {shortened(value)}",
            value,
        )
    return array.tolist()


def biases(where: str, value: Any) -> Any:
    """See ``weights``; False for no biases."""
    return False if value is False else weights(where, value)


def _slopes(where: str, value: Any) -> list[float]:
    slopes: list[float] = several(real())(where, value)
    if len(slopes) > 1:
        refuse(where, f"has one number at most, the slope of lrelu; got {shortened(value)}", value)
    return slopes


def _data_format(where: str, value: Any) -> str:
    if value == "channels_first":
        refuse(where, "cannot be 'channels_first': transpose images to [height, width, channels]", value)
    return choice(where, value, ("channels_last",))


def _padding(where: str, value: Any) -> str:
    return choice(where, value.lower() if isinstance(value, str) else value, ("valid", "same"))


def _check_slope(where: str, values: dict[str, Any]) -> dict[str, Any]:
    if values.get("activation_params") and values["activation"] != "leaky-relu":
        refuse(f"{where}['activation_params']", "are for lrelu", values["activation_params"])
    return values


def _no_inner_lists(where: str, values: dict[str, Any]) -> dict[str, Any]:
    for index, layer in enumerate(values["residual_unit"]):
        if isinstance(layer, list):
            refuse(f"{where}['residual_unit'][{index}]", f"must be a layer, got {shortened(layer)}", layer)
    return values


_SCOPE: Final = Argument("scope", ABSENT, text)
_ENDS: Final = (
    Argument("activation", None, activation),
    Argument("activation_params", ABSENT, _slopes),
    Argument("weights_spec", None, weights, aliases=("kernel_spec",)),
    Argument("biases_spec", None, biases),
    _SCOPE,
)
_LSTM_OPTIONS: Final = {
    "use_peepholes": Only(False, "there are no peepholes"),
    "cell_clip": Only(None, "cells are not clipped"),
    "forget_bias": Only(1.0, "the forget gate's bias always starts there"),
}
_PAIR: Final = one_or_several(integer(1), count=2)

LAYERS: Final = SpecTable(
    "layer",
    {
        "dense": Entry((Argument("units", check=integer(1)), *_ENDS), finish=_check_slope),
        "conv2d": Entry(
            (
                Argument("filters", check=integer(1)),
                Argument("kernel_size", check=_PAIR),
                Argument("strides", 1, _PAIR),
                Argument("padding", "valid", _padding),
                Argument("data_format", "channels_last", _data_format),
                *_ENDS,
            ),
            finish=_check_slope,
        ),
        "maxpool2d": Entry(
            (
                Argument("pool_size", check=_PAIR),
                Argument("strides", 1, _PAIR),
                Argument("padding", "valid", _padding),
                Argument("data_format", "channels_last", _data_format),
                _SCOPE,
            )
        ),
        "lstm": Entry(
            (
                Argument("units", check=integer(1)),
                *(Argument(name, ABSENT, check) for name, check in _LSTM_OPTIONS.items()),
                _SCOPE,
            ),
            ignored={
                **{"activation": "tanh", "activation_params": [], "static_loop": False, "parallel_iterations": 32},
                **{"swap_memory": False, "time_major": False},
            },
            finish=lambda where, values: {name: values[name] for name in values if name not in _LSTM_OPTIONS},
        ),
        "reshape": Entry(
            (
                Argument("flatten", False, flag),
                Argument("flatten_categories", None, categories),
                Argument("new_shape", None, or_none(several(integer(1)))),
                _SCOPE,
            ),
            ignored={"fold_time_rank": False, "unfold_time_rank": False, "time_major": None},
        ),
        "residual": Entry(
            (Argument("residual_unit", module="layer", collected=list), Argument("repeats", 2, integer(1)), _SCOPE),
            finish=_no_inner_lists,
        ),
        "concat": Entry(
            (Argument("axis", -1, lambda where, value: refusals.integer(where, value, at_least=-1)), _SCOPE)
        ),
    },
    aliases={
        **{"fc": "dense", "fully_connected": "dense", "dense_layer": "dense", "conv2d_layer": "conv2d"},
        **{"max_pool_2d": "maxpool2d", "lstm_layer": "lstm", "residual_layer": "residual", "concat_layer": "concat"},
    },
    refused={
        **dict.fromkeys(("embedding", "embedding_lookup"), "ints are one-hot: use dict(type='reshape', flatten=True)"),
        **dict.fromkeys(("string_layer", "string_to_hash_bucket"), "text is not supported"),
    },
    normalized=without_case,
    dotted=False,
)
