"""MinAtar's games, made to start every episode from its seed alone.

MinAtar (Young and Tian, 2019, https://arxiv.org/abs/1903.03176) repeats the last action with probability 0.1, and
keeps that last action when it is reset: the first action of an episode may come from the episode before.
"""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

AnyEnv = gymnasium.Env[Any, Any]

NAMESPACE = "MinAtar/"
"""The ids of MinAtar's games start with this."""
_MODULE = "minatar.gym"


def register() -> None:
    """Register MinAtar's ids with Gymnasium, once.

    Raises:
        ModuleNotFoundError: the package ``minatar`` is not installed.
    """
    if not any(env_id.startswith(NAMESPACE) for env_id in gymnasium.registry):
        importlib.import_module(_MODULE).register_envs()


def is_bare(env: AnyEnv) -> bool:
    """Is ``env`` a MinAtar game without :class:`FromSeed`?"""
    if type(env.unwrapped).__module__ != _MODULE:
        return False
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, FromSeed):
            return False
        env = env.env
    return True


class FromSeed(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """A MinAtar game whose episodes follow from their seeds: ``reset`` clears the last action.

    Args:
        env: an environment made from a ``MinAtar/`` id.
    """

    def __init__(self, env: AnyEnv) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; with a ``seed`` (any non-negative integer) everything in it follows from that."""
        game: Any = self.get_wrapper_attr("game")
        game.last_action = 0
        if seed is not None:
            # MinAtar's own seeding stops at 2**32 - 1. The game and its frame share one generator.
            game.random = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))
            game.env.random = game.random
        return self.env.reset(options=options)
