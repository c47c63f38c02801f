"""Measurements as medians, ratios and Markdown."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence

from .cases import CASES, GOALS, Case, Goal
from .topics import CONTENDERS, ENVIRONMENTS, OURS, TOPICS

MISSING, FAILED = "-", "failed"
SHARES = "shares"
WIDEST = 6
"""Ratios beside each other; more of them are one below the other."""


@dataclasses.dataclass
class Results:
    """All measurements, as in ``results.json``.

    Args:
        machine: the machine and the date.
        versions: the versions of ``axonrl``'s environment and of the peers', by the name of the environment.
        executors: the executors of axonrl's networks.
        repeats: measurements of each cell.
        complete: all topics at full length, on an idle machine.
        values: topic, row and contender to one number per repeat.
        failures: contender, case, repeat and the last lines of output.
        installed: the seconds that installing each of the peers' environments takes, and its megabytes; empty for one
            that is missing.
    """

    machine: Mapping[str, str]
    versions: Mapping[str, Mapping[str, str]]
    executors: Mapping[str, str]
    repeats: int
    complete: bool
    values: dict[str, dict[str, dict[str, list[float]]]] = dataclasses.field(default_factory=dict)
    failures: list[dict[str, str]] = dataclasses.field(default_factory=list)
    installed: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)

    def add(self, topic: str, row: str, contender: str, value: float) -> None:
        """Add one measurement."""
        self.values.setdefault(topic, {}).setdefault(row, {}).setdefault(contender, []).append(value)

    def get(self, topic: str, row: str, contender: str) -> list[float]:
        """The measurements of one cell; empty where there are none."""
        return self.values.get(topic, {}).get(row, {}).get(contender, [])

    def ratio(self, topic: str, row: str, ours: str, peer: str, peer_row: str | None = None) -> float | None:
        """Factor by which ``ours`` is better than ``peer``, by the medians; None if one is missing."""
        mine, other = self.get(topic, row, ours), self.get(topic, peer_row or row, peer)
        if not mine or not other:
            return None
        a, b = statistics.median(mine), statistics.median(other)
        better, worse = (a, b) if TOPICS[topic].more_is_better else (b, a)
        return better / worse if worse else math.inf


def number(value: float) -> str:
    """Three significant digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def spread(values: Sequence[float]) -> str:
    """The median and the range; no value means a failure."""
    if not values:
        return FAILED
    median = number(statistics.median(values))
    return median if len(values) == 1 else f"{median} ({number(min(values))} to {number(max(values))})"


def times(ratio: float | None) -> str:
    """A ratio."""
    if ratio is None:
        return MISSING
    return f"{number(ratio)}x" if math.isfinite(ratio) else "∞"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are aligned to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill_page(page: str, mark: str, text: str) -> str:
    """A page with the text between the comment ``<!-- measured: MARK -->`` and the next ``<!-- end -->``."""
    marked = re.compile(rf"(<!-- measured: {re.escape(mark)} -->\n).*?(<!-- end -->)", re.DOTALL)
    return marked.sub(lambda part: f"{part[1]}\n{text}\n\n{part[2]}", page)


def verdict(goal: Goal, ratio: float | None) -> str:
    """Whether it is met."""
    if ratio is None:
        return "not measured"
    return "met" if ratio >= goal.at_least else "**not met**"


def goals(results: Results, wanted: Iterable[Goal] = GOALS) -> str:
    """Goals and measured ratios."""
    rows = []
    for goal in wanted:
        ratio = results.ratio(goal.topic, goal.row, goal.ours, goal.peer, goal.peer_row)
        peer = CONTENDERS[goal.peer] if goal.peer_row is None else goal.peer_row
        pair = f"{CONTENDERS[goal.ours]} against {peer}"
        rows.append([goal.text, pair, f"{goal.at_least:.3g}x", times(ratio), verdict(goal, ratio)])
    return table(["", "ratio of medians", "at least", "measured", "goal"], rows)


def case_of(topic: str, row: str) -> Case:
    """The case that fills a row: the one whose label is longest."""
    cases = [
        case for case in CASES if case.topic == topic and f", {row}".endswith(f", {case.label}" if case.label else "")
    ]
    return max(cases, key=lambda case: len(case.label))


def cell(results: Results, topic: str, row: str, contender: str) -> str:
    """A measurement; ``MISSING`` where nobody asked for it."""
    if contender not in case_of(topic, row).contenders:
        return MISSING
    return spread(results.get(topic, row, contender))


def section(results: Results, topic: str) -> str:
    """One topic: all measurements, and ratios to the peers."""
    heading = [f"## {TOPICS[topic].title}", TOPICS[topic].text]
    if topic == SHARES:
        return "\n\n".join([*heading, shares(results)])
    cases = [case for case in CASES if case.topic == topic]
    contenders = [one for one in CONTENDERS if any(one in case.contenders for case in cases)]
    rows = list(results.values[topic])
    cells = [[row, *(cell(results, topic, row, one) for one in contenders)] for row in rows]
    parts = [*heading, table(["", *(CONTENDERS[one] for one in contenders)], cells)]
    pairs = [
        (ours, peer)
        for ours in contenders
        for peer in contenders
        if ours in OURS and peer not in OURS and any({ours, peer} <= set(case.contenders) for case in cases)
    ]
    if pairs:
        names = [f"{CONTENDERS[ours]} against {CONTENDERS[peer]}" for ours, peer in pairs]
        ratios = [[row, *(times(results.ratio(topic, row, *pair)) for pair in pairs)] for row in rows]
        lines = [["times as good", *names], *ratios]
        if len(pairs) > WIDEST:
            lines = [list(line) for line in zip(*lines, strict=True)]
        parts.append(table(lines[0], lines[1:]))
    return "\n\n".join(parts)


def shares(results: Results) -> str:
    """The shares of a timestep: a row for each case, a column for each quantity."""
    rows = results.values[SHARES]
    labels = [case.label for case in CASES if case.topic == SHARES]
    quantities = list(
        dict.fromkeys(row.removesuffix(f", {label}") for label in labels for row in rows if row.endswith(label))
    )
    cells = [
        [label, *(spread(results.get(SHARES, f"{quantity}, {label}", "axonrl_shares")) for quantity in quantities)]
        for label in labels
    ]
    return table(["", *quantities], cells)


def failures(results: Results) -> str:
    """Failed measurements."""
    if not results.failures:
        return "Nothing failed."
    alike: dict[tuple[str, str], int] = {}
    for failure in results.failures:
        what = (f"{CONTENDERS[failure['contender']]}, {failure['case']}", failure["error"])
        alike[what] = alike.get(what, 0) + 1
    return "\n\n".join(f"{who}, {count} times:\n\n```\n{error}\n```" for (who, error), count in alike.items())


def machine_and_versions(machine: Mapping[str, str], versions: Mapping[str, Mapping[str, str]]) -> str:
    """Two tables."""
    packages = dict.fromkeys(package for found in versions.values() for package in found)
    rows = [[package, *(found.get(package, MISSING) for found in versions.values())] for package in packages]
    return "\n\n".join([table(["", "machine"], machine.items()), table(["versions", *versions], rows)])


def conditions(results: Results) -> str:
    """The machine, the versions, and what runs where."""
    executors = "; ".join(f"{network}: {executor}" for network, executor in results.executors.items())
    both = machine_and_versions(results.machine, results.versions)
    return "\n\n".join([both, environments(results), f"axonrl's executors: {executors}."])


def environments(results: Results) -> str:
    """The peers' environments: who is in them, how long they took to install, how large they are."""
    rows = []
    for name, contenders in ENVIRONMENTS.items():
        found = results.installed.get(name, {})
        seconds, megabytes = (number(found[key]) if key in found else MISSING for key in ("seconds", "megabytes"))
        rows.append([name, ", ".join(CONTENDERS[one] for one in contenders), seconds, megabytes])
    return table(["environment", "peers", "seconds to install, with pip's cache as it was", "MB"], rows)


def how(results: Results) -> str:
    """Text about the measurement, and how to repeat it."""
    text = (
        "`make bench` writes this file on an idle machine; `results.json` beside it has every number. Each number comes"
        " from a process of its own, with one thread unless the row says two. axonrl and its peers take turns. A cell"
        f" is the median over all rounds (here {results.repeats}), with the smallest and the largest value of several."
        " Compilation is not timed. A latency is itself a median over blocks of calls, after a warm-up. A ratio divides"
        " two medians of this run; above 1, axonrl is better."
    )
    if results.complete:
        return text
    return f"**A part of the benchmarks, a quick run or a draft: not to be quoted.**\n\n{text}"


def markdown(results: Results) -> str:
    """The text of ``RESULTS.md``."""
    sections = [section(results, topic) for topic in TOPICS if topic in results.values]
    parts = ["# Benchmarks", how(results), "## Goals", goals(results), *sections]
    parts += ["## Conditions", conditions(results), "## Failures", failures(results)]
    return "\n\n".join(parts) + "\n"
