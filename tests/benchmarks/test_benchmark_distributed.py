"""What the benchmark of several processes makes of its numbers, and whose processes it counts and ends. No Ray."""

import ast
import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from axonrl.benchmarks import distributed, processes
from axonrl.benchmarks import distributed_report as report
from axonrl.benchmarks.distributed_report import CONTENDERS, Goal, Results
from axonrl.benchmarks.processes import MARK
from axonrl.distributed import Cluster

CHILDREN = Path(distributed.__file__).parent / "distributing"
GRANDCHILD = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], {more})"


def results(**values: list[dict[str, float]]) -> Results:
    found = {name.replace("_", "-"): value for name, value in values.items()}
    return Results({"cores": "2"}, {"axonrl's": {"ray": "2.60"}}, 2, 15.0, 60.0, [100.0], found)


def test_every_contender_can_be_told_what_it_is_told() -> None:
    tree = ast.parse((CHILDREN / "rllib.py").read_text(encoding="utf-8"))
    functions = {node.name: node.args for node in tree.body if isinstance(node, ast.FunctionDef)}
    made = functions["impala"]
    known = {argument.arg for argument in (*made.args, *made.kwonlyargs)}
    for contender in CONTENDERS.values():
        if contender.is_ours:
            Cluster(**{name: value for name, value in contender.arguments.items() if name != "algorithm"})
        else:
            assert set(contender.arguments) <= known


def test_the_best_is_who_trained_on_most_and_a_goal_compares_bests() -> None:
    found = results(
        axonrl_IMPALA_1=[{"trained": 30.0, "memory": 20.0}, {"trained": 50.0, "memory": 40.0}],
        axonrl_IMPALA_2=[{"trained": 35.0, "memory": 10.0}],
        axonrl_IMPALA_inline=[{"trained": 80.0, "memory": 1.0}],  # no contender for the best on Ray
        rllib_IMPALA_1=[{"trained": 10.0, "memory": 60.0}],
        rllib_IMPALA_own_2=[{"trained": 8.0, "memory": 1.0}],
        rllib_APPO_1=[{"trained": 80.0, "memory": 15.0}],
    )
    assert report.bests(found, "IMPALA") == ("axonrl-IMPALA-1", "rllib-IMPALA-1")
    assert report.bests(found, "DQN") == (None, None)
    text = report.goals(found)
    pair = "axonrl, IMPALA, 1 actor against RLlib, IMPALA, 1 runner"
    assert f"| trained per s | {pair} | at least 3x | 4.00x | met |" in text
    assert f"| memory, MB | {pair} | at most 0.333x | 0.50x | **not met** |" in text
    assert "| trained per s | axonrl, IMPALA, 1 actor against RLlib, APPO" in text
    assert "| 0.50x | 0.44x |" in report.cost_of_ray(found)


@pytest.mark.parametrize(
    ("at_least", "found", "verdict"),
    [(True, 3.0, "met"), (True, 2.9, "**not met**"), (False, 3.0, "met"), (False, 3.1, "**not met**")],
)
def test_a_bound_is_the_least_or_the_most(at_least: bool, found: float, verdict: str) -> None:
    assert Goal("IMPALA", "lag", 3.0, at_least).met(found) == verdict


def test_efficiency_is_of_all_cores_and_what_ended_badly_is_said() -> None:
    found = results(rllib_DQN_1=[{"sampled": 50.0, "trained": 400.0, "exit code": 1.0}])
    assert "| 25.0% |" in report.measured(found, "DQN")
    assert "exit code 1" in report.failures(found)
    assert report.failures(results(rllib_DQN_1=[{"exit code": 0.0, "left behind": 0.0}])) == "Nothing failed."


def test_the_page_has_a_place_for_the_tables() -> None:
    page = distributed.PAGE.read_text(encoding="utf-8")
    written = report.placed(page, "THE TABLES")
    assert "THE TABLES" in written
    assert report.placed(written, "OTHERS").count("OTHERS") == 1
    assert written.partition("<!--")[0] == page.partition("<!--")[0]


def test_a_process_that_lost_its_parent_is_found_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.0)
    parent = subprocess.Popen([sys.executable, "-c", GRANDCHILD.format(more="start_new_session=True")])
    parent.wait()
    seen = processes.tree(parent.pid, mark)
    assert len(seen) == 1
    end = time.monotonic() + 30
    while processes.pss(seen) <= 1 and time.monotonic() < end:  # it has just begun
        time.sleep(0.01)
    assert processes.pss(seen) > 1
    assert processes.end(seen, mark) == 1
    assert processes.end(seen, mark) == 0


def test_a_number_that_is_used_again_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 0.0)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert processes.end({processes.Process(other.pid, "another start")}, uuid.uuid4().hex) == 0
        assert other.poll() is None
        other.communicate(b"\n")


def test_a_window_counts_what_happens_after_its_warm_up(tmp_path: Path) -> None:
    """In a process of its own, since a window takes standard output for itself."""
    code = (
        "import time; from axonrl.benchmarks.distributing import window\n"
        "clock = iter([0.0, 1.0, 2.0, 11.0, 15.0, 21.0, 22.0]); time.perf_counter = lambda: next(clock)\n"
        "made = window.Window(10.0, 10.0); made.note({'lag': 9})\n"
        "said = [made.look(sampled=s, trained=2 * s, updates=u) for s, u in\n"
        "        [(0, 0), (10, 1), (20, 2), (100, 10), (150, 15)]]\n"
        "made.note({'lag': 1}); made.note({'lag': 2}); print('others')\n"
        "said.append(made.look(sampled=200, trained=400, updates=20)); made.note({'lag': 9})\n"
        "assert said == [False] * 5 + [True]; made.tell()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    began, found = map(json.loads, done.stdout.splitlines())
    assert began == {"window": 10.0}
    assert found == {"sampled": 10.0, "trained": 20.0, "updates": 1.0, "lag": 1.5}
    assert "others" not in done.stdout
