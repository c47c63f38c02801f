"""What an exploration of the user's own returns is checked; axonrl's own are trusted."""

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from axonrl.core.protocols import ArraySpec
from axonrl.errors import ArgumentError
from axonrl.explorations import EpsilonGreedy
from axonrl.explorations.returned_actions import check_returned, level_of
from axonrl.policies.behaviour import Behaviour
from axonrl.policies.modes import PredictMode
from axonrl.tests.raising import raised

ONE = {"action": np.array([1, 0], np.int32), "q": np.zeros((2, 3), np.float32)}
PARTS = {"action": {"arm": np.zeros((2, 3), np.float32), "gear": np.array([1, 0])}}


class Mine:
    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def __call__(self, predictions: Any, timestep: int, rng: np.random.Generator) -> Any:
        return self.returned

    def level(self, timestep: int) -> Any:
        return self.returned


@pytest.mark.parametrize(
    ("predictions", "returned", "told"),
    [
        (ONE, None, r"\(actions, extras\), got None"),
        (ONE, ONE["action"], r"\(actions, extras\), got array"),
        (ONE, ([1, 0], {}), r"actions like .*, int32 \[2\], got \[1, 0\]"),
        (ONE, (ONE["action"][:1], {}), r"int32 \[2\], got int32 \[1\]"),
        (ONE, (ONE["action"] > 0, {}), r"int32 \[2\], got bool \[2\]"),
        (ONE, (ONE["action"] * 1.0, {}), r"int32 \[2\], got float64 \[2\]"),
        (ONE, (ONE["action"], None), "extras as a mapping of names to arrays, got None"),
        (ONE, (ONE["action"], {"log_prob": 0.5}), r"extras\['log_prob'\] as an array \[2, \.\.\.\], got 0\.5"),
        (ONE, (ONE["action"], {}), r"extras\['log_prob'\], which EstimatorSpec.record names, got \[\]"),
        (PARTS, (PARTS["action"]["arm"], {}), r"actions as a mapping of 'arm', 'gear', got float32 \[2, 3\]"),
        (PARTS, ({"arm": PARTS["action"]["arm"]}, {}), "a mapping of 'arm', 'gear', got a mapping of 'arm'"),
        (PARTS, ({**PARTS["action"], "gear": None}, {}), r"actions\['gear'\] like .*, int64 \[2\], got None"),
    ],
)
def test_what_an_exploration_must_not_return(predictions: Any, returned: Any, told: str) -> None:
    one = Mine(returned)
    error = raised(ArgumentError, check_returned, one, returned, predictions, ["q", "log_prob"], match=told)
    assert (error.argument, error.value) == ("exploration", one)
    assert str(error).startswith("the exploration Mine must return ")


def test_what_it_may_return() -> None:
    extras = {"log_prob": np.zeros(2, np.float32)}
    for actions in (ONE["action"].astype(np.int64), ONE["action"].astype(np.uint8)):
        found = check_returned(Mine(None), (actions, extras), ONE, ["log_prob"])
        assert found == (actions, extras) or (found[0] is actions and found[1] is extras)
    whole = {"action": np.zeros(2, np.float32)}  # of a model whose greedy actions are floats, in a Discrete space
    assert check_returned(Mine(None), (ONE["action"], {}), whole, [])[0] is ONE["action"]
    assert level_of(Mine(np.float32(0.5)), 0) == 0.5
    raised(ArgumentError, level_of, Mine(None), 0, match=r"Mine\.level must return a number, got None")


class Acts:
    """An actor that predicts the same."""

    def act(self, features: Any, draws: Any = ()) -> Any:
        return dict(ONE), None

    def set_weights(self, weights: Any) -> None:
        raise AssertionError


@pytest.mark.parametrize("exploration", [Mine(None), type("Subclass", (EpsilonGreedy,), {"__call__": Mine.__call__})])
def test_acting_asks_for_the_check(exploration: Any) -> None:
    if isinstance(exploration, type):
        exploration = exploration(0.5, Discrete(2))
        exploration.returned = None
    outputs = {"action": ArraySpec((), np.int32), "q": ArraySpec((3,), np.float32)}
    predict = PredictMode(outputs=outputs, exploration=exploration)
    behaviour = Behaviour(predict, Acts(), 2, np.random.default_rng(0))
    raised(ArgumentError, behaviour.act, np.zeros((2, 1)), 0, match="must return .* got None")
