"""Searches by Optuna: points, pruning, objectives; without training, by trials whose journals are written by hand."""

import importlib.util
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments.config.schema import load
from axonrl.experiments.errors import ExperimentError, RunFolderError
from axonrl.experiments.polyaxon.operation import operation
from axonrl.experiments.searches import optuna_parts, report
from axonrl.experiments.searches.optuna_study import FILE as STUDY
from axonrl.experiments.searches.optuna_study import Study
from axonrl.experiments.searches.runs import Outcome
from axonrl.experiments.searches.search import Search, prepare
from axonrl.experiments.searches.space import Space
from axonrl.experiments.tracking.journal import JOURNAL
from axonrl.tests.raising import raised

optuna = pytest.importorskip("optuna")

FILE = """\
seed: 0
params: {rate: 1e-3, wait: 40, loss: {type: str, default: huber}}
environment: {id: CartPole-v1}
agent: {model_fn: dqn, memory: {kind: replay, size: 100, batch_size: 8}}
train: {max_timesteps: 100}
hooks: [{kind: evaluation, every_timesteps: 10}]
"""
LINE = FILE.count("\n") + 1
RATE, WAIT = "rate: {kind: loguniform, value: [-9, -2]}", "wait: {kind: range, value: [10, 50, 10]}"
LOSS = "loss: {kind: choice, value: [huber, mse]}"
BOTH = f"params: {{{RATE}, {WAIT}}}"
METRIC = "metric: {name: return}"
TWO = "metric: [{name: return}, {name: timesteps, optimization: minimize}]"


class Killed(BaseException):
    """The end of a process."""


def make_space(folder: Path, matrix: str, file: str = FILE) -> tuple[Space, Any]:
    path = folder / "search.yml"
    path.write_text(f"{file}matrix: {{kind: optuna, {matrix}}}\n")
    given = load(path)
    space = Space(*given, {})
    optuna_parts.check(space)
    return space, given


def play(
    folder: Path, matrix: str, *, is_quick: bool = False, fails: Callable[[int], bool] = lambda _: False
) -> Search:
    """Begin a search, or continue it, where a trial is evaluated thrice, and better the nearer its rate is to 0.01.

    Args:
        folder: a folder.
        matrix: its keys.
        is_quick: a trial ends before anybody looks at its evaluations.
        fails: does a trial fail?
    """
    space, given = make_space(folder, matrix)
    search = prepare(folder / "runs", *given, resume=(folder / "runs").exists())
    space.seed = search.seed
    study = Study(space, search)
    rules, todo = study.rules(), search.unfinished()
    while True:
        for trial in todo:
            point = search.point(trial)
            distance = (math.log(point["rate"]) - math.log(0.01)) ** 2
            series = [-distance * share for share in (3.0, 2.0, 1.0)]
            write_journal(search.run_folder(trial), series)
            stopped: dict[int, str] = {}
            for count in (1, 2, 3) if not is_quick else ():
                stopped = stopped or rules.stopped("eval/return_mean", {trial: series[:count]}, [trial])
            if fails(trial):
                search.done(trial, Outcome("failed", message="the disk is on fire"))
                continue
            status = "stopped early" if stopped else "finished"
            search.done(trial, Outcome(status, timesteps=10 * point.get("wait", 1), metric=series[-1]))
        if (wanted := study.following()) is None:
            return search
        search.add(wanted)
        todo = search.trials(search.batches[-1].points)


def write_journal(folder: Path, series: list[float]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {"time": 0, "step": step, "update": step, "metrics": {"eval/return_mean": value}}
        for step, value in enumerate(series)
    ]
    (folder / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))


def in_study(search: Search) -> list[tuple[Any, ...]]:
    """What anybody reads of the file, as a dashboard does."""
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{search.folder / STUDY}")
    return [(one.number, one.state.name, one.values, one.params, one.intermediate_values) for one in study.trials]


@pytest.mark.parametrize(
    "matrix",
    [
        "numRuns: 8, sampler: {kind: tpe, n_startup_trials: 3}, pruner: {kind: median, n_startup_trials: 2},"
        f"{METRIC}, {BOTH}",
        f"numRuns: 7, batchSize: 2, sampler: cmaes, pruner: successive_halving, {METRIC}, {BOTH}",
        f"numRuns: 9, batchSize: 3, sampler: qmc, pruner: {{kind: hyperband, reduction_factor: 2}}, {METRIC}, {BOTH}",
        f"numRuns: 10, batchSize: 2, sampler: {{kind: nsgaii, population_size: 3}}, {TWO}, params: {{{RATE}, {LOSS}}}",
    ],
    ids=["tpe", "cmaes", "qmc", "nsgaii"],
)
def test_a_search_that_is_killed_anywhere_goes_on_as_it_would_have(
    matrix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After any write to the study, and whether trials are looked at while they train or after their ends."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    expected = play(whole, matrix)
    assert len({tuple(point.values()) for point in expected.points}) > 5
    left = 0

    def until_killed(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal left
            result = method(*arguments)
            left -= 1
            if left == 0:
                raise Killed
            return result

        return call

    storage = optuna.storages.RDBStorage
    for name in ("create_new_trial", "set_trial_state_values", "set_trial_intermediate_value", "set_trial_system_attr"):
        monkeypatch.setattr(storage, name, until_killed(getattr(storage, name)))
    kills = 0
    for writes in (1, 4, 2, 3, 10**9):
        left = writes
        try:
            found = play(parts, matrix, is_quick=kills % 2 == 1)
            break
        except Killed:
            kills += 1
    assert kills == 4
    assert found.points == expected.points
    assert in_study(found) == in_study(expected)
    if "pruner" in matrix:
        assert {"PRUNED", "COMPLETE"} <= {one[1] for one in in_study(found)}


def test_the_study_has_what_a_dashboard_shows_and_guides_the_points(tmp_path: Path) -> None:
    search = play(tmp_path, f"numRuns: 25, seed: 1, {METRIC}, params: {{{RATE}}}")
    rows = in_study(search)
    assert [row[0] for row in rows] == list(range(25))
    assert [row[2] for row in rows] == [[search.metric(point)] for point in range(25)]
    assert [row[3] for row in rows] == search.points
    distances = [abs(math.log(point["rate"] / 0.01)) for point in search.points]
    assert sum(distances[15:]) / 10 < 0.7 * sum(distances[:10]) / 10  # the first ten are random


def test_a_trial_that_failed_is_run_again_and_so_its_result_is_in_the_study(tmp_path: Path) -> None:
    matrix = f"numRuns: 3, {METRIC}, {BOTH}"
    search = play(tmp_path, matrix, fails=lambda trial: trial == 1)
    assert [row[1] for row in in_study(search)] == ["COMPLETE", "FAIL", "COMPLETE"]
    again = play(tmp_path, matrix)
    assert again.points == search.points
    assert [row[1:3] for row in in_study(again)] == [("COMPLETE", [again.metric(point)]) for point in range(3)]
    (again.folder / STUDY).write_text("no database")
    with pytest.raises(RunFolderError, match=r"study\.db cannot be used, so the search cannot be resumed: "):
        play(tmp_path, matrix)
    (again.folder / STUDY).unlink()
    with pytest.raises(RunFolderError, match=r"it is missing\. Restore the file, or use --model-dir"):
        play(tmp_path, matrix)


def test_several_objectives_have_a_front_in_the_table_and_a_picture(tmp_path: Path) -> None:
    """Of points at (1, 30), (2, 20), (0, 30), (2, 40), where more of the first and less of the second is better."""
    values = {0: [1.0, 30.0], 1: [2.0, 20.0], 2: [0.0, 10.0], 3: [2.0, 40.0]}
    space, given = make_space(tmp_path, f"numRuns: 4, batchSize: 4, seed: 0, {TWO}, {BOTH}")
    search = prepare(tmp_path / "runs", *given, resume=False)
    study = Study(space, search)
    wanted = study.following()
    assert wanted is not None
    search.add(wanted)
    for trial, (first, second) in values.items():
        search.done(trial, Outcome("finished", timesteps=int(second), metric=first))
    assert study.following() is None
    front = study.front()
    assert front is not None
    assert (front.values, list(front.best)) == (values, [1, 2])
    table = report.search_table(search, "return", minimize=False, front=front)
    shown = {column.name: column.texts for column in table.columns}
    assert (shown["point"], shown["Pareto front"]) == (["1", "2", "3", "0"], ["*", "*", "", ""])
    assert shown["timesteps"] == ["20", "10", "40", "30"]
    assert report.search_json(search, "return", minimize=False, front=front)["pareto"]["best"] == [1, 2]
    report.draw_front(tmp_path, "search", front)
    assert (tmp_path / "pareto.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("matrix", "key", "message"),
    [
        (
            f"sampler: tpes, {METRIC}, {BOTH}",
            "sampler.kind",
            "must be 'tpe', 'gp', 'cmaes', 'qmc' or 'nsgaii', ",
        ),
        (
            f"sampler: {{kind: tpe, seed: 3}}, {METRIC}, {BOTH}",
            "sampler.seed",
            "unknown argument of TPESampler; the ",
        ),
        (
            f"sampler: {{kind: nsgaii, population_size: 0}}, {METRIC}, {BOTH}",
            "sampler",
            "NSGAIISampler refuses a mapping: ",
        ),
        (
            f"pruner: medium, {METRIC}, {BOTH}",
            "pruner.kind",
            "must be 'median', 'hyperband' or ",
        ),
        (BOTH, "metric", "this key is required"),
        ("metric: [], " + BOTH, "metric", "must have at least 1 item"),
        ("metric: {name: retrun}, " + BOTH, "metric.name", "no trial has a metric 'retrun'"),
        ("metric: {name: return, optimization: max}, " + BOTH, "metric.optimization", "must be 'maximize' or 'minim"),
        (f"smpler: tpe, {METRIC}, {BOTH}", "smpler", "unknown key"),
        (
            f"sampler: cmaes, {METRIC}, params: {{{RATE}}}",
            "sampler",
            "cmaes needs at least 2 params, got 1; ",
        ),
        (
            f"sampler: cmaes, {METRIC}, params: {{{RATE}, {LOSS}}}",
            "params.loss.kind",
            "cmaes varies numbers only, ",
        ),
        (f"sampler: cmaes, {TWO}, {BOTH}", "sampler", "cmaes takes one objective, and 'metric' has 2; use"),
        (f"pruner: median, {TWO}, {BOTH}", "pruner", "median judges one metric, and 'metric' has 2; leave out"),
        (
            f"pruner: median, metric: {{name: seconds}}, {BOTH}",
            "pruner",
            "median judges trials while they train, ",
        ),
        (f"{METRIC}, params: {{rate: {{kind: normal, value: [0, 1]}}}}", "params.rate.kind", "optuna takes choice, ra"),
        (
            f"{METRIC}, params: {{wait: {{kind: uniform, value: [0.2, 0.8]}}}}",
            "params.wait.value",
            "gives no whole ",
        ),
    ],
)
def test_mistakes_name_the_key_and_the_way_out(matrix: str, key: str, message: str, tmp_path: Path) -> None:
    caught = raised(ExperimentError, make_space, tmp_path, f"numRuns: 3, {matrix}")
    assert (caught.key, caught.line) == (f"matrix.{key}", LINE)
    assert caught.message.startswith(message)


@pytest.mark.parametrize(
    ("low", "high", "unit", "expected"),
    [
        (0, 0.3, 0.1, (0.0, 0.3)),
        (0.3, 0.7, 0.1, (0.3, 0.7)),
        (0.6, 0.9, 0.3, (0.6, 0.9)),
        (0.05, 0.25, 0.1, (0.1, 0.2)),
    ],
)
def test_bounds_of_quniform_are_decimal(low: float, high: float, unit: float, expected: Any, tmp_path: Path) -> None:
    given = f"{METRIC}, params: {{rate: {{kind: quniform, value: [{low}, {high}, {unit}]}}}}"
    space, _ = make_space(tmp_path, f"numRuns: 3, {given}")
    (found,) = optuna_parts.distributions(space).values()
    assert ((found.low, found.high), found.step) == (expected, unit)


def test_a_pruner_needs_evaluations_and_one_seed(tmp_path: Path) -> None:
    matrix = f"numRuns: 3, pruner: median, {METRIC}, {BOTH}"
    without = FILE.replace("hooks: [{kind: evaluation, every_timesteps: 10}]\n", "")
    caught = raised(ExperimentError, make_space, tmp_path, matrix, without)
    assert "'return' is known only at their end; add hooks: [{kind: evaluation, " in caught.message
    assert "gives several" in raised(ExperimentError, make_space, tmp_path, matrix, f"{FILE}seeds: 2\n").message


@pytest.mark.parametrize(
    ("package", "sampler", "command"),
    [
        ("optuna", "tpe", "pip install 'axonrl[optuna]', or use a kind of Polyaxon's, such as tpe"),
        ("torch", "gp", "pip install torch, or use the sampler tpe"),
        ("cmaes", "cmaes", "pip install 'axonrl[optuna]', or use the sampler tpe"),
    ],
)
def test_packages_that_are_not_installed(
    package: str, sampler: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    caught = raised(ExperimentError, make_space, tmp_path, f"numRuns: 3, sampler: {sampler}, {METRIC}, {BOTH}")
    assert caught.key == f"matrix.{'kind' if package == 'optuna' else 'sampler'}"
    assert caught.message.endswith(f"which is not installed. Install it with: {command}")


@pytest.mark.parametrize(
    ("keys", "nearest"),
    [
        ("sampler: gp", "nearest to gp is bayes. "),
        ("pruner: {kind: hyperband, reduction_factor: 3}", "nearest to tpe with hyperband is hyperband. "),
        ("pruner: median", "nearest to tpe with median is tpe with a metric_early_stopping of the policy median. "),
        ("sampler: {kind: nsgaii}", "nearest to nsgaii is random. "),
    ],
)
def test_a_server_takes_no_such_search(keys: str, nearest: str, tmp_path: Path) -> None:
    path = tmp_path / "search.yml"
    path.write_text(f"{FILE}matrix: {{kind: optuna, numRuns: 3, {keys}, {METRIC}, {BOTH}}}\n")
    caught = raised(ExperimentError, operation, *load(path), {})
    assert (caught.key, caught.line) == ("matrix.kind", LINE)
    assert nearest in caught.message
