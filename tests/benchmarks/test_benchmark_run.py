"""Turns, failing processes, and that cases, contenders and goals fit together. Nothing here depends on speed."""

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from axonrl.benchmarks import products, run, timing
from axonrl.benchmarks.cases import CASES, CONTENDERS, ENVIRONMENTS, GOALS, OURS, TOPICS, Case
from axonrl.benchmarks.report import Results
from axonrl.benchmarks.run import MeasurementError, Runner, last_line

FOLDER = Path(run.__file__).parent / "contenders"

SERVING = {
    "act": ["act", "act, bare endpoint"],
    "step": ["step, one update per 4", "step, bare endpoint"],
    "step_batch": ["step_batch of 256", "a Stepper in a loop"],
    "act_batch": ["act_batch of 256", "single acts"],
    "latency": ["act, p50, ms", "act, p50, ms, at most", "act, p99, ms", "act, p99, ms, bare endpoint"],
    "client": ["client, act, us", "client, http.client, us"],
    "fairness": ["act, p99, ms, beside a large one that learns", "act, p99, ms, alone"],
    "agents": ["for each agent, MiB", "a TensorFlow process, MiB"],
    "slow_clients": ["act, p99, ms, beside 500 connections that never finish", "act, p99, ms, without them"],
    "logins": [f"a refused login, {what}, ms" for what in ("unknown name", "wrong password")],
    "asleep": [],
    "recovery": [],
}
"""The quantities of rows of agents over HTTP, but for those that have a limit."""
LIMITED = {
    "agents": ["create, first of its kind, s", "create, next of its kind, s", "gateway and workers, MiB"],
    "asleep": ["memory of each, KiB", "a page of the list, ms", "waking one, p99, ms"],
    "recovery": ["ready after a crash, s", "the first agent acts, s", "all act, s"],
}
for row, names in LIMITED.items():
    SERVING[row] += [name for each in names for name in (each, f"{each}, at most")]


def rows(case: Case) -> set[str]:
    """The rows that a case fills, by its arguments."""
    arguments = case.arguments
    if case.topic == "products":
        quantities = ["one update"]
    elif case.topic == "act":
        quantities = [f"{name}, batch {batch}" for name in arguments["networks"] for batch in arguments["batches"]]
    elif case.topic == "update":
        quantities = [f"{name}, batch {batch}" for name, batch in arguments["networks"]]
    elif case.topic == "loop":
        quantities = ["a timestep, episodes of 500", "an episode", "the parts together"]
    elif case.topic == "prioritized":
        quantities = ["add", "sample 32", "update 32", "add, sample 32 and update 32"]
    elif case.topic.startswith("serving"):
        quantities = SERVING[arguments["row"]]
    elif case.topic == "vector":
        copies = [f"{number} copies" for number in arguments["copies"]]
        quantities = [*copies, *(f"{one}, with resets" for one in copies)]
    else:
        quantities = ["add", "sample 32"] if case.topic in ("memory", "sequences") else [""]
    return {case.row(quantity) for quantity in quantities}


def test_every_contender_has_what_its_cases_ask_for() -> None:
    for case in CASES:
        for contender in case.contenders:
            tree = ast.parse((FOLDER / f"{contender}.py").read_text(encoding="utf-8"))
            functions = {node.name: node.args.args for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert [argument.arg for argument in functions[case.topic]] == list(case.arguments), (contender, case)


def test_every_module_is_a_known_contender() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(CONTENDERS)
    peers = [one for contenders in ENVIRONMENTS.values() for one in contenders]
    assert len(peers) == len(set(peers))
    assert not OURS & set(peers)
    assert set(CONTENDERS) >= OURS | set(peers)
    assert {case.topic for case in CASES} == set(TOPICS)


def test_all_cases_of_a_topic_have_rows_of_their_own() -> None:
    for topic in TOPICS:
        cases = [case for case in CASES if case.topic == topic]
        assert len(set.union(*map(rows, cases))) == sum(len(rows(case)) for case in cases)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: f"{goal.row}, {goal.ours}, {goal.peer}")
def test_every_goal_is_about_something_that_is_measured(goal: Any) -> None:
    wanted = {goal.row, goal.peer_row or goal.row}
    cases = [case for case in CASES if case.topic == goal.topic and wanted <= rows(case)]
    assert len(cases) == 1
    assert goal.ours in OURS
    assert {goal.ours, goal.peer} <= set(cases[0].contenders)


def install(folder: Path, *venvs: str) -> None:
    """What ``make`` leaves in an environment that is whole."""
    for venv in venvs:
        (folder / venv).mkdir()
        (folder / venv / "installed-bench").touch()
        (folder / venv / "seconds").write_text("38\n")


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, load: float, *arguments: str) -> tuple[Path, bool]:
    """The folder that results go to, and whether they are complete, at this load of the machine."""
    results = Results({}, {}, {}, 1, complete=True)
    found: list[tuple[Path, bool]] = []
    monkeypatch.setattr(run, "run", lambda *_: results)
    monkeypatch.setattr(run, "write", lambda results, folder: found.append((folder, results.complete)))
    monkeypatch.setattr(sys, "argv", ["run", "--peers", str(folder), *arguments])
    assert run.main(lambda: load) == 0
    return found[0]


def test_a_complete_run_needs_an_idle_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, ".venv-bench")
    assert written(tmp_path, monkeypatch, 0.5) == (run.HERE, True)
    with pytest.raises(SystemExit) as raised:
        written(tmp_path, monkeypatch, 0.83)
    assert raised.value.code == 2
    message = "the machine is busy: its 1-minute load is 0.83, and RESULTS.md needs at most 0.5. Wait, or use --draft"
    assert message in capsys.readouterr().err
    for arguments in (["--draft"], ["--quick"], ["--only", "memory"]):
        assert written(tmp_path, monkeypatch, 0.83, *arguments) == (run.HERE.parent / "runs" / "benchmarks", False)


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
        return {"axonrl's": {}}

    def measure(self, case: Case, contender: str) -> dict[str, Any]:
        self.turns.append(contender)
        if contender == "cpprb" and self.turns.count("cpprb") == 1:
            raise MeasurementError("status 1\nboom")
        return {"add": float(len(self.turns))}


def test_contenders_take_turns_and_a_failure_stops_nobody(tmp_path: Path) -> None:
    install(tmp_path, *ENVIRONMENTS)
    runner = Recording(tmp_path, quick=False)
    object.__setattr__(runner, "turns", [])
    found = run.run(runner, ["memory"], repeats=2)
    contenders = ["axonrl", "sb3", "cpprb", "torchrl"]
    assert runner.turns == ["axonrl_agent", *contenders * 2]  # the first is asked for its executors
    values = {"axonrl": [2.0, 6.0], "sb3": [3.0, 7.0], "cpprb": [8.0], "torchrl": [5.0, 9.0]}
    assert found.values == {"memory": {"add": values}}
    assert found.failures == [{"contender": "cpprb", "case": "memory", "repeat": "1", "error": "status 1\nboom"}]
    assert not found.complete


def test_who_is_not_installed_is_skipped_with_a_loud_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(tmp_path, *set(ENVIRONMENTS) - {".venv-bench-rltools"})
    runner = Recording(tmp_path, quick=False)
    object.__setattr__(runner, "turns", [])
    found = run.run(runner, ["memory", "sac"], repeats=1)
    assert "rltools" not in runner.turns
    assert runner.turns[-4:] == ["axonrl", "sb3", "cpprb", "torchrl"]
    why = ".venv-bench-rltools is not installed; `make bench` says why"
    assert f"*** RLtools is skipped: {why} ***" in capsys.readouterr().err
    assert {"contender": "rltools", "case": "everything", "repeat": "1", "error": why} in found.failures
    assert found.installed[".venv-bench"]["seconds"] == 38
    assert ".venv-bench-rltools" not in found.installed


def test_a_quick_run_is_shorter_in_nested_arguments_too() -> None:
    given = {"algorithm": "dqn", "arguments": {"update_frequency": 1, "timesteps": 10_000}}
    assert run.shorter(given) == {"algorithm": "dqn", "arguments": {"update_frequency": 1, "timesteps": 2_048}}


def test_the_operations_of_an_update_of_sac() -> None:
    # Actor 3, 2, 2 and critics 4, 2, 1, in operations per row of the batch: a forward pass of either is 20.
    targets = 20 + 2 * 20
    critics = 2 * (20 + 20 + 4)  # forward, kernels, the hidden layer's gradient
    actor = 20 + 2 * (20 + 20) + 20 + 8  # forward, through both critics to the action, kernels, the hidden layer's
    assert sum(map(products.operations, products.sac_products([2], 5))) == 5 * (targets + critics + actor)
    for case in CASES:
        if case.topic == "products":
            count = sum(
                map(products.operations, products.sac_products(case.arguments["hidden"], case.arguments["batch"]))
            )
            assert case.label.endswith(f": {count / 1e6:.{0 if count > 1e8 else 1}f} MFLOP")


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
        (["--peers", "nowhere"], "there are no environments of peers in nowhere: make bench installs them"),
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
