"""Preprocessing of states on the host: a list of steps, in NumPy. Does not load TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array, State
from ...common.processing.pipeline import Pipeline, Stage
from ...common.processing.steps import Numbers
from ...common.specs.modules import resolve
from ..spaces import BoolBox, BoxSpace, FloatBox, IntBox, Space
from ..spaces.readers import StatesReader
from ..spaces.space_specs import with_boxes
from ..utils.rlgraph_errors import refuse, translate_errors
from .preprocessing_steps import CONCAT, STEPS, make_step


class Preprocessor:
    """A list of steps for the states of one agent or worker.

    Args:
        where: the place of the specification, for messages: ``"DQNAgent: preprocessing_spec"``.
        spec: None or a list of steps: dictionaries with ``type``, or types alone.
        spaces: spaces of the parts of a state, by flat name; ``""`` is the name of a single part.

    Raises:
        RLGraphError: a step or a key is unknown, or an argument is invalid or does not fit the states; names it.

    Attributes:
        spec: the steps with all arguments, in JSON types, from which an equal Preprocessor can be made.
        outputs: spaces of the preprocessed states, by flat name.
    """

    def __init__(self, where: str, spec: Any, spaces: Mapping[str, BoxSpace]) -> None:
        if spec is not None and not isinstance(spec, list | tuple):
            refuse(where, f"must be a list of steps such as [{{'type': 'divide', 'divisor': 255}}], got {spec!r}", spec)
        values = {name: numbers_of(space) for name, space in spaces.items()}
        stages: list[Stage] = []
        with translate_errors():
            places = [f"{where}[{index}]" for index in range(len(spec or ()))]
            self.spec = [
                resolve(at, step, "step", {"step": STEPS}) for at, step in zip(places, spec or (), strict=True)
            ]
            for place, given in zip(places, self.spec, strict=True):
                if given["type"] == CONCAT:
                    out, stage = make_step(place, given, values)
                    values = {"": out}
                else:
                    stage = {name: make_step(place, given, value) for name, value in values.items()}
                    values = {name: step.out for name, step in stage.items()}
                stages.append(stage)
        self._pipeline = Pipeline(stages)
        self.outputs: Mapping[str, Any] = {n: box_of(v) for n, v in values.items()} if stages else dict(spaces)

    @property
    def is_stateful(self) -> bool:
        """Is it stateful, so that equal states may have different results?"""
        stages = (stage for stage in self._pipeline.stages if isinstance(stage, Mapping))
        return any(step.memory for stage in stages for step in stage.values())

    def __call__(self, arrays: Mapping[str, Array], lanes: Sequence[str]) -> dict[str, Array]:
        """Preprocess one state or a batch.

        Args:
            arrays: arrays [B, ...] by flat name, of the shapes and dtypes of the spaces; they are not changed.
            lanes: the environment of each row.

        Returns:
            Arrays [B, ...] of ``outputs`` by flat name; without computation, the given arrays or views of them.
        """
        return self._pipeline(arrays, lanes)

    def reset(self, lanes: Sequence[str] | None = None) -> None:
        """Begin new episodes in these lanes, or in all: the next state of each is its first."""
        self._pipeline.reset(lanes)

    def state_dict(self) -> State:
        """The state of the steps: by lane, arrays by index and name of the step and name of the array."""
        return {
            str(lane): {f"{index}/{name}": dict(own) for (index, name), own in kept.items()}
            for lane, kept in self._pipeline.lanes.items()
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned."""
        self._pipeline.lanes = {
            lane: {(int(at.partition("/")[0]), at.partition("/")[2]): dict(own) for at, own in kept.items()}
            for lane, kept in state.items()
        }


def numbers_of(box: BoxSpace) -> Numbers:
    """The contents of a box, for steps."""
    low, high = box.bounds
    if not isinstance(box, IntBox):
        return Numbers(box.shape, box.dtype, float(low.min()), float(high.max()))
    categories = box.num_categories if (low == low.min()).all() else None
    return Numbers(box.shape, box.dtype, int(low.min()), int(high.max()) - 1, categories)


def box_of(found: Numbers) -> BoxSpace:
    """Box of a step's output."""
    if found.dtype.kind == "b":
        return BoolBox(shape=found.shape)
    if found.dtype.kind == "f":
        return FloatBox(found.low, found.high, shape=found.shape)
    dtype: Any = np.uint8 if found.dtype == np.uint8 else np.int32
    limits = np.iinfo(dtype)
    if found.categories is None and found.low <= limits.min and found.high >= limits.max - 1:
        return IntBox(shape=found.shape, dtype=dtype)
    most = 256 if dtype == np.uint8 else limits.max  # the upper bound of an int32 must be an int32
    return IntBox(found.low, min(found.high + 1, most), shape=found.shape, dtype=dtype)


def preprocessing_to_json(space: Space, preprocessor: Preprocessor) -> dict[str, Any] | None:
    """Entry of an exported policy's ``policy.json``; None without preprocessing."""
    steps = preprocessor.spec
    return {"kind": "rlgraph", "state_space": space.to_spec(), "steps": steps} if steps else None


def make(spec: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Function that preprocesses one state or a batch, from an entry made by :func:`preprocessing_to_json`."""
    space = Space.from_spec(spec["state_space"])
    preprocessor = Preprocessor("preprocessing", spec["steps"], space.flat())
    seen, read = with_boxes(space, preprocessor.outputs), StatesReader("Policy", space)

    def preprocess(observation: Any) -> Any:
        arrays, single = read("act", observation, "observation")
        found = preprocessor(arrays, [str(row) for row in range(len(next(iter(arrays.values()))))])
        return seen.unflatten({name: array[0] if single else array for name, array in found.items()})

    return preprocess
