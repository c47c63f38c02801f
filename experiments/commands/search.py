"""``axonrl run`` and ``check`` of a file with a matrix: trials side by side, and what they show."""

from __future__ import annotations

import argparse
import contextlib
import functools
import time
from pathlib import Path
from typing import Final

from ...core.tensorflow_import import load_tensorflow
from ..config.files import Document
from ..config.schema import ExperimentFile, load
from ..console import DONE, FAILED, TERMINATED, print_json, print_rows, print_table, say
from ..errors import ExperimentError
from ..polyaxon.metrics import RETURN, named
from ..running import components, runner
from ..running import folder as records
from ..running.explain import rows
from ..running.signals import StopOnSignal
from ..searches import folder as searches
from ..searches import preflight, report
from ..searches.display import SearchView
from ..searches.early_stopping import Rules
from ..searches.folder import Search
from ..searches.metrics import Unknown
from ..searches.pool import Pool
from ..searches.programs import Sharing
from ..searches.space import HYPERBAND, RANDOM, Point, Space, as_text
from ..searches.strategies import following, minimizes, resources
from ..searches.trial_metrics import Watch
from ..searches.worker import Task
from ..seeds.companion import Companion
from ..seeds.group import FINISHED, WAITING
from ..tracking.trackers import choices, disabled_by
from . import multi_run
from .arguments import RUNS

_SHOWN: Final = 10
"""Failed trials whose output is shown."""


def run(experiment: ExperimentFile, document: Document, arguments: argparse.Namespace) -> int:
    """Run all trials and report."""
    space = _checked(experiment, document, arguments)
    preflight.check_journals(experiment, document)
    if not disabled_by():
        choices(experiment)  # finds mistakes before anything starts
    where = records.SEARCH, records.is_search, searches.check_folder
    folder, resume = multi_run.folder_of(experiment.name, arguments, *where)
    prepare = functools.partial(searches.prepare, folder, experiment, document, resume=resume)
    with multi_run.only_writer(folder, resume, prepare) as search:
        space.seed = search.seed if space.seed is None else space.seed
        return _Run(search, space, document, arguments).run()


def check(experiment: ExperimentFile, document: Document, arguments: argparse.Namespace) -> int:
    """Check all that can be before the first trial, and explain what will run."""
    space = _checked(experiment, document, arguments)
    load_tensorflow()
    folder = records.next_folder(RUNS, experiment.name)
    found = runner.check(experiment.model_copy(update={"seeds": None}), document, folder)
    preflight.check_points(space, document, functools.partial(_open, document, arguments))
    searched = preflight.description(experiment, space, folder)
    if arguments.json:
        print_json({**found, "seeds": searched["seeds"], "folder": searched["folder"], "search": searched})
        return DONE
    lines = {**rows(found), **report.described(searched)}
    lines["run folders"] = lines.pop("run folder").replace(found["folder"], searched["folder"])
    print_rows(experiment.name, lines, justify="left")
    print(f"{document.file}: no errors")
    return DONE


def _checked(experiment: ExperimentFile, document: Document, arguments: argparse.Namespace) -> Space:
    """The matrix, checked as far as it can be without TensorFlow; ``ExperimentError``."""
    space = Space(experiment, document, dict(arguments.params))
    preflight.check_points(space, document, functools.partial(_load, document, arguments))
    return space


def _load(document: Document, arguments: argparse.Namespace, point: Point) -> tuple[ExperimentFile, Document]:
    """The experiment of a point, with its memory checked: what that loads is little."""
    params = {**dict(arguments.params), **as_text(point)}
    experiment, own = load(Path(document.file), params, dict(arguments.sets))
    if experiment.agent.memory is not None:
        components.check_part("memory", experiment.agent.memory, ("agent", "memory"), own)
    return experiment, own


def _open(document: Document, arguments: argparse.Namespace, point: Point) -> None:
    """Make all that a point's experiment names."""
    with components.opened(*_load(document, arguments, point)):
        pass


class _Run:
    """A start of a search."""

    def __init__(self, search: Search, space: Space, document: Document, arguments: argparse.Namespace) -> None:
        self._search, self._space, self._document, self._arguments = search, space, document, arguments
        self._is_new = not search.outcomes
        metric = getattr(space.config, "metric", None)
        self._metric = RETURN if metric is None else str(metric.name)
        self._minimize = minimizes(space.config)
        self._took = report.Took()
        self._companion = Companion(search, searches.EXPERIMENT, searches.TRIAL, draws=False)

    def run(self) -> int:
        """Train and report; the exit code."""
        search = self._search
        with StopOnSignal() as signals:
            try:
                say(f"Searching with {search.name} in {search.folder}")
                self._train(signals)
                best = report.best_trial(search, self._minimize)
                if best is not None:
                    self._companion.draw(best)
                self._companion.wait()
            except KeyboardInterrupt:
                say(f"Stopped at once by {signals.title}. {self._how_to_continue()}")
                return signals.exit_code
            except Exception:
                if self._is_new and all(one.status == WAITING for one in search.outcomes.values()):
                    records.discard(search.folder)  # no trial has run: the corrected search may start here
                raise
            self._tell_failures()
            if signals.received is not None:
                say(f"Stopped by {signals.title}. {self._how_to_continue()}")
                return signals.exit_code
        return self._report()

    def _train(self, signals: StopOnSignal) -> None:
        search, space = self._search, self._space
        self._check_resource()
        jobs = self._arguments.jobs or preflight.jobs_of(space)
        where = str(search.folder.absolute())
        files, command = self._document.files, self._arguments.command_line
        task = Task(where, search.name, search.identity, self._metric, search.seeds, files, command)
        watch, sharing = Watch(search, Rules(space.config), self._metric), Sharing(search)
        pool = Pool(search, task, jobs, watch, SearchView(search), self._companion)
        begin = time.monotonic()
        with contextlib.closing(pool), signals.stopping(pool):
            todo = search.unfinished()  # of an earlier start
            while not search.ended:
                if todo:
                    programs = sharing.of(todo)
                    say(f"{len(todo)} of {len(search.outcomes)} trials to run, {min(jobs, len(todo))} at a time")
                    pool.run(todo, programs)
                if watch.unknown is not None and signals.received is None:
                    raise self._unknown(watch.unknown)
                if pool.stopping or search.ended:
                    break
                self._check_metric()
                wanted = following(space, search.batches, search.points, search.metrics())
                if wanted is None:
                    break
                if not search.batches:
                    attempt = functools.partial(_load, self._document, self._arguments)
                    preflight.check_first(space, wanted.points, self._document, attempt)
                    self._tell_fewer(len(wanted.points))
                search.add(wanted)
                todo = search.trials(search.batches[-1].points)
        self._took = report.Took(time.monotonic() - begin, jobs, pool.trained)

    def _check_resource(self) -> None:
        """Where hyperband continues trials, its resource may set nothing that a run keeps; ``ExperimentError``."""
        space = self._space
        if space.kind != HYPERBAND or not space.config.resume:
            return
        values = resources(space.config)
        if changed := searches.refused_changes(self._search.folder, values[0], values[-1]):
            message = (
                f"the param {space.config.resource.name!r} changes {', '.join(changed)}, and a trial that is promoted"
                " can only be resumed with other limits: use it in train.max_* alone, or leave out resume: true"
            )
            raise self._document.error(("matrix", "resource", "name"), message)

    def _check_metric(self) -> None:
        """Without a value of the metric the search would learn nothing."""
        search, given = self._search, dict(named(self._space.experiment.matrix or {}))
        finished = [one for one in search.outcomes.values() if one.status == FINISHED]
        if ("matrix", "metric", "name") in given and finished and not search.metrics():
            message = (
                f"no trial had a value of {self._metric!r}: they may be too short for one."
                f" Use another metric, and continue with: {self._command()}"
            )
            raise self._document.error(("matrix", "metric", "name"), message)

    def _unknown(self, unknown: Unknown) -> ExperimentError:
        at = next(at for at, name in named(self._space.experiment.matrix or {}) if name == unknown.name)
        return self._document.error(at, f"{unknown}. Correct the name, and continue with: {self._command()}")

    def _tell_fewer(self, number: int) -> None:
        if self._space.kind == RANDOM and number < self._space.config.num_runs:
            say(f"{number} of {self._space.config.num_runs} points: there are only {number}")

    def _report(self) -> int:
        search = self._search
        if self._arguments.json:
            print_json(report.as_json(search, self._metric, self._minimize) | self._took.as_json())
        else:
            print_table(report.table(search, self._metric, self._minimize))
            if search.ended:
                print(f"ended early: {search.ended}")
            best = report.best_trial(search, self._minimize)
            if best is not None:
                print(f"best trial:  {search.run_folder(best)}")
            print(f"run folders: {search.folder}/{searches.TRIAL}-*")
            print(f"training:    {self._took.share:.0%} of {self._took.jobs} x {self._took.seconds:,.1f} s")
        if self._companion.failed or search.failed:
            return FAILED
        if search.ended:
            return DONE
        left = search.unfinished()
        if left:
            say(self._how_to_continue())
        return FAILED if report.failures(search) else TERMINATED if left else DONE

    def _tell_failures(self) -> None:
        search = self._search
        for trial in report.failures(search)[:_SHOWN]:
            multi_run.tell_failure(f"Trial {trial}", search.outcomes[trial], search.output(trial))

    def _command(self) -> str:
        """That continues the search."""
        return multi_run.command(self._search.folder, self._arguments)

    def _how_to_continue(self) -> str:
        search = self._search
        finished = sum(one.status in searches.COUNT for one in search.outcomes.values())
        return multi_run.how_to_continue(search.folder, finished, len(search.outcomes), "trials", self._arguments)
