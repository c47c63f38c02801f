"""Checks of a user's environment: each fault in an environment of its own, and none in Gymnasium's."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from axonrl.environments import open_environment
from axonrl.environments.diagnosis import check
from axonrl.errors import ArgumentError, BrokenEnvironmentError, NonFiniteError
from axonrl.tests.raising import raised

F32 = np.float32


class Walk(gymnasium.Env[Any, Any]):
    """Without a fault: observations drift, and an episode has up to eight timesteps."""

    observation_space: Any = spaces.Box(-5, 5, (2,), F32)
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.time += 1
        return self.seen(), self.reward(), bool(self.time >= 8), False, {}

    def seen(self) -> Any:
        return self.np_random.uniform(-1, 1, 2).astype(F32)

    def reward(self) -> Any:
        return 1.0


class Unseeded(Walk):
    def seen(self) -> Any:
        return np.random.default_rng().uniform(-1, 1, 2).astype(F32)


class Remembering(Walk):
    total = 0

    def seen(self) -> Any:
        self.total += 1
        return np.array([self.total / 1000, 0], F32)


class Endless(Walk):
    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        return self.seen(), 0.0, False, False, {}


class Outside(Walk):
    def seen(self) -> Any:
        return np.array([0, 6], F32)


class Infinite(Walk):
    def reward(self) -> Any:
        return float("inf") if self.time == 3 else 0.0


class WrongShape(Walk):
    def seen(self) -> Any:
        return np.zeros(3, F32)


class Text(Walk):
    action_space = spaces.Text(3)


@pytest.mark.parametrize(
    ("env", "point", "verdict", "text"),
    [
        (Unseeded, "nothing survives a reset", "warning", "observation of timestep 0 differs"),
        (Remembering, "nothing survives a reset", "warning", "observation of timestep 0 differs, after other episodes"),
        (Endless, "episodes end", "warning", "after 50 timesteps an episode had not ended: set a limit"),
        (Outside, "values", "warning", "episode 0, timestep 0: observation[1] is 6.0, outside -5.0 .. 5.0"),
        (Infinite, "values", "error", "episode 0, timestep 3: Infinite.step returned the reward inf in environment 0"),
        (
            WrongShape,
            "values",
            "error",
            "episode 0, timestep 0: WrongShape.reset returned an observation of shape (3,) and dtype float32;"
            " Box(-5.0, 5.0, (2,), float32) asks for numbers of shape (2,)",
        ),
        (Text, "space of actions", "error", "Text"),
    ],
)
def test_a_fault_has_a_verdict_and_says_where(env: Any, point: str, verdict: str, text: str) -> None:
    diagnosis = check(env(), timesteps=50)
    found = {finding.point: finding for finding in diagnosis.findings}
    assert found[point].verdict == verdict
    assert text in found[point].text
    assert diagnosis.ok == (verdict != "error")
    assert text in str(diagnosis)


class Fifth(Walk):
    """Where the third entry of the space would be the last."""

    observation_space = spaces.Discrete(3)

    def seen(self) -> Any:
        return 5 * (self.time == 2)


class Halves(Walk):
    observation_space = spaces.Box(0, 255, (2,), np.uint8)

    def seen(self) -> Any:
        return np.full(2, 0.5 * (self.time == 2))


class Huge(Walk):
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def seen(self) -> Any:
        return np.full(2, 1e39 * (self.time == 2))


class InAnArray(Walk):
    def reward(self) -> Any:
        return np.array([1.0]) if self.time == 2 else 1.0


@pytest.mark.parametrize("made", [Fifth, Halves, Huge, InAnArray])
def test_what_training_refuses_is_an_error_in_its_words(made: Any) -> None:
    env = open_environment(made())
    env.reset(None, [0])
    env.step(np.zeros(1, np.int32))
    with pytest.raises((BrokenEnvironmentError, NonFiniteError)) as error:
        env.step(np.zeros(1, np.int32))
    diagnosis = check(made(), timesteps=50)
    assert diagnosis.findings[-1] == ("values", "error", f"episode 0, timestep 2: {error.value}")
    assert not diagnosis.ok


@pytest.mark.parametrize(("name", "value", "least"), [("episodes", 0, 1), ("timesteps", 0, 1), ("seed", -1, 0)])
def test_numbers_out_of_range_are_refused(name: str, value: int, least: int) -> None:
    match = f"^{name} must be an integer of at least {least}, got {value}$"
    assert raised(ArgumentError, check, "CartPole-v1", **{name: value}, match=match).argument == name


def test_an_id_has_all_verdicts_and_what_copies_pay() -> None:
    diagnosis = check("CartPole-v1", episodes=2)
    verdicts = {finding.point: finding.verdict for finding in diagnosis.findings}
    assert verdicts.pop("Gymnasium's checker") == "warning"  # two of its bounds are infinite
    assert set(verdicts.values()) == {"ok"}
    assert "a seed determines an episode" in verdicts
    assert "timesteps per second of 8 copies" in diagnosis.findings[-1].text


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"env must be an id or a gymnasium\.Env, got 3"):
        check(3)  # type: ignore[arg-type] # wrong on purpose
