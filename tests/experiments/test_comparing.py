"""``axonrl ls`` and ``compare``, and what a report reckons, on run folders whose numbers are known."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments.commands.cli import main
from axonrl.experiments.comparison.groups import differences, group_runs
from axonrl.experiments.comparison.parallel import axes_of, searched_groups
from axonrl.experiments.comparison.run_digest import read_run
from axonrl.experiments.comparison.run_folders import run_folders
from axonrl.experiments.comparison.study import Study, across, study
from axonrl.experiments.comparison.tables import age, number
from axonrl.experiments.running.folder import read_experiment
from axonrl.experiments.tracking.follower import complete
from axonrl.experiments.tracking.history import write_journal
from axonrl.experiments.tracking.journal import TrackedRun
from axonrl.tests.experiments.made_runs import make_run


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def studies_of(folder: Path, *reach: float) -> list[Study]:
    found = group_runs(map(read_run, run_folders([folder])))
    return [study(name, groups, reach) for name, groups in found.items()]


# -- one run ----------------------------------------------------------------------------------------------------------


def test_a_run_with_evaluations_and_one_whose_returns_are_those_of_a_hundred_episodes(tmp_path: Path) -> None:
    run, _ = read_run(make_run(tmp_path / "one", 3, [1.0, 2.0], evaluations={10: 7.0, 30: 5.0}))
    assert (run.status, run.problem) == ("finished", "")
    assert (run.environment, run.algorithm, run.seed) == ("CartPole-v1", "dqn", 3)
    assert (run.best_return, run.final_return, run.training_return) == (7.0, 5.0, 1.5)
    assert (run.episodes, run.timesteps) == (2, 30)  # it was evaluated after its last episode
    assert run.timesteps_per_second == pytest.approx(200)  # 20 timesteps of two copies in 0.2 s
    run, _ = read_run(make_run(tmp_path / "two", 3, [0.0] * 50 + [10.0] * 100 + [4.0] * 50))
    assert (run.best_return, run.final_return) == (10.0, 7.0)


@pytest.mark.parametrize(("cluster", "speed"), [({"actors": 3, "envs_per_actor": 2}, 600), ({"actors": "3"}, 200)])
def test_the_speed_of_a_cluster_is_that_of_all_its_environments(tmp_path: Path, cluster: Any, speed: float) -> None:
    """Not of the two lanes of its rollouts, which are all that is known where the file is damaged."""
    folder = make_run(tmp_path / "one", 3, [1.0, 2.0])
    with (folder / "experiment.yml").open("a") as file:
        file.write(f"distributed: {json.dumps(cluster)}\n")
    assert read_run(folder)[0].timesteps_per_second == pytest.approx(speed)


def test_the_evaluation_at_the_end_of_a_run_is_its_final_one(tmp_path: Path) -> None:
    run, curve = read_run(make_run(tmp_path / "one", 3, [1.0, 2.0], evaluations={10: 7.0}, final=(100, 6.0)))
    assert (run.best_return, run.final_return, run.final_episodes) == (7.0, 6.0, 100)
    assert dict(curve.evaluations) == {10: 7.0}
    run, _ = read_run(make_run(tmp_path / "alone", 3, [1.0, 2.0], final=(100, 6.0)))
    assert (run.best_return, run.final_return, run.final_episodes, run.training_return) == (6.0, 6.0, 100, 1.5)
    gone_on = make_run(tmp_path / "gone_on", 3, [1.0, 2.0], evaluations={10: 7.0}, final=(100, 6.0))
    with (gone_on / "journal.jsonl").open("a") as file:
        file.write('{"time": 2.0, "status": "resuming", "message": ""}\n{"time": 2.0, "cut": 20}\n')
    run, _ = read_run(gone_on)
    assert (run.final_return, run.final_episodes, run.status) == (7.0, 5, "killed")


def test_a_checkpoint_has_counted_the_episode_that_has_not_ended(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "one", 3, [1.0])
    (folder / "checkpoints" / "checkpoint-00000004").mkdir(parents=True)
    manifest = folder / "checkpoints" / "checkpoint-00000004" / "manifest.json"
    manifest.write_text('{"counters": {"global_timestep": 17}}')
    assert read_run(folder)[0].timesteps == 17
    manifest.write_text("{")
    assert read_run(folder)[0].timesteps == 10


def test_the_status_is_the_last_of_the_journal_or_that_of_the_process_that_holds_the_folder(tmp_path: Path) -> None:
    made = [make_run(tmp_path / name, 3, [1.0], status=name) for name in ("succeeded", "stopped", "failed", "running")]
    (made[-1] / "lock.pid").write_text(str(os.getpid()))
    assert [read_run(folder)[0].status for folder in made] == ["finished", "stopped", "failed", "running"]
    (made[-1] / "lock.pid").write_text("999999999")
    assert read_run(made[-1])[0].status == "killed"
    complete(TrackedRun(made[-1]), [])  # as the process that tracks a run does once the run is gone
    assert read_run(made[-1])[0].status == "killed"
    program = make_run(tmp_path / "program", 3, [1.0], python=True)
    assert read_run(program)[0].status == "ended"
    write_journal(program, read_experiment(program))  # as axonrl sync does, which knows no more
    assert read_run(program)[0].status == "ended"
    (program / "lock.pid").write_text("999999999")  # which a training removes, however it ends by itself
    assert read_run(program)[0].status == "killed"


def test_a_run_of_python_has_no_journal_and_the_same_settings(tmp_path: Path) -> None:
    run, _ = read_run(make_run(tmp_path / "one", 3, [1.0], python=True, rate=0.5, hidden=[8, 8]))
    assert run.status == "ended"
    assert (run.settings["agent.params.rate"], run.settings["agent.params.hidden"]) == (0.5, [8, 8])
    assert run.settings["environment.id"] == "CartPole-v1"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        *(("run.json", "{"), ("starts.json", "[]]"), ("experiment.yml", "a: ["), ("episodes.csv", "x\n1,2\n")),
        ("evaluations.csv", "\xff\n"),
    ],
)
def test_damage_names_the_file_and_what_to_do_and_leaves_the_rest(tmp_path: Path, file: str, text: str) -> None:
    folder = make_run(tmp_path / "one", 3, [1.0])
    (folder / file).write_text(text, encoding="latin-1")
    run, curve = read_run(folder)
    assert run.status == "damaged"
    assert file in run.problem
    assert run.problem.endswith(". Restore it from a copy, or train the run again in a new folder.")
    assert run.problem.count("Restore") == 1
    assert curve.ends.size == 0


@pytest.mark.parametrize("name", ["run.json", "starts.json", "episodes.csv", "evaluations.csv"])
def test_a_file_that_cannot_be_read_is_damage(tmp_path: Path, name: str) -> None:
    path = make_run(tmp_path / "one", 3, [1.0]) / name
    path.unlink()
    path.symlink_to(name)  # a loop, as root may read any file
    run, _ = read_run(tmp_path / "one")
    assert (run.status, name in run.problem) == ("damaged", True)


def test_a_run_that_has_trained_has_episodes(tmp_path: Path) -> None:
    (make_run(tmp_path / "lost", 3, [1.0]) / "episodes.csv").unlink()
    run, _ = read_run(tmp_path / "lost")
    assert (run.status, run.problem.partition(".csv")[2][:12]) == ("damaged", " is missing.")
    (make_run(tmp_path / "checked", 3, [], python=True) / "episodes.csv").unlink()
    assert read_run(tmp_path / "checked")[0].problem == ""


# -- several ----------------------------------------------------------------------------------------------------------


def test_folders_are_found_at_any_depth_each_once_in_the_order_of_numbers(tmp_path: Path) -> None:
    for name in ("pole/seed-10", "pole/seed-9", "deep/er/run"):
        make_run(tmp_path / name, 1, [1.0])
    for name in ("pole/compiled/x", "nothing"):
        (tmp_path / name).mkdir(parents=True)
    found = [path.relative_to(tmp_path).as_posix() for path in run_folders([tmp_path, tmp_path / "pole" / "seed-9"])]
    assert found == ["deep/er/run", "nothing", "pole/seed-9", "pole/seed-10"]
    assert run_folders([tmp_path / "nothing"]) == []


def test_a_folder_that_cannot_be_searched_is_a_damaged_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [make_run(tmp_path / name, 3, [1.0]) for name in ("mine", "theirs")]
    exists = Path.exists

    def denied(path: Path, **options: Any) -> bool:
        if path.parent == made[1]:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path, **options)

    monkeypatch.setattr(os, "access", lambda path, mode: path != made[1])
    monkeypatch.setattr(Path, "exists", denied)
    assert run_folders([tmp_path]) == made


def test_ls_lists_all_and_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "good", 1, [1.0])
    (make_run(tmp_path / "bad", 1, [1.0]) / "run.json").write_text("{")
    (tmp_path / "empty").mkdir()
    runs = printed(capsys, "ls", str(tmp_path))["runs"]
    assert [run["status"] for run in runs] == ["damaged", "empty", "finished"]
    assert runs[2]["started"] == "2026-01-02T03:04:05+00:00"
    assert main(["ls", str(tmp_path)]) == 0
    out, error = capsys.readouterr()
    assert out.startswith(f"Runs in {tmp_path}:\n")
    assert [line.split()[0] for line in out.splitlines() if "CartPole" in line] == ["good"]
    assert "run.json" in error


@pytest.mark.parametrize("command", ["ls", "compare", "report"])
def test_where_there_are_no_runs(tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, str(tmp_path / "missing")]) == 2
    assert "does not exist" in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text("")
    if command == "ls":
        assert main([command, str(tmp_path)]) == 0
        assert capsys.readouterr().out == f"There are no runs in {tmp_path}.\n"
    if command == "report":
        (tmp_path / "empty").mkdir()  # of a run that cannot be shown
        assert main([command, str(tmp_path), "-o", str(tmp_path / "report.html")]) == 2
        assert str(tmp_path) in capsys.readouterr().err
        assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("width", "row", "left_out"),
    [
        (80, ["…01/seed-0", "Lunar…us-v3", "munch…n_dqn", "0", "finished", "95.12", "10"], False),
        (60, ["…01/seed-0", "Lunar…us-v3", "munch…_dqn", "0", "finished", "95.12"], True),
    ],
)
def test_a_narrow_terminal_shows_whole_rows(
    width: int,
    row: list[str],
    left_out: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long: dict[str, Any] = {"environment": "LunarLanderContinuous-v3", "model_fn": "munchausen_dqn"}
    for rate in (0.001, 0.0001):
        folder = tmp_path / f"munchausen-dqn-on-the-continuous-lander-with-rate-{rate}" / "seed-0"
        make_run(folder, 0, [95.123456], learning_rate=rate, first_update=50, **long)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["ls", str(tmp_path)]) == 0
    lines = _plain(capsys.readouterr().out)
    assert [line.split()[: len(row)] for line in lines if "0.0001" in line or "…01" in line] == [row]
    assert ("There is no room for timesteps, age." in "\n".join(lines)) == left_out
    assert main(["compare", str(tmp_path)]) == 0
    lines += (compared := _plain(capsys.readouterr().out))
    assert compared[1].split() == ["learning_rate=0.0001", "learning_rate=0.001"]
    assert any(re.search(r"final return +95.12 +95.12", line) for line in compared)
    assert max(len(line.rstrip()) for line in lines) <= width


def _plain(text: str) -> list[str]:
    """Lines without styles, and without the one that names the folder."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()[1:]


def test_numbers_have_four_digits_or_as_many_as_tell_them_apart_and_ages_one_unit() -> None:
    near = [{"a": 0.123456, "b": [0.5, 1 / 3], "c": 1.0}, {"a": 0.123457, "b": [0.5, 2 / 3], "c": 1}]
    assert differences(near) == {
        "a": ["0.123456", "0.123457"],
        "b": ["[0.5, 0.3333]", "[0.5, 0.6667]"],
        "c": ["1.0", "1"],
    }
    assert [number(value) for value in (None, 0.000123456, 9.0, 475.333, 999.96, -12345.6, float("nan"))] == [
        *("-", "0.0001235", "9", "475.3", "1,000", "-12,346", "-")
    ]
    assert [age(seconds) for seconds in (None, 0.4, 59, 3599, 90000)] == ["-", "0 s", "59 s", "59 min", "1 d"]


def labels(folder: Path) -> list[tuple[str, int]]:
    """Labels of the groups of a single environment, and their numbers of runs."""
    (groups,) = group_runs(map(read_run, run_folders([folder]))).values()
    return sorted((group.label, len(group.runs)) for group in groups)


def test_where_much_differs_groups_have_the_names_of_their_folders(tmp_path: Path) -> None:
    def made(folder: str, seed: int, value: int) -> None:
        make_run(tmp_path / folder, seed, [1.0], one=value, two=value, three=value, four=value)

    for search, value in (("first", 1), ("second", 3)):
        made(f"{search}/trial-0", 0, value)
        made(f"{search}/trial-1", 1, value)
        made(f"{search}/trial-2", 0, value + 1)
    made("seeds/seed-0", 0, 5)
    made("pole-0", 0, 6)
    made("pole-1", 1, 6)
    assert labels(tmp_path) == [
        *(("first/trial-0", 2), ("first/trial-2", 1), ("pole-0", 2)),
        *(("second/trial-0", 2), ("second/trial-2", 1), ("seeds", 1)),
    ]


def test_labels_name_the_algorithm_where_there_are_several(tmp_path: Path) -> None:
    for rate, seed in ((1, 0), (1, 1), (1.0, 0), (0.00018237019760011545, 0)):
        make_run(tmp_path / f"{rate}-{seed}", seed, [1.0], rate=rate)
    # they differ in more than the seed
    assert labels(tmp_path) == [("rate=0.0001824", 1), ("rate=1", 2), ("rate=1.0", 1)]
    make_run(tmp_path / "c", 0, [1.0], model_fn="ppo")
    assert labels(tmp_path) == [("dqn rate=0.0001824", 1), ("dqn rate=1", 2), ("dqn rate=1.0", 1), ("ppo", 1)]


def edited(folder: Path, **values: Any) -> None:
    """Change what a run's record says."""
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ({"schedule": {"first_update": 100, "update_frequency": 50}}, "first_update=100 update_frequency=50"),
        ({"limits": {"timesteps": 500}}, "max_timesteps=500"),
        ({"num_envs": 4}, "num_envs=4"),
        ({"code": {"model_fn": {"digest": "a1"}}}, "code.model_fn=a1"),
        (
            {"environment": {"id": "m:Own", "kwargs": {}, "wrappers": [], "unrecorded": {"level": 2}}},
            "",  # another environment
        ),
    ],
)
def test_what_run_json_records_makes_another_group(tmp_path: Path, values: dict[str, Any], label: str) -> None:
    for name in ("one", "two"):
        make_run(tmp_path / name, 0, [1.0], python=True)
    edited(tmp_path / "two", **values)
    found = group_runs(map(read_run, run_folders([tmp_path])))
    groups = [group for environment in found.values() for group in environment]
    assert len(groups) == 2
    assert not label or label in groups[1].label
    assert [group.unrecorded for group in groups] == [[], []]


def test_a_file_and_a_program_differ_in_what_differs_alone(tmp_path: Path) -> None:
    make_run(tmp_path / "file", 0, [1.0], hidden=[64, 64], learning_rate=1e-3)  # a default of dqn
    make_run(tmp_path / "program", 1, [1.0], python=True, hidden=[64, 64])
    experiment = tmp_path / "file" / "experiment.yml"
    nothing = "config: {}\nhooks: []\ndistributed: null\ntrain: {first_update: null, max_timesteps: 90}\n"
    experiment.write_text(experiment.read_text() + nothing)
    for name in ("file", "program"):  # the schedule that was chosen, and where it was to end
        edited(tmp_path / name, limits={"timesteps": 90}, schedule={"first_update": 35, "update_frequency": 10})
    (groups,) = group_runs(map(read_run, run_folders([tmp_path]))).values()
    assert [len(group.runs) for group in groups] == [2]


def test_a_group_says_what_was_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = {"id": "m:Own", "kwargs": {}, "wrappers": [], "unrecorded": {"level": None}}
    code = {"model_fn": {"digest": "a", "unknown": ["loss"]}}
    for seed in (0, 1):
        made = make_run(tmp_path / str(seed), seed, [1.0], python=True)
        edited(made, unrecorded=["network"], environment=own, code=code)
    unknown = ["agent.params.network", "environment.level", "loss in the code of model_fn"]
    assert printed(capsys, "compare", str(tmp_path))["columns"][0]["not_recorded"] == unknown
    assert main(["report", str(tmp_path), "--output", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert f"can differ in what was not recorded.</p><ul><li>dqn: {', '.join(unknown)}</li>" in page


def test_compare_shows_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        make_run(tmp_path / "a" / f"seed-{seed}", seed, [2.0 + seed], rate=0.5, same=1)
        make_run(tmp_path / "b" / f"seed-{seed}", seed, [5.0], rate=True, same=1)
    make_run(tmp_path / "c", 7, [3.0], evaluations={10: 9.0, 30: 4.0}, same=1)
    found = printed(capsys, "compare", *(str(tmp_path / name) for name in "abc"))
    assert found["differences"] == {"agent.params.rate": [0.5, True, None]}
    assert [column["best_return"] for column in found["columns"]] == [2.5, 5.0, 9.0]
    assert [column["seeds"] for column in found["columns"]] == [[0, 1], [0, 1], [7]]
    assert main(["compare", *(str(tmp_path / name) for name in "abc")]) == 0
    rows = [re.split(r" {2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]
    for row in (["best return", "2.5", "5", "9"], ["final return", "2.5", "5", "4"], ["rate", "0.5", "true", "-"]):
        assert row in rows


def test_means_are_of_the_runs_that_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        make_run(tmp_path / f"seed-{seed}", seed, [1.0] * 50, final=(10, 500.0))
    make_run(tmp_path / "seed-2", 2, [20.0] * 5, status="failed")  # whose return is that of training
    (column,) = printed(capsys, "compare", str(tmp_path))["columns"]
    assert (column["best_return"], column["final_return"], column["seeds"]) == (500.0, 500.0, [0, 1, 2])


def test_what_does_not_count(tmp_path: Path) -> None:
    make_run(tmp_path / "whole", 0, [1.0] * 100)
    make_run(tmp_path / "again", 0, [1.0] * 100)
    make_run(tmp_path / "nearly", 1, [1.0] * 95, status="stopped")
    make_run(tmp_path / "solved", 2, [1.0] * 20)
    make_run(tmp_path / "killed", 3, [1.0] * 94, status="running")
    make_run(tmp_path / "begun", 4, [])
    (groups,) = group_runs(map(read_run, run_folders([tmp_path]))).values()
    found = {entry.run.folder.name: bool(entry.left_out) for entry in groups[0].entries}
    assert found == {"again": False, "whole": True, "nearly": False, "solved": False, "killed": True, "begun": True}


# -- what they say together -------------------------------------------------------------------------------------------


def test_final_returns_are_those_of_evaluations_and_runs_without_any_are_another_group(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 0, [1.0], evaluations={10: 8.0})
    make_run(tmp_path / "b", 1, [2.0], evaluations={10: 9.0})
    make_run(tmp_path / "at-its-end", 3, [1.0], final=(100, 7.0))
    make_run(tmp_path / "learned", 4, [], final=(100, 6.0))  # its end counts, without an episode
    (one,) = studies_of(tmp_path)
    assert one.results[0].finals == [8.0, 9.0, 7.0, 6.0]
    assert one.what == "the last evaluation, of 5 to 100 episodes"
    make_run(tmp_path / "c", 2, [60.0, 60.0])
    make_run(tmp_path / "d", 5, [1.0], status="failed")  # does not count, wherever it is
    (one,) = studies_of(tmp_path)
    assert [(found.group.label, found.finals) for found in one.results] == [
        *(("dqn", [8.0, 9.0, 7.0, 6.0]), ("dqn, not evaluated", [60.0]))
    ]
    assert one.what == (
        "the last evaluation, of 5 to 100 episodes; those of dqn, not evaluated, of the last 100 episodes of training"
    )
    assert (one.comparable, one.improvement) == (one.results[:1], {})
    (tmp_path / "alone").mkdir()
    (tmp_path / "c").rename(tmp_path / "alone" / "c")
    (alone,) = studies_of(tmp_path / "alone")
    assert ([found.group.label for found in alone.results], alone.what) == (
        ["dqn"],
        "the last 100 episodes of training",
    )


def test_results_improvement_and_efficiency(tmp_path: Path) -> None:
    for seed in range(4):
        make_run(tmp_path / f"good-{seed}", seed, [0.0] * 100 + [10.0 + seed] * 100, rate=1)
        make_run(tmp_path / f"poor-{seed}", seed, [0.0] * 150 + [seed * 4.0] * 100, rate=2)
    make_run(tmp_path / "one", 0, [0.0] * 200, rate=3)  # a single run is no ground for a probability
    (one,) = studies_of(tmp_path, 5.0, 11.5)
    good, poor, _ = one.results
    assert (good.group.label, poor.group.label) == ("rate=1", "rate=2")
    assert good.final is not None
    assert good.final.value == 11.5  # without 10 and 13
    assert set(one.improvement) == {("rate=1", "rate=2"), ("rate=2", "rate=1")}
    assert one.improvement["rate=1", "rate=2"].value == pytest.approx(13.5 / 16)  # 3 + 3 + 3.5 + 4
    reached, median = good.reached[5.0]
    assert reached == 4
    assert median is not None
    assert abs(median - 1000) <= 50  # half of the window of 50, and a step of the grid
    assert good.reached[11.5][0] == 2
    assert poor.reached[11.5] == (1, None)  # fewer than half of the runs
    assert one.differing == {"agent.params.rate": ["1", "2", "3"]}


def test_groups_are_compared_over_environments(tmp_path: Path) -> None:
    for environment, top in (("A-v0", 100.0), ("B-v0", 1.0)):
        for seed in range(2):
            make_run(tmp_path / f"{environment}-1-{seed}", seed, [top], environment=environment, rate=1)
            make_run(tmp_path / f"{environment}-2-{seed}", seed, [0.0], environment=environment, rate=2)
    found = across(studies_of(tmp_path))
    assert list(found) == ["rate=1", "rate=2"]
    assert found["rate=1"] == ((1.0, 1.0, 1.0), None)
    assert found["rate=2"] == ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    assert across(studies_of(tmp_path)[:1]) == {}
    for seed in range(2):  # a third environment, where all is the same but for rounding
        make_run(tmp_path / f"C-v0-1-{seed}", seed, [0.1 + 0.2], environment="C-v0", rate=1)
        make_run(tmp_path / f"C-v0-2-{seed}", seed, [0.3], environment="C-v0", rate=2)
    assert across(studies_of(tmp_path))["rate=1"][0].value == 0.75  # of 0, 0, 1, 1, 1, 1 without the first and the last


def test_a_group_counts_once_in_each_environment_whatever_is_recorded_of_that(tmp_path: Path) -> None:
    for environment in ("m:A", "m:B"):
        for rate in (1, 2):
            folder = make_run(tmp_path / f"{environment}-{rate}", 0, [rate], environment=environment, rate=rate)
            edited(folder, code={"environment": {"digest": environment}})
    expected = {"rate=2": ((1.0, 1.0, 1.0), None), "rate=1": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))}
    assert across(studies_of(tmp_path)) == expected
    for level in (1, 2):  # twice in one environment, and not in the other
        folder = make_run(tmp_path / f"level-{level}", 0, [1.5], environment="m:A", rate=3)
        edited(folder, environment={"id": "m:A", "kwargs": {"level": level}, "wrappers": []})
    assert [score.value for score, _ in across(studies_of(tmp_path)).values()] == [1.0, 0.0]


def test_the_curve_of_evaluations_ends_where_the_first_run_ends(tmp_path: Path) -> None:
    for seed, last in ((0, 100), (1, 200)):  # as of Agent.learn: evaluations, and no episode
        make_run(tmp_path / str(seed), seed, [], evaluations={0: 0.0, last: 10.0})
    (one,) = studies_of(tmp_path)
    band = one.results[0].band
    assert band is not None
    assert (band.timesteps[-1], band.mean[-1]) == (100.0, 7.5)  # 10 of the one that ends here, 5 halfway


def test_a_search_has_an_axis_for_each_setting(tmp_path: Path) -> None:
    for index, rate in enumerate((0.001, 0.01, 0.1, 0.1, 0.1, 0.1)):
        make_run(tmp_path / str(index), 0, [float(index)], rate=rate, kind="ab"[index % 2], size=index, same=1)
    make_run(tmp_path / "other", 0, [1.0], model_fn="ppo")
    (one,) = studies_of(tmp_path)
    results = searched_groups(one)
    assert [result.group.algorithm for result in results] == ["dqn"] * 6
    axes = {axis.name: axis for axis in axes_of(results)}
    assert set(axes) == {"rate (log)", "kind", "size"}
    assert axes["rate (log)"].places == pytest.approx([1, 1, 1, 1, 0.5, 0])  # the best first
    assert axes["kind"].ticks == [(0.0, "a"), (1.0, "b")]
    assert axes["size"].places == pytest.approx([1, 0.8, 0.6, 0.4, 0.2, 0])


def test_the_axes_of_several_searches_are_what_was_searched(tmp_path: Path) -> None:
    for search, sought in (("first", "rate"), ("second", "size")):
        for trial in range(4):
            found: dict[str, Any] = {"rate": 0.5, "size": 7, sought: trial}
            make_run(tmp_path / search / f"trial-{trial}", 0, [float(trial)], epsilon=search, **found)
        (tmp_path / search / "search.yml").write_text("")
    (one,) = studies_of(tmp_path)
    assert {axis.name for axis in axes_of(searched_groups(one))} == {
        "rate",
        "size",
    }  # not epsilon, which nobody searched
