"""Random numbers: all derive from the run's seed."""

from __future__ import annotations

import secrets

import numpy as np

# The first word of a spawn key is the purpose of a stream; these numbers must never change, or old runs would not
# resume.
_EPISODES, _EVALUATION, _GENERATORS, _MODEL = 0, 1, 2, 3
GENERATORS = ("exploration", "memory", "noise")


def draw_seed() -> int:
    """Draw a seed for a run without one."""
    return secrets.randbits(32)


def episode_seed(run_seed: int, environment: int, episode: int) -> int:
    """Seed of ``env.reset`` for an environment's episode, in 0 .. 2**31 - 1, which every environment accepts."""
    return _word(run_seed, _EPISODES, environment, episode)


def evaluation_seed(seed: int, stream: int, episode: int) -> int:
    """Seed of an evaluation's episode.

    Stream 0 is ``evaluate``, stream 1 evaluation during training: a policy selected by some episodes is tested on
    others. Stream 2 is EVAL on batches of the memory, with ``global_timestep`` as ``episode``. Stream 3 is ``record``.
    """
    return _word(seed, _EVALUATION, stream, episode)


def model_seed(run_seed: int) -> int:
    """Seed of the variables' initial values."""
    return _word(run_seed, _MODEL)


def generators(run_seed: int) -> dict[str, np.random.Generator]:
    """The run's generators by name, each independent of the others."""
    return {
        name: np.random.Generator(np.random.PCG64(np.random.SeedSequence(run_seed, spawn_key=(_GENERATORS, index))))
        for index, name in enumerate(GENERATORS)
    }


def _word(entropy: int, *key: int) -> int:
    return int(np.random.SeedSequence(entropy, spawn_key=key).generate_state(1)[0]) >> 1
