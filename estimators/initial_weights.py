"""Initial weights of compiled programs as functions of the seed: see ``runtimes/tracing/initial_weights.py``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ..core import registry
from ..core.errors import NotCompilableError
from ..core.initializers import model_seed
from ..core.protocols import Array, ArraySpec, ModelFn, RunConfig, SpecTree
from ..environments import spaces
from ..policies.compiled import CompiledProgram
from ..policies.description import read_part
from ..run_dir.arrays import save_arrays
from ..run_dir.files import make_folders
from ..runtimes.tracing.signature import BoundModelFn

if TYPE_CHECKING:
    from ..runtimes.tracing.initial_weights import InitialProgram, InitialValues
    from ..runtimes.tracing.program import Program
    from .program_equivalence import Uses

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
        bound = BoundModelFn(self.model_fn, self.params, config, self.model_dir)
        observed = spaces.observation_spec(spaces.both_of(config)[0])
        return initial_weights(bound, observed, self.state, self.batch, model_seed(seed))


class Start(NamedTuple):
    """The initial weights of a program.

    Args:
        own: those of the compiled seed.
        drawn: entry of ``program.json``: NumPy's draws, and whether the weights of every seed follow from them.
        program: computes from the seed the values that NumPy does not draw; None if there are none, or it is
            impossible.
        values: a function from a seed to those values, or to all.
    """

    own: Weights
    drawn: Mapping[str, Any]
    program: InitialProgram | None
    values: Callable[[int], Weights]


def start_of(program: Program, uses: Uses, call: Initial, seed: int) -> Start:
    """Find how initial weights depend on the seed.

    Raises:
        NotCompilableError: they do not follow from the seed.
    """
    own, other = _values(program), _values(uses.other)
    draws = program.store.draws()
    drawn = {name: draw(model_seed(seed ^ 1)) for name, draw in draws.items()}
    every_seed = uses.any_seed and not differing({**own, **drawn}, other)
    entry = {"every_seed": every_seed, "variables": {name: draw.to_json() for name, draw in draws.items()}}
    if every_seed:
        return Start(own, entry, None, lambda seed: {})
    found = call(seed)
    if changed := differing(own, found.weights):
        raise NotCompilableError(
            f"{program.name} cannot be compiled: {changed[0]} gets a different initial value each time the function is"
            f" called with seed {seed}. Draw it from TensorFlow, Keras, or Python's and NumPy's global generators"
        )
    values = program_of(found, other, seed ^ 1, drawn) if uses.any_seed else None
    if values is None:
        return Start(own, entry, None, lambda seed: call(seed).weights)
    return Start(own, entry, values, function_of(values))


def _values(program: Program) -> Weights:
    return {name: variable.numpy() for name, variable in program.store.variables().items()}


def program_of(found: InitialValues, other: Weights, other_seed: int, drawn: Collection[str]) -> InitialProgram | None:
    """Find a program that computes the values of both seeds; None if there is none.

    Values ``drawn`` by NumPy are left out.
    """
    from ..runtimes.tracing.initial_weights import initial_program

    return initial_program(found, other, model_seed(other_seed), drawn)


def function_of(program: InitialProgram) -> Callable[[int], Weights]:
    """Make a function from a run's seed to the values that depend on it."""
    values = program.function()
    return lambda seed: values(model_seed(seed))


def to_json(program: InitialProgram) -> dict[str, Any]:
    """Entry of ``program.json``, beside the file's name, size and digest."""
    draws = [[[draw.method, *draw.arguments] for draw in mode] for mode in program.draws]
    return {"draws": draws, "outputs": dict(program.outputs)}


def recorded_function(program: CompiledProgram) -> Callable[[int], Weights]:
    """Read the function from the ``initial.pb`` of a directory."""
    from ..runtimes.tracing.initial_weights import Draw, InitialProgram

    entry = program.everything["initial"]
    first, second = (tuple(Draw(name, tuple(given)) for name, *given in mode) for mode in entry["draws"])
    return function_of(InitialProgram(read_part(program, "initial"), (first, second), entry["outputs"]))


def called_again(program: CompiledProgram, model_fn: ModelFn | None) -> Callable[[int], Weights]:
    """Make a function from a run's seed to all values that calls the ``model_fn``.

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
    """Names of the variables that differ."""
    names = [*own, *(name for name in others if name not in own)]
    return [
        name
        for name in names
        if name not in own or name not in others or not np.array_equal(own[name], others[name], equal_nan=True)
    ]


def save_weights(program: CompiledProgram, seed: int, weights: Weights) -> None:
    """Write the initial weights of a seed into a program's directory; ``NotCompilableError`` for other variables."""
    specs = {name: (array.shape, array.dtype) for name, array in weights.items()}
    if specs != {name: (spec.shape, spec.dtype) for name, spec in program.every_variable.items()}:
        raise NotCompilableError(
            f"{program.name} creates other variables with seed {seed} than with seed {program.seed}: compile each seed"
            " into its own directory"
        )
    path = program.weights_path(seed)
    make_folders(path.parent)
    save_arrays(path, weights, program.about_weights(seed, weights))
