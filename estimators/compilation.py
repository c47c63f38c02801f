"""Compilation: writes a run's training program to files that train without TensorFlow (``policies/compiled.py``)."""

from __future__ import annotations

import copy
import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from ..core import registry
from ..core.errors import ArgumentError, CheckpointError, NotCompilableError
from ..core.initializers import model_seed
from ..core.protocols import Array, ArraySpec, Exploration, Memory, ModelFn, SpecTree
from ..core.tensorflow_import import load_tensorflow
from ..core.trees import leaves
from ..environments import spaces
from ..explorations import Greedy, RandomWarmUp, description
from ..memories.description import arguments_of, without_path
from ..policies import compiled, modes_json, weight_patches
from ..policies.compiled import CompiledProgram
from ..policies.description import space_attributes
from ..policies.executors import with_parts
from ..policies.reasons import ACTOR, LARGE, LEARNER, TENSORFLOW
from ..policies.seeds import checked_seeds
from ..policies.weight_patches import FrozenProgram
from ..run_dir import record
from ..run_dir.files import make_folders, write_json_atomically
from ..run_dir.folders import only_writer, staged, target_of, write_and_record
from ..run_dir.programs import shared_content
from ..run_dir.provenance import provenance
from ..runtimes.tracing.signature import BoundModelFn
from . import initial_weights
from .batch_layout import check_td_error, shapes_of
from .initial_weights import Initial, Start, save_weights
from .program_equivalence import Uses, find_uses
from .run import Run

if TYPE_CHECKING:
    from ..runtimes.tracing.program import Program, Train


def compile_program(
    run: Run,
    memory: Memory,
    lanes: int,
    directory: Any,
    seeds: Iterable[int] | None = None,
    traced: tuple[Program, Train] | None = None,
) -> Path:
    """Write the training program of a run; see ``Agent.compile``.

    The model is traced again, so that the run is unchanged, unless ``traced`` is given.

    Args:
        run: provides the function, its params, the spaces, the seed and the runtime.
        memory: not built; left unchanged.
        lanes: number of environments.
        directory: see ``Agent.compile``.
        seeds: see ``Agent.compile``.
        traced: a trace of this run for this memory, whose variables still have their initial values.
    """
    target = target_of(directory, "a compiled program", compiled.FILES)
    if run.model_fn is None:
        raise ValueError(f"{run.compiled_directory} is compiled already: copy that directory")
    wanted, memory = [run.seed] if seeds is None else checked_seeds(seeds), _unused_memory(memory)
    seed = run.seed if run.seed in wanted else wanted[0]
    load_tensorflow()
    from ..runtimes.frozen import acting_program

    function = _Function(run, *spaces.both_of(run.config))
    program, train = function.trace(seed, memory, lanes) if traced is None else traced
    exploration = _exploration(program, train, function.action, lanes)
    content, why = _convert_program(program, train, run)
    acting = acting_program(program, shared_content)
    uses = find_uses(function.traces(train.batch), (program, train), exploration, run.params, seed ^ 1)
    if not uses.any_seed and wanted != [seed]:
        raise _for_one_seed(program.name, seed)
    call = Initial(run.model_fn, run.params, run.config, run.model_dir, program.predict.state, train.batch)
    start = initial_weights.start_of(program, uses, call, seed)
    described = {
        **function.program_description(program, uses, seed),
        **modes_json.modes_to_json(program.predict, train, exploration),
        **{"num_envs": lanes, "memory": without_path(arguments_of(memory))},
        "runtime_why": {part: dataclasses.asdict(reason) for part, reason in why.items()},
        "drawn": start.drawn,
    }
    with staged(target) as folder:
        made = _write_program(folder, described, content, acting, start)
        for one in wanted:
            save_weights(made, one, start.own if one == seed else {**start.own, **made.draws(one), **start.values(one)})
    return target


@dataclasses.dataclass(frozen=True)
class _Function:
    """A run's function, and the spaces of one environment."""

    run: Run
    observation: gymnasium.Space[Any]
    action: gymnasium.Space[Any]

    def program(self, seed: int, params: Mapping[str, Any] | None) -> Program:
        """PREDICT, traced for a seed."""
        from ..runtimes.tracing.program import Program

        assert self.run.model_fn is not None
        config = dataclasses.replace(self.run.config, seed=seed)
        bound = BoundModelFn(self.run.model_fn, params, config, self.run.model_dir)
        return Program(bound, spaces.observation_spec(self.observation), model_seed(seed))

    def trace(self, seed: int, memory: Memory, lanes: int) -> tuple[Program, Train]:
        """PREDICT and TRAIN for a memory's batches."""
        program = self.program(seed, self.run.params)
        batch = shapes_of(program.predict, self.observation, self.action, memory, lanes, None).batch
        train = program.trace_train(batch)
        check_td_error(train, memory)
        return program, train

    def traces(self, batch: Mapping[str, SpecTree]) -> Callable[[int, Mapping[str, Any] | None], tuple[Program, Train]]:
        """A function that traces PREDICT and TRAIN for a seed and params."""

        def trace(seed: int, params: Mapping[str, Any] | None) -> tuple[Program, Train]:
            other = self.program(seed, params)
            return other, other.trace_train(batch)

        return trace

    def program_description(self, program: Program, uses: Uses, seed: int) -> dict[str, Any]:
        """Origin and variables of the program, for its description."""
        params, unrecorded = record.recordable(self.run.params)
        return {
            **{"format": compiled.FORMAT, "format_version": compiled.FORMAT_VERSION, "made_with": provenance()},
            **{"model": program.name, "model_fn": self.run.model_name, "params": params, "unrecorded": [*unrecorded]},
            **{"seed": seed, "any_seed": uses.any_seed, "free": uses.free},
            "spaces": {"observation": spaces.to_json(self.observation), "action": spaces.to_json(self.action)},
            "variables": modes_json.variables_to_json(program.variables()),
            "predict_variables": len(program.predict_variables()),
        }


def _write_program(
    folder: Path, described: dict[str, Any], content: bytes, acting: FrozenProgram | bytes, start: Start
) -> CompiledProgram:
    """Write the programs and the description into a folder, and read it back."""
    described["program"] = write_and_record(folder / compiled.PROGRAM, [content])
    described["policy"] = {
        **write_and_record(folder / compiled.POLICY, [acting.content if isinstance(acting, FrozenProgram) else acting]),
        "placements": weight_patches.to_json(acting.placements) if isinstance(acting, FrozenProgram) else None,
    }
    described["initial"] = None
    if start.program is not None:
        file = write_and_record(folder / compiled.INITIAL, [start.program.graph])
        described["initial"] = {**file, **initial_weights.to_json(start.program)}
    write_json_atomically(folder / compiled.FILE, compiled.with_digest(described))
    return compiled.read(folder)


def add_seeds(directory: str | Path, seeds: Iterable[int], model_fn: ModelFn | None = None) -> None:
    """Write initial weights for additional seeds into a compiled program's directory; existing ones are kept.

    Loads TensorFlow, which takes some seconds. To avoid that, use :func:`axonrl.policies.add_seeds`, which starts
    another process.

    Args:
        directory: written by ``Agent.compile``.
        seeds: seeds of runs.
        model_fn: the compiled function; needed if the directory has no ``initial.pb`` and the function no importable
            name.

    Raises:
        ValueError: the function cannot be found or has changed since it was compiled; or the directory cannot be read.
        CheckpointError: the directory cannot be written.
    """
    wanted, program = checked_seeds(seeds), compiled.read(directory)
    if not {*wanted} - {*program.seeds()}:
        return
    if not program.has_every_seed:
        load_tensorflow()
    try:
        make_folders(program.directory / compiled.WEIGHTS)
        with only_writer(program.directory / compiled.WEIGHTS / ".lock", wait=True):
            _add_seeds(compiled.read(directory), wanted, model_fn)
    except OSError as error:
        raise CheckpointError(f"{directory} cannot be written: {error}") from error


def _add_seeds(program: CompiledProgram, wanted: Iterable[int], model_fn: ModelFn | None) -> None:
    """Add seeds while holding the directory's lock."""
    there = program.seeds()
    missing = [seed for seed in wanted if seed not in there]
    if not missing:
        return
    if not there or not program.everything["any_seed"]:
        why = (
            "the program is valid only for its own seed, as model_fn depends on it"
            if there
            else "it has none to compare new ones with"
        )
        raise ValueError(
            f"{program.directory} cannot get initial weights for more seeds: {why}. Compile it again with all seeds"
        )
    if program.has_every_seed:
        for seed in missing:
            save_weights(program, seed, program.weights(seed))
        return
    known = program.seed if program.seed in there else there[0]
    own = program.weights(known)
    is_program = program.everything["initial"] is not None
    values = (
        initial_weights.recorded_function(program) if is_program else initial_weights.called_again(program, model_fn)
    )
    found = values(known)
    if changed := initial_weights.differing(own, {**own, **found} if is_program else found):
        raise ValueError(
            f"{program.name} no longer gives the initial weights of {program.path}: {changed[0]} differs for seed"
            f" {known}, because the function, TensorFlow or Keras has changed. Compile it again"
        )
    for seed in missing:
        save_weights(program, seed, {**own, **program.draws(seed), **values(seed)})


def _for_one_seed(name: str, seed: int) -> NotCompilableError:
    return NotCompilableError(
        f"{name} cannot be compiled for several seeds: its program for seed {seed ^ 1} differs from the one for seed"
        f" {seed}, because model_fn depends on the seed. Compile each seed into its own directory"
    )


def _unused_memory(memory: Memory) -> Memory:
    """Return an empty memory of these settings: this one, or a copy if it is in use."""
    if not getattr(memory, "num_envs", 0):
        return memory
    described = arguments_of(memory)
    if described is None:
        raise ArgumentError(
            "the Agent's memory is in use: pass compile(memory=...) a new one with its settings", "memory"
        )
    made: Memory = registry.find("memory", described.pop("kind"))(**described)
    return made


def _exploration(program: Program, train: Train, action: gymnasium.Space[Any], lanes: int) -> dict[str, Any]:
    """Describe the behaviour policy; raise for anything in the specs that cannot be saved."""
    predict = program.predict
    for mode, name, hooks in (
        ("predict", "evaluation_hooks", predict.evaluation_hooks),
        ("train", "training_hooks", train.training_hooks),
    ):
        if hooks:
            kinds = ", ".join(type(hook).__name__ for hook in hooks)
            raise NotCompilableError(
                f"{program.name} cannot be compiled: its spec of mode {mode!r} carries {name} ({kinds}), which cannot"
                " be saved. Pass them to train(hooks=...) or evaluate(hooks=...)"
            )
    exploration = Greedy() if predict.exploration is None else predict.exploration
    try:
        described = description.arguments_of(exploration)
        space = description.space_of(space_attributes(spaces.to_json(action)))
        again = description.made_from(json.loads(json.dumps(described)), space)
        if not _explore_alike(exploration, again, predict.outputs, lanes):
            raise ValueError("it chooses other actions")
    except ArgumentError as error:
        raise NotCompilableError(f"{program.name} cannot be compiled: {error}") from error
    except Exception as error:  # of a user's own class
        kind = type(exploration).__name__
        raise NotCompilableError(
            f"{program.name} cannot be compiled: its exploration {kind}, rebuilt from its arguments, differs:"
            f" {error!r}. Its attributes must be named like its constructor's arguments; of the action space it"
            " may use only the numbers (n, start, low, high, ...)"
        ) from error
    return described


def _explore_alike(exploration: Exploration, again: Exploration, outputs: Mapping[str, ArraySpec], lanes: int) -> bool:
    """Do two policies choose the same action for random predictions? True if the first cannot take them."""
    if isinstance(exploration, RandomWarmUp) and isinstance(again, RandomWarmUp):  # both act at random for long
        return _explore_alike(exploration.exploration, again.exploration, outputs, lanes)
    try:
        expected = _chosen_actions(copy.deepcopy(exploration), outputs, lanes)
    except Exception:  # a user's own class may expect probabilities, for example
        return True
    found = _chosen_actions(again, outputs, lanes)
    return len(expected) == len(found) and all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for a, b in zip(expected, found, strict=True)
    )


def _chosen_actions(exploration: Any, outputs: Mapping[str, ArraySpec], lanes: int) -> list[Array]:
    rng, found = np.random.default_rng(0), list[Any]()
    if hasattr(exploration, "reset"):
        exploration.reset(np.ones(lanes, np.bool_))
    for timestep in (0, 1, 1_000):
        if hasattr(exploration, "follow"):
            exploration.follow(timestep / 1_000)
        predictions = {
            name: rng.standard_normal((lanes, *spec.shape)).astype(spec.dtype)
            if spec.dtype.kind == "f"
            else np.full((lanes, *spec.shape), spec.dtype.kind == "b", spec.dtype)
            for name, spec in outputs.items()
        }
        found += leaves(list(exploration(with_parts(predictions), timestep, rng)))
    return [np.asarray(one) for one in found]


def _convert_program(program: Program, train: Train, run: Run) -> tuple[bytes, Mapping[str, Any]]:
    """Convert actor and learner to one LiteRT program; ``ValueError`` if the run would not use it."""
    from ..runtimes.executor_choice import choose_and_convert

    contents, choice = choose_and_convert(program, train, run.config.runtime, None, shared_content)
    refused = {part: choice.why[part] for part, kind in choice.runtimes.items() if kind == TENSORFLOW}
    if refused:
        reasons = "; ".join(dict.fromkeys(map(str, refused.values())))
        large = all(reason.code == LARGE for reason in refused.values())
        advice = ". RunConfig(runtime='litert') trains and compiles it in LiteRT, if it converts" if large else ""
        raise NotCompilableError(
            f"{program.name} cannot be compiled: TensorFlow runs its {' and '.join(refused)}: {reasons}{advice}"
        )
    if len(contents) != 1:
        raise NotCompilableError(f"{program.name} cannot be compiled: actor and learner convert only separately")
    return contents[ACTOR, LEARNER], choice.why


def main() -> int:
    """Entry point of ``axonrl.policies.add_seeds``: reads its task as JSON, and reports errors."""
    task = json.load(sys.stdin)
    try:
        add_seeds(task["directory"], task["seeds"])
    except (ValueError, CheckpointError) as error:
        print(error)
        return 1
    return 0
