"""``axonrl reproduce``: results in files, and what of them is not run again."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import axonrl
from axonrl.docs import result_tables
from axonrl.experiments.commands import seeds
from axonrl.experiments.commands.cli import main
from axonrl.experiments.config.schema import load
from axonrl.experiments.config.shipped import shipped
from axonrl.experiments.searches import reproduction
from axonrl.run_dir.history import Evaluation, rewrite
from axonrl.run_dir.provenance import provenance
from axonrl.tests.experiments.made_runs import make_run

EVALUATED = {"episodes": 4.0, "episode_return_mean": 30.0, "episode_return_std": 2.0}


JOURNAL: list[tuple[float, dict[str, Any]]] = [
    (100.0, {"cut": 0, "update": 0, "episode": 0}),
    (100.0, {"status": "running", "message": ""}),
    (105.0, {"step": 30, "update": 3, "metrics": {"loss": 1.0}}),
    (109.0, {"step": 50, "update": 5, "metrics": {"loss": 1.0}}),  # killed; the last checkpoint is of update 3
    (200.0, {"cut": 30, "update": 3, "episode": 3}),
    (200.0, {"status": "running", "message": ""}),
    (203.0, {"step": 60, "metrics": {"eval/return_mean": 35.0}}),
    (250.0, {"outputs": {}}),  # after the final evaluation
    (250.0, {"status": "succeeded", "message": ""}),
]


def write_journal(run: Path, entries: Sequence[tuple[float, Mapping[str, Any]]]) -> None:
    """Write entries with their times."""
    text = "".join(f"{json.dumps({'time': time, **entry})}\n" for time, entry in entries)
    (run / "journal.jsonl").write_text(text)


class Trained:
    """An Agent after training."""

    global_timestep, global_step = 60, 7

    def get_weights(self) -> dict[str, Any]:
        """Two weights."""
        return {"kernel": [[1.0, 2.0]], "bias": 0.5}


def made(results: Path, run: Path, seed: int, *, best: float, last: float) -> Path:
    """The result of a seed of ``dqn_cartpole``."""
    make_run(run, seed, [10, 20, 30, 40, 50, 60], evaluations={30: 25.0, 60: 35.0})
    write_journal(run, JOURNAL)
    experiment = load(shipped()["dqn_cartpole"])[0]
    policies = [{**EVALUATED, "episode_return_mean": value} for value in (best, last)]
    return reproduction.write(results, reproduction.result_of(run, experiment, Trained(), *policies), run)


def test_the_files_of_a_seed(tmp_path: Path) -> None:
    path = made(tmp_path, tmp_path / "run", 100, best=30, last=20)
    assert path == tmp_path / "dqn_cartpole" / "seed_100.json"
    # Of six episodes of ten timesteps, three end up to each evaluation.
    expected = "timesteps,return_mean,return_std,training_return\n30,25.00,0.00,20.00\n60,35.00,0.00,50.00\n"
    assert path.with_suffix(".csv").read_text() == expected
    found = json.loads(path.read_text())
    assert (found["experiment"], found["seed"], found["timesteps"], found["updates"]) == ("dqn_cartpole", 100, 60, 7)
    assert found["seconds"] == 8.0  # 5 seconds of the first start, without what was made again, and 3 of the second
    assert (found["best"]["episode_return_mean"], found["last"]["episode_return_mean"]) == (30, 20)
    assert len(found["weights"]) == 16
    again = reproduction.read(tmp_path, "dqn_cartpole", 100)
    assert again is not None
    assert again.weights == found["weights"]
    assert reproduction.read(tmp_path, "dqn_cartpole", 101) is None
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"seed_100.json is damaged: experiment is missing"):
        reproduction.read(tmp_path, "dqn_cartpole", 100)


def test_the_evaluations_of_offline_learning_have_places_of_their_own(tmp_path: Path) -> None:
    path = made(tmp_path, tmp_path / "run", 100, best=30, last=20)
    result = reproduction.read(tmp_path, "dqn_cartpole", 100)
    assert result is not None
    rows = [Evaluation(at, 5.0, 0.0, 10.0, 4, offline_steps=steps) for at, steps in ((0, 100), (0, 200), (60, 200))]
    rewrite(tmp_path / "run" / "evaluations.csv", Evaluation._fields, rows)
    reproduction.write(tmp_path, result, tmp_path / "run")
    _, *found = path.with_suffix(".csv").read_text().splitlines()
    assert found == ["100,5.00,0.00,", "200,5.00,0.00,", "260,5.00,0.00,35.00"]  # 35 is the mean of all six episodes


def test_settings_are_what_a_result_depends_on() -> None:
    def digest(**sets: str) -> str:
        return reproduction.digest_of_settings(load(shipped()["dqn_cartpole"], sets=sets)[0])

    assert digest() == digest(seed="5") == digest(seeds="[1, 2]") == digest(description="another")
    assert digest() != digest(**{"train.max_timesteps": "100"})


def test_what_has_a_result_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def run(experiment: Any, document: Any, arguments: Any, *, only: bool) -> int:
        assert only  # of the folder's unfinished seeds
        asked.append((experiment.seeds, arguments.model_dir, arguments.auto_resume, arguments.jobs))
        print("a table of many seeds")
        return 143

    monkeypatch.setattr(seeds, "run", run)
    into = ("--results", str(tmp_path), "--json")
    for seed, (best, last) in {3: (30, 20), 4: (50, 30), 5: (40, 10)}.items():
        made(tmp_path, tmp_path / f"run-{seed}", seed, best=best, last=last)
    assert main(["reproduce", "dqn_cartpole", "--seeds", "3-5", *into]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not asked
    assert found["best"] == {"returns": [30, 50, 40], "mean": 40, "interquartile_mean": 40, "interval": [30, 50]}
    assert (found["last"]["mean"], found["seeds"]) == (20, [3, 4, 5])
    assert found["references"] == [{"return": 385.3, "source": "Stable-Baselines3, mean of the last policies"}]
    assert main(["reproduce", "dqn_cartpole", "--seeds", "3-5", *into[:-1]]) == 0
    assert capsys.readouterr().out.splitlines()[-2].split()[:4] == ["last", "20.0", "20.0", "-"]  # few: no interval
    # Another seed, and all of them with other settings; both are stopped.
    assert main(["reproduce", "dqn_cartpole", "--seeds", "4,6", "--jobs", "2", *into]) == 143
    assert main(["reproduce", "dqn_cartpole", "--seeds", "3,4", "--timesteps", "1e4", *into]) == 143
    assert main(["reproduce", "dqn_cartpole", "--seeds", "2", *into]) == 143  # a number of held-out seeds
    folder = Path("runs/reproduced/dqn_cartpole")
    assert asked == [([6], folder, True, 2), ([3, 4], folder, True, None), ([100, 101], folder, True, None)]
    assert capsys.readouterr().out == ""
    assert main(["reproduce", "dqn_cartpole", "--seeds", "100", *into]) == 2
    assert "seeds: 100 is a number of seeds, 100 to 199; write 100-100 for one seed" in capsys.readouterr().err
    unwritable = "/proc/results"  # refused before the first run
    assert main(["reproduce", "dqn_cartpole", "--seeds", "7-7", "--results", unwritable]) == 2
    assert len(asked) == 3


def test_random_actions_and_what_the_last_policy_kept(tmp_path: Path) -> None:
    experiment = load(shipped()["dqn_acrobot"])[0]
    assert reproduction.random_return(experiment, 2, 3) <= -300  # random actions hardly ever swing it up in 500
    found = [
        reproduction.Result("name", "id", seed, "", {}, 1, 1, 1.0, {"episode_return_mean": best}, last, -50.0, "")
        for seed, best, last in [
            (1, 150.0, {"episode_return_mean": 100.0}),
            (2, 50.0, {"episode_return_mean": 41.0}),
            (3, -60.0, {"episode_return_mean": -70.0}),
        ]
    ]
    assert [one.kept for one in found] == [0.75, 0.91, None]
    summary = reproduction.summary("name", found)
    assert summary["kept"] == {"median": pytest.approx(0.83), "lowest": 0.75}
    assert reproduction.kept_text(summary) == "0.83 (0.75)"


def test_offline_runs_have_updates_and_no_best_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_tables, "RESULTS", tmp_path)
    path = made(tmp_path, tmp_path / "run", 100, best=20, last=20)
    path.write_text(path.read_text().replace('"timesteps": 60', '"timesteps": 0'))
    summary = reproduction.summary("dqn_cartpole", reproduction.read_all(tmp_path, "dqn_cartpole"))
    assert {len(column.texts) for column in reproduction.table(summary).columns} == {1}
    (row,) = result_tables.table(["dqn_cartpole"]).splitlines()[2:]
    assert row.startswith("| `dqn_cartpole` | last | 20.0 | - | 20.0 | - | 100 | 7 updates | ")


def test_references_of_another_library_are_the_means_of_its_runs() -> None:
    peers = {name: result_tables.last_returns(name, "Stable-Baselines3") for name in shipped()}
    means = {name: round(fmean(found.values()), 1) for name, found in peers.items() if len(found) >= 3}
    what = "Stable-Baselines3, mean of the last policies"
    references = [(name, value) for name, given in reproduction.REFERENCES.items() for value, by in given if by == what]
    assert dict(references) == means
    assert len(peers["dqn_cartpole"]) == 10


def test_results_become_tables_and_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_tables, "RESULTS", tmp_path)
    monkeypatch.setattr(reproduction, "REFERENCES", {"dqn_cartpole": [(45.5, "v0"), (1200, "a paper")]})
    for seed, (best, last) in {3: (30, 20), 4: (50, 30), 6: (40, 10)}.items():
        made(tmp_path, tmp_path.parent / f"run-{seed}", seed, best=best, last=last)
    found = result_tables.everything()
    assert "## CartPole-v1\n" in found
    assert "| - | 30.0, 50.0, 40.0 | - | 3, 4, 6 | 60 | 45.5 (v0); 1,200 (a paper) |" in found
    assert "`ppo_cartpole`" in found.partition("## Not run")[2]
    assert "`dqn_cartpole`" not in found.partition("## Not run")[2]
    short = tmp_path / "dqn_cartpole" / "seed_6.csv"  # this run ended at its first evaluation
    short.write_text("timesteps,return_mean,return_std,training_return\n30,55.00,0.00,\n")
    timesteps, returns = result_tables.curves_of("dqn_cartpole", "return_mean")
    assert [each.tolist() for each in (timesteps, returns.min(0), returns.mean(0), returns.max(0))] == [
        [30, 60],
        [25, 35],
        [35, pytest.approx(125 / 3)],
        [55, 55],
    ]
    result_tables.draw(tmp_path / "curve.svg", "CartPole-v1", [["dqn_cartpole"]] * 5, "return_mean")
    drawn = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert drawn.count("<!-- dqn_cartpole -->") == drawn.count("<!-- 45.5, v0 -->") == 5
    assert drawn.count('id="axes_') == 5  # the rest of the second row is empty
    with pytest.raises(ValueError, match="ppo_cartpole has no result"):
        result_tables.table(["ppo_cartpole"])


@pytest.mark.learning
@pytest.mark.parametrize("name", ["ppo_cartpole", "qr_dqn_cartpole"])
def test_a_published_run_repeats_to_the_digest_on_the_processor_and_versions_that_made_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = reproduction.read(Path(axonrl.__file__).parent / "docs" / "results", name, 100)
    assert published is not None
    here = provenance()
    other = {key: value for key, value in published.made_with.items() if here.get(key, value) != value}
    if other:
        pytest.skip(f"the published run of {name} was made with {other}, here are {here}")
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", name, "--seeds", "100-100", "--results", str(tmp_path)]) == 0
    found = reproduction.read(tmp_path, name, 100)
    assert found is not None
    assert found.weights == published.weights
    assert (found.best, found.last) == (published.best, published.last)
