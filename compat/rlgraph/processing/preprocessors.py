"""Preprocessing of states on the host: a list of steps, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ...common.specs.argument_checks import whole
from ...common.specs.argument_table import Argument, Arguments, read_arguments
from ..spaces import BoxSpace
from ..utils.rlgraph_errors import flag, refuse, translate_errors
from .per_environment import LaneMemory, lanes_of
from .preprocessing_steps import STEPS
from .typed_specs import kind_and_arguments
from .value_specs import FLOAT, ValueSpec, value_spec

Specs = dict[str, ValueSpec]
"""By flat name."""


class Step:
    """One step for all parts of a state.

    Args:
        outputs: what comes out, by flat name.
        function: of arrays [B, ...] by flat name, and of the lane of each row.
        memory: what it remembers.
    """

    def __init__(
        self,
        outputs: Specs,
        function: Callable[[dict[str, Array], list[int]], dict[str, Array]],
        memory: LaneMemory | None = None,
    ) -> None:
        self.outputs, self.function, self.memory = outputs, function, memory


def concat(where: str, values: Specs, arguments: Mapping[str, Any]) -> Step:
    """All parts joined along their last axis, in their order, as one under the name ``""``; numbers are arrays of one.

    Parts of different dtypes become float32.
    """
    names = list(values)
    parts = [value.of_shape(value.shape or (1,)) for value in values.values()]
    if len({part.shape[:-1] for part in parts}) > 1:
        shapes = {name: list(value.shape) for name, value in values.items()}
        refuse(where, f"needs parts with the same shape but for the last axis, got {shapes}", shapes)
    dtype = parts[0].dtype if len({part.dtype for part in parts}) == 1 else FLOAT
    width = sum(part.shape[-1] for part in parts)
    low, high = min(part.bounds[0] for part in parts), max(part.bounds[1] for part in parts)
    out = parts[0].of_shape((*parts[0].shape[:-1], width)).within(dtype, low, high)

    def function(arrays: dict[str, Array], lanes: list[int]) -> dict[str, Array]:
        found = [arrays[name].reshape(len(lanes), *part.shape) for name, part in zip(names, parts, strict=True)]
        return {"": np.concatenate(found, -1, dtype=dtype)}

    return Step({"": out}, function)


def sequence(where: str, values: Specs, arguments: Mapping[str, Any]) -> Step:
    """The last states of each lane, oldest first: stacked on a new last axis, or joined along the last one.

    The first state of a lane stands for those before it.
    """
    length, stacked = arguments["sequence_length"], arguments["add_rank"]
    for value in values.values():
        if not stacked and not value.shape:
            refuse(f"{where}['add_rank']", "must be True for numbers, which have no axis to be joined along", False)
    rank = 0 if stacked else 1  # axes that come after that of time
    places = {name: len(value.shape) - rank for name, value in values.items()}
    kept = {n: ArraySpec((*v.shape[: places[n]], length, *v.shape[places[n] :]), v.dtype) for n, v in values.items()}
    memory = LaneMemory(where, kept)
    outputs = {
        name: value.of_shape((*value.shape, length) if stacked else (*value.shape[:-1], length * value.shape[-1]))
        for name, value in values.items()
    }

    def latest(name: str, lane: int, x: Array) -> Array:
        before, place = memory.get(lane, name), places[name]
        now = np.expand_dims(x, place)
        if before is None:
            return np.repeat(now, length, place)
        return np.concatenate((before[(slice(None),) * place + (slice(1, None),)], now), place)

    def function(arrays: dict[str, Array], lanes: list[int]) -> dict[str, Array]:
        found = {}
        for name, x in arrays.items():
            rows = [latest(name, lane, row) for lane, row in zip(lanes, x, strict=True)]
            found[name] = np.stack(rows).reshape(len(rows), *outputs[name].shape)
            for lane, row in zip(lanes, rows, strict=True):
                memory.set(lane, name, row)
        return found

    return Step(outputs, function, memory)


_OF_ALL: Final[dict[str, tuple[Callable[[str, Specs, Mapping[str, Any]], Step], Arguments]]] = {
    "concat": (concat, {}),
    "sequence": (
        sequence,
        {
            "sequence_length": Argument(whole(1), 2),
            "batch_size": Argument(whole(1), 1),
            "add_rank": Argument(flag, True),
        },
    ),
}
"""Steps that see all parts at once, or remember."""
TAKES: Final[dict[str, Arguments]] = {name: takes for name, (_, takes) in sorted({**STEPS, **_OF_ALL}.items())}
"""What each step takes, by its name."""


class Preprocessor:
    """A list of steps for the states of one agent or worker.

    Args:
        where: the place of the specification, for messages: ``"DQNAgent: preprocessing_spec"``.
        spec: None or a list of steps: dictionaries with ``type``, or types alone.
        spaces: of the parts of a state, by flat name; ``""`` is the name of the only one.

    Raises:
        RLGraphError: a step or a key is unknown, or an argument is invalid or does not fit the states; names it.

    ``outputs`` tells, by flat name, what comes out: shape, dtype, ``num_categories``, ``low`` and ``high``. Without
    steps these are the spaces.
    """

    outputs: Mapping[str, Any]

    def __init__(self, where: str, spec: Any, spaces: Mapping[str, BoxSpace]) -> None:
        self._where = where
        with translate_errors():
            self._spec = _read(where, spec)
            self._inputs = {name: value_spec(space) for name, space in spaces.items()}
            values, self._steps = self._inputs, []
            for index, arguments in enumerate(self._spec):
                self._steps.append(_made(f"{where}[{index}]", arguments, values))
                values = self._steps[-1].outputs
        self.outputs = dict(values if self._steps else spaces)

    @property
    def has_steps(self) -> bool:
        """Does it do anything?"""
        return bool(self._steps)

    @property
    def is_stateful(self) -> bool:
        """Does it remember states? The same state may come out differently then."""
        return any(step.memory is not None for step in self._steps)

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
        found = {name: np.asarray(arrays[name]).astype(s.dtype, copy=False) for name, s in self._inputs.items()}
        for step in self._steps:
            found = step.function(found, of_rows)
        return found

    def reset(self, lanes: Sequence[int] | None = None) -> None:
        """New episodes begin in these lanes, or in all: the next state of each is its first."""
        for step in self._steps:
            if step.memory is not None:
                step.memory.clear(lanes)

    def to_json(self) -> list[dict[str, Any]]:
        """The steps with all arguments, in JSON's types; a Preprocessor takes it."""
        return [dict(arguments) for arguments in self._spec]

    def state_dict(self) -> State:
        """What is remembered, by the index of the step."""
        memories = ((index, step.memory) for index, step in enumerate(self._steps))
        return {str(index): memory.state_dict() for index, memory in memories if memory is not None}

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned.

        Raises:
            RLGraphError: it is of other steps or states; nothing has changed then.
        """
        memories = {str(index): step.memory for index, step in enumerate(self._steps) if step.memory is not None}
        if set(state) != set(memories):
            problem = f"remembers something in the steps {sorted(memories)}, and the saved one did in {sorted(state)}"
            refuse(self._where, problem, state)
        read = {index: memory.read(state[index]) for index, memory in memories.items()}
        for index, memory in memories.items():
            memory.restore(read[index])

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


def _read(where: str, spec: Any) -> list[dict[str, Any]]:
    """Each step's type and all of its arguments."""
    if spec is None:
        return []
    if not isinstance(spec, list | tuple):
        refuse(where, f"must be a list of steps such as [{{'type': 'divide', 'divisor': 255}}], got {spec!r}", spec)
    steps = []
    for index, given in enumerate(spec):
        place = f"{where}[{index}]"
        kind, arguments = kind_and_arguments(place, given, TAKES)
        for name, only in ONLY.get(kind, {}).items():
            if (value := arguments.pop(name, only)) != only:
                refuse(f"{place}[{name!r}]", f"must be {only!r}: there is nothing else, got {value!r}", value)
        steps.append({"type": kind, **read_arguments(place, arguments, TAKES[kind], kind)})
    return steps


_LAST: Final = "channels_last"
ONLY: Final[Mapping[str, Mapping[str, Any]]] = {
    "concat": {"axis": -1},
    "reshape": {"fold_time_rank": False, "unfold_time_rank": False, "time_major": None},
    "sequence": {"in_data_format": _LAST, "out_data_format": _LAST},
}
"""What 0.1.3 takes beside, by step, and its only value here."""


def _made(where: str, given: Mapping[str, Any], values: Specs) -> Step:
    arguments = {key: value for key, value in given.items() if key != "type"}
    if given["type"] in _OF_ALL:
        return _OF_ALL[given["type"]][0](where, values, arguments)
    build = STEPS[given["type"]][0]
    built = {name: build(where, value, arguments) for name, value in values.items()}

    def function(arrays: dict[str, Array], lanes: list[int]) -> dict[str, Array]:
        return {name: built[name][1](array) for name, array in arrays.items()}

    return Step({name: value for name, (value, _) in built.items()}, function)
