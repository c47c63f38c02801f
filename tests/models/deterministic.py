"""DDPG and TD3 by their papers, in NumPy and float64, on networks that are one matrix: what tests of both compare with.

The actor is tanh(w s + b) and a critic w_s s + w_a a + b, of one observation and one action.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.tests.models.executed import transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Box(0, 4, (1,)))
# Actions are -0.5 and 0.5 in -1 .. 1; and 2, which was clipped to 1
BATCH = transitions(
    np.array([[1], [2], [-1]], F32),
    np.array([[1], [3], [6]], F32),
    [1, -1, 0.5],
    [0.5, 0, 0.9],
    next_observation=np.array([[2], [3], [-2]], F32),
    weight=[1, 0.5, 0.25],
)
ACTION = np.array([-0.5, 0.5, 1.0])
ACTOR = np.array([0.25, -0.5])


class ByHand:
    """Algorithm 1 of either paper: no automatic differentiation, and targets move at the end of a step.

    Args:
        critics: weights [w_s, w_a, b] of each.
        rate: of the targets.
        delay: of actor and targets, which learn in steps 0, delay, 2 * delay and so on.
        actor_rate: learning rate of plain gradient descent.
        critic_rate: likewise.
        limit: of the smoothing's absolute value.
    """

    def __init__(
        self, critics: Any, *, rate: float, delay: int, actor_rate: float, critic_rate: float, limit: float = 0.0
    ) -> None:
        self.actor, self.critics = ACTOR.copy(), [np.array(critic) for critic in critics]
        self.target_actor, self.targets = self.actor, self.critics
        self._rate, self._delay, self._limit = rate, delay, limit
        self._rates = actor_rate, critic_rate
        self._number = 0

    def step(self, batch: Mapping[str, Any], noise: Any = 0.0) -> dict[str, Any]:
        """One gradient step; ``noise`` [B] has its standard deviation. Returns what the update reports."""
        s, reward, discount, weight = (batch[name].ravel() for name in ("observation", "reward", "discount", "weight"))
        following = batch["next_observation"].ravel()
        actor_rate, critic_rate = self._rates
        smoothed = self.act(self.target_actor, following) + np.clip(noise, -self._limit, self._limit)
        values = [self.value(target, following, np.clip(smoothed, -1, 1)) for target in self.targets]
        target = reward + discount * np.min(values, axis=0)
        q_values = [self.value(critic, s, ACTION) for critic in self.critics]
        errors = [target - q for q in q_values]
        # d (weight e^2 / 2) / d (w_s, w_a, b) is -weight e (s, a, 1).
        inputs = np.array([s, ACTION, np.ones(len(s))])
        self.critics = [
            critic + critic_rate * np.mean(weight * error * inputs, axis=1)
            for critic, error in zip(self.critics, errors, strict=True)
        ]
        if self._number % self._delay == 0:
            mu = self.act(self.actor, s)
            self.actor_loss = -np.mean(self.value(self.critics[0], s, mu))
            by_u = self.critics[0][1] * (1 - mu**2)
            self.actor = self.actor + actor_rate * np.mean(by_u * np.array([s, np.ones(len(s))]), axis=1)
            self.target_actor = self._moved(self.target_actor, self.actor)
            self.targets = [self._moved(*pair) for pair in zip(self.targets, self.critics, strict=True)]
        self._number += 1
        return {
            "loss": np.mean(weight * np.sum(np.square(errors), axis=0) / 2),
            "actor_loss": self.actor_loss,
            "q_mean": np.mean(q_values),
            "td_error_mean": np.mean(np.abs(np.mean(errors, axis=0))),
            "td_error": np.mean(errors, axis=0),
        }

    def weights(self, names: list[str]) -> dict[str, Any]:
        """Weights of the actor and of critics by their names."""
        named = {"actor/mu/kernel": self.actor[0], "actor/mu/bias": self.actor[1]}
        for name, critic in zip(names, self.critics, strict=True):
            named |= {f"{name}/q_value/kernel": critic[:2], f"{name}/q_value/bias": critic[2]}
        return named

    @staticmethod
    def act(actor: Any, s: Any) -> Any:
        return np.tanh(actor[0] * s + actor[1])

    @staticmethod
    def value(critic: Any, s: Any, a: Any) -> Any:
        return critic[0] * s + critic[1] * a + critic[2]

    def _moved(self, target: Any, online: Any) -> Any:
        return target + self._rate * (online - target)


class Reach(gymnasium.Env[Any, Any]):
    """An action goes to a place in -1 .. 1; it pays 0 within 0.1 of the goal, else -1; one timestep."""

    _place = spaces.Box(-1, 1, (1,))
    observation_space = spaces.Dict({"observation": _place, "achieved_goal": _place, "desired_goal": _place})
    action_space = spaces.Box(-2, 2, (1,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.goal = self.np_random.uniform(-0.8, 0.8, 1).astype(F32)
        return self.observed(np.zeros(1, F32)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        place = np.clip(action, -1, 1).astype(F32)
        return self.observed(place), float(self.compute_reward(place, self.goal, {})), True, False, {}

    def observed(self, place: Any) -> dict[str, Any]:
        return {"observation": np.zeros(1, F32), "achieved_goal": place, "desired_goal": self.goal}

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.where(np.abs(achieved - desired)[..., 0] < 0.1, 0.0, -1.0)
