"""Turns, failing processes, and that cases, contenders and goals fit together. Nothing here depends on speed."""

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from axonrl.benchmarks import run, timing
from axonrl.benchmarks.cases import CASES, CONTENDERS, GOALS, OURS, PEERS, TOPICS, Case
from axonrl.benchmarks.report import Results
from axonrl.benchmarks.run import MeasurementError, Runner, last_line

FOLDER = Path(run.__file__).parent / "contenders"


def rows(case: Case) -> set[str]:
    """The rows that a case fills, by its arguments."""
    arguments = case.arguments
    if case.topic == "act":
        quantities = [f"{name}, batch {batch}" for name in arguments["networks"] for batch in arguments["batches"]]
    elif case.topic == "update":
        quantities = [f"{name}, batch {batch}" for name, batch in arguments["networks"]]
    elif case.topic == "loop":
        quantities = ["a timestep, episodes of 500", "an episode", "the parts together"]
    elif case.topic == "prioritized":
        quantities = ["add", "sample 32", "update 32", "add, sample 32 and update 32"]
    else:
        quantities = ["add", "sample 32"] if case.topic == "memory" else [""]
    return {case.row(quantity) for quantity in quantities}


def test_every_contender_has_what_its_cases_ask_for() -> None:
    for case in CASES:
        for contender in case.contenders:
            tree = ast.parse((FOLDER / f"{contender}.py").read_text(encoding="utf-8"))
            functions = {node.name: node.args.args for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert [argument.arg for argument in functions[case.topic]] == list(case.arguments), (contender, case)


def test_every_module_is_a_known_contender() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(CONTENDERS)
    assert set(CONTENDERS) >= OURS | PEERS
    assert {case.topic for case in CASES} == set(TOPICS)


def test_all_cases_of_a_topic_have_the_same_contenders_and_rows_of_their_own() -> None:
    for topic in TOPICS:
        cases = [case for case in CASES if case.topic == topic]
        assert len({case.contenders for case in cases}) == 1
        assert len(set.union(*map(rows, cases))) == sum(len(rows(case)) for case in cases)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.row}, {goal.ours}, {goal.peer}")
def test_every_goal_is_about_something_that_is_measured(goal: Any) -> None:
    wanted = {goal.row, goal.peer_row or goal.row}
    cases = [case for case in CASES if case.topic == goal.topic and wanted <= rows(case)]
    assert len(cases) == 1
    assert goal.ours in OURS
    assert {goal.ours, goal.peer} <= set(cases[0].contenders)


def written(monkeypatch: pytest.MonkeyPatch, load: float, *arguments: str) -> tuple[Path, bool]:
    """The folder that results go to, and whether they are complete, at this load of the machine."""
    results = Results({}, {}, {}, 1, complete=True)
    found: list[tuple[Path, bool]] = []
    monkeypatch.setattr(run, "run", lambda *_: results)
    monkeypatch.setattr(run, "write", lambda results, folder: found.append((folder, results.complete)))
    monkeypatch.setattr(sys, "argv", ["run", "--peers", sys.executable, *arguments])
    assert run.main(lambda: load) == 0
    return found[0]


def test_a_complete_run_needs_an_idle_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert written(monkeypatch, 0.5) == (run.HERE, True)
    with pytest.raises(SystemExit) as raised:
        written(monkeypatch, 0.83)
    assert raised.value.code == 2
    message = "the machine is busy: its 1-minute load is 0.83, and RESULTS.md needs at most 0.5. Wait, or use --draft"
    assert message in capsys.readouterr().err
    for arguments in (["--draft"], ["--quick"], ["--only", "memory"]):
        assert written(monkeypatch, 0.83, *arguments) == (run.HERE.parent / "runs" / "benchmarks", False)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    found = run.environment(threads)
    assert found["OMP_NUM_THREADS"] == found["TF_NUM_INTRAOP_THREADS"] == found["NPROC"] == str(threads)
    assert ("XLA_FLAGS" in found) == (threads == 1)


class Recording(Runner):
    """Measures nothing; SBX fails, and cpprb the first time."""

    turns: list[str]

    def versions(self) -> dict[str, dict[str, str]]:
        return {"axonrl": {}, "peers": {}}

    def measure(self, case: Case, contender: str) -> dict[str, Any]:
        self.turns.append(contender)
        if contender == "cpprb" and self.turns.count("cpprb") == 1:
            raise MeasurementError("status 1\nboom")
        return {"add": float(len(self.turns))}


def test_contenders_take_turns_and_a_failure_stops_nobody() -> None:
    runner = Recording("python", quick=False)
    object.__setattr__(runner, "turns", [])
    found = run.run(runner, ["memory"], repeats=2)
    assert runner.turns == ["axonrl_agent", *["axonrl", "sb3", "cpprb"] * 2]  # the first is asked for its executors
    assert found.values == {"memory": {"add": {"axonrl": [2.0, 5.0], "sb3": [3.0, 6.0], "cpprb": [7.0]}}}
    assert found.failures == [{"contender": "cpprb", "case": "memory", "repeat": "1", "error": "status 1\nboom"}]
    assert not found.complete


def test_the_last_line_counts(tmp_path: Path) -> None:
    assert last_line([sys.executable, "-c", "print('noise'); print('{\"a\": 2.5}')"], 1) == {"a": 2.5}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; sys.exit('boom')", "status 1\nboom"),
        ("import sys; print('why', file=sys.stderr)", "it printed no result\nwhy"),
        ("print('words')", "it printed no result"),
        (
            "import sys; sys.exit('File \"/a-b/c.d/e.py\", line 3: 1/2 and docs/x.md')",
            'status 1\nFile "e.py", line 3: 1/2 and docs/x.md',
        ),
        ("import sys; print('\\n'.join('abcdefg'), file=sys.stderr); sys.exit(3)", "status 3\nc\nd\ne\nf\ng"),
    ],
)
def test_a_failing_process_is_reported_with_its_last_lines(code: str, message: str) -> None:
    with pytest.raises(MeasurementError) as raised:
        last_line([sys.executable, "-c", code], 1)
    assert str(raised.value) == message


def test_a_process_that_ends_before_it_acts_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="ended with status 3 before its first action"):
        timing.start_of("raise SystemExit(3)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "ddqn"], "invalid choice: 'ddqn'"),
        (["--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["--peers", "nowhere/python"], "there is no Python at nowhere/python: make bench installs the peers"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", *arguments])
    with pytest.raises(SystemExit) as raised:
        run.main()
    assert raised.value.code == 2
    assert message in capsys.readouterr().err
