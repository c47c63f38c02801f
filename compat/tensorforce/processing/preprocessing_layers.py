"""The layers that preprocess states and rewards: Tensorforce's names and arguments of ``common.processing``'s steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ....core.protocols import Array
from ...common.processing import images, steps
from ...common.processing.pipeline import deltafier, exponential_normalization, sequence
from ...common.processing.steps import Numbers, Step
from ...common.refusals import refuse
from ...common.specs.argument_checks import flag, or_false, or_none, several
from ...common.specs.tables import Argument, Entry
from ..spaces.errors import number
from ..specs import layer_tables
from ..specs.table_checks import IGNORED, SpecTable, real, whole

LayerMaker = Callable[..., "Step | None"]
"""From a layer's place, what goes in, and its arguments; None where there is nothing to do."""


def clipping(where: str, value: Numbers, upper: float, lower: float | None) -> Step:
    """Values between ``lower`` (default: minus ``upper``) and ``upper``."""
    lower = -upper if lower is None else lower
    if lower > upper:
        refuse(where, f"must have a lower value of at most the upper one, got {lower:g} and {upper:g}", lower)
    return steps.clip(where, value, lower, upper)


def dropout(where: str, value: Numbers, rate: float) -> None:
    """Nothing: values are dropped in updates only, and these get what has been preprocessed before."""


def image(where: str, value: Numbers, height: int | None, width: int | None, grayscale: Any) -> Step:
    """An image [height, width, channels] in another size, in shades of grey, or both.

    Resizing averages areas. Of ``height`` and ``width`` one that is None follows from the other and the image's ratio;
    without both the size stays. ``grayscale``: True for the luma of RGB (ITU-R BT.601), or weights of the channels.
    """
    if len(value.shape) != 3:
        refuse(where, f"takes shapes [height, width, channels], and gets {list(value.shape)}", value)
    rows, columns, _ = value.shape
    if height is None:
        height = rows if width is None else max(1, round(rows * width / columns))
    if width is None:
        width = max(1, round(columns * height / rows))
    if grayscale is False:
        return images.image_resize(where, value, width, height)
    weights = images.LUMA if grayscale is True else grayscale
    grey = images.grayscale(where, value, weights, keep_rank=True)  # first: there is less to resize then
    resize = images.image_resize(where, grey.out, width, height)

    def function(x: Array) -> Array:
        y: Array = resize.function(grey.function(x))
        return y

    return Step(resize.out, function)


def _weights(where: str, value: Any) -> bool | list[float]:
    weights: list[float] = [] if isinstance(value, bool) else several(number, "weights, True or False")(where, value)
    return value if isinstance(value, bool) else weights


_NUMBER: Final = real()
_AXIS: Final = whole(-32)
"""Of an axis, of which the batch is none; negative ones count from the end."""
_SIZE: Final = Argument("height", None, or_none(whole(1)))
_AXES: Final = Argument("axes", None, or_none(several(whole(0), "axes")))

MAKERS: Final[dict[str, LayerMaker]] = {
    "activation": steps.activation,
    "clipping": clipping,
    "deltafier": deltafier,
    "dropout": dropout,
    "exponential_normalization": exponential_normalization,
    "image": image,
    "instance_normalization": steps.instance_normalization,
    "sequence": sequence,
}
_ENTRIES: Final = {
    "activation": (Argument("nonlinearity", check=layer_tables.activation),),
    "clipping": (Argument("upper", check=_NUMBER), Argument("lower", None, or_none(_NUMBER))),
    "deltafier": (Argument("concatenate", False, or_false(_AXIS)),),
    "dropout": (Argument("rate", check=real(at_least=0, at_most=0.999)),),
    "exponential_normalization": (Argument("decay", 0.999, real(at_least=0, at_most=1)), _AXES),
    "image": (_SIZE, Argument("width", None, _SIZE.check), Argument("grayscale", False, _weights)),
    "instance_normalization": (_AXES,),
    "sequence": (
        Argument("length", check=whole(1)),
        Argument("axis", -1, _AXIS),
        Argument("concatenate", True, flag),
    ),
}
_OF_NETWORKS: Final = f"it is a layer of networks, and preprocessing takes {', '.join(MAKERS)}"
LAYERS: Final = SpecTable(
    "preprocessing layer",
    {name: Entry(arguments) for name, arguments in _ENTRIES.items()},
    aliases={"nonlinearity": "activation"},
    refused=dict.fromkeys(layer_tables.LAYERS.entries.keys() - MAKERS.keys(), _OF_NETWORKS),
    ignored={"name": None, **IGNORED},
)
"""The layers; a ``name`` is allowed and not used."""
