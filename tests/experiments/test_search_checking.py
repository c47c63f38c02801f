"""Errors in a search before its first trial, or after it; and the metric of a trial."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments.commands.cli import main
from axonrl.experiments.config.files import Document
from axonrl.experiments.config.schema import ExperimentFile, load
from axonrl.experiments.errors import ExperimentError, RunFolderError
from axonrl.experiments.polyaxon.operation import operation
from axonrl.experiments.searches import metrics, preflight, report
from axonrl.experiments.searches.early_stopping import Rules
from axonrl.experiments.searches.metrics import Watch
from axonrl.experiments.searches.programs import Sharing
from axonrl.experiments.searches.runs import Outcome
from axonrl.experiments.searches.search import Search, prepare
from axonrl.experiments.searches.space import Space
from axonrl.experiments.searches.strategies import Next
from axonrl.experiments.tracking.journal import JOURNAL
from axonrl.tests.raising import raised

FILE = """\
params: {rate: 1e-3, wait: 40, loss: {type: str, default: huber}, size: 100}
environment: {id: CartPole-v1}
agent:
  model_fn: dqn
  params: {hidden: [4], loss: "${loss}", learning_rate: "${rate}"}
  memory: {kind: replay, size: "${size}", batch_size: 8}
train: {first_update: "${wait}", max_timesteps: 100}
"""
LINE = FILE.count("\n") + 1
RATES = "params: {rate: {kind: choice, value: [0.1, 0.2]}}"
EVALUATES = "hooks: [{kind: evaluation, every_timesteps: 9}]"
TPE = f"kind: tpe, numRuns: 2, maxIterations: 1, {RATES}"
Read = Callable[..., tuple[ExperimentFile, Document]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def make(matrix: str, more: str = "", name: str = "search.yml") -> tuple[ExperimentFile, Document]:
        path = tmp_path / name
        path.write_text(f"{FILE}matrix: {{{matrix}}}\n{more}")
        return load(path)

    return make


@pytest.mark.parametrize(
    ("matrix", "messages"),
    [
        ("kind: grid, params: {}", ["params: must name at least one declared param, got none"]),
        ("kind: mapping, values: []", ["values: must have at least one point, as in {name: 1}, got none"]),
        (
            "kind: grid, params: {size: {kind: choice, value: []}, rate: {kind: linspace, value: [0, 1, -2]},"
            " wait: {kind: range, value: [0, 1e9, 1]}, loss: {kind: geomspace, value: [0, 1, 3]}}",
            [
                "params.size.value: must have at least one value, ",
                "params.rate.value: num must be a whole ",
                "params.wait.value: at most 100,000 values ",
                "params.loss.value: start and stop must ",
            ],
        ),
        (
            "kind: random, numRuns: 2, params: {rate: {kind: uniform, value: [1, 0]},"
            " wait: {kind: qnormal, value: [a, 1, 1]}, size: {kind: normal, value: {loc: 0, scale: -1}},"
            " loss: {kind: pchoice, value: [[1, 0.5], [2, 0.9]]}}",
            [
                "params.rate.value: high must be above low, got [1, 0]",
                "params.wait.value: must be the numbers [loc, scale, q], got ['a', 1, 1]",
                "params.size.value: scale must not be negative, got a mapping",
                "params.loss.value: must be a list of [value, probability], with probabilities that add up to 1, "
                "got [[1, 0.5], [2, 0.9]]",
            ],
        ),
        (
            f"kind: random, numRuns: -3, num_runs: 3, {RATES}",
            ["num_runs: unknown key; did you mean 'numRuns'?", "numRuns: must be a whole number of at least 1, got -3"],
        ),
        (f"{TPE}, metric: return", ["metric: must be {name: ..., optimization: maximize}, or minimize, got 'return'"]),
        (f"{TPE}, metric: {{name: r, optimization: max}}", ["metric.optimization: must be maximize or minimize, "]),
        (
            f"kind: random, numRuns: 1, metric: {{name: return}}, {RATES}",
            ["metric: only hyperband, bayes, tpe have a metric of your choice; random compares the return "],
        ),
        (
            f"kind: grid, earlyStopping: [{{kind: metric}}], {RATES}",
            ["earlyStopping.0.kind: must be one of metric_early_stopping, failure_early_stopping, got 'metric'"],
        ),
    ],
)
def test_values_of_a_matrix_that_are_wrong(matrix: str, messages: list[str], read: Read) -> None:
    caught = raised(ExperimentError, Space, *read(matrix), {})
    found = [str(error).partition(f"search.yml:{LINE}: matrix.")[2] for error in caught.errors]
    assert [one[: len(two)] for one, two in zip(found, messages, strict=True)] == messages


def test_values_that_are_refused_leave_no_folder(read: Read, tmp_path: Path, capsys: Any) -> None:
    """By the declared type, by the memory and by the model: each is tried, and the line is that of the value."""
    values = "\n  kind: grid\n  params:\n    size:\n      kind: choice\n      value:\n      - 50\n      - -1\n"
    (tmp_path / "search.yml").write_text(f"{FILE}matrix:{values}")
    assert main(["run", str(tmp_path / "search.yml"), "--model-dir", str(tmp_path / "refused")]) == 2
    said = capsys.readouterr().err
    assert f"search.yml:{LINE + 7}: matrix.params.size.value.1: -1 cannot be used: agent.memory.size: " in said
    read("kind: grid, params: {rate: {kind: choice, value: [0.1, bad]}}")
    assert main(["run", str(tmp_path / "search.yml"), "--model-dir", str(tmp_path / "refused")]) == 2
    expected = f":{LINE}: matrix.params.rate.value.1: gives 'bad', and the param is of type float\n"
    assert capsys.readouterr().err.endswith(expected)
    read("kind: random, numRuns: 1, seed: 0, params: {loss: {kind: choice, value: [huber, hubber, square]}}")
    assert main(["check", str(tmp_path / "search.yml")]) == 2
    lines = [line.partition("matrix.")[2] for line in capsys.readouterr().err.splitlines() if "matrix" in line]
    assert [line.partition(":")[0] for line in lines] == ["params.loss.value.1", "params.loss.value.2"]
    assert "'hubber' cannot be used: agent.params.loss: " in lines[0]
    assert not (tmp_path / "refused").exists()


def test_drawn_values_that_are_refused_leave_no_folder(read: Read, tmp_path: Path, capsys: Any) -> None:
    """The value that is tried first of 0, 10 and 20 is another one."""
    matrix = "kind: random, seed: 1, numRuns: {}, params: {{wait: {{kind: quniform, value: [0, 29, 10]}}}}"
    experiment, document = read(matrix.format(3))
    space = Space(experiment, document, {})
    assert sorted(point["wait"] for point in space.draw(3)) == [0, 10, 20]
    assert space.draw(1) != [{"wait": 0}]
    assert main(["run", str(tmp_path / "search.yml"), "--model-dir", str(tmp_path / "drawn")]) == 2
    expected = f"search.yml:{LINE}: matrix.params.wait: 0 cannot be used: train.first_update: must be an integer of at"
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "drawn").exists()


def test_a_point_that_follows_and_is_refused_is_a_trial_that_fails(read: Read, tmp_path: Path) -> None:
    """The point shares no program; its process says why."""
    search = prepare(tmp_path / "runs", *read(f"kind: grid, {RATES}"), resume=False)
    search.add(Next([{"wait": 0}, {"wait": 1}, {"wait": 2}]))
    found = Sharing(search).of([0, 1, 2])
    assert (found[0], found[1] == found[2], len(found[1])) == ([], True, 2)


def test_which_points_are_tried(read: Read) -> None:
    """Points that can occur: a value is not tried beside a default that no point has."""
    matrix = "kind: grid, params: {wait: {kind: range, value: [1, 4, 1]}, size: {kind: choice, value: [8, 9]}}"
    experiment, document = read(matrix)
    tried: list[Any] = []
    preflight.check_points(Space(experiment, document, {}), document, tried.append)
    assert tried == [{"wait": 1, "size": 8}, {"wait": 2, "size": 9}, {"wait": 3, "size": 8}]


def test_check_describes_the_search(read: Read, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    experiment, document = read(f"{TPE}, metric: {{name: rollout/length, optimization: minimize}}")
    found = preflight.description(experiment, Space(experiment, document, {}), Path("x"))
    expected = {"kind": "tpe", "points": 2, "wanted": 4, "trials": 2, "metric": "rollout/length", "params": ["rate"]}
    assert {name: found[name] for name in expected} == expected
    read("kind: random, numRuns: 5, params: {rate: {kind: choice, value: [1e-3, 1e-2, 1e-2]}}", "seeds: 2")
    assert main(["check", "search.yml"]) == 0
    rows = dict(line.strip().split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line.strip())
    assert rows["search"].strip() == "random, 2 points of 5: there are only 2"
    assert rows["compares"].strip() == "return, maximize"
    assert rows["trials"].strip().startswith("4, with seeds 0, 1 for each point, ")
    assert rows["run folders"].strip() == "runs/search/trial-*"
    assert not {"seeds", "run folder"} & rows.keys()
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("matrix", "more", "nearest"),
    [
        (f"{TPE}, metric: {{name: final_episode_return}}", "evaluate: {episodes: 1}", "final_episode_return_std"),
        (f"{TPE}, metric: {{name: final_episode_return_mean}}", "evaluate: null", ""),  # it is known, but not here
        (f"{TPE}, metric: {{name: eval/return_mean}}", "", "rollout/return_mean"),
        (f"{TPE}, metric: {{name: eval/return_mean}}", EVALUATES, None),
        (f"{TPE}, metric: {{name: eval/entropy}}", EVALUATES, ""),
        (f"{TPE}, metric: {{name: eval/entropy}}", EVALUATES.replace("9}", "9, eval_batches: 2}"), None),
        (f"{TPE}, metric: {{name: rollout/length}}", "learn: {data: x, max_steps: 1}", ""),
    ],
)
def test_a_name_that_no_metric_has(matrix: str, more: str, nearest: str | None, read: Read) -> None:
    """Whether the search is to be run here or to be submitted."""
    experiment, document = read(matrix, more)
    if "learn:" in more:
        experiment = experiment.model_copy(update={"train": None})
    if nearest is None:
        Space(experiment, document, {})
        return
    with pytest.raises(ExperimentError, match="no trial has a metric"):
        operation(experiment, document, {})
    caught = raised(ExperimentError, Space, experiment, document, {})
    assert (caught.key, caught.line) == ("matrix.metric.name", LINE)
    assert "train/loss, " in caught.message
    assert (caught.nearest or "") == nearest


def test_names_in_early_stopping(read: Read) -> None:
    """The return of the whole run is no metric that is watched."""
    rule = "kind: metric_early_stopping, metric: {}, value: 1, optimization: maximize"
    rules = ", ".join(f"{{{rule.format(name)}}}" for name in ("rollout/return", "return", "rolout/return"))
    experiment, document = read(f"kind: grid, earlyStopping: [{rules}], {RATES}")
    caught = raised(ExperimentError, Space, experiment, document, {})
    keys = [error.key for error in caught.errors]
    assert keys == ["matrix.earlyStopping.1.metric", "matrix.earlyStopping.2.metric"]


def test_metrics_of_journals_need_journals(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYAXON_NO_OP", "1")
    preflight.check_journals(*read(f"{TPE}, metric: {{name: timesteps}}"))
    with pytest.raises(ExperimentError, match="POLYAXON_NO_OP turns tracking off, got 'train/loss'"):
        preflight.check_journals(*read(f"{TPE}, metric: {{name: train/loss}}"))
    monkeypatch.delenv("POLYAXON_NO_OP")
    preflight.check_journals(*read(f"{TPE}, metric: {{name: train/loss}}"))


def journal(folder: Path, *metrics: dict[str, float]) -> None:
    folder.mkdir(parents=True)
    lines = [{"time": 0, "step": step, "update": step, "metrics": one} for step, one in enumerate(metrics)]
    (folder / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))


EVALUATED = {"episode_return_mean": 9.0, "episode_return_min": 1.0}
RETURN, FINAL = "return", "final_episode_return_mean"


@pytest.mark.parametrize(
    ("status", "evaluation", "name", "expected"),
    [
        ("finished", EVALUATED, FINAL, 9),
        ("finished", None, "timesteps_per_second", 8),
        ("stopped", None, RETURN, 7),
        ("stopped", None, "final_episode_length_mean", 3),  # of its last episodes
        ("stopped", None, "train/lss", None),
    ],
)
def test_what_a_trial_has_of_a_metric(
    status: str, evaluation: dict[str, float] | None, name: str, expected: float | None, tmp_path: Path
) -> None:
    first = {"rollout/return_mean": 4.0, "eval/return_mean": 6.0, "train/loss": 0.5}
    last = {"rollout/return_mean": 5.0, "rollout/length_mean": 3.0, "eval/return_mean": 7.0, "train/loss": 0.25}
    journal(tmp_path / "run", first, last)
    with (tmp_path / "run" / JOURNAL).open("a") as file:
        file.write('{"time": 0, "outputs": {"timesteps_per_second": 8.0}}\n')
    outcome = Outcome(status, timesteps=20, episode_return=5.0, evaluation=evaluation)
    assert metrics.metric_of(name, outcome, tmp_path / "run") == expected


def test_a_metric_that_the_first_trial_should_have_had(tmp_path: Path) -> None:
    """One of a family of which it has others; the others' names are listed, the most similar first."""
    search = Search(tmp_path, "0" * 32, [0], 0)
    search.add(Next([{}, {}, {}]))
    journal(search.run_folder(0), {"rollout/return": 1.0})
    journal(search.run_folder(1), {"rollout/return": 1.0, "train/loss": 1.0, "train/q_mean": 1.0})

    def found(name: str, *trials: int) -> metrics.Unknown | None:
        watch = Watch(search, Rules(None), name)
        for trial in trials:
            watch.ended(trial)
        return watch.unknown

    assert found("train/lss", 0) is None  # it has not made an update
    expected = metrics.Unknown("train/lss", 1, ["train/loss", "train/q_mean", "return", "rollout/return"])
    assert found("train/lss", 0, 1) == expected
    assert found("train/loss", 0, 1) is None


def test_metric_and_early_stopping_may_change_and_so_may_the_name_of_the_file(read: Read, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    rule = "earlyStopping: [{kind: failure_early_stopping, percent: 30}]"
    search = prepare(folder, *read(f"{TPE}, metric: {{name: timesteps}}, {rule}"), resume=False)
    search.add(Next([{"rate": 0.1}, {"rate": 0.2}]))
    journal(search.run_folder(0), {"train/loss": 0.5})
    search.done(0, Outcome("finished", timesteps=30, metric=30.0))
    search.ended, search.failed = "1 of 2 trials failed, at least 30 %", True
    search.write()
    same = prepare(folder, *read(f"{TPE}, metric: {{name: timesteps}}, {rule}", name="other.yml"), resume=True)
    assert (same.name, same.metrics(), same.failed) == ("search", {0: 30.0}, True)
    changed = prepare(folder, *read(f"{TPE}, metric: {{name: train/loss}}", name="other.yml"), resume=True)
    assert (changed.name, changed.metrics(), changed.failed, changed.ended) == ("search", {0: 0.5}, False, "")
    assert load(folder / "search.yml")[0].name == "search"
    with pytest.raises(RunFolderError, match=r"matrix.numRuns \(2 -> 3\). Only tracker, .*, matrix.earlyStopping may"):
        prepare(folder, *read(f"{TPE}, metric: {{name: train/loss}}".replace("numRuns: 2", "numRuns: 3")), resume=True)
    with pytest.raises(RunFolderError, match=r"name \('search' -> 'mine'\)"):
        prepare(folder, *read(f"{TPE}, metric: {{name: train/loss}}", "name: mine"), resume=True)


@pytest.mark.parametrize("text", [None, "{}"])
def test_results_that_cannot_be_read(text: str | None, read: Read, tmp_path: Path) -> None:
    given = read(f"kind: grid, {RATES}")
    prepare(tmp_path / "runs", *given, resume=False)
    (tmp_path / "runs" / Search.results).unlink()
    if text is not None:
        (tmp_path / "runs" / Search.results).write_text(text)
    problem = "missing" if text is None else "damaged"
    with pytest.raises(RunFolderError, match=f"search.json is {problem}, so the search cannot be resumed"):
        prepare(tmp_path / "runs", *given, resume=True)


def test_a_mean_of_some_of_the_seeds_says_so(tmp_path: Path) -> None:
    search = Search(tmp_path, "0" * 32, [3, 4, 5], 0)
    search.add(Next([{"rate": 0.1}, {"rate": 0.2}]))
    for trial, value in enumerate([1.0, 2.0, 3.0, 9.0]):
        search.done(trial, Outcome("stopped early" if trial == 2 else "finished", metric=value))
    search.done(4, Outcome("failed"))
    points = report.search_json(search, "return", minimize=False)["points"]
    assert [(one["point"], one["metric"], one["seeds"]) for one in points] == [(1, 9.0, 1), (0, 2.0, 3)]
    shown = report.search_table(search, "return", minimize=False).columns[-1].texts
    assert shown == ["9 (of 1 of 3 seeds)", "2"]
