"""Recipes for environments: picklable, so that other processes can make them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.errors import ArgumentError
from ..core.protocols import Array, ArrayTree
from ..environments.batched import BatchedEnvironment, Step
from ..environments.ids import make, open_environment
from ..environments.normalization import NormalizedEnvironment
from ..environments.normalizers import Normalizers
from ..environments.statistics import names_of, statistics_of
from ..environments.wrapping import Wrapping


@dataclasses.dataclass(frozen=True)
class EnvironmentRecipe:
    """Recipe for an actor's environments: an id, or a function that makes them.

    Args:
        env: an id, or an importable function without arguments that returns an environment.
        kwargs: arguments of the environment.
        wrappers: see ``environments.make``.
        vectorization: see ``environments.make``.
        rewards: an importable function from the rewards [N] of a step to those to learn from, such as ``numpy.sign``.
            Returns of episodes are sums of the environment's own rewards.

    Raises:
        ArgumentError: ``env`` is a function, for which ``kwargs``, ``wrappers`` and ``vectorization`` do not apply;
            both ``rewards`` and ``normalize_reward`` are given.
    """

    env: str | Callable[[], Any]
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    wrappers: Sequence[Any] = ()
    vectorization: str = "sync"
    rewards: Callable[[Array], Array] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.env, str) and (self.kwargs or self.wrappers or self.vectorization != "sync"):
            message = (
                "kwargs, wrappers and vectorization apply to an id, such as 'CartPole-v1' or 'package.module:Class' for"
                f" an environment's class, got the function {self.env!r}"
            )
            raise ArgumentError(message, "env", self.env)
        if self.rewards is not None and "normalize_reward" in (one["kind"] for one in Wrapping(self.wrappers).given):
            message = f"rewards would replace those of normalize_reward: use one of them, got {self.rewards}"
            raise ArgumentError(message, "rewards", self.rewards)

    def one(self) -> Any:
        """Make a single environment."""
        if not isinstance(self.env, str):
            return self.env()
        return make(self.env, wrappers=self.wrappers, **self.kwargs)

    def several(self, number: int) -> BatchedEnvironment:
        """Make this many environments, stepped together; the caller closes them."""
        if isinstance(self.env, str):
            made = make(self.env, number, vectorization=self.vectorization, wrappers=self.wrappers, **self.kwargs)
        else:
            from gymnasium.vector import AutoresetMode, SyncVectorEnv

            made = SyncVectorEnv([self.env] * number, autoreset_mode=AutoresetMode.DISABLED)
        opened = open_environment(made)
        if self.rewards is not None:
            opened = _OtherRewards(opened, self.rewards)
        opened.own()
        return opened


class _OtherRewards(NormalizedEnvironment):
    """Environments whose rewards to learn from are computed by a function."""

    def __init__(self, inner: BatchedEnvironment, function: Callable[[Array], Array]) -> None:
        super().__init__(inner.env, inner, Normalizers(), learns=True)
        self._function = function

    def step(self, actions: ArrayTree) -> Step:
        """Take one action in each environment."""
        step = super().step(actions)
        return step._replace(normalized_reward=self._function(step.reward))


def recipe_of(env: Any) -> EnvironmentRecipe:
    """Make the recipe of a user's ``env`` argument.

    Raises:
        ArgumentError: it is an environment object, which cannot be in several processes, or something else.
    """
    if isinstance(env, EnvironmentRecipe):
        return env
    if isinstance(env, str):
        return EnvironmentRecipe(env)
    if callable(env) and not hasattr(env, "step"):
        name = getattr(env, "__qualname__", "<")
        if "<" in name:
            message = f"a function that makes environments must be importable from a module, got {env!r}"
            raise ArgumentError(message, "env", env)
        return EnvironmentRecipe(env)
    raise ArgumentError(
        "with cluster=, env must be an id ('CartPole-v1'), or a function of a module that returns an environment: an"
        f" environment itself cannot be in several processes, got {env!r}",
        "env",
        env,
    )


def refuse_unsuitable(recipe: EnvironmentRecipe, opened: BatchedEnvironment) -> None:
    """Raise ``ArgumentError`` for environments that reset rows while others step, and for wrappers that learn."""
    if opened.skips_rows:
        message = f"{opened.name} resets copies while others step; actors need whole unrolls: use vectorization='sync'"
        if opened.waits:
            message = (
                f"{opened.name} has several agents, which may come and go; actors need whole unrolls: use one process"
            )
        raise ArgumentError(message, "env", recipe.env)
    names = [name for name in names_of(statistics_of(opened.env)) if name.startswith("Gymnasium's")]
    if names:
        message = (
            f"{' and '.join(dict.fromkeys(names))} would keep separate statistics in each copy: use axonrl's"
            " normalize_observation and normalize_reward, by name in a file, or"
            " axonrl.distributed.environment_recipes.EnvironmentRecipe"
        )
        raise ArgumentError(message, "env", recipe.env)
