"""MinAtar's games, with episodes that depend only on their seeds.

MinAtar (Young and Tian, 2019, https://arxiv.org/abs/1903.03176) repeats the last action with probability 0.1 and does
not clear it on reset: the first action of an episode may come from the previous episode.
"""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from .batched import AnyEnv

NAMESPACE = "MinAtar/"
"""Prefix of the ids of MinAtar's games."""
_MODULE = "minatar.gym"


def register() -> None:
    """Register MinAtar's ids with Gymnasium, once; ModuleNotFoundError without the package ``minatar``."""
    if not any(env_id.startswith(NAMESPACE) for env_id in gymnasium.registry):
        importlib.import_module(_MODULE).register_envs()


def is_bare(env: AnyEnv) -> bool:
    """Whether ``env`` is a MinAtar game without :class:`FromSeed`."""
    if type(env.unwrapped).__module__ != _MODULE:
        return False
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, FromSeed):
            return False
        env = env.env
    return True


class FromSeed(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """MinAtar game whose ``reset`` clears the last action, so that episodes depend only on their seeds."""

    def __init__(self, env: AnyEnv) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode that depends only on ``seed``, a non-negative integer of any size."""
        game: Any = self.get_wrapper_attr("game")
        game.last_action = 0
        if seed is not None:
            # MinAtar's own seeds end at 2**32 - 1. The game and its frame share one generator.
            game.random = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))
            game.env.random = game.random
        return self.env.reset(options=options)
