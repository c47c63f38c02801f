"""Initial weights of compiled programs as functions of the seed: see ``runtimes/tracing/initial_weights.py``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..core import registry
from ..core.protocols import Array, ArraySpec, ModelFn, RunConfig, SpecTree
from ..environments import spaces
from ..policies.compiled import CompiledProgram
from ..policies.description import read_part
from ..run_dir.generators import model_seed
from ..runtimes.tracing.signature import BoundModelFn

if TYPE_CHECKING:
    from ..runtimes.tracing.initial_weights import InitialProgram, InitialValues

Weights: TypeAlias = "Mapping[str, Array]"


@dataclasses.dataclass(frozen=True)
class Initial:
    """Finds the variables that a ``model_fn`` creates when called with a run's seed.

    Args:
        model_fn: the function.
        params: its params.
        config: includes the spaces.
        model_dir: the run's, if there is one.
        state: the recurrent state of one row; None if the model has none.
        batch: the batch for tracing TRAIN.
    """

    model_fn: ModelFn
    params: Mapping[str, Any] | None
    config: RunConfig
    model_dir: Path | None
    state: Mapping[str, ArraySpec] | None
    batch: Mapping[str, SpecTree]

    def __call__(self, seed: int) -> InitialValues:
        """Find the values, and how they are computed."""
        from ..runtimes.tracing.initial_weights import initial_weights

        config = dataclasses.replace(self.config, seed=seed)
        if config.observation_space is None:
            raise ValueError("the observation space is not known")
        bound = BoundModelFn(self.model_fn, self.params, config, self.model_dir)
        observed = spaces.observation_spec(config.observation_space)
        return initial_weights(bound, observed, self.state, self.batch, model_seed(seed))


def program_of(found: InitialValues, other: Weights, other_seed: int) -> InitialProgram | None:
    """Find a program that computes the values of one seed, and for another seed its values; None if there is none."""
    from ..runtimes.tracing.initial_weights import initial_program

    return initial_program(found, other, model_seed(other_seed))


def function_of(program: InitialProgram) -> Callable[[int], Weights]:
    """Make a function from a run's seed to the values that depend on it."""
    values = program.function()
    return lambda seed: values(model_seed(seed))


def described(program: InitialProgram) -> dict[str, Any]:
    """Entry of ``program.json``, beside the file's name, size and digest."""
    draws = [[[draw.method, *draw.arguments] for draw in mode] for mode in program.draws]
    return {"draws": draws, "outputs": dict(program.outputs)}


def recorded(program: CompiledProgram) -> Callable[[int], Weights]:
    """Read the function from the ``initial.pb`` of a directory."""
    from ..runtimes.tracing.initial_weights import Draw, InitialProgram

    entry = program.everything["initial"]
    first, second = (tuple(Draw(name, tuple(given)) for name, *given in mode) for mode in entry["draws"])
    return function_of(InitialProgram(read_part(program, "initial"), (first, second), entry["outputs"]))


def called_again(program: CompiledProgram, model_fn: ModelFn | None) -> Callable[[int], Weights]:
    """Make a function from a run's seed to all values, which calls the ``model_fn``.

    Args:
        program: the compiled program.
        model_fn: its function; None for the recorded one.

    Raises:
        ValueError: the function, or its params, could not be recorded.
    """
    if program.unrecorded:
        names = ", ".join(program.unrecorded)
        raise ValueError(f"{program.path} could not record the params {names}: compile again, for all seeds at once")
    if model_fn is None:
        if program.model_fn is None:
            raise ValueError(
                f"the model_fn of {program.path} has no importable name: compile again, for all seeds at once"
            )
        found: ModelFn = registry.find("model_fn", program.model_fn)
        model_fn = found
    observation, action = map(spaces.from_json, program.spaces)
    config = RunConfig(observation_space=observation, action_space=action)
    call = Initial(model_fn, program.params, config, None, program.predict.state, program.train.batch)
    return lambda seed: call(seed).weights


def differing(own: Weights, others: Weights) -> list[str]:
    """Variables that differ between the two."""
    names = [*own, *(name for name in others if name not in own)]
    return [
        name
        for name in names
        if name not in own or name not in others or not np.array_equal(own[name], others[name], equal_nan=True)
    ]
