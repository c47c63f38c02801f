"""How long a memory takes to store, to sample and to save: ``python benchmarks/memory.py [--quick]``.

Microseconds per call on CartPole's shapes, each the best of several repetitions, in a memory that is full. Seconds for
a checkpoint of 1,000,000 transitions, from the call until it is on the disk: the first, and the median and the longest
of those that follow with 1,000 new transitions each; and by how much the process was larger at its largest.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import tempfile
import time
import timeit
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from axonrl.core.chunked_arrays import as_views
from axonrl.core.protocols import ArraySpec
from axonrl.memories import ReplayMemory
from axonrl.run_dir.checkpoints import CheckpointStore

SAVED, NEW, SAVES = 1_000_000, 1_000, 40
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


def filled(
    num_envs: int, n_step: int = 1, size: int = SIZE, sampler: str = "uniform"
) -> tuple[ReplayMemory, Callable[[], None]]:
    """A full memory, and a function that stores the next (vector) step the way the Agent does."""
    memory = ReplayMemory(size, BATCH_SIZE, n_step=n_step, sampler=sampler)
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

    for _ in range(size // num_envs):
        store()
    return memory, store


def saving(sampler: str, size: int) -> tuple[float, list[float], float]:
    """Seconds of the first checkpoint, and of those that follow; how much more RAM they took, as a share."""
    memory, store = filled(1, size=size, sampler=sampler)
    memory.sample()
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = CheckpointStore(Path(folder))
        checkpoints.save({"small": np.zeros(1)})
        before, seconds = _largest(), []
        for _ in range(SAVES + 1):
            began = time.perf_counter()
            with as_views():
                checkpoints.save({"memory": memory.state_dict()})
            seconds.append(time.perf_counter() - began)
            for _ in range(NEW):
                store()
            memory.sample()
        return seconds[0], seconds[1:], _largest() / before - 1


def _largest() -> int:
    """How large this process was at its largest."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def best_microseconds(function: Callable[[], Any], repetitions: int) -> float:
    return min(timeit.repeat(function, number=CALLS, repeat=repetitions)) / CALLS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="briefly, to see that everything works")
    quick = parser.parse_args().quick
    size, repetitions = (SAVED // 100, 2) if quick else (SAVED, REPETITIONS)
    saved = {}
    for sampler in ("uniform", "prioritized"):  # in processes of their own, whose size is watched
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            saved[sampler] = pool.submit(saving, sampler, size).result()
    single, step = filled(1)
    vector, extend = filled(4)
    n_step, _ = filled(1, n_step=3)
    rows = [
        ("step", best_microseconds(step, repetitions)),
        ("extend of 4", best_microseconds(extend, repetitions)),
        (f"sample of {BATCH_SIZE}", best_microseconds(single.sample, repetitions)),
        (f"sample of {BATCH_SIZE}, 4 environments", best_microseconds(vector.sample, repetitions)),
        (f"sample of {BATCH_SIZE}, n_step=3", best_microseconds(n_step.sample, repetitions)),
    ]
    print(f"{'ReplayMemory, CartPole':<36}{'us per call':>12}")
    for name, microseconds in rows:
        print(f"{name:<36}{microseconds:>12.2f}")
    print(f"{f'checkpoint of {size:,}':<24}{'first s':>12}{f'{NEW:,} new s':>12}{'longest s':>12}{'more RAM':>12}")
    for sampler, (first, later, more) in saved.items():
        print(f"{sampler:<24}{first:>12.3f}{statistics.median(later):>12.3f}{max(later):>12.3f}{more:>12.1%}")


if __name__ == "__main__":
    main()
