"""Medians, ratios, verdicts, and failures in RESULTS.md."""

import pytest

from axonrl.benchmarks import report
from axonrl.benchmarks.cases import GOALS, Goal
from axonrl.benchmarks.report import Results

VERSIONS = {"axonrl": {"numpy": "2.0"}, "peers": {"numpy": "2.0", "torch": "2.13"}}


def results(complete: bool = True) -> Results:
    return Results({"cores": "2"}, VERSIONS, {"2x64": "litert acts, litert learns"}, repeats=3, complete=complete)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0512, "0.05"), (4.567, "4.57"), (45.67, "45.7"), (99.96, "100.0"), (456.7, "457"), (12345.6, "12,346")],
)
def test_numbers(value: float, text: str) -> None:
    assert report.number(value) == text


@pytest.mark.parametrize(
    ("values", "text"), [([3.0, 1.0, 2.0], "2.00 (1.00 to 3.00)"), ([4.0, 2.0], "3.00 (2.00 to 4.00)"), ([5.0], "5.00")]
)
def test_a_cell_is_the_median_and_the_range(values: list[float], text: str) -> None:
    assert report.spread(values) == text


def test_whoever_has_no_value_has_failed() -> None:
    assert report.spread([]) == "failed"


def test_a_ratio_is_that_of_medians_and_above_one_where_axonrl_is_better() -> None:
    found = results()
    for topic in ("dqn", "act"):
        for ours, peer in ((100.0, 10.0), (300.0, 30.0), (200.0, 50.0)):
            found.add(topic, "row", "axonrl_agent", ours)
            found.add(topic, "row", "sb3", peer)
    assert found.ratio("dqn", "row", "axonrl_agent", "sb3") == 200 / 30  # timesteps per second
    assert found.ratio("act", "row", "axonrl_agent", "sb3") == 30 / 200  # microseconds


def test_a_ratio_of_two_rows() -> None:
    found = results()
    found.add("loop", "a timestep", "axonrl_loop", 30.0)
    found.add("loop", "its parts", "axonrl_loop", 24.0)
    assert found.ratio("loop", "a timestep", "axonrl_loop", "axonrl_loop", "its parts") == 0.8


def test_without_a_measurement_there_is_no_ratio() -> None:
    found = results()
    found.add("act", "row", "axonrl_agent", 1.0)
    assert found.ratio("act", "row", "axonrl_agent", "torch") is None
    assert found.ratio("act", "other", "axonrl_agent", "torch") is None


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(12.0, "met"), (12.1, "met"), (11.99, "**not met**"), (None, "not measured")]
)
def test_a_goal_is_met_from_its_ratio_on(ratio: float | None, verdict: str) -> None:
    assert report.verdict(Goal("", "dqn", "", "axonrl_agent", "sb3", 12), ratio) == verdict


def test_every_goal_has_a_line_and_a_computed_verdict() -> None:
    found = results()
    found.add("memory", "sample 32", "axonrl", 10.0)
    found.add("memory", "sample 32", "sb3", 29.0)
    found.add("memory", "sample 32", "cpprb", 11.0)
    lines = report.goals(found).splitlines()
    assert len(lines) == 2 + len(GOALS)
    assert lines[-2:] == [
        "| memory, sample 32 | axonrl against Stable-Baselines3 | 3x | 2.90x | **not met** |",
        "| memory, sample 32 | axonrl against cpprb | 1x | 1.10x | met |",
    ]
    assert all(line.endswith("| - | not measured |") for line in lines[2:-2])


def test_a_section_shows_what_failed() -> None:
    found = results()
    found.add("memory", "add", "axonrl", 2.0)
    found.add("memory", "add", "cpprb", 5.0)
    lines = report.section(found, "memory").splitlines()
    assert "| add | 2.00 | failed | 5.00 | failed |" in lines
    assert "| add | - | 2.50x | - |" in lines


def test_who_was_not_asked_has_not_failed() -> None:
    found = results()
    found.add("ppo", "HalfCheetah-v5", "axonrl_agent", 2.0)
    found.add("ppo", "HalfCheetah-v5, two threads", "axonrl_agent", 3.0)
    assert report.cell(found, "ppo", "HalfCheetah-v5", "axonrl_native") == "-"
    assert report.cell(found, "ppo", "HalfCheetah-v5", "rltools") == "failed"
    assert report.cell(found, "ppo", "HalfCheetah-v5, two threads", "rltools") == "-"
    assert report.cell(found, "ppo", "HalfCheetah-v5, two threads", "axonrl_agent") == "3.00"


def test_shares_have_a_column_for_each_part() -> None:
    found = results()
    for label, learning in (("DQN, CartPole-v1", 60.0), ("PPO, 8 times CartPole-v1", 40.0)):
        found.add("shares", f"acting, %, {label}", "axonrl_shares", 10.0)
        found.add("shares", f"learning, %, {label}", "axonrl_shares", learning)
    lines = report.section(found, "shares").splitlines()
    assert "|  | acting, % | learning, % |" in lines
    assert "| PPO, 8 times CartPole-v1 | 10.0 | 40.0 |" in lines


def test_alike_failures_are_told_once() -> None:
    found = results()
    for repeat in "123":
        found.failures.append({"contender": "sbx", "case": "dqn", "repeat": repeat, "error": "status 1\nboom"})
    assert report.failures(found) == "SBX, dqn, 3 times:\n\n```\nstatus 1\nboom\n```"
    assert report.failures(results()) == "Nothing failed."


def test_the_whole_report() -> None:
    found = results()
    found.add("cli", "seconds", "axonrl", 0.1)
    text = report.markdown(found)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["# Benchmarks", "## Goals", "## `axonrl --help`: seconds", "## Conditions", "## Failures"]
    assert "| seconds | 0.10 |" in text
    assert "| torch | - | 2.13 |" in text
    assert "2x64: litert acts, litert learns." in text
    assert "not to be quoted" not in text


def test_a_part_is_not_to_be_quoted() -> None:
    assert "not to be quoted" in report.markdown(results(complete=False))
