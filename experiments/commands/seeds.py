"""``axonrl run`` with many seeds: compiled once, then a process for each of them."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ...core.errors import NotCompilableError
from ...core.tensorflow_import import load_tensorflow
from ...policies import compiled
from ...run_dir.learning_curves import CURVES
from ...run_dir.provenance import processors
from ..config.files import Document
from ..config.schema import ExperimentFile
from ..config.seeds import seed_ranges
from ..console import DONE, TERMINATED, print_json, print_table, say
from ..console import FAILED as FAILURE
from ..errors import ExperimentError
from ..running import folder as records
from ..running import runner
from ..running.signals import StopOnSignal
from ..seeds import group as groups
from ..seeds import report
from ..seeds.companion import Companion
from ..seeds.display import SeedsView
from ..seeds.group import FAILED, FINISHED, KILLED, STOPPED, Group
from ..seeds.pool import Scheduler
from ..tracking.trackers import choices, disabled_by
from . import multi_run
from .arguments import RUNS
from .experiment_file import load
from .failures import carry_out

NOT_COMPILABLE: Final = 3
"""Exit code of the process that compiles: each seed's process is to load TensorFlow."""


def are_wanted(experiment: ExperimentFile, arguments: argparse.Namespace) -> bool:
    """Are many seeds asked for, or are such runs to be resumed?"""
    if experiment.seeds is not None:
        return True
    if not (arguments.resume or arguments.auto_resume):
        return False
    given: Path | None = arguments.model_dir
    if given is None and arguments.resume:
        given = records.newest_folder(RUNS, experiment.name, (records.EXPERIMENT, groups.EXPERIMENT))
    return groups.is_group(RUNS / experiment.name if given is None else given)


def run(experiment: ExperimentFile, document: Document, arguments: argparse.Namespace) -> int:
    """Train, evaluate and report, with many seeds."""
    if not disabled_by():
        choices(experiment)  # finds mistakes before anything starts
    where = groups.EXPERIMENT, groups.is_group, groups.check_folder
    folder, resume = multi_run.folder_of(experiment.name, arguments, *where)
    if experiment.seeds is None and "seed" in dict(arguments.sets):
        what = f"is one seed, and {folder} has the runs of many: add it to them with --seeds, or leave it out"
        raise ExperimentError("--seed", what)
    prepare = functools.partial(groups.prepare, folder, experiment, resume=resume)
    with multi_run.only_writer(folder, resume, prepare) as group:
        return _run(group, document, arguments)


def _run(group: Group, document: Document, arguments: argparse.Namespace) -> int:
    seeds, companion = group.unfinished(), Companion(group)
    jobs = min(arguments.jobs or processors(), max(len(seeds), 1))
    with StopOnSignal() as signals:
        try:
            say(f"Running {group.experiment.name} with {_counted(group.seeds)} in {group.folder}")
            if seeds:
                if code := _compile(group, seeds, arguments):
                    if not any(group.run_folder(seed).exists() for seed in group.seeds):
                        records.discard(group.folder)  # the corrected runs may start here
                    return code
                say(f"{len(seeds)} of {len(group.seeds)} seeds to run, {jobs} at a time")
                with SeedsView(group, seeds).opened() as view:
                    scheduler = Scheduler(group, document.files, arguments.command_line, view, companion)
                    with signals.stopping(scheduler):
                        scheduler.run(seeds, jobs)
            if signals.received is None:
                companion.draw_all()
            companion.wait()
        except KeyboardInterrupt:
            say(f"Stopped at once by {signals.title}. {_how_to_continue(group, arguments)}")
            return signals.exit_code
        _tell_failures(group)
        if signals.received is not None:
            say(f"Stopped by {signals.title}. {_how_to_continue(group, arguments)}")
            return signals.exit_code
    picture = group.folder / CURVES if companion.drawn else None
    if arguments.json:
        print_json({**report.as_json(group), "learning_curves": picture})
    else:
        print_table(report.table(group))
        for line in report.lines(group):
            print(line)
        print(f"run folders:     {group.folder}/seed-*")
        if picture is not None:
            print(f"learning curves: {picture}")
    statuses = {outcome.status for outcome in group.outcomes.values()}
    if statuses & {FAILED, KILLED, STOPPED}:
        say(_how_to_continue(group, arguments))
    if companion.failed or statuses & {FAILED, KILLED}:
        return FAILURE
    return TERMINATED if STOPPED in statuses else DONE


def _counted(seeds: Sequence[int]) -> str:
    return f"{len(seeds)} seeds, {seed_ranges(list(seeds))}," if len(seeds) > 1 else f"seed {seeds[0]}"


def _tell_failures(group: Group) -> None:
    for seed, outcome in group.outcomes.items():
        if outcome.status in (FAILED, KILLED):
            multi_run.tell_failure(f"Seed {seed}", outcome, group.output(seed))


def _how_to_continue(group: Group, arguments: argparse.Namespace) -> str:
    finished = sum(outcome.status == FINISHED for outcome in group.outcomes.values())
    return multi_run.how_to_continue(group.folder, finished, len(group.seeds), "seeds", arguments)


# -- compiling --------------------------------------------------------------------------------------------------------


def _compile(group: Group, seeds: Sequence[int], arguments: argparse.Namespace) -> int:
    """Have another process compile what the seeds need, so that TensorFlow's memory is given back; its exit code."""
    if group.not_compiled:
        return DONE
    try:
        wanted = sorted(_without_weights(group, seeds))
    except ValueError as error:
        say(f"warning: {error}. Compiling again.")
        shutil.rmtree(group.compiled)
        wanted = sorted(seeds)
    if not wanted:
        return DONE
    name = compile_main.__module__
    code = f"import sys; sys.path[:] = {sys.path}; from {name} import compile_main; sys.exit(compile_main(sys.argv[1]))"
    task = {"file": arguments.file, "params": arguments.params, "sets": arguments.sets, "debug": arguments.debug}
    task |= {"directory": str(group.compiled), "seeds": wanted}
    command = [sys.executable, "-c", code, json.dumps(task)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}  # as in scheduling.py
    with subprocess.Popen(command, **pipes, text=True, start_new_session=True) as child:
        try:
            why = child.stdout.read() if child.stdout is not None else ""
            child.wait()
        except BaseException:
            child.kill()
            raise
    if child.returncode != NOT_COMPILABLE:
        return child.returncode
    group.not_compiled = why.strip()
    group.write()
    say(f"warning: {group.not_compiled}. Each seed's process loads TensorFlow: some seconds and 0.7 GB")
    return DONE


def _without_weights(group: Group, seeds: Sequence[int]) -> list[int]:
    """The seeds that must be compiled, all where nothing is; ``ValueError`` if what is there cannot be used."""
    if not group.compiled.exists():
        return list(seeds)
    program = compiled.read(group.compiled)
    program.program(), program.acting_program()
    known = program.seeds()
    for seed in {program.seed, *seeds} & set(known):
        program.weights(seed)
    return [seed for seed in seeds if seed not in known]


def compile_main(task: str) -> int:
    """In a process of its own: write what :func:`_compile` wants. Prints why the model cannot be compiled, if so."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    values = json.loads(task)
    values |= {"command_line": [], "params": [tuple(one) for one in values["params"]]}
    return carry_out(_compile_here, argparse.Namespace(**values))


def _end_with_parent() -> None:
    """In a thread: another start may compile into the same folder."""
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(TERMINATED)


def _compile_here(arguments: argparse.Namespace) -> int:
    from ...estimators.compilation import add_seeds

    experiment, document = load(arguments)
    load_tensorflow()
    if (Path(arguments.directory) / compiled.FILE).is_file():
        add_seeds(arguments.directory, arguments.seeds)
        return DONE
    try:
        runner.compile_experiment(experiment, document, Path(arguments.directory), arguments.seeds)
    except NotCompilableError as error:
        print(error)
        return NOT_COMPILABLE
    return DONE
