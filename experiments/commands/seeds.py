"""``axonrl run`` with many seeds: compiled once, then trained side by side."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shutil
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...core.errors import NotCompilableError
from ...policies import compiled
from ...run_dir.learning_curves import CURVES
from ...run_dir.provenance import processors
from ..child_process import start_process
from ..config.files import Document
from ..config.schema import ExperimentFile
from ..config.seeds import seed_ranges
from ..console import DONE, TERMINATED, print_json, print_table, say
from ..errors import ExperimentError
from ..running import folder as records
from ..running import runner
from ..running.signals import StopOnSignal
from ..searches import report
from ..searches.seeds import Seeds, prepare
from ..tracking.trackers import choices, disabled_by
from . import multi_run
from .arguments import RUNS
from .experiment_file import load
from .terminal import carry_out

NOT_COMPILABLE: Final = 3
"""Exit code of the process that compiles; it means that the processes that train must load TensorFlow."""


def are_wanted(experiment: ExperimentFile, arguments: argparse.Namespace) -> bool:
    """Are many seeds requested, or is a folder of such runs resumed?"""
    if experiment.seeds is not None:
        return True
    if not (arguments.resume or arguments.auto_resume):
        return False
    given: Path | None = arguments.model_dir
    if given is None and arguments.resume:
        given = records.newest_folder(RUNS, experiment.name, (records.EXPERIMENT, records.SEEDS))
    return ((RUNS / experiment.name if given is None else given) / records.SEEDS).is_file()


def run(experiment: ExperimentFile, document: Document, arguments: argparse.Namespace, *, only: bool = False) -> int:
    """Train, evaluate and report, with many seeds.

    Args:
        experiment: what to run; ``seeds`` may be missing only on resume.
        document: its file.
        arguments: the command line.
        only: leave other seeds in a resumed folder as they are.

    Returns:
        An exit code.
    """
    if not disabled_by():
        choices(experiment)  # finds errors before anything starts
    folder, resume = multi_run.folder_of(experiment.name, arguments, records.SEEDS)
    if experiment.seeds is None and "seed" in dict(arguments.sets):
        what = f"is one seed, and {folder} has the runs of many: add the seed to them with --seeds, or omit --seed"
        raise ExperimentError("--seed", what)
    prepared = functools.partial(prepare, folder, experiment, resume=resume, only=only)
    with multi_run.only_writer(folder, resume, prepared) as runs:
        start = multi_run.Start(runs, document, arguments, resume=resume, draws=True)
        code = start.carry_out(functools.partial(_train, start, runs), start.companion.draw_all)
        return _report(start, runs) if code is None else code


def _train(start: multi_run.Start, runs: Seeds, signals: StopOnSignal) -> int:
    left, arguments = runs.unfinished(), start.arguments
    say(f"Running {runs.name} with {_seeds_text(runs.wanted)} in {runs.folder}")
    if not left:
        return DONE
    if code := _compile(runs, left, arguments):
        return code
    jobs = min(arguments.jobs or processors(), len(left))
    say(f"{len(left)} of {len(runs.wanted)} seeds to run, {jobs} at a time")
    with contextlib.closing(start.pool(jobs)) as pool, signals.stopping(pool), start.view.opened(left):
        pool.run(left, runs.programs())
    return DONE


def _report(start: multi_run.Start, runs: Seeds) -> int:
    picture = runs.folder / CURVES if start.companion.drawn else None
    if start.arguments.json:
        print_json({**report.seeds_json(runs), "learning_curves": picture})
    else:
        print_table(report.seeds_table(runs))
        for line in report.seeds_lines(runs):
            print(line)
        print(f"run folders:     {runs.folder}/seed-*")
        if picture is not None:
            print(f"learning curves: {picture}")
    return start.exit_code()


def _seeds_text(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} seeds, {seed_ranges(list(seeds))}," if len(seeds) > 1 else f"seed {seeds[0]}"


# -- compiling --------------------------------------------------------------------------------------------------------


def _compile(runs: Seeds, seeds: Sequence[int], arguments: argparse.Namespace) -> int:
    """Compile in another process, so that TensorFlow's memory is released.

    Returns:
        Its exit code.

    Raises:
        ChildProcessError: a signal ended it.
    """
    if runs.not_compiled:
        return DONE
    try:
        wanted = sorted(_without_weights(runs, seeds))
    except ValueError as error:
        say(f"warning: {error}. Compiling again.")
        shutil.rmtree(runs.compiled)
        wanted = sorted(seeds)
    if not wanted:
        return DONE
    task = {"file": arguments.file, "params": arguments.params, "sets": arguments.sets, "debug": arguments.debug}
    task |= {"directory": str(runs.compiled), "seeds": wanted}
    with start_process(compile_main, [json.dumps(task)]) as child:
        try:
            why = child.stdout.read() if child.stdout is not None else b""
            child.wait()
        except BaseException:
            child.kill()
            raise
    if child.returncode < 0:  # as where memory runs out
        name = signal.Signals(-child.returncode).name
        raise ChildProcessError(f"the process that compiles the training program was ended by {name}")
    if child.returncode != NOT_COMPILABLE:
        return child.returncode
    runs.not_compiled = why.decode().strip()
    runs.write()
    say(f"warning: {runs.not_compiled}. Each process loads TensorFlow: some seconds and 0.7 GB")
    return DONE


def _without_weights(runs: Seeds, seeds: Sequence[int]) -> list[int]:
    """The seeds that must be compiled; ``ValueError`` if the existing program cannot be used."""
    if not runs.compiled.exists():
        return list(seeds)
    program = compiled.read(runs.compiled)
    program.program(), program.acting_program()
    known = program.seeds()
    for seed in {program.seed, *seeds} & set(known):
        program.weights(seed)
    return [seed for seed in seeds if seed not in known]


def compile_main(arguments: Sequence[str]) -> int:
    """Compile for :func:`_compile`, in a separate process; prints why a model cannot be compiled."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    values = json.loads(arguments[0])
    values |= {"command_line": [], "params": [tuple(one) for one in values["params"]]}
    return carry_out(_compile_here, argparse.Namespace(**values))


def _end_with_parent() -> None:
    """End this process when its parent ends, as another start may compile into the same folder. Runs in a thread."""
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(TERMINATED)


def _compile_here(arguments: argparse.Namespace) -> int:
    from ...estimators.compilation import add_seeds

    experiment, document = load(arguments)
    if (Path(arguments.directory) / compiled.FILE).is_file():
        add_seeds(arguments.directory, arguments.seeds)
        return DONE
    try:
        runner.compile_experiment(experiment, document, Path(arguments.directory), arguments.seeds)
    except NotCompilableError as error:
        print(error)
        return NOT_COMPILABLE
    return DONE
