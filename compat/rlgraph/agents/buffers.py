"""Buffers by environment: what was observed and is not in the memory yet."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array
from ..spaces.readers import Record


@dataclasses.dataclass
class Buffer:
    """Consecutive records of one environment."""

    records: list[Record] = dataclasses.field(default_factory=list)
    noted: list[dict[str, Array] | None] = dataclasses.field(default_factory=list)
    """What was known when it acted, log-probabilities say; None of a record that no act of the agent belongs to."""

    def __len__(self) -> int:
        return len(self.records)

    def append(self, record: Record, noted: dict[str, Array] | None) -> None:
        """Add the next one."""
        self.records.append(record)
        self.noted.append(noted)


def columns_of(records: Sequence[Record]) -> dict[str, Any]:
    """Records as arrays [T, ...]."""
    states, actions, rewards, after, terminals = zip(*records, strict=True)
    return {
        "observation": stacked(states),
        "action": stacked(actions),
        "reward": np.array(rewards, np.float32),
        "next_observation": stacked(after),
        "terminal": np.array(terminals, np.bool_),
    }


def records_of(columns: Mapping[str, Any]) -> list[Record]:
    """The records of such arrays."""
    return [
        Record(
            {name: part[k] for name, part in columns["observation"].items()},
            {name: part[k] for name, part in columns["action"].items()},
            float(columns["reward"][k]),
            {name: part[k] for name, part in columns["next_observation"].items()},
            bool(columns["terminal"][k]),
        )
        for k in range(len(columns["reward"]))
    ]


def stacked(rows: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Arrays [T, ...] by name from those of T rows."""
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def summed(columns: dict[str, Any], discount: float, n_step: int) -> dict[str, Any]:
    """Records over up to ``n_step`` timesteps: what is stored of consecutive ones.

    Rewards are summed with discounts up to a terminal, to the end of the records, or over ``n_step``; what follows is
    the state after the last of these m rewards, which counts ``discount ** m``, and nothing after a terminal.

    Args:
        columns: of :func:`columns_of`, [T, ...].
        discount: of one timestep.
        n_step: at least 1.

    Returns:
        the same columns [T, ...] with other rewards, terminals and next observations, and ``discount`` float32 [T].
    """
    terminal, rewards = columns["terminal"], columns["reward"].astype(np.float64)
    count = len(rewards)
    last, sums = np.arange(count), rewards.copy()
    goes_on = np.ones(count, np.bool_)
    for k in range(1, min(n_step, count)):
        goes_on[: count - k] &= ~terminal[k - 1 : count - 1]
        goes_on[count - k :] = False
        sums[: count - k] += np.where(goes_on[: count - k], discount**k * rewards[k:], 0.0)
        last += goes_on
    follows = {name: part[last] for name, part in columns["next_observation"].items()}
    ends = terminal[last]
    powers = np.where(ends, 0.0, discount ** (last - np.arange(count) + 1.0))
    return {
        **columns,
        "reward": sums.astype(np.float32),
        "next_observation": follows,
        "terminal": ends,
        "discount": powers.astype(np.float32),
    }
