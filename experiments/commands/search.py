"""``axonrl run`` and ``check`` of a file with a matrix: trials side by side, and their results."""

from __future__ import annotations

import argparse
import contextlib
import functools
import time
from pathlib import Path

from ..config.files import Document
from ..config.schema import ExperimentFile, load
from ..console import DONE, print_json, print_rows, print_table, say
from ..errors import ExperimentError
from ..polyaxon.metrics import named_metrics
from ..running import components, runner
from ..running import folder as records
from ..running.explain import rows
from ..running.signals import StopOnSignal
from ..searches import preflight, report
from ..searches.early_stopping import Rules
from ..searches.metrics import Unknown
from ..searches.optuna_study import Study
from ..searches.programs import Sharing
from ..searches.runs import FINISHED, Point, as_text
from ..searches.search import Search, prepare, refused_changes
from ..searches.space import HYPERBAND, RANDOM, Space
from ..searches.strategies import following, resources
from ..tracking.trackers import choices, disabled_by
from . import multi_run
from .arguments import RUNS


def run(experiment: ExperimentFile, document: Document, arguments: argparse.Namespace) -> int:
    """Run all trials and report."""
    space = _check_matrix(experiment, document, arguments)
    preflight.check_journals(experiment, document)
    if not disabled_by():
        choices(experiment)  # finds errors before anything starts
    folder, resume = multi_run.folder_of(experiment.name, arguments, records.SEARCH)
    prepared = functools.partial(prepare, folder, experiment, document, resume=resume)
    with multi_run.only_writer(folder, resume, prepared) as search:
        space.seed = search.seed if space.seed is None else space.seed
        start = multi_run.Start(search, document, arguments, resume=resume, draws=False)
        return _Searching(start, search, space).run()


def check(experiment: ExperimentFile, document: Document, arguments: argparse.Namespace) -> int:
    """Check everything possible before the first trial, and explain what will run."""
    space = _check_matrix(experiment, document, arguments)
    folder = records.next_folder(RUNS, experiment.name)
    found = runner.check(experiment.model_copy(update={"seeds": None}), document, folder)
    preflight.check_points(space, document, functools.partial(_open, document, arguments))
    searched = preflight.description(experiment, space, folder)
    if arguments.json:
        print_json({**found, "seeds": searched["seeds"], "folder": searched["folder"], "search": searched})
        return DONE
    lines = {**rows(found), **report.search_rows(searched)}
    lines["run folders"] = lines.pop("run folder").replace(found["folder"], searched["folder"])
    print_rows(experiment.name, lines, justify="left")
    print(f"{document.file}: no errors")
    return DONE


def _check_matrix(experiment: ExperimentFile, document: Document, arguments: argparse.Namespace) -> Space:
    """Check the matrix as far as possible without TensorFlow; ``ExperimentError``."""
    space = Space(experiment, document, dict(arguments.params))
    preflight.check_points(space, document, functools.partial(_load, document, arguments))
    return space


def _load(document: Document, arguments: argparse.Namespace, point: Point) -> tuple[ExperimentFile, Document]:
    """Load the experiment of a point, and check its memory, which imports little."""
    params = {**dict(arguments.params), **as_text(point)}
    experiment, own = load(Path(document.file), params, dict(arguments.sets))
    if experiment.agent.memory is not None:
        components.check_part("memory", experiment.agent.memory, ("agent", "memory"), own)
    return experiment, own


def _open(document: Document, arguments: argparse.Namespace, point: Point) -> None:
    """Create all parts of a point's experiment."""
    with components.opened(*_load(document, arguments, point)):
        pass


class _Searching:
    def __init__(self, start: multi_run.Start, search: Search, space: Space) -> None:
        self._start, self._search, self._space = start, search, space
        self._metric, self._minimize = space.objectives[0].name, space.minimizes
        self._study = None if space.optuna is None else Study(space, search)
        self._front: report.Front | None = None
        self._took = report.Took()

    def run(self) -> int:
        """Train and report; the exit code."""
        say(f"Searching with {self._search.name} in {self._search.folder}")
        code = self._start.carry_out(self._train, self._draw_best)
        return self._report() if code is None else code

    def _draw_best(self) -> None:
        best = report.best_trial(self._search, self._minimize)
        if best is not None:
            self._start.companion.draw(best)
        if self._front is not None:
            self._start.companion.draw_front(self._front)

    def _train(self, signals: StopOnSignal) -> int:
        search, space, start = self._search, self._space, self._start
        self._check_resource()
        jobs = start.arguments.jobs or preflight.jobs_of(space)
        study = self._study
        rules = Rules(space.config) if study is None else study.rules()
        sharing, pool = Sharing(search), start.pool(jobs, metric=self._metric, rules=rules)
        begin = time.monotonic()
        with contextlib.closing(pool), signals.stopping(pool):
            todo = search.unfinished()  # of an earlier start
            while not search.ended:
                if todo:
                    programs = sharing.of(todo)
                    say(f"{len(todo)} of {len(search.outcomes)} trials to run, {min(jobs, len(todo))} at a time")
                    with start.view.opened(todo):
                        pool.run(todo, programs)
                if pool.watch.unknown is not None and signals.received is None:
                    raise self._unknown_metric_error(pool.watch.unknown)
                if pool.stopping or search.ended:
                    break
                self._check_metric()
                wanted = (
                    following(space, search.batches, search.points, search.metrics())
                    if study is None
                    else study.following()
                )
                if wanted is None:
                    break
                if not search.batches:
                    attempt = functools.partial(_load, start.document, start.arguments)
                    preflight.check_first(space, wanted.points, start.document, attempt)
                    if space.kind == RANDOM and (number := len(wanted.points)) < space.config.num_runs:
                        say(f"{number} of {space.config.num_runs} points: there are only {number}")
                search.add(wanted)
                todo = search.trials(search.batches[-1].points)
        self._took = report.Took(time.monotonic() - begin, jobs, pool.trained)
        if study is not None:
            study.record()
            self._front = study.front()
        return DONE

    def _check_resource(self) -> None:
        """Refuse a hyperband resource that changes a value that a resumed run must keep; ``ExperimentError``."""
        space = self._space
        if space.kind != HYPERBAND or not space.config.resume:
            return
        values = resources(space.config)
        if changed := refused_changes(self._search.folder, values[0], values[-1]):
            message = (
                f"the param {space.config.resource.name!r} changes {', '.join(changed)}, but a promoted trial can only"
                " be resumed with other limits: use the param only in train.max_*, or omit resume: true"
            )
            raise self._start.document.error(("matrix", "resource", "name"), message)

    def _check_metric(self) -> None:
        """Refuse to continue if no trial has a value of the metric; ``ExperimentError``."""
        search, given = self._search, dict(named_metrics(self._space.experiment.matrix or {}))
        finished = [one for one in search.outcomes.values() if one.status == FINISHED]
        at = next((at for at in given if at[1] == "metric"), None)
        if at is not None and finished and not search.metrics():
            message = (
                f"no trial has a value of {self._metric!r}: the trials may be too short."
                f" Use another metric, and continue with: {self._command()}"
            )
            raise self._start.document.error(at, message)

    def _unknown_metric_error(self, unknown: Unknown) -> ExperimentError:
        given = named_metrics(self._space.experiment.matrix or {})
        at = next((at for at, name in given if name == unknown.name), ("matrix", "pruner"))
        return self._start.document.error(at, f"{unknown}. Correct the name, and continue with: {self._command()}")

    def _command(self) -> str:
        return multi_run.resume_command(self._search.folder, self._start.arguments)

    def _report(self) -> int:
        search = self._search
        if self._start.arguments.json:
            print_json(report.search_json(search, self._metric, self._minimize, self._front) | self._took.as_json())
        else:
            print_table(report.search_table(search, self._metric, self._minimize, self._front))
            if search.ended:
                print(f"ended early: {search.ended}")
            best = report.best_trial(search, self._minimize)
            if self._front is not None:
                points = ", ".join(map(str, self._front.best)) or "none"
                print(f"Pareto front: points {points}: {search.folder / report.PARETO}")
            elif best is not None:
                print(f"best trial:  {search.run_folder(best)}")
            print(f"run folders: {search.folder}/trial-*")
            print(f"training:    {self._took.share:.0%} of {self._took.jobs} x {self._took.seconds:,.1f} s")
        return self._start.exit_code()
