"""Compiling: a run's training program as files, which train without TensorFlow (``policies/compiled.py``)."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import gymnasium
import numpy as np

from .. import registry
from ..checks import integer
from ..contracts import Array, ArraySpec, Memory, ModelFn, RunConfig, SpecTree
from ..environments import spaces
from ..errors import ArgumentError, CheckpointError, NotCompilableError
from ..explorations import Greedy, describing
from ..memories.describing import arguments_of
from ..policies import compiled, patching
from ..policies.compiled import CompiledProgram
from ..policies.description import read_part
from ..policies.patching import FrozenProgram
from ..policies.reasons import LARGE, TENSORFLOW
from ..quiet import load_tensorflow
from ..runs import record
from ..runs.arrays import save_arrays
from ..runs.files import make_folders, write_json_atomically
from ..runs.folders import staged, target_of, written
from ..runs.provenance import provenance
from ..runs.seeding import model_seed
from ..runtimes.tracing.signature import BoundModelFn
from .run import Run
from .training import check_td_error, shapes_of

if TYPE_CHECKING:
    from ..runtimes.tracing.initial import InitialValues
    from ..runtimes.tracing.program import Program, Train

_FILES: Final = (compiled.FILE, compiled.PROGRAM, compiled.POLICY, compiled.INITIAL, compiled.WEIGHTS)
logger = logging.getLogger("axonrl")


def compile_program(
    run: Run,
    observation: gymnasium.Space[Any],
    action: gymnasium.Space[Any],
    memory: Memory,
    lanes: int,
    directory: Any,
    seeds: Iterable[int] | None,
) -> Path:
    """Write the training program of a run; as ``Agent.compile``.

    The model is traced anew, so nothing of the run changes.

    Args:
        run: gives the function, its params, the seed and the runtime.
        observation: space of one environment.
        action: space of one environment.
        memory: not built; it is left as it is.
        lanes: number of environments.
        directory: as for ``Agent.compile``.
        seeds: likewise.
    """
    load_tensorflow()
    from ..runtimes.frozen import acting_program
    from ..runtimes.tracing.program import Program

    target = target_of(directory, "a compiled program", _FILES)
    if run.model_fn is None:
        raise ValueError(f"{run.compiled_directory} is compiled already: copy it")
    wanted = [run.seed] if seeds is None else checked_seeds(seeds)
    seed = run.seed if run.seed in wanted else wanted[0]
    config = dataclasses.replace(run.config, seed=seed, observation_space=observation, action_space=action)
    bound = BoundModelFn(run.model_fn, run.params, config, run.model_dir)
    program = Program(bound, spaces.observation_spec(observation), model_seed(seed))
    shapes = shapes_of(program.predict, observation, action, memory, lanes, None)
    train = program.trace_train(shapes.batch)
    check_td_error(train, memory)
    exploration = _exploration(program, train)
    content, why = _converted(program, train, run)
    acting = acting_program(program, run.programs)
    params, unrecorded = record.recordable(run.params)
    described = {
        "format": compiled.FORMAT,
        "format_version": compiled.FORMAT_VERSION,
        "model": program.name,
        "model_fn": run.model_name,
        "params": params,
        "unrecorded": list(unrecorded),
        "seed": seed,
        "made_with": provenance(),
        "spaces": {"observation": spaces.to_json(observation), "action": spaces.to_json(action)},
        "num_envs": lanes,
        "memory": arguments_of(memory),
        **compiled.modes_to_json(program.predict, train, exploration),
        "variables": compiled.variables_to_json(program.variables()),
        "predict_variables": len(program.predict_variables()),
        "runtime_why": {part: dataclasses.asdict(reason) for part, reason in why.items()},
    }
    own = {name: variable.numpy() for name, variable in program.store.variables().items()}
    with staged(target) as folder:
        described["program"] = written(folder / compiled.PROGRAM, [content])
        described["policy"] = {
            **written(folder / compiled.POLICY, [acting.content if isinstance(acting, FrozenProgram) else acting]),
            "placements": patching.to_json(acting.placements) if isinstance(acting, FrozenProgram) else None,
        }
        initial = _Initial(run.model_fn, run.params, config, run.model_dir, program.predict.state, train.batch)
        described["initial"], values = _initial_program(initial, seed, own, folder)
        write_json_atomically(folder / compiled.FILE, described)
        made = compiled.read(folder)
        for one in wanted:
            _save(made, one, own if one == seed else {**own, **values(one)})
    logger.info("compiled to %s, with initial weights for %d seeds", target, len(wanted))
    return target


def add_seeds(directory: str | Path, seeds: Iterable[int], model_fn: ModelFn | None = None) -> None:
    """Write initial weights for more seeds into a compiled program's directory, where there are none for them yet.

    TensorFlow is loaded, which takes some seconds. Where it must not be, use :func:`axonrl.policies.add_seeds`, which
    starts another process.

    Args:
        directory: written by ``Agent.compile``.
        seeds: of runs.
        model_fn: what was compiled; needed where the directory has no ``initial.pb`` and the function no name to be
            imported by.

    Raises:
        ValueError: the function cannot be found, or is another than when it was compiled; or as for reading.
    """
    program = compiled.read(directory)
    wanted = [seed for seed in checked_seeds(seeds) if seed not in program.seeds()]
    if not wanted:
        return
    load_tensorflow()
    own = program.weights(program.seed)
    values = _program_of(program) if program.everything["initial"] else _called_again(program, model_fn, own)
    for seed in wanted:
        _save(program, seed, {**own, **values(seed)})


def checked_seeds(seeds: Iterable[int]) -> list[int]:
    """Seeds of runs, sorted; ``ArgumentError`` if there are none, or one is no integer of at least 0."""
    checked = sorted({integer("seeds", seed, at_least=0) for seed in seeds})
    if not checked:
        raise ArgumentError("seeds must name at least one seed, got none", "seeds", seeds)
    return checked


def _exploration(program: Program, train: Train) -> dict[str, Any]:
    """The behaviour policy, described; and everything else of the specs that no file can hold is refused."""
    predict = program.predict
    for mode, name, hooks in (
        ("predict", "evaluation_hooks", predict.evaluation_hooks),
        ("train", "training_hooks", train.training_hooks),
    ):
        if hooks:
            kinds = ", ".join(type(hook).__name__ for hook in hooks)
            raise NotCompilableError(
                f"{program.name} cannot be compiled: its spec of mode {mode!r} carries {name} ({kinds}), which no file"
                " can hold. Give them to train(hooks=...) or evaluate(hooks=...)"
            )
    try:
        return describing.arguments_of(Greedy() if predict.exploration is None else predict.exploration)
    except ArgumentError as error:
        raise NotCompilableError(f"{program.name} cannot be compiled: {error}") from error


def _converted(program: Program, train: Train, run: Run) -> tuple[bytes, Mapping[str, Any]]:
    """One LiteRT program for actor and learner, and why they run there; ``ValueError`` if the run would not use it."""
    from ..runtimes.choosing import choose

    contents: list[bytes] = []

    def keeping(name: str, key: str, make: Callable[[], bytes]) -> bytes:
        contents.append(run.programs(name, key, make))
        return contents[-1]

    _, choice = choose(program, train, run.config.runtime, None, keeping)
    refused = {part: choice.why[part] for part, kind in choice.runtimes.items() if kind == TENSORFLOW}
    if refused:
        reasons = "; ".join(dict.fromkeys(map(str, refused.values())))
        large = all(reason.code == LARGE for reason in refused.values())
        advice = ". RunConfig(runtime='litert') trains and compiles it in LiteRT, if it converts" if large else ""
        raise NotCompilableError(
            f"{program.name} cannot be compiled: TensorFlow runs its {' and '.join(refused)}: {reasons}{advice}"
        )
    if len(contents) != 1:
        raise NotCompilableError(f"{program.name} cannot be compiled: actor and learner convert only one by one")
    return contents[0], choice.why


class _Initial:
    """What a ``model_fn`` creates when it is called with the seed of a run; arguments as for ``BoundModelFn``."""

    def __init__(
        self,
        model_fn: ModelFn,
        params: Mapping[str, Any] | None,
        config: RunConfig,
        model_dir: Path | None,
        state: Mapping[str, ArraySpec] | None,
        batch: Mapping[str, SpecTree],
    ) -> None:
        self._model_fn, self._params, self._config, self._model_dir = model_fn, params, config, model_dir
        self._state, self._batch = state, batch

    def __call__(self, seed: int) -> InitialValues:
        from ..runtimes.tracing.initial import initial_weights

        config = dataclasses.replace(self._config, seed=seed)
        if config.observation_space is None:
            raise ValueError("the observation space is not known")
        bound = BoundModelFn(self._model_fn, self._params, config, self._model_dir)
        observed = spaces.observation_spec(config.observation_space)
        return initial_weights(bound, observed, self._state, self._batch, model_seed(seed))


def _initial_program(
    initial: _Initial, seed: int, own: Mapping[str, Array], folder: Path
) -> tuple[dict[str, Any] | None, Callable[[int], Mapping[str, Array]]]:
    """Write the initialisers as a program of their own, if they can be one.

    Args:
        initial: calls the function.
        seed: that it was traced with.
        own: the values that tracing gave.
        folder: where to.

    Returns:
        The program's entry in the description, and a function of the seed that returns what depends on it.
    """
    from ..runtimes.tracing.initial import initial_program

    found, other = initial(seed), initial(seed + 1)
    if changed := _differing(own, found.weights):
        raise NotCompilableError(
            f"the model cannot be compiled: {changed[0]} has another initial value each time that model_fn is called"
            f" with seed {seed}. Draw it from TensorFlow, Keras, or Python's and NumPy's global generators"
        )
    made = initial_program(found, other.weights, model_seed(seed + 1))
    if made is None:
        return None, lambda seed: initial(seed).weights
    draws = [[[draw.method, *draw.arguments] for draw in mode] for mode in made.draws]
    entry = {**written(folder / compiled.INITIAL, [made.graph]), "draws": draws, "outputs": dict(made.outputs)}
    values = made.function()
    return entry, lambda seed: values(model_seed(seed))


def _program_of(program: CompiledProgram) -> Callable[[int], Mapping[str, Array]]:
    """The initialisers in a directory: a function of the seed."""
    from ..runtimes.tracing.initial import Draw, InitialProgram

    entry = program.everything["initial"]
    first, second = (tuple(Draw(name, tuple(given)) for name, *given in mode) for mode in entry["draws"])
    values = InitialProgram(read_part(program, "initial"), (first, second), entry["outputs"]).function()
    return lambda seed: values(model_seed(seed))


def _called_again(
    program: CompiledProgram, model_fn: ModelFn | None, own: Mapping[str, Array]
) -> Callable[[int], Mapping[str, Array]]:
    """As :func:`_program_of`, for a function that must be called."""
    if program.unrecorded:
        raise ValueError(f"{program.path} could not record the params {', '.join(program.unrecorded)}: compile again")
    if model_fn is None:
        if program.model_fn is None:
            raise ValueError(f"the model_fn of {program.path} has no importable name: pass model_fn, or compile again")
        found: ModelFn = registry.find("model_fn", program.model_fn)
        model_fn = found
    observation, action = map(spaces.from_json, program.spaces)
    config = RunConfig(observation_space=observation, action_space=action)
    initial = _Initial(model_fn, program.params, config, None, program.predict.state, program.train.batch)
    if changed := _differing(own, initial(program.seed).weights):
        raise ValueError(
            f"{program.name} does not give the initial weights of {program.path} any more: {changed[0]} is another for"
            f" seed {program.seed}. Compile it again"
        )
    return lambda seed: initial(seed).weights


def _differing(own: Mapping[str, Array], others: Mapping[str, Array]) -> list[str]:
    """Variables that are not the same in both."""
    names = [*own, *(name for name in others if name not in own)]
    return [
        name
        for name in names
        if name not in own or name not in others or not np.array_equal(own[name], others[name], equal_nan=True)
    ]


def _save(program: CompiledProgram, seed: int, weights: Mapping[str, Array]) -> None:
    path = program.weights_path(seed)
    make_folders(path.parent)
    about = {"sha256": compiled.digest(weights), "program": program.everything["program"]["sha256"]}
    save_arrays(path, weights, about)


def _main(arguments: Sequence[str]) -> int:
    """``python -m axonrl.estimators.compiling DIRECTORY SEED...``: what ``axonrl.policies.add_seeds`` starts."""
    directory, *seeds = arguments
    try:
        add_seeds(directory, map(int, seeds))
    except (ValueError, CheckpointError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
