"""Preprocessing of states on the host: a list of steps, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array, State
from ...common.processing.pipeline import Pipeline, Stage, concat
from ...common.processing.steps import Numbers
from ...common.specs.modules import resolve
from ..spaces import BoolBox, BoxSpace, FloatBox, IntBox
from ..utils.rlgraph_errors import refuse, translate_errors
from .per_environment import lanes_of, unpacked
from .preprocessing_steps import CONCAT, MAKERS, STEPS


class Preprocessor:
    """A list of steps for the states of one agent or worker.

    Args:
        where: the place of the specification, for messages: ``"DQNAgent: preprocessing_spec"``.
        spec: None or a list of steps: dictionaries with ``type``, or types alone.
        spaces: of the parts of a state, by flat name; ``""`` is the name of the only one.

    Raises:
        RLGraphError: a step or a key is unknown, or an argument is invalid or does not fit the states; names it.

    Attributes:
        outputs: the spaces of what comes out, by flat name.
    """

    def __init__(self, where: str, spec: Any, spaces: Mapping[str, BoxSpace]) -> None:
        self._where = where
        if spec is not None and not isinstance(spec, list | tuple):
            refuse(where, f"must be a list of steps such as [{{'type': 'divide', 'divisor': 255}}], got {spec!r}", spec)
        values = self._inputs = {name: numbers_of(space) for name, space in spaces.items()}
        stages: list[Stage] = []
        with translate_errors():
            places = [(f"{where}[{index}]", step) for index, step in enumerate(spec or ())]
            self._spec = [resolve(place, step, "step", {"step": STEPS}) for place, step in places]
            for (place, _), given in zip(places, self._spec, strict=True):
                arguments = dict(given)
                kind = arguments.pop("type")
                if kind == CONCAT:
                    out, stage = concat(place, values)
                    values = {"": out}
                else:
                    stage = {name: MAKERS[kind](place, value, **arguments) for name, value in values.items()}
                    values = {name: step.out for name, step in stage.items()}
                stages.append(stage)
        self._pipeline = Pipeline(stages)
        self.outputs: Mapping[str, Any] = (
            {name: box_of(value) for name, value in values.items()} if stages else dict(spaces)
        )

    @property
    def has_steps(self) -> bool:
        """Does it do anything?"""
        return bool(self._spec)

    @property
    def is_stateful(self) -> bool:
        """Does it remember states? The same state may come out differently then."""
        return bool(self._remembered())

    def __call__(self, arrays: Mapping[str, Array], lanes: Sequence[int] | None = None) -> dict[str, Array]:
        """Preprocess one state or a batch.

        Args:
            arrays: by flat name, [B, ...], of the shapes of the spaces, and of their dtypes or others of the same kind;
                they stay unchanged.
            lanes: to which environment each row belongs, of steps that remember. None: the rows are those of
                ``0 .. B - 1``, and a ``sequence`` takes as many of them as its ``batch_size``.

        Returns:
            by flat name, [B, ...], as ``outputs`` tells: the given arrays or views where nothing is to be computed.

        Raises:
            RLGraphError: arrays or lanes do not fit; nothing is remembered then.
        """
        rows = self._rows(arrays)
        of_rows = lanes_of(self._where, lanes, rows)
        for index, arguments in enumerate(self._spec):
            wanted = arguments.get("batch_size", rows)
            if lanes is None and wanted != rows:
                problem = (
                    f"is {wanted}: it takes that many states at once, or the lane of each; got {rows} without lanes"
                )
                refuse(f"{self._where}[{index}]['batch_size']", problem, rows)
        given = {name: np.asarray(arrays[name]).astype(s.dtype, copy=False) for name, s in self._inputs.items()}
        return self._pipeline(given, of_rows)

    def reset(self, lanes: Sequence[int] | None = None) -> None:
        """New episodes begin in these lanes, or in all: the next state of each is its first."""
        self._pipeline.reset(lanes)

    def to_json(self) -> list[dict[str, Any]]:
        """The steps with all arguments, in JSON's types; a Preprocessor takes it."""
        return [dict(arguments) for arguments in self._spec]

    def state_dict(self) -> State:
        """The memory of steps: by lane, arrays by index and name of the step and name of the array."""
        return {
            str(lane): {f"{index}/{name}/{key}": x for (index, name), own in kept.items() for key, x in own.items()}
            for lane, kept in self._pipeline.lanes.items()
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned.

        Raises:
            RLGraphError: it is of other steps or states; nothing has changed then.
        """
        remembered = self._remembered()
        shapes = {f"{index}/{name}/{key}": shape for (index, name, key), shape in remembered.items()}
        places = dict(zip(shapes, remembered, strict=True))
        lanes: dict[Any, dict[tuple[int, str], Any]] = {}
        for lane, arrays in unpacked(self._where, state, shapes).items():
            kept = lanes.setdefault(lane, {})
            for (index, name, key), array in ((places[at], array) for at, array in arrays.items()):
                kept.setdefault((index, name), {})[key] = array
        self._pipeline.lanes = lanes

    def _remembered(self) -> dict[tuple[int, str, str], tuple[int, ...]]:
        """Shapes of what steps remember, by index and name of the step and name of the array."""
        stages = ((index, stage) for index, stage in enumerate(self._pipeline.stages) if isinstance(stage, Mapping))
        steps = ((index, name, step) for index, stage in stages for name, step in stage.items())
        return {(index, name, key): tuple(shape) for index, name, step in steps for key, shape in step.memory.items()}

    def _rows(self, arrays: Mapping[str, Array]) -> int:
        """B, of arrays that fit."""
        found = {name: np.shape(array) for name, array in arrays.items()}
        rows = next((shape[0] for shape in found.values() if shape), 0)
        wanted = {name: (rows, *value.shape) for name, value in self._inputs.items()}
        if found != wanted or not rows:
            shapes = {name: list(value.shape) for name, value in self._inputs.items()}
            refuse(f"{self._where}: states", f"must have the shapes {shapes} after an axis of rows; got {found}", found)
        for name, array in arrays.items():
            given, dtype = np.asarray(array).dtype, self._inputs[name].dtype
            if not np.can_cast(given, dtype, "same_kind"):
                refuse(f"{self._where}: states", f"{name!r} must be of {dtype}, got {given}", array)
        return rows


def numbers_of(box: BoxSpace) -> Numbers:
    """The facts on a box that steps need."""
    low, high = box.bounds
    if not isinstance(box, IntBox):
        return Numbers(box.shape, box.dtype, float(low.min()), float(high.max()))
    categories = box.num_categories if (low == low.min()).all() else None
    return Numbers(box.shape, box.dtype, int(low.min()), int(high.max()) - 1, categories)


def box_of(found: Numbers) -> BoxSpace:
    """The box of what comes out of a step."""
    if found.dtype.kind == "b":
        return BoolBox(shape=found.shape)
    if found.dtype.kind == "f":
        return FloatBox(found.low, found.high, shape=found.shape)
    dtype: Any = np.uint8 if found.dtype == np.uint8 else np.int32
    limits = np.iinfo(dtype)
    if found.categories is None and found.low <= limits.min and found.high >= limits.max - 1:
        return IntBox(shape=found.shape, dtype=dtype)
    most = 256 if dtype == np.uint8 else limits.max  # an upper bound of int32 is an int32, too
    return IntBox(found.low, min(found.high + 1, most), shape=found.shape, dtype=dtype)
