"""Each benchmark runs, on tiny numbers, and prints what it is for. Nothing here depends on speed."""

import dataclasses
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from axonrl.benchmarks import dialects, distributed, rlgraph, run, tensorforce
from axonrl.benchmarks.cases import Case
from axonrl.benchmarks.run import MeasurementError, Runner
from axonrl.benchmarks.topics import ENVIRONMENTS

pytestmark = pytest.mark.benchmark
server, ray = pytest.mark.server, pytest.mark.ray


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("compiled --quick", "| case | compile | each further seed | first update |"),
        ("masks --quick", "| without | inf |"),
        ("resume --only axonrl --points 1", "| killed by SIGKILL in a timestep, and resumed | 1 |"),
        ("scale --simulated 1", "| Ape-X, Atari | 1,000 |"),
        ("searches --trials 2 --timesteps 300 --jobs 1", "| 2 | 300 | 1 | 1 |"),
        pytest.param("serving --quick --only client", "| client, act, us |", marks=server),
        pytest.param("serving_soak --kills 1 --only kills", "Nothing is wrong.", marks=server),
        pytest.param("soak --drivers 1 --longest 5 --only drivers", "Nothing is wrong.", marks=ray),
    ],
)
def test_it_runs(command: str, printed: str, tmp_path: Path) -> None:
    module, *words = shlex.split(command)
    started = [sys.executable, "-m", f"axonrl.benchmarks.{module}", *words]
    done = subprocess.run(started, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=840)
    assert done.returncode == 0, done.stderr[-2000:]
    assert printed in done.stdout


@pytest.mark.parametrize(
    ("programs", "name"), [(rlgraph.PROGRAMS, "1: DQNAgent"), (tensorforce.PROGRAMS, "quickstart")]
)
def test_agents_of_other_interfaces_learn(
    programs: dialects.Programs, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dialects.main("", "", programs, ["learning", "--seeds", "0", "--timesteps", "300", "--only", name])
    assert f"| {name} |" in capsys.readouterr().out


class Recording(Runner):
    """Measures nothing; cpprb fails the first time."""

    turns: list[str]

    def versions(self) -> dict[str, dict[str, str]]:
        return {"axonrl's": {}}

    def measure(self, case: Case, contender: str) -> dict[str, Any]:
        self.turns.append(contender)
        if contender == "cpprb" and self.turns.count("cpprb") == 1:
            raise MeasurementError("status 1\nboom")
        return {"add": float(len(self.turns))}


def test_contenders_take_turns_and_a_failure_stops_nobody(tmp_path: Path) -> None:
    for venv in ENVIRONMENTS:
        (tmp_path / venv).mkdir()
        (tmp_path / venv / "installed-bench").touch()
        (tmp_path / venv / "seconds").write_text("38\n")
    runner = Recording(tmp_path, quick=False)
    object.__setattr__(runner, "turns", [])
    found = run.run(runner, ["memory"], repeats=2)
    contenders = ["axonrl", "sb3", "cpprb", "torchrl"]
    assert runner.turns == ["axonrl_agent", *contenders * 2]  # the first is asked for its executors
    values = {"axonrl": [2.0, 6.0], "sb3": [3.0, 7.0], "cpprb": [8.0], "torchrl": [5.0, 9.0]}
    assert found.values == {"memory": {"add": values}}
    assert found.failures == [{"contender": "cpprb", "case": "memory", "repeat": "1", "error": "status 1\nboom"}]
    run.write(dataclasses.replace(found, executors={"2x64": "litert"}), tmp_path)
    written = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "4.00 (2.00 to 6.00)" in written  # the median and the range
    assert "boom" in written


def test_actors_of_one_process_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / distributed.VENV / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(distributed, "HERE", tmp_path / "benchmarks")
    monkeypatch.setattr(distributed, "BARE_TIMESTEPS", 1000)
    words = "--draft --only Ape-X-inline --rounds 1 --warm-up 0 --seconds 0.5"
    assert distributed.main(["--peers", str(tmp_path), *words.split()]) == 0
    assert "axonrl, Ape-X, inline" in (tmp_path / "runs" / "benchmarks" / "DISTRIBUTED.md").read_text(encoding="utf-8")
