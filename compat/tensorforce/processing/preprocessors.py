"""Preprocessing of states and rewards on the host: once, before they are stored and before the model sees them.

Its layers are the steps of ``common.processing`` under Tensorforce's names and arguments.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, State
from ...common.processing import images, steps
from ...common.processing.pipeline import Pipeline, deltafier, exponential_normalization, sequence
from ...common.processing.steps import Numbers, Step
from ...common.specs.argument_checks import flag, or_false, or_none, several
from ...common.specs.files import is_file_name, read_file
from ...common.specs.modules import resolve
from ...common.specs.tables import Argument, Entry
from ...common.value_specs import TYPES, ValueSpec
from ..spaces.errors import mapping, number, refuse, refuse_unknown, translate_errors
from ..specs import layer_tables
from ..specs.table_checks import IGNORED, SpecTable, integer, real

LayerMaker = Callable[..., "Step | None"]
"""Function of a layer's place, its inputs and its arguments; returns None if there is nothing to do."""


def clipping(where: str, value: Numbers, upper: float, lower: float | None) -> Step:
    """The value clipped to ``lower`` (default: ``-upper``) and ``upper``."""
    lower = -upper if lower is None else lower
    if lower > upper:
        refuse(where, f"must have lower <= upper, got {lower:g} and {upper:g}", lower)
    return steps.clip(where, value, lower, upper)


def dropout(where: str, value: Numbers, rate: float) -> None:
    """The value unchanged: dropout acts in updates only, on values already preprocessed."""


def image(where: str, value: Numbers, height: int | None, width: int | None, grayscale: Any) -> Step:
    """An image [height, width, channels], resized, converted to greyscale, or both.

    Resizing averages areas. If only one of ``height`` and ``width`` is given, the aspect ratio is kept; without both
    the size is kept. ``grayscale``: True for the luma of RGB (ITU-R BT.601), or weights of the channels.
    """
    if len(value.shape) != 3:
        refuse(where, f"takes shapes [height, width, channels], but gets {list(value.shape)}", value)
    rows, columns, _ = value.shape
    if height is None:
        height = rows if width is None else max(1, round(rows * width / columns))
    if width is None:
        width = max(1, round(columns * height / rows))
    if grayscale is False:
        return images.image_resize(where, value, width, height)
    weights = images.LUMA if grayscale is True else grayscale
    grey = images.grayscale(where, value, weights, keep_rank=True)  # first, so that there is less to resize
    resize = images.image_resize(where, grey.out, width, height)

    def function(x: Array) -> Array:
        y: Array = resize.function(grey.function(x))
        return y

    return Step(resize.out, function)


def _weights(where: str, value: Any) -> bool | list[float]:
    weights: list[float] = [] if isinstance(value, bool) else several(number, "weights, True or False")(where, value)
    return value if isinstance(value, bool) else weights


_NUMBER: Final = real()
_AXIS: Final = integer(-32)
"""Check of an axis, without the batch axis; negative ones count from the end."""
_SIZE: Final = Argument("height", None, or_none(integer(1)))
_AXES: Final = Argument("axes", None, or_none(several(integer(0), "axes")))

_LAYERS: Final[dict[str, tuple[LayerMaker, tuple[Argument, ...]]]] = {
    "activation": (steps.activation, (Argument("nonlinearity", check=layer_tables.activation),)),
    "clipping": (clipping, (Argument("upper", check=_NUMBER), Argument("lower", None, or_none(_NUMBER)))),
    "deltafier": (deltafier, (Argument("concatenate", False, or_false(_AXIS)),)),
    "dropout": (dropout, (Argument("rate", check=real(at_least=0, at_most=0.999)),)),
    "exponential_normalization": (
        exponential_normalization,
        (Argument("decay", 0.999, real(at_least=0, at_most=1)), _AXES),
    ),
    "image": (image, (_SIZE, Argument("width", None, _SIZE.check), Argument("grayscale", False, _weights))),
    "instance_normalization": (steps.instance_normalization, (_AXES,)),
    "sequence": (
        sequence,
        (Argument("length", check=integer(1)), Argument("axis", -1, _AXIS), Argument("concatenate", True, flag)),
    ),
}
MAKERS: Final = {name: maker for name, (maker, _) in _LAYERS.items()}
"""Functions that make steps, by type of layer."""
_OF_NETWORKS: Final = f"it is a network layer; preprocessing takes {', '.join(MAKERS)}"
LAYERS: Final = SpecTable(
    "preprocessing layer",
    {name: Entry(arguments) for name, (_, arguments) in _LAYERS.items()},
    aliases={"nonlinearity": "activation"},
    refused=dict.fromkeys(layer_tables.LAYERS.entries.keys() - MAKERS.keys(), _OF_NETWORKS),
    ignored={"name": None, **IGNORED},
)
"""The layers; ``name`` is accepted and ignored."""

REWARD: Final = "reward"
"""Key of the layers for rewards."""


class Preprocessing:
    """Layers for some of the states and for rewards, with a history per lane. Made by :func:`make_preprocessing`.

    A lane is a stream of timesteps, identified by its key. Its history (``deltafier``, ``sequence``) is reset with each
    episode. The statistics of ``exponential_normalization`` are shared by all lanes and kept. ``dropout`` is left to
    updates.

    Args:
        where: the place of the specification, for messages.
        spec: the layers with all arguments, by key.
        states: specs of the states by name.
    """

    def __init__(self, where: str, spec: Mapping[str, list[dict[str, Any]]], states: Mapping[str, ValueSpec]) -> None:
        self._where, self._spec = where, spec
        self._steps: dict[str, list[Step]] = {}
        self.states: dict[str, ValueSpec] = {}
        """Specs of the preprocessed states, which are stored and are the model's inputs."""
        for name, state in states.items():
            self.states[name] = self._build(name if name in spec else state.type, state)
        out = self._build(REWARD, ValueSpec(REWARD, "float", ()))
        if out.shape != ():
            problem = f"must return a reward as a single number, but returns the shape {list(out.shape)}"
            refuse(f"{where}[{REWARD!r}]", problem, spec[REWARD])
        longest = max(map(len, self._steps.values()), default=0)
        self.pipeline = Pipeline(
            [{n: own[index] for n, own in self._steps.items() if index < len(own)} for index in range(longest)]
        )

    @property
    def idle(self) -> bool:
        """Is there no preprocessing?"""
        return not self._steps

    @property
    def spec(self) -> dict[str, Any]:
        """Layers by key, with all their arguments in JSON types, for :func:`make_preprocessing`."""
        return {key: [dict(layer) for layer in layers] for key, layers in self._spec.items()}

    def independent(self) -> Preprocessing:
        """The same layers with separate histories, using the current statistics without updating them."""
        other = copy.copy(self)
        other.pipeline = Pipeline(self.pipeline.stages, self.pipeline.shared)
        return other

    def apply(self, lane: Hashable, states: Mapping[str, Array], remember: bool = True) -> dict[str, Array]:
        """Preprocess one timestep of a lane, and update its history.

        Args:
            lane: key of the lane.
            states: states by name, without a batch axis, of the specs' dtypes. Others, such as masks, are unchanged.
            remember: False: as :meth:`peek`.

        Returns:
            The model's inputs; new arrays where preprocessed.
        """
        given = {name: x[None] for name, x in states.items() if name in self._steps}
        found = self.pipeline(given, [lane], remember)
        return {name: found[name][0, ...] if name in found else x for name, x in states.items()}

    def peek(self, lane: Hashable, states: Mapping[str, Array]) -> dict[str, Array]:
        """Result of :meth:`apply` for the lane's next timestep, without updating its history."""
        return self.apply(lane, states, remember=False)

    def reward(self, value: float, lane: Hashable) -> float:
        """Preprocess the reward of one timestep of a lane, and update its history."""
        found = self.apply(lane, {REWARD: np.asarray(value, np.float32)}) if REWARD in self._steps else {REWARD: value}
        return float(found[REWARD])

    def reset(self, lane: Hashable = None) -> None:
        """Reset the history of a lane whose episode has ended or was dropped; None: of all lanes."""
        self.pipeline.reset(None if lane is None else [lane])

    def state_dict(self) -> State:
        """The shared statistics, by name and index of a layer; histories are not included."""
        shared = self.pipeline.shared.items()
        return {name: {str(at): dict(memory) for (at, of), memory in shared if of == name} for name in self._steps}

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned.

        Raises:
            TensorforceError: the layers or states differ; nothing has changed then.
        """
        found = {}
        for name, by_index in state.items():
            steps = dict(enumerate(self._steps.get(name, ())))
            for index, memory in by_index.items():
                arrays = {key: np.array(value) for key, value in memory.items()}
                step, shapes = steps.get(int(index)), {key: value.shape for key, value in arrays.items()}
                if step is None or not step.is_shared or step.memory != shapes:
                    refuse(f"{self._where}[{name!r}]", "does not fit the saved statistics: layers or states differ")
                found[int(index), name] = arrays
        self.pipeline.shared.clear()
        self.pipeline.shared.update(found)

    def _build(self, key: str, value: ValueSpec) -> ValueSpec:
        steps, numbers, layers = [], Numbers(value.shape, np.dtype(value.dtype)), self._spec.get(key, ())
        for index, given in enumerate(layers):
            where, arguments = f"{self._where}[{key!r}][{index}]", dict(given)
            kind = arguments.pop("type")
            if kind != "sequence" and value.type != "float":
                refuse(where, f"takes values of type float; {value.name!r} is of type {value.type}", value)
            step = MAKERS[kind](where, numbers, **arguments)
            if step is not None:
                numbers = step.out
                steps.append(step)
        if steps:
            self._steps[value.name] = steps
        if all(one["type"] == "sequence" for one in layers):
            return dataclasses.replace(value, shape=numbers.shape)
        return dataclasses.replace(value, shape=numbers.shape, min_value=None, max_value=None)


@translate_errors()
def make_preprocessing(where: str, spec: Any, states: Mapping[str, ValueSpec]) -> Preprocessing:
    """Preprocessing from a user's specification.

    Args:
        where: its place, for messages: ``"Agent.create: preprocessing"``.
        spec: None, or a dictionary whose keys are names of states, types of states (for states whose name is not a key)
            or ``reward``, and whose values are a layer or a list of layers, in any form of modules; or the name of a
            JSON file with one.
        states: specs of the states by name.

    Raises:
        TensorforceError: a key or a layer is unknown, or an argument is invalid or does not fit the state; names it.
    """
    given = mapping(where, {} if spec is None else _from_file(where, spec))
    refuse_unknown(where, given, [*states, *TYPES, REWARD], what="state")
    layers = {}
    for key, value in ((key, value) for key, value in given.items() if value is not None):
        place, own = f"{where}[{key!r}]", _from_file(f"{where}[{key!r}]", value)
        each = own if isinstance(own, list | tuple) else [own]
        layers[key] = [resolve(f"{place}[{at}]", one, "layer", {"layer": LAYERS}) for at, one in enumerate(each)]
    return Preprocessing(where, layers, states)


def _from_file(where: str, given: Any) -> Any:
    """Contents of the JSON file, if one is named; else the given value."""
    return read_file(where, given) if isinstance(given, str) and is_file_name(given) else given
