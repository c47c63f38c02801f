"""Records episodes of a policy for offline learning."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from gymnasium.spaces import Box

from ..core.errors import ArgumentError
from ..core.protocols import ArrayTree, Episode
from ..core.trees import first_row, map_tree
from ..environments.batched import BatchedEnvironment
from ..environments.episodes import KEYS
from ..environments.spaces import leaves
from ..environments.statistics import statistics_of
from ..explorations import Random
from ..policies.behaviour import Behaviour
from .evaluation import summary_of

_STREAM: Final = 1
"""Separates the draws of random actions from those of an environment with the same seed."""


def refuse_unsuitable(env: BatchedEnvironment, source: Any) -> None:
    """Raise ``ArgumentError`` for several environments, and for wrappers that normalise the recorded values."""
    if env.num_envs != 1:
        message = f"episodes are recorded in one environment, got {env.num_envs}"
    elif statistics_of(env.env):
        message = (
            "wrappers of this environment normalise observations or rewards with statistics that will change"
            ": record without these wrappers, with a policy that was trained without them"
        )
    else:
        return
    raise ArgumentError(message, "env", source)


def episodes_of(
    behaviour: Behaviour, env: BatchedEnvironment, seeds: Callable[[int], int], epsilon: float
) -> Iterator[Episode]:
    """Run an endless sequence of episodes: greedy, or with some random actions.

    Args:
        behaviour: acts greedily, in one lane.
        env: the single environment.
        seeds: maps the number of an episode to its seed.
        epsilon: probability of a random action at each timestep.

    Raises:
        ArgumentError: the action space cannot be sampled.
    """
    random = _random(env.action_space, epsilon) if epsilon else None
    begins, number = np.array([True]), 0
    while True:
        seed = seeds(number)
        rng = np.random.default_rng((_STREAM, seed))
        observation = env.reset(None if number == 0 else begins, [seed])
        behaviour.begin(begins)
        rows: list[dict[str, Any]] = []
        while not rows or not (rows[-1]["terminated"] or rows[-1]["truncated"]):
            action, _, predictions = behaviour.act(observation, 0)
            if random is not None and rng.random() < epsilon:
                action, _ = random(predictions, 0, rng)
            step = env.step(action)
            if step.acted is not None and not step.acted[0]:  # a reset
                behaviour.begin(~step.acted)
            else:
                outcome = step.reward[0], step.terminated[0], step.truncated[0], step.observation
                rows.append(_row(observation, _clip_actions(env.action_space, action), *outcome))
            observation = step.observation
        number += 1
        yield {key: _stack([row[key] for row in rows]) for key in KEYS}


def _random(space: Any, epsilon: float) -> Random:
    try:
        return Random(space)
    except ArgumentError as error:
        message = f"epsilon={epsilon:g} needs random actions, but {space} cannot be sampled: {error}. Use epsilon=0"
        raise ArgumentError(message, "epsilon", epsilon) from error


def cut_at(episodes: Iterator[Episode], timesteps: int) -> Iterator[Episode]:
    """Take episodes with this many timesteps in total; the last one is truncated if necessary."""
    left = timesteps
    while left:
        episode = next(episodes)
        length = len(episode["reward"])
        if length > left:
            episode = _first_rows(episode, left)
            np.asarray(episode["truncated"])[-1] = True
            length = left
        left -= length
        yield episode


def summarize(episodes: Sequence[Episode]) -> dict[str, float]:
    """Summarize episodes like an evaluation, and add the number of timesteps."""
    returns = np.array([math.fsum(np.asarray(episode["reward"]).tolist()) for episode in episodes])
    lengths = [len(episode["reward"]) for episode in episodes]
    return {**summary_of(returns, lengths), "timesteps": sum(lengths)}


def _row(
    observation: ArrayTree, action: ArrayTree, reward: float, terminated: Any, truncated: Any, following: ArrayTree
) -> dict[str, Any]:
    return {
        "observation": first_row(observation),
        "action": first_row(action),
        "reward": np.float32(reward),
        "terminated": bool(terminated),
        "truncated": bool(truncated),
        "next_observation": first_row(following),
    }


def _clip_actions(space: Any, action: Any) -> Any:
    """Actions [1, ...] for the environment: those of a Box are clipped to its bounds."""
    parts = action if isinstance(action, Mapping) else {"": action}
    taken = {
        leaf.name: np.clip(parts[leaf.name], leaf.space.low, leaf.space.high)
        if isinstance(leaf.space, Box)
        else parts[leaf.name]
        for leaf in leaves(space, "action")
    }
    return taken if isinstance(action, Mapping) else taken[""]


def _stack(values: Sequence[Any]) -> Any:
    return map_tree(lambda *arrays: np.array(arrays), *values)


def _first_rows(tree: Any, count: int) -> Any:
    return map_tree(lambda values: values[:count].copy(), tree)
