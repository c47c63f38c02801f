"""A traced ``model_fn``, which acts and learns from batches of any number of rows."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....core.initializers import model_seed
from ....core.protocols import Array, ArraySpec, RunConfig, SpecTree, State
from ....core.trees import map_tree
from ....run_dir.generators import generators
from ....run_dir.programs import shared_content
from ...common.value_specs import ValueSpec
from ..processing.preprocessors import numbers_of

if TYPE_CHECKING:
    from ....policies.executors import Executor
    from ....policies.weight_patches import FrozenProgram

logger = logging.getLogger("axonrl")


def specs_of(boxes: Mapping[str, Any]) -> dict[str, ValueSpec]:
    """Specs of states for networks: their types, and the number of values of an integer.

    Bytes are numbers, as in images, not categories; so are integers with different lower bounds.
    """
    found = {}
    for name, box in boxes.items():
        kind = {"b": "bool", "f": "float"}.get(box.dtype.kind, "int")
        numbers = numbers_of(box)
        count = None if box.dtype == np.uint8 else numbers.categories
        found[name] = ValueSpec(name, kind, box.shape, count, None if count is None else float(numbers.low))
    return found


def arrays_of(boxes: Mapping[str, Any]) -> dict[str, ArraySpec]:
    """Shapes and dtypes of states, for memories and programs."""
    return {name: ArraySpec(box.shape, box.dtype) for name, box in boxes.items()}


def lows_of(box: Any) -> Array:
    """The lowest integers of an action, int32 of its shape."""
    return np.broadcast_to(box.low, box.shape).astype(np.int32)


class TracedModel:
    """A model with its weights.

    TRAIN takes batches of a fixed number of rows. Shorter batches are padded with rows that are not ``valid``, as
    :func:`labels["valid"] <axonrl.core.protocols.EstimatorSpec>` tells the model; for longer ones the model is traced
    again, doubling the rows until they fit, and gets the weights.

    Args:
        model_fn: the dialect's model function.
        params: params of the model function.
        observation: specs of one state by flat name.
        row: specs of one row of a batch, besides its state: name to a spec, or to specs by name. If rows are not single
            timesteps, ``observation`` is one of them.
        rows: rows of most batches; 0: the model only acts.
        seed: seed of initial weights and noise.
        numbers: names of the scalars passed to each update.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        params: Mapping[str, Any],
        observation: SpecTree,
        row: Mapping[str, Any],
        rows: int,
        seed: int,
        numbers: tuple[str, ...] = (),
    ) -> None:
        self._model_fn, self._params, self._observation = model_fn, params, observation
        self._row, self._numbers, self._seed = row, numbers, seed
        self._noise_rng = generators(seed)["noise"]
        self._rows, self._traced = rows, {rows: self._trace(rows)}
        self._now = self._traced[rows]

    def act(
        self, features: Mapping[str, Array], state: Mapping[str, Array] | None = None
    ) -> tuple[dict[str, Any], dict[str, Array] | None]:
        """Predictions [B, ...] of the current weights, and the next recurrent state."""
        seen: Any = features if state is None else {"observation": features, "state": dict(state)}
        return self._now.executor.act(seen)

    def train(self, batch: Mapping[str, Any], updates: int, **numbers: float) -> Array:
        """One gradient step.

        Args:
            batch: arrays [B, ...] by name as in the specs of a row, or nested dictionaries; includes ``observation``.
            updates: number of updates before this one.
            **numbers: the scalars.

        Returns:
            The model's ``td_error`` of each row, float32 [B], or of its timesteps [B, T].
        """
        count = len(batch["reward"])
        now = self._for(count)
        filled = dict(batch)
        if (more := now.rows - count) > 0:  # pad with zeros
            filled = map_tree(lambda x: np.concatenate([x, np.zeros((more, *x.shape[1:]), x.dtype)]), filled)
        filled["valid"] = (np.arange(now.rows) < count).astype(np.float32) if more else now.valid
        if numbers:
            filled["numbers"] = {name: np.float32(number) for name, number in numbers.items()}
        draws = [request.draw(self._noise_rng) for request in now.noise]
        counters = {"global_step": updates, "global_timestep": 0, "progress": 0.0}
        result = now.executor.train(filled, counters, draws)
        assert result.td_error is not None
        return result.td_error[:count]

    @property
    def program(self) -> Any:
        """The traced program."""
        return self._now.program

    def acting_weights(self) -> dict[str, Array]:
        """The current acting weights by name."""
        return self._now.executor.get_predict_weights()

    def acting_program(self) -> FrozenProgram | bytes:
        """The program of mode PREDICT in LiteRT, for ``estimators.export``."""
        from ....runtimes.frozen import acting_program

        return acting_program(self.program, shared_content)

    def weights(self) -> dict[str, Array]:
        """Every variable by name, copied."""
        return self._now.executor.get_weights()

    def named_weights(self) -> dict[str, Array]:
        """The :meth:`weights` under the model's names: ``policy/dense-0/kernel``."""
        return {_bare_name(name): array for name, array in self.weights().items()}

    def part(self, prefix: str) -> dict[str, Array]:
        """The variables whose names have this prefix, without the prefix."""
        named = self.named_weights()
        return {name.removeprefix(prefix): array for name, array in named.items() if name.startswith(prefix)}

    def set_named(self, weights: Mapping[str, Array]) -> None:
        """Set some variables by the model's names; others are kept."""
        self.set_weights({name: weights.get(_bare_name(name), array) for name, array in self.weights().items()})

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set the acting variables, or all; if names or shapes differ, raises ``ValueError`` and sets nothing."""
        self._now.executor.set_weights(weights)

    def state_dict(self) -> State:
        """Weights and random state."""
        return {"weights": self.weights(), "noise": self._noise_rng.bit_generator.state}

    def load_state_dict(self, state: State) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.set_weights(state["weights"])
        self._noise_rng.bit_generator.state = state["noise"]

    def _for(self, count: int) -> _Traced:
        """The trace for at least this many rows, with the current weights."""
        rows = self._rows
        while rows < count:
            rows *= 2
        if rows not in self._traced:
            logger.info("Tracing the model once more, for batches of up to %d records.", rows)
            self._traced[rows] = self._trace(rows)
        before, self._now = self._now, self._traced[rows]
        if self._now is not before:
            self._now.executor.set_weights(before.executor.get_weights())
        return self._now

    def _trace(self, rows: int) -> _Traced:
        from ....runtimes.executor_choice import choose
        from ....runtimes.tracing.program import Program
        from ....runtimes.tracing.signature import BoundModelFn

        config = RunConfig(seed=self._seed, progress=False)
        bound = BoundModelFn(self._model_fn, self._params, config, None)
        program = Program(bound, self._observation, model_seed(self._seed))
        specs: dict[str, Any] = {"observation": self._observation, **self._row}
        batch: dict[str, Any] = map_tree(lambda spec: ArraySpec((rows, *spec.shape), spec.dtype), specs)
        batch["valid"] = ArraySpec((rows,), np.float32)
        if self._numbers:
            batch["numbers"] = dict.fromkeys(self._numbers, ArraySpec((), np.float32))
        train = program.trace_train(batch) if rows else None
        executor, _ = choose(program, train, "auto", None, shared_content)
        return _Traced(rows, executor, train.noise if train else (), program, np.ones(rows, np.float32))


def _bare_name(name: str) -> str:
    """A variable's name without the number that makes it unique."""
    return re.sub(r"^\d+\.", "", name)


class _Traced(NamedTuple):
    rows: int
    executor: Executor
    noise: Any
    program: Any
    valid: Array
    """Mask of a batch without padding."""
