"""How long a memory takes to store and to sample: ``python benchmarks/memory.py``.

Microseconds per call on CartPole's shapes, each the best of several repetitions, in a memory that is full.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from axonrl.contracts import ArraySpec
from axonrl.memories import ReplayMemory

SIZE, BATCH_SIZE, EPISODE_LENGTH = 100_000, 32, 200
CALLS, REPETITIONS = 1_000, 50
OBSERVATION = ArraySpec((4,), np.float32)
TRANSITION = {
    "observation": OBSERVATION,
    "action": ArraySpec((), np.int32),
    "reward": ArraySpec((), np.float32),
    "terminated": ArraySpec((), np.bool_),
    "truncated": ArraySpec((), np.bool_),
    "next_observation": OBSERVATION,
}
"""CartPole's."""


def filled(num_envs: int, n_step: int = 1) -> tuple[ReplayMemory, Callable[[], None]]:
    """A full memory, and a function that stores the next (vector) step the way the Agent does."""
    memory = ReplayMemory(SIZE, BATCH_SIZE, n_step=n_step)
    memory.build(TRANSITION, num_envs, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    lead = () if num_envs == 1 else (num_envs,)
    observations = list(rng.normal(size=(1000, *lead, 4)).astype(np.float32))
    action = np.int64(1) if num_envs == 1 else np.ones(lead, np.int64)
    reward = 1.0 if num_envs == 1 else np.ones(lead)
    flags: list[Any] = [False, True] if num_envs == 1 else [np.zeros(lead, np.bool_), np.arange(num_envs) == 0]
    put = memory.step if num_envs == 1 else memory.extend
    now, timestep = observations[0], 0

    def store() -> None:
        nonlocal now, timestep
        timestep += 1
        following = observations[timestep % 1000]
        ended = timestep % EPISODE_LENGTH == 0
        put(
            observation=now,
            action=action,
            reward=reward,
            terminated=flags[ended],
            truncated=flags[0],
            next_observation=following,
        )
        now = following + 1 if ended else following

    for _ in range(SIZE // num_envs):
        store()
    return memory, store


def best_microseconds(function: Callable[[], Any]) -> float:
    return min(timeit.repeat(function, number=CALLS, repeat=REPETITIONS)) / CALLS * 1e6


def main() -> None:
    single, step = filled(1)
    vector, extend = filled(4)
    n_step, _ = filled(1, n_step=3)
    rows = [
        ("step", best_microseconds(step)),
        ("extend of 4", best_microseconds(extend)),
        (f"sample of {BATCH_SIZE}", best_microseconds(single.sample)),
        (f"sample of {BATCH_SIZE}, 4 environments", best_microseconds(vector.sample)),
        (f"sample of {BATCH_SIZE}, n_step=3", best_microseconds(n_step.sample)),
    ]
    print(f"{'ReplayMemory, CartPole':<36}{'us per call':>12}")
    for name, microseconds in rows:
        print(f"{name:<36}{microseconds:>12.2f}")


if __name__ == "__main__":
    main()
