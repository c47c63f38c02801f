"""Searches from the command line: trials that fail, are killed, stop early, are resumed and promoted."""

import dataclasses
import io
import json
import os
import re
import shutil
import signal
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from axonrl.experiments.commands.cli import main
from axonrl.experiments.config.schema import ExperimentFile, load
from axonrl.experiments.running import runner
from axonrl.experiments.running.signals import StopOnSignal
from axonrl.experiments.searches import pool as pools
from axonrl.experiments.searches import worker
from axonrl.experiments.searches.pool import Pool
from axonrl.experiments.searches.programs import PROGRAMS, keys
from axonrl.experiments.searches.runs import Outcome, run_experiment
from axonrl.experiments.searches.search import Search, prepare
from axonrl.experiments.searches.strategies import Next
from axonrl.experiments.searches.worker import Inbox, Task
from axonrl.policies import compiled
from axonrl.run_dir.provenance import processors
from axonrl.tests.experiments.fakes import TROUBLE
from axonrl.tests.experiments.sharing import command, tracked_run, wait, weights

POINT = '''
class OfPoint(Trouble):
    """Has trouble where the point says so; not once there is a file "mended"."""

    def __init__(self, what):
        self.point = what

    def begin(self, session, facts):
        plans = {"trouble": {4: ("raise", 100), 5: ("kill", 100)}, "wait": {4: ("wait", 200)}}
        plan = {} if Path("mended").exists() else plans.get(self.point, {})
        self.what, self.when = plan.get(session.config.seed, (None, 0))
'''
FILE = """\
name: pole
seed: 4
params: {what: fine, rate: 1e-3, epsilon: 0.1, steps: 300, limit: 500}
environment: {id: CartPole-v1, wrappers: [{kind: time_limit, max_episode_steps: "${limit}"}]}
agent:
  model_fn: dqn
  params: {hidden: [8], learning_rate: "${rate}", epsilon: "${epsilon}"}
  memory: {kind: replay, size: 500, batch_size: 8}
config: {save_checkpoints_secs: null}
train: {first_update: 40, update_frequency: 2, max_timesteps: "${steps}"}
evaluate: {episodes: 2}
hooks: [{kind: "search_users:OfPoint", what: "${what}"}]
"""
GRID = "matrix: {kind: grid, params: {what: {kind: choice, value: [fine, trouble]}}}\n"
HYPERBAND = """\
matrix:
  kind: hyperband
  maxIterations: 200
  eta: 4
  seed: 3
  resume: true
  resource: {name: steps, type: int}
  metric: {name: final_episode_return_mean, optimization: maximize}
  params: {rate: {kind: choice, value: [1e-3, 3e-2]}, epsilon: {kind: choice, value: [0.2]}}
"""
STOPS = "matrix: {kind: grid, params: {what: {kind: choice, value: [fine, wait]}}}\n"
RULES = """\
matrix:
  kind: mapping
  values: [{limit: 6}, {limit: 2, what: wait}, {limit: 6}, {limit: 2, what: wait}, {limit: 9, what: wait}, {limit: 6}]
  earlyStopping:
  - kind: metric_early_stopping
    metric: rollout/return
    value: 100
    optimization: maximize
    policy: {kind: diff, percent: 20, evaluationInterval: 1, minInterval: 4}
  - {kind: metric_early_stopping, metric: rollout/return, value: 9, optimization: maximize}
"""
METRIC = """\
matrix:
  kind: tpe
  numRuns: 2
  maxIterations: 1
  metric: {name: train/lss, optimization: minimize}
  params: {rate: {kind: uniform, value: [0.001, 0.002]}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("searches")
    (folder / "search_users.py").write_text(TROUBLE + POINT)
    matrices = {"grid": GRID, "hyperband": HYPERBAND, "rules": RULES, "metric": METRIC}
    matrices |= {"killed": STOPS, "interrupted": STOPS}
    for name, matrix in matrices.items():
        (folder / f"{name}.yml").write_text(FILE + matrix)
    return folder


@pytest.fixture(scope="module")
def program(place: Path) -> Path:
    """The training program, compiled as by the first trial that needs it; no process of these tests has to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        experiment, document = load(place / "grid.yml")
        made = worker.program_for(task_in(place), programs_of(experiment), experiment, document)
    assert made is not None
    return made


def task_in(place: Path) -> Task:
    return Task(str(place / "compiled"), "", "trial", "pole", "0" * 32, "return", [4, 5], [], [])


def programs_of(experiment: ExperimentFile) -> list[str]:
    return [f"{PROGRAMS}/{name}" for name in dataclasses.astuple(keys(experiment))]


def new(place: Path, program: Path, name: str, *limits: int, **sets: str) -> None:
    """A search that has not begun, whose trials find the program, with any of these limits of episodes."""
    search = prepare(place / name, *load(place / f"{name}.yml", sets=sets), resume=False)
    for point in [{"limit": limit} for limit in limits] or [{}]:
        family = keys(run_experiment(search.folder / "search.yml", point, 0)[0]).family
        shutil.copytree(program, search.folder / PROGRAMS / family)


def run(place: Path, *arguments: str) -> tuple[int, Any, str]:
    """Begin or continue a search, from this process."""
    out, said = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(said):
        patch.syspath_prepend(place)
        patch.chdir(place)
        patch.delenv("POLYAXON_NO_OP")
        code = main(["run", *arguments, "--resume", "--json"])
    return code, json.loads(out.getvalue()) if out.getvalue() else None, said.getvalue()


def statuses(found: Any) -> dict[int, str]:
    return {trial["trial"]: trial["status"] for point in found["points"] for trial in point["trials"]}


def starts(folder: Path) -> int:
    return len(json.loads((folder / "starts.json").read_text()))


@pytest.fixture(scope="module")
def first(place: Path, program: Path) -> Any:
    """Two points with two seeds; of the second point one fails and the other is killed."""
    new(place, program, "grid", seeds="2")
    return run(place, "grid.yml", "--seeds", "2", "--jobs", "1", "--model-dir", "grid")


@pytest.fixture(scope="module")
def second(place: Path, first: Any) -> Any:
    """The search resumed, with the error mended."""
    (place / "mended").touch()
    done = run(place, "grid.yml", "--seeds", "2", "--jobs", "2", "--model-dir", "grid")
    (place / "mended").unlink()
    return done


def test_the_first_trial_compiles_and_one_with_another_learning_rate_needs_no_tensorflow(
    place: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "compile_experiment", lambda *_: pytest.fail("it was compiled again"))
    experiment, document = load(place / "grid.yml", {"rate": "0.03"})
    assert worker.program_for(task_in(place), programs_of(experiment), experiment, document) == program


def test_a_program_of_other_versions_is_compiled_again(
    place: Path, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As by a search that is resumed after an upgrade."""
    experiment, document = load(place / "grid.yml")
    task, names = task_in(tmp_path), programs_of(experiment)
    old = Path(task.folder, names[0])
    shutil.copytree(program, old)
    described = json.loads((old / compiled.FILE).read_text())
    described = {**described, "made_with": {**described["made_with"], "ai-edge-litert": "1.0.0"}}
    (old / compiled.FILE).write_text(json.dumps(compiled.with_digest(described)))
    monkeypatch.setattr(runner, "compile_experiment", lambda *given: shutil.copytree(program, given[2]))
    assert worker.program_for(task, names, experiment, document) == old
    assert compiled.read(old).model_fn == "dqn"
    assert "was compiled with ai-edge-litert 1.0.0" in caplog.text
    assert "Compiling again" in caplog.text


def test_trials_that_fail_or_are_killed_are_recorded_and_do_not_stop_the_others(place: Path, first: Any) -> None:
    code, found, said = first
    assert code == 1, said
    assert statuses(found) == {0: "finished", 1: "finished", 2: "failed", 3: "killed"}
    best, other = found["points"]
    assert (best["point"], best["params"]) == (0, {"what": "fine"})
    returns = [trial["evaluation"]["episode_return_mean"] for trial in best["trials"]]
    assert best["metric"] == pytest.approx(sum(returns) / 2)
    assert other["metric"] is None
    assert [trial["seed"] for trial in best["trials"]] == [4, 5]
    assert re.search(r"Trial 2 failed: the disk is on fire \(search_users\.py:\d+, in after_timestep\)\.", said)


def test_a_search_is_resumed_where_it_was(place: Path, second: Any) -> None:
    code, found, said = second
    assert code == 0, said
    assert set(statuses(found).values()) == {"finished"}
    assert [starts(place / f"grid/trial-{trial}") for trial in range(4)] == [1, 1, 2, 2]
    assert [len({point["metric"] for point in found["points"]}), len(found["points"])] == [1, 2]  # the same runs


def test_trials_that_share_the_machine_share_its_processors(
    place: Path, second: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at a time in the second start, of which only the resumed ones are."""
    threads = [
        json.loads((place / f"grid/trial-{trial}/run.json").read_text())["made_with"]["TF_NUM_INTRAOP_THREADS"]
        for trial in (0, 2)
    ]
    assert threads == [os.environ.get("TF_NUM_INTRAOP_THREADS"), str(max(1, processors() // 2))]
    monkeypatch.setattr(pools, "processors", lambda: 8)
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    for jobs, own, expected in (
        (1, {}, (None, None, None)),
        (3, {}, ("2", "2", "1")),
        (9, {}, ("1", "1", "1")),
        (3, {"TF_NUM_INTRAOP_THREADS": "5"}, ("5", "2", "1")),
    ):
        found = pools.shared_machine(own, jobs, tensorflow=True)
        assert tuple(map(found.get, names)) == expected
    assert names[0] not in pools.shared_machine({}, 3, tensorflow=False)  # seeds are the runs that they are alone


def test_each_trial_is_the_run_that_it_would_be_alone(
    place: Path, second: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(place)
    monkeypatch.chdir(place)
    experiment, document = load(place / "grid.yml", sets={"seed": "5", "matrix": "null"})
    runner.run(experiment, document, tmp_path / "alone")
    for trial in (1, 3):  # of which one was killed
        assert weights(place / "grid" / f"trial-{trial}") == weights(tmp_path / "alone")


def test_trials_share_a_program_and_a_group(place: Path, second: Any) -> None:
    assert len([*(place / "grid/programs").glob("*/program.json")]) == 1
    runs = [tracked_run(place / f"grid/trial-{trial}") for trial in range(4)]
    assert len({one.group for one in runs}) == 1
    assert [one.name for one in runs] == [f"pole-trial-{trial}" for trial in range(4)]
    assert runs[2].inputs["what"] == "trouble"
    pictures = [path.parent for path in (place / "grid").glob("*/learning_curve.png")]
    assert pictures == [place / second[1]["best"]]


def test_a_changed_matrix_is_refused(
    place: Path, second: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    (place / "other.yml").write_text(FILE + GRID.replace("trouble", "wait"))
    assert main(["run", "other.yml", "--seeds", "2", "--model-dir", "grid", "--resume"]) == 2
    assert "matrix.params.what.value.1 ('trouble' -> 'wait')" in capsys.readouterr().err


@pytest.fixture(scope="module")
def third(place: Path, program: Path) -> Any:
    """Two learning rates, with another epsilon than that of the file."""
    new(place, program, "hyperband")
    return run(place, "hyperband.yml", "--model-dir", "hyperband")


def test_hyperband_promotes_trials_and_continues_them(place: Path, third: Any) -> None:
    code, found, said = third
    assert code == 0, said
    trials = {trial["trial"]: trial for point in found["points"] for trial in point["trials"]}
    points = {point["point"]: point["params"] for point in found["points"]}
    # maxIterations 200, eta 4: brackets of 3, 2, 1 and 0 promotions, and there are but two points.
    steps = [points[point]["steps"] for point in range(8)]
    assert sorted(steps[:2]) == [3, 200]
    assert sorted(steps[2:4]) == [12, 200]
    assert sorted(steps[4:6]) == [50, 200]
    assert steps[6:] == [200, 200]
    assert {trial: one["timesteps"] for trial, one in trials.items()} == dict(enumerate(steps))
    promoted = steps.index(200)
    assert starts(place / f"hyperband/trial-{promoted}") == 4


def test_the_share_of_training_is_that_of_this_start(second: Any) -> None:
    """Two trials had finished before, and count no more."""
    trials = [trial for point in second[1]["points"] for trial in point["trials"]]
    trained = sum(trial["seconds"] for trial in trials if trial["trial"] > 1)
    assert second[1]["training_share"] == pytest.approx(trained / (2 * second[1]["seconds"]))
    assert 0 < second[1]["training_share"] < 1


ALIKE = {"learning_rate": "1e-3", "size": "500", "discount": "0.9"}


@pytest.mark.parametrize(
    ("kind", "change", "same"),
    [
        ("replay", {"size": "600"}, ("family", "own")),
        ("batch", {"size": "600"}, ()),  # its batches are as long
        ("replay", {"learning_rate": "2e-3"}, ("family",)),
        ("replay", {"learning_rate": "0"}, ()),  # may switch something off
    ],
)
def test_which_trials_share_a_program(kind: str, change: dict[str, str], same: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "one.yml").write_text(
        "params: {learning_rate: 1e-3, size: 500, discount: 0.9}\n"
        "environment: {id: CartPole-v1}\n"
        "agent:\n  model_fn: dqn\n  params: {learning_rate: '${learning_rate}'}\n"
        f"  memory: {{kind: {kind}, size: '${{size}}', discount: '${{discount}}'}}\n"
        "train: {max_timesteps: 10}\n"
    )
    one, other = (keys(load(tmp_path / "one.yml", {**ALIKE, **more})[0]) for more in ({}, change))
    assert tuple(name for name in ("family", "own") if getattr(one, name) == getattr(other, name)) == same


def test_a_resource_that_changes_more_than_limits_is_refused_before_any_trial(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(place)
    monkeypatch.chdir(place)
    text = (FILE + HYPERBAND).replace("first_update: 40", 'first_update: "${steps}"')
    (place / "resource.yml").write_text(text)
    assert main(["run", "resource.yml", "--model-dir", "resource"]) == 2
    said = capsys.readouterr().err
    line = text.splitlines().index("  resource: {name: steps, type: int}") + 1
    assert f"resource.yml:{line}: matrix.resource.name" in said
    assert "train.first_update (3 -> 200)" in said
    assert "max_timesteps (" not in said  # a limit, which may change
    assert not (place / "resource").exists()


def test_rules_stop_the_trials_that_they_are_about_and_end_the_search(place: Path, program: Path) -> None:
    """A return is the limit of the episode's length: 2 is worse than 6 by more than 20 %, and 9 is enough."""
    new(place, program, "rules", 6, 2, 9)
    code, found, said = run(place, "rules.yml", "--jobs", "1", "--model-dir", "rules")
    assert code == 0, said
    assert statuses(found) == {
        **{0: "finished", 2: "finished", 5: "waiting"},
        **{1: "stopped early", 3: "stopped early", 4: "stopped early"},
    }
    assert found["ended"] == "rollout/return of trial 4 reached 9"
    assert Path(found["best"]) == Path("rules/trial-4")
    trials = {trial["trial"]: trial for point in found["points"] for trial in point["trials"]}
    assert {trial: trials[trial]["timesteps"] for trial in (0, 2)} == {0: 300, 2: 300}
    assert [trials[trial]["message"] for trial in (1, 3)] == ["rollout/return was 2: diff stopping"] * 2
    assert [trials[trial]["metric"] for trial in (1, 3)] == [2, 2]  # of the training: there was no evaluation


@pytest.mark.parametrize(
    ("name", "number", "code"), [("killed", signal.SIGKILL, -signal.SIGKILL), ("interrupted", signal.SIGINT, 130)]
)
def test_a_search_that_is_killed_or_interrupted_is_resumed_and_loses_nothing(
    name: str, number: signal.Signals, code: int, place: Path, program: Path
) -> None:
    """While the second trial waits: the process above it is killed, or gets SIGINT."""
    new(place, program, name)
    (place / "begun-4").unlink(missing_ok=True)
    line = command("run", f"{name}.yml", "--jobs", "1", "--model-dir", name, "--resume")
    with subprocess.Popen(line, cwd=place, stderr=subprocess.PIPE, text=True) as process:
        wait((place / "begun-4").exists)
        process.send_signal(number)
        said = process.communicate(timeout=240)[1]
        assert process.returncode == code, said
    if number == signal.SIGINT:
        assert "1 of 2 trials have finished. Continue with: " in said
        found = json.loads((place / name / "search.json").read_text())["trials"]
        assert [found[trial]["status"] for trial in "01"] == ["finished", "stopped"]
    code, found, said = run(place, f"{name}.yml", "--jobs", "1", "--model-dir", name)
    assert code == 0, said
    assert statuses(found) == {0: "finished", 1: "finished"}
    assert [starts(place / name / f"trial-{trial}") for trial in (0, 1)] == [1, 2]
    first, second = (weights(place / name / f"trial-{trial}") for trial in (0, 1))
    assert first == second  # of one seed


def test_a_misspelled_metric_is_told_after_one_trial_and_may_be_corrected(place: Path, program: Path) -> None:
    text = (place / "metric.yml").read_text().replace("name: pole\n", "")
    (place / "metric.yml").write_text(text)
    new(place, program, "metric")
    code, found, said = run(place, "metric.yml", "--jobs", "1", "--model-dir", "metric")
    assert (code, found) == (2, None)
    trials = json.loads((place / "metric/search.json").read_text())["trials"]
    assert [trials[name]["status"] for name in "01"] == ["finished", "waiting"]
    line = text.splitlines().index("  metric: {name: train/lss, optimization: minimize}") + 1
    assert f"metric.yml:{line}: matrix.metric.name: trial 0 has no metric 'train/lss'. It has train/loss, " in said
    (place / "right.yml").write_text(text.replace("lss", "loss"))
    code, found, said = run(place, "right.yml", "--jobs", "1", "--model-dir", "metric")
    assert code == 0, said
    assert (found["name"], statuses(found)) == ("metric", dict.fromkeys(range(4), "finished"))
    assert [starts(place / f"metric/trial-{trial}") for trial in range(4)] == [1, 1, 1, 1]
    assert [point["metric"] for point in found["points"]] == sorted(point["metric"] for point in found["points"])


def test_a_request_to_stop_that_comes_late_does_not_stop_the_next_trial() -> None:
    given = {"point": {}, "seed": 0, "programs": []}
    with StopOnSignal() as signals:
        inbox = Inbox(signals)
        stops = [{"stop": "bad", "run": 3}, {"stop": "late", "run": 3}]
        lines = [{"run": 3, **given}, stops[0], {"run": 4, **given}, stops[1]]
        inbox.take([json.dumps(line).encode() for line in [*lines, {"end": True}]])
        (first, of_first), (second, of_second) = cast(Any, [inbox.next(), inbox.next()])
    assert [first.run, of_first.reason] == [3, "bad"]
    assert [second.run, of_second.reason] == [4, ""]
    assert inbox.next() is None


def test_a_trial_is_asked_to_stop_once(tmp_path: Path) -> None:
    """Whatever its rule says of it later, and however often."""
    search = Search(tmp_path, "0" * 32, [0], 0)
    search.add(Next([{}, {}]))
    quiet = Mock()
    quiet.rules.end_by_failures.return_value = ""
    pool = Pool(search, task_in(tmp_path), 1, quiet, quiet, quiet, {})
    process = Mock(number=0)
    pool._workers.append(process)
    for why in ("bad", "bad", "worse"):
        quiet.judge.return_value = ({0: why}, "")
        pool._judge()
    process.tell.assert_called_once_with(stop="bad", run=0)
    pool._note_end(0, Outcome("stopped", timesteps=9))
    assert (search.outcomes[0].status, search.outcomes[0].message) == ("stopped early", "bad")
    assert search.unfinished() == [1]  # what a rule has stopped counts, and does not continue
