"""The greedy policy of ``Agent.export``, without TensorFlow."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from axonrl.runtimes import Policy

from .. import settings
from ..settings import NETWORKS
from ..timing import microseconds, start_of
from .axonrl_agent import trained


def act(networks: Sequence[str], batches: Sequence[int], seconds: float) -> dict[str, float]:
    """Microseconds of an exported policy."""
    found = {}
    for name in networks:
        with tempfile.TemporaryDirectory() as folder:
            exported = trained(NETWORKS[name], folder).export(Path(folder, "policy"))
            policy = Policy.load(exported, num_threads=settings.threads())
            for batch in batches:
                observation = settings.observations(NETWORKS[name], batch)
                found[f"{name}, batch {batch}"] = microseconds(partial(policy.act, observation), seconds)
    return found


ACT = """
import sys
import gymnasium
from axonrl.runtimes import Policy
policy = Policy.load(sys.argv[1])
env = gymnasium.make("CartPole-v1")
observation, _ = env.reset(seed=0)
env.step(policy.act(observation))
"""


def actor() -> dict[str, float]:
    """The start of a process that acts with an exported policy."""
    with tempfile.TemporaryDirectory() as folder:
        return start_of(ACT, str(trained(NETWORKS["2x64"], folder).export(Path(folder, "policy"))))
