"""The layers of networks: their arguments in order, with defaults and checks."""

from __future__ import annotations

from typing import Any, Final

from ...common.processing.steps import ACTIVATIONS
from ...common.specs.argument_checks import flag, one_of, one_or_several, or_none, several, text
from ...common.specs.files import import_object
from ...common.specs.tables import ABSENT, Argument, Check, Entry
from ...common.value_specs import TYPES
from ..spaces.errors import mapping, refuse, refuse_unknown
from .table_checks import IGNORED, SpecTable, integer, real


def activation(where: str, value: Any) -> Any:
    """The name of an activation function; None is ``none``."""
    return "none" if value is None else one_of(*ACTIVATIONS)(where, value)


def _function(where: str, value: Any) -> Any:
    """A function, or the dotted name of one."""
    function = import_object(where, value) if isinstance(value, str) and "." in value else value
    if not callable(function):
        refuse(where, f"must be a function of a tensor, or the dotted name of one, got {value!r}", value)
    return function


def _keras_layer(where: str, value: Any) -> Any:
    """A Keras layer: its class, its dotted name, or its name in ``keras.layers``."""
    layer = import_object(where, value) if isinstance(value, str) and "." in value else value
    if not callable(layer) and not (isinstance(layer, str) and layer):
        refuse(where, f"must be a Keras layer or its name, got {value!r}", value)
    return layer


def _output_spec(where: str, value: Any) -> dict[str, Any]:
    """The output of a function, as far as it is given."""
    given = dict(mapping(where, value))
    refuse_unknown(where, given, ("type", "shape", "num_values"), what="key")
    checks = {"type": one_of(*TYPES), "shape": one_or_several(integer(0)), "num_values": or_none(integer(1))}
    return {key: checks[key](f"{where}[{key!r}]", part) for key, part in given.items()}


def _list_of(check: Check) -> Check:
    """A non-empty list of values; a single value stands for a list of it."""

    def check_all(where: str, value: Any) -> list[Any]:
        values = one_or_several(check)(where, value)
        values = values if isinstance(values, list) else [values]
        if not values:
            refuse(where, "must have at least one entry", value)
        return values

    return check_all


def _even_size(where: str, values: dict[str, Any]) -> dict[str, Any]:
    """Check the size of an LSTM's final state, which is two vectors of half the size."""
    is_lstm = values["type"] == "lstm" or values.get("cell") == "lstm"
    if is_lstm and values["return_final_state"] and values["size"] % 2:
        refuse(f"{where}['size']", f"must be even for an lstm's final state, got {values['size']}", values["size"])
    return values


def _one_list(where: str, values: dict[str, Any]) -> dict[str, Any]:
    """Check that the layers of a block are a flat list."""
    for index, layer in enumerate(values["layers"]):
        if isinstance(layer, list):
            refuse(
                f"{where}['layers'][{index}]", f"must be a layer: a block is one list of layers; got {layer!r}", layer
            )
    return values


def _of_user(where: str, spec: Any) -> tuple[str, dict[str, Any]]:
    """A class or function instead of a layer."""
    if any(base.__name__ == "Layer" and base.__module__.startswith("keras") for base in getattr(spec, "__mro__", ())):
        return "keras", {"layer": spec}
    if isinstance(spec, type):
        problem = (
            "is a class that is not a Keras layer: use a function of a tensor, or a subclass of keras.layers.Layer"
        )
        refuse(where, f"{problem}; got {spec.__name__}", spec)
    return "function", {"function": spec}


_SIZE: Final = Argument("size", check=integer(0))
_BIAS: Final = Argument("bias", True, flag)
_PADDING: Final = Argument("padding", "same", one_of("same", "valid"))
_AXES: Final = Argument("axes", None, or_none(several(integer(0))))
_CELL: Final = Argument("cell", check=one_of("gru", "lstm"))
_TRAINED: Final = Argument("is_trainable", True, flag)
_L2: Final = Argument("l2_regularization", ABSENT, or_none(real(at_least=0)))
_UNITS: Final = Argument("size", check=integer(1))
_LENGTH: Final = Argument("length", check=integer(1))
_FINAL: Final = Argument("return_final_state", True, flag)


def _activation_arguments(default: str | None) -> tuple[Argument, ...]:
    """Trailing arguments."""
    dropout = Argument("dropout", 0.0, real(at_least=0, at_most=0.999))
    return (Argument("activation", default, or_none(activation)), dropout, _TRAINED, _L2)


_OF_CELL: Final = (Argument("bias", False, flag), *_activation_arguments(None))
_OF_ANY_CELL: Final = (_BIAS, *_activation_arguments("tanh"))


def _conv(dimensions: int) -> Entry:
    side = integer(1) if dimensions == 1 else one_or_several(integer(1), count=dimensions)
    sides = (Argument("window", 3, side), Argument("stride", 1, side), _PADDING, Argument("dilation", 1, side))
    return Entry((_SIZE, *sides, _BIAS, *_activation_arguments("relu")))


def _pool(dimensions: int) -> Entry:
    side = integer(1) if dimensions == 1 else one_or_several(integer(1), count=dimensions)
    reduction = Argument("reduction", check=one_of("average", "max"))
    return Entry((reduction, Argument("window", 2, side), Argument("stride", 2, side), _PADDING))


_ENTRIES: Final = {
    "dense": Entry((_SIZE, _BIAS, *_activation_arguments("tanh"))),
    "linear": Entry((_SIZE, _BIAS, _TRAINED, _L2)),
    "conv1d": _conv(1),
    "conv2d": _conv(2),
    "embedding": Entry(
        (
            _SIZE,
            Argument("num_embeddings", None, or_none(integer(1))),
            Argument("max_norm", None, or_none(real(above=0))),
            _BIAS,
            *_activation_arguments("tanh"),
        )
    ),
    "flatten": Entry(),
    "reshape": Entry((Argument("shape", check=_list_of(integer(1))),)),
    "pooling": Entry((Argument("reduction", check=one_of("concat", "max", "mean", "product", "sum")),)),
    "pool1d": _pool(1),
    "pool2d": _pool(2),
    "activation": Entry((Argument("nonlinearity", check=activation),)),
    "dropout": Entry((Argument("rate", check=real(at_least=0, at_most=0.999)),)),
    "block": Entry(
        (Argument("name", check=text), Argument("layers", module="layer", collected=list)), finish=_one_list
    ),
    "reuse": Entry((Argument("layer", check=text),)),
    "register": Entry((Argument("tensor", check=text),)),
    "retrieve": Entry(
        (
            Argument("tensors", check=_list_of(text)),
            Argument("aggregation", "concat", one_of("concat", "product", "stack", "sum")),
            Argument("axis", 0, integer(0)),
        )
    ),
    "function": Entry(
        (Argument("function", check=_function), Argument("output_spec", None, or_none(_output_spec)), _L2)
    ),
    "keras": Entry((Argument("layer", check=_keras_layer), _L2), open=True, classes=("KerasLayer",)),
    "gru": Entry((_UNITS, _FINAL, *_OF_CELL)),
    "lstm": Entry((_UNITS, _FINAL, *_OF_CELL), finish=_even_size),
    "rnn": Entry((_CELL, _UNITS, _FINAL, *_OF_ANY_CELL), finish=_even_size),
    "internal_gru": Entry((_UNITS, _LENGTH, *_OF_CELL)),
    "internal_lstm": Entry((_UNITS, _LENGTH, *_OF_CELL)),
    "internal_rnn": Entry((_CELL, _UNITS, _LENGTH, *_OF_ANY_CELL)),
    "exponential_normalization": Entry((Argument("decay", 0.999, real(at_least=0, at_most=1)), _AXES)),
    "instance_normalization": Entry((_AXES,)),
}
_NAME: Final = Argument("name", ABSENT, text)
_PREPROCESSING: Final = "pass it as Agent.create(..., preprocessing=...)"
_TRANSPOSED: Final = "there are no transposed convolutions; use function or keras"

LAYERS: Final = SpecTable(
    "layer",
    {
        name: entry if name == "block" else Entry((*entry.arguments, _NAME), entry.open, entry.finish, entry.classes)
        for name, entry in _ENTRIES.items()
    },
    default="function",
    aliases={"nonlinearity": "activation"},
    refused={
        "clipping": _PREPROCESSING,
        "deltafier": _PREPROCESSING,
        "image": _PREPROCESSING,
        "sequence": _PREPROCESSING,
        "conv1d_transpose": _TRANSPOSED,
        "conv2d_transpose": _TRANSPOSED,
    },
    ignored=IGNORED,
    from_callable=_of_user,
)
"""The layers."""
