"""How many seeds are shown while they run, and how ``seeds`` is written. No process is started."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from axonrl.experiments.commands import sync
from axonrl.experiments.commands.cli import main
from axonrl.experiments.config.schema import ExperimentFile, load
from axonrl.experiments.config.seeds import as_yaml, seed_list, seed_ranges
from axonrl.experiments.errors import ExperimentError
from axonrl.experiments.running import folder as records
from axonrl.experiments.searches import report
from axonrl.experiments.searches.display import RunsView
from axonrl.experiments.searches.runs import FAILED, FINISHED, Outcome
from axonrl.experiments.searches.search import Search
from axonrl.experiments.searches.seeds import Seeds, prepare
from axonrl.experiments.searches.strategies import Next
from axonrl.tests.hooks.conftest import FakeClock

DONE = Outcome(FINISHED, 12, 300, 130, 1.25, 21.5)
BROKEN = Outcome(FAILED, message="the disk is on fire")


def experiment(run_file: Path, seeds: str) -> ExperimentFile:
    return load(run_file, sets={"seeds": seeds})[0]


@pytest.fixture
def group(run_file: Path, tmp_path: Path) -> Seeds:
    return Seeds(tmp_path / "group", experiment(run_file, "[4, 7, 9]"), "0" * 32, {}, "", [4, 7, 9])


def test_plain_lines(group: Seeds, capsys: pytest.CaptureFixture[str]) -> None:
    """Start and end at once, the status every five seconds."""
    clock = FakeClock()
    clock.now = 0.0
    with RunsView(group, clock=clock).opened([4, 7, 9]) as view:
        view.started(4)
        view.status(4, "timestep 10/20", 0.5)
        view.refresh()
        clock.now = 5.0
        view.refresh()
        clock.now = 6.0
        view.refresh()
        view.ended(4, DONE)
        view.warning(4, "it is late")
        view.started(7)
        view.warning(7, "it is late")
        view.ended(7, BROKEN)
    assert capsys.readouterr().err.splitlines() == [
        "axonrl: seed 4: started",
        "axonrl: seed 4:  50% timestep 10/20",
        "axonrl: seed 4: finished, 300 timesteps, 1.2 s, return 21.50",
        "axonrl: seed 4: it is late",
        "axonrl: seed 7: started",
        "axonrl: seed 7: failed: the disk is on fire",
    ]


def test_a_trial_is_told_with_its_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And with its seed, where there are several."""
    for seeds, said in ([4], "trial 1: started with rate=0.2"), ([4, 5], "trial 1: started with rate=0.1, seed 5"):
        search = Search(tmp_path, "0" * 32, seeds, 0)
        search.add(Next([{"rate": 0.1}, {"rate": 0.2}]))
        with RunsView(search).opened([1]) as view:
            view.started(1)
        assert capsys.readouterr().err == f"axonrl: {said}\n"


@pytest.mark.parametrize(("height", "shown"), [(20, True), (3, False)])
def test_a_line_for_each_seed_on_a_terminal(group: Seeds, height: int, shown: bool) -> None:
    """Where there are more than lines, those that run are shown."""
    console = Console(file=io.StringIO(), force_terminal=True, width=40, height=height, _environ={})
    with RunsView(group, console).opened([4, 7, 9]) as view:
        view.started(4)
        view.started(7)
        view.ended(4, BROKEN)
        view.status(7, "timestep 10/20 | return(100) 21.00 | and much more than has room", 0.5)
        view.refresh()
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "seed 7  50% timestep 10/20 | return(100…" in text
    assert ("seed 4 failed: the disk is on fire" in text) == shown
    assert ("seed 9 waiting" in text) == shown
    assert ("1 ended, 1 waiting" in text) != shown


def test_the_table_and_what_the_seeds_say_together(group: Seeds) -> None:
    group.outcomes |= {4: DONE, 7: BROKEN}
    rows = list(map(list, zip(*(column.texts for column in report.seeds_table(group).columns), strict=True)))
    assert ["4", "finished", "12", "300", "1.2", "21.50"] in rows
    assert ["7", "failed", "-", "-", "-", "-"] in rows
    assert ["9", "waiting", "-", "-", "-", "-"] in rows
    first, second, few = (" ".join(line.split()) for line in report.seeds_lines(group))
    assert first == "mean of 1 seed: 21.50 (95 % interval: 21.50 to 21.50)"
    assert second.startswith("interquartile mean of 1 seed: 21.50")
    assert few.startswith("warning")
    assert "only 1 seed" in few
    assert "--seeds 10" in few
    found = report.seeds_json(group)
    assert (found["together"]["mean"], found["few_seeds"]) == ({"value": 21.5, "low": 21.5, "high": 21.5}, True)
    group.outcomes = {seed: DONE if seed < 10 else BROKEN for seed in range(12)}
    assert report.seeds_json(group)["few_seeds"] is False
    assert not [line for line in report.seeds_lines(group) if line.startswith("warning")]


@pytest.mark.parametrize(
    ("text", "seed", "seeds"), [("3", 0, [0, 1, 2]), ("100-102", 5, [100, 101, 102]), ("0-1,9", 0, [0, 1, 9])]
)
def test_the_option(run_file: Path, text: str, seed: int, seeds: list[int]) -> None:
    found = experiment(run_file, as_yaml(text)).seeds
    assert found is not None
    assert seed_list(found, seed) == seeds
    assert seed_list(3, 5) == [5, 6, 7]


@pytest.mark.parametrize("text", ["", "9-7", "1-99999999999"])
def test_an_invalid_option(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number of seeds"):
        as_yaml(text)


@pytest.mark.parametrize("value", ["1001", "true", "[1, 1]", "[-1]"])
def test_an_invalid_value_in_the_file(run_file: Path, value: str) -> None:
    with pytest.raises(ExperimentError, match="seeds: must be the number of seeds, 1 to 1,000, or a list of different"):
        experiment(run_file, value)
    assert experiment(run_file, '"${limit}"').seeds == 20


def test_seeds_in_words() -> None:
    assert [seed_ranges(seeds) for seeds in ([3], [3, 4], [3, 4, 5], [3, 5, 4])] == ["3", "3, 4", "3 to 5", "3, 5, 4"]
    assert seed_ranges([0, 1, 2, 3, 7, 8, 20, 21, 22]) == "0 to 3, 7, 8, 20 to 22"


def test_the_outcome_of_each_seed_is_kept_and_a_damaged_record_refused(tmp_path: Path, run_file: Path) -> None:
    folder, given = tmp_path / "new", experiment(run_file, "2")
    made = prepare(folder, given, resume=False)
    assert made.unfinished() == [0, 1]
    made.done(1, BROKEN)
    again = prepare(folder, experiment(run_file, "[5]"), resume=True)
    assert again.identity == made.identity
    assert again.outcomes == {0: Outcome(), 1: BROKEN, 5: Outcome()}
    assert load(folder / "seeds.yml")[0].seeds == [0, 1, 5]
    unknown = '{"group": {"uuid": "0"}, "not_compiled": "", "seeds": {"0": {"status": "asleep"}}}'
    for text, message in (
        ("{", "Remove it: finished seeds are found again"),
        (unknown, r"seeds\.0\.status .* got 'asleep'"),
    ):
        (folder / "seeds.json").write_text(text)
        with pytest.raises(ExperimentError, match=rf"seeds\.json is damaged: .*{message}"):
            prepare(folder, given, resume=True)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The message of a command that does not begin; it prints nothing."""
    try:
        code: object = main(arguments)
    except SystemExit as error:  # of the parser
        code = error.code
    printed, said = capsys.readouterr()
    assert (code, printed) == (2, "")
    return said.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "3", "--seeds", "4"], "axonrl run: error: duplicate --seeds: seeds is set already"),
        (["--jobs", "2"], "axonrl: error: --jobs: limits how many seeds or trials run at once: use it with"),
        (
            ["--seeds", "3,9", "--seed", "5"],
            "axonrl: error: --set seed=5: seed: is the first of a number of seeds, but",
        ),
        (["--seeds", "3", "--resume"], "axonrl: error: Folder runs/my_run has no runs of many seeds to resume. Start"),
    ],
)
def test_what_is_refused(run_file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert refused(capsys, "run", "file.yml", *arguments).startswith(said)
    assert not Path("runs").exists()
    if "--seed" in arguments:
        assert refused(capsys, "compile", "file.yml", "-o", "compiled", *arguments).startswith(said)


def test_a_folder_of_many_runs_is_no_run_folder(
    run_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = prepare(Path("runs/my_run"), experiment(run_file, "[9, 10]"), resume=False)
    what = "axonrl: error: Folder runs/my_run has the runs of many seeds. "
    assert refused(capsys, "evaluate", "runs/my_run") == f"{what}None has begun."
    for seed in group.seeds:
        group.run_folder(seed).mkdir()
    for command in ("evaluate", "enjoy", "export"):
        assert refused(capsys, command, "runs/my_run") == f"{what}Give one of them, such as runs/my_run/seed-9."
    again = "Use --resume to continue them, or --model-dir for another folder."
    assert refused(capsys, "run", "file.yml", "--model-dir", "runs/my_run") == what + again
    assert refused(capsys, "run", "file.yml", "--model-dir", "runs/my_run", "--seeds", "2") == what + again
    one = "axonrl: error: --seed: is one seed, and runs/my_run has the runs of many: add the seed to them with --seeds"
    assert refused(capsys, "run", "file.yml", "--resume", "--seed", "9").startswith(one)
    synced: list[Path] = []

    def note(folder: Path, *_: Any) -> int:
        synced.append(folder)
        return 0

    monkeypatch.setattr(sync, "_sync_and_tell", note)
    assert main(["sync", "runs/my_run", "runs/other"]) == 0
    assert synced == [Path("runs/my_run/seed-9"), Path("runs/my_run/seed-10"), Path("runs/other")]


def test_a_single_run_is_not_resumed_with_seeds(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records.prepare(Path("runs/one"), experiment(run_file, "1").model_copy(update={"seeds": None}), resume=False)
    said = refused(capsys, "run", "file.yml", "--model-dir", "runs/one", "--resume", "--seeds", "2")
    assert said == "axonrl: error: Folder runs/one has a single run. Use --resume without seeds to continue it."
