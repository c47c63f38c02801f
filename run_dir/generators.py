"""Random numbers: all derive from the run's seed."""

from __future__ import annotations

import secrets

import numpy as np

# The first word of a spawn key is the purpose of a stream. These numbers must never change, or old runs would not
# resume exactly. 3 is for core.initializers.model_seed.
_EPISODES, _EVALUATION, _GENERATORS = 0, 1, 2
GENERATORS = ("exploration", "memory", "noise")


def draw_seed() -> int:
    """Draw a seed for a run without one."""
    return secrets.randbits(32)


def episode_seed(run_seed: int, environment: int, episode: int) -> int:
    """Seed of ``env.reset`` for an environment's episode, in 0 .. 2**31 - 1, which every environment accepts."""
    return _word(run_seed, _EPISODES, environment, episode)


def evaluation_seed(seed: int, stream: int, episode: int) -> int:
    """Seed of an evaluation's episode.

    Stream 0 is ``evaluate``, stream 1 evaluation during training: a policy selected on some episodes is tested on
    others. Stream 2 is EVAL on batches of the memory, with ``global_timestep`` as ``episode``. Stream 3 is ``record``,
    and stream 4 the exploration in evaluations, with their stream as ``episode``.
    """
    return _word(seed, _EVALUATION, stream, episode)


def generators(run_seed: int) -> dict[str, np.random.Generator]:
    """The run's generators by name, each independent of the others."""
    return {
        name: np.random.Generator(np.random.PCG64(np.random.SeedSequence(run_seed, spawn_key=(_GENERATORS, index))))
        for index, name in enumerate(GENERATORS)
    }


def _word(entropy: int, *key: int) -> int:
    """The first word of ``SeedSequence(entropy, spawn_key=key)``, whose pool NumPy fills in a third more time."""
    words = _words(entropy)
    words += [0] * (4 - len(words))  # a spawn key follows four words at least
    for part in key:
        words += _words(part)
    return int(np.random.SeedSequence(np.array(words, np.uint32)).generate_state(1)[0]) >> 1


def _words(number: int) -> list[int]:
    """The digits of a number to the base 2**32, lowest first; ``ValueError`` if it is negative."""
    if number < 0:
        raise ValueError(f"a seed must be at least 0, got {number}")
    words = [number & 0xFFFFFFFF]
    while number := number >> 32:
        words.append(number & 0xFFFFFFFF)
    return words
