"""The points of a matrix, what follows from results, and rules of early stopping; by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axonrl.experiments.config.schema import load
from axonrl.experiments.errors import ExperimentError
from axonrl.experiments.searches.early_stopping import Rules
from axonrl.experiments.searches.runs import Point
from axonrl.experiments.searches.space import Space
from axonrl.experiments.searches.strategies import Batch, following, most_points
from axonrl.tests.raising import raised

FILE = """\
params: {rate: 1e-3, wait: 40, steps: 100, loss: {type: str, default: huber}}
environment: {id: CartPole-v1}
agent: {model_fn: dqn, memory: {kind: replay, size: 100, batch_size: 8}}
train: {max_timesteps: "${steps}"}
matrix: """
RATE = "params: {rate: {kind: uniform, value: [0, 1]}}"
METRIC = "metric: {name: return, optimization: minimize}"
HYPERBAND = f"kind: hyperband, eta: 3, {METRIC}, {RATE}"


@pytest.fixture
def space(tmp_path: Path) -> Callable[[str], Space]:
    def make(matrix: str) -> Space:
        path = tmp_path / "search.yml"
        path.write_text(f"{FILE}{{{matrix}}}\n")
        return Space(*load(path), {})

    return make


def played(space: Space, measure: Callable[[Point], float]) -> tuple[list[Point], list[Batch]]:
    """A whole search, where a point is measured at once."""
    points: list[Point] = []
    batches: list[Batch] = []
    while (wanted := following(space, batches, points, dict(enumerate(map(measure, points))))) is not None:
        numbers = [*wanted.resumed] or [*range(len(points), len(points) + len(wanted.points))]
        points += [{}] * (max(numbers) + 1 - len(points))
        for number, point in zip(numbers, wanted.points, strict=True):
            points[number] = dict(point)
        batches.append(Batch(numbers, wanted.iteration, wanted.bracket))
    return points, batches


@pytest.mark.parametrize(
    ("param", "rates"),
    [
        ("logspace, value: [-2, 0, 3]", [0.01, 0.1, 1.0]),
        ("choice, value: [1, 2.5]", [1.0, 2.5]),
        ("geomspace, value: [1, 100, 3]", [1.0, 10.0, 100.0]),
    ],
)
def test_a_grid_has_every_combination_in_the_declared_types(
    param: str, rates: list[float], space: Callable[[str], Space]
) -> None:
    made = space(f"kind: grid, params: {{wait: {{kind: range, value: [10, 30, 10]}}, rate: {{kind: {param}}}}}")
    points, _ = played(made, len)
    assert [(point["wait"], point["rate"]) for point in points] == [(wait, rate) for wait in (10, 20) for rate in rates]
    assert {(type(point["wait"]), type(point["rate"])) for point in points} == {(int, float)}


@pytest.mark.parametrize(
    ("param", "belongs"),
    [
        ("quniform, value: [2, 3, 0.25]", lambda value: 2 <= value <= 3 and value % 0.25 == 0),
        ("qloguniform, value: [0, 1, 0.5]", lambda value: value in (1.0, 1.5, 2.0, 2.5)),
        ("normal, value: [9, 0.1]", lambda value: 8 < value < 10),
        ("pchoice, value: [[1.0, 0.5], [2.0, 0.5]]", lambda value: value in (1.0, 2.0)),
    ],
)
def test_kinds_that_are_drawn(param: str, belongs: Callable[[float], bool], space: Callable[[str], Space]) -> None:
    made = space(f"kind: random, seed: 0, numRuns: 4, params: {{rate: {{kind: {param}}}}}")
    points, _ = played(made, len)
    assert points
    assert all(belongs(point["rate"]) for point in points)
    assert points == made.draw(4)  # seed 0 is a seed
    assert points != made.draw(4, salt=1) or "choice" in param or "q" in param


def test_random_points_differ_and_a_mapping_lists_its_points(space: Callable[[str], Space]) -> None:
    made = space("kind: random, numRuns: 50, params: {wait: {kind: quniform, value: [10, 30, 10]}}")
    assert sorted(point["wait"] for point in made.draw(50)) == [10, 20]  # it rounds down
    points, _ = played(space("kind: mapping, values: [{wait: 1, loss: mse}, {rate: 1}]"), len)
    assert points == [{"wait": 1, "loss": "mse"}, {"rate": 1.0}]


@pytest.mark.parametrize("resume", [True, False])
def test_hyperband(resume: bool, space: Callable[[str], Space]) -> None:
    more = f"maxIterations: 9, seed: 3, resume: {str(resume).lower()}, resource: {{name: steps, type: int}}"
    made = space(f"{HYPERBAND}, {more}")
    points, batches = played(made, lambda point: float(point["rate"]))
    # The table of Li et al. 2018 for R = 9, eta = 3: (n, r) of each rung.
    rungs = [(len(one.points), one.iteration, one.bracket) for one in batches]
    assert rungs == [(9, 0, 0), (3, 0, 1), (1, 0, 2), (5, 1, 0), (1, 1, 1), (3, 2, 0)]
    assert [points[batch.points[-1]]["steps"] for batch in batches if batch.bracket == 0][1:] == [3, 9]
    best = min(range(9), key=lambda number: float(points[number]["rate"]))
    assert (best in batches[1].points) is resume
    assert points[batches[2].points[0]] == {"rate": points[best]["rate"], "steps": 9}
    assert len(points) == most_points(made) == (17 if resume else 22)


@pytest.mark.parametrize("kind", ["tpe, numRuns: 2", "bayes, numInitialRuns: 3"])
def test_results_guide_what_follows(kind: str, space: Callable[[str], Space]) -> None:
    made = space(f"kind: {kind}, maxIterations: 8, seed: 1, {METRIC}, {RATE}")
    points, batches = played(made, lambda point: (float(point["rate"]) - 0.3) ** 2)
    assert [batch.iteration for batch in batches] == [*range(9)]
    assert len(points) == most_points(made) == (18 if "tpe" in kind else 11)
    assert len({point["rate"] for point in points}) == len(points)
    assert min(abs(point["rate"] - 0.3) for point in points) < 0.1


@pytest.mark.parametrize(
    ("matrix", "key"),
    [
        ("kind: grid, params: {rate: {kind: uniform, value: [0, 1]}}", "matrix.params.rate.kind"),
        ("kind: grid, params: {wait: {kind: linspace, value: [0, 1, 3]}}", "matrix.params.wait"),
        ("kind: grid, params: {rate: {kind: linspace, value: [0, 1, 99999]}}", "matrix"),
        ("kind: iterative, maxIterations: 3", "matrix.kind"),
        (f"kind: tpe, numRuns: 3, {METRIC}, params: {{}}", "matrix.maxIterations"),
        ("kind: random, numRuns: 99999, params: {rate: {kind: normal, value: [0, 1]}}", "matrix.numRuns"),
        (f"{HYPERBAND}, maxIterations: 9, resource: {{name: step}}", "matrix.resource.name"),
        (f"{HYPERBAND}, maxIterations: 99999, resource: {{name: steps}}", "matrix.maxIterations"),
    ],
)
def test_mistakes_name_the_key(matrix: str, key: str, space: Callable[[str], Space]) -> None:
    assert raised(ExperimentError, lambda: space(matrix).grid()).key == key


SERIES = {0: [1.0, 5.0], 1: [4.0, 4.0], 2: [2.0, 2.0], 3: [3.0]}
GRID = "kind: grid, params: {wait: {kind: choice, value: [1]}}, earlyStopping: "


def rules(space: Callable[[str], Space], text: str) -> Rules:
    return Rules(space(f"{GRID}[{{{text}}}]").config)


def policy(space: Callable[[str], Space], text: str, value: float = 100, optimization: str = "maximize") -> Rules:
    rule = f"metric: rollout/return, value: {value}, optimization: {optimization}, policy: {{{text}}}"
    return rules(space, f"kind: metric_early_stopping, {rule}")


@pytest.mark.parametrize(
    ("made", "value", "optimization", "stopped"),
    [
        # By the second value: 0 has 5 at best; the means of the others are 4 and 2, and so on.
        ("kind: median, evaluationInterval: 2", 100, "maximize", {2}),
        ("kind: median, evaluationInterval: 2", 0, "minimize", {1}),
        ("kind: median, evaluationInterval: 2, minSamples: 3", 100, "maximize", set()),
        ("kind: median, evaluationInterval: 2, minInterval: 2", 100, "maximize", set()),
        ("kind: median, evaluationInterval: 2", 2, "maximize", set()),  # all have reached it
        ("kind: diff, percent: 30, evaluationInterval: 2", 100, "maximize", {2}),
        ("kind: truncation, percent: 67, evaluationInterval: 2", 100, "maximize", {1, 2}),
        ("kind: truncation, percent: 50, evaluationInterval: 1", 100, "maximize", {0, 2}),
    ],
)
def test_policies(made: str, value: float, optimization: str, stopped: set[int], space: Any) -> None:
    found = policy(space, made, value, optimization)
    assert set(found.stopped("rollout/return", SERIES, [0, 1, 2, 3])) == stopped
    assert found.stopped("rollout/return", SERIES, [0, 1, 2, 3]) == {}  # each value is judged once
    assert found.end_by_metric("rollout/return", SERIES) == ""


def test_a_trial_that_has_reached_the_value_and_fell_is_not_stopped(space: Any) -> None:
    series = {0: [1.0, 5.0, 1.0], 1: [9.0, 9.0, 9.0], 2: [4.0, 4.0, 4.0]}  # the best of 0, 5, is below 6.5
    for value, stopped in ((5, {2}), (5.5, {0, 2})):
        found = policy(space, "kind: median, evaluationInterval: 3", value)
        assert set(found.stopped("rollout/return", series, [0, 1, 2])) == stopped


def test_a_metric_without_a_policy_and_failures_end_the_search(space: Any) -> None:
    found = rules(space, "kind: metric_early_stopping, metric: rollout/return, value: 5, optimization: maximize")
    assert found.end_by_metric("rollout/return", {1: [4.0, 4.5]}) == ""
    assert found.end_by_metric("rollout/return", SERIES) == "rollout/return of trial 0 reached 5"
    fallen = {0: [1.0, 6.0, 2.0], 1: [4.0, 4.0, 4.0]}  # all of which may be read at once
    assert found.end_by_metric("rollout/return", fallen) == "rollout/return of trial 0 reached 6"
    assert found.stopped("rollout/return", SERIES, [0, 1]) == {}
    found = rules(space, "kind: failure_early_stopping, percent: 30")
    assert [bool(found.end_by_failures(failed, 10)) for failed in (0, 2, 3, 10)] == [False, False, True, True]
