"""A made-up environment for tests of a server: the same steps each time, and agents that have had them."""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from axonrl.serving import RemoteAgent

STEPS = 1_000
_STATES: list[list[float]] = np.random.default_rng(7).normal(size=(STEPS + 1, 4)).round(3).tolist()


def step(k: int) -> tuple[list[float], int, float, list[float], bool]:
    """Step k; episodes have 20."""
    return _STATES[k], k % 2, _STATES[k][0], _STATES[k + 1], k % 20 == 19


def batch(begin: int, end: int) -> tuple[Any, ...]:
    """Steps as arguments of ``step_batch``."""
    return tuple(zip(*(step(k) for k in range(begin, end)), strict=True))


def stepped(agent: RemoteAgent, kills: int, kill: Callable[[], None], steps: int = STEPS, seed: int = 0) -> None:
    """Have an agent learn from the first steps, while something is killed at random instants of them."""
    dice = random.Random(seed)
    reached = {k: threading.Event() for k in sorted(dice.sample(range(1, steps), kills))}

    def killing() -> None:
        for event in reached.values():
            event.wait()
            time.sleep(dice.uniform(0, 0.005))  # somewhere within the next steps
            kill()

    with ThreadPoolExecutor(1) as one:
        done = one.submit(killing)
        try:
            for k in range(steps):
                if k in reached:
                    reached[k].set()
                agent.step(*step(k), key=f"key-{k}")
        finally:
            for event in reached.values():
                event.set()
        done.result(120)


def alike(one: RemoteAgent, other: RemoteAgent) -> bool:
    """Have they the same weights, and the same memory, in all bits?"""
    first, second = one.get_state(), other.get_state()
    return (first.encoded_network, first.encoded_buffer) == (second.encoded_network, second.encoded_buffer)
