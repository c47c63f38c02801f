"""The environments that feed one agent: their running episodes, and steps that wait to be stored together."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.protocols import State
from ...run_dir import history
from .transitions import rows_of, stack

UNROLL: Final = 32
"""Maximum number of one environment's steps that are stored together, where several environments feed one agent."""
MOST: Final = 64
"""Maximum number of environments of an agent; the least recently used one is closed."""
KEPT: Final = 10_000
"""Number of episodes that are remembered."""


@dataclasses.dataclass
class Stream:
    """One environment's running episode. ``rows`` wait to be stored; ``running`` is False until its first step.

    ``began`` is the time of that step; None if the agent was opened, or took another agent's state, since then.
    """

    name: str
    running: bool = False
    returned: float = 0.0
    length: int = 0
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    began: float | None = None


class Episode(NamedTuple):
    """A finished episode."""

    episode: int
    episode_return: float
    length: int
    terminated: bool
    truncated: bool
    environment: str
    time: float


_COLUMNS: Final = {
    "episode_returns": ("episode_return", np.float64),
    "episode_lengths": ("length", np.int64),
    "episode_terminated": ("terminated", np.bool_),
    "episode_times": ("time", np.float64),
}
"""Arrays of a checkpoint with values of finished episodes: their field and type."""


class Streams:
    """All environments of an agent, and its finished episodes, the newest last.

    Args:
        finished: number of episodes finished before.
        steps: number of steps before.
    """

    def __init__(self, finished: int = 0, steps: int = 0) -> None:
        self.by_name: collections.OrderedDict[str, Stream] = collections.OrderedDict()
        """The least recently used first."""
        self.episodes: collections.deque[Episode] = collections.deque(maxlen=KEPT)
        self.finished = finished
        self.steps = steps
        """Steps of all environments."""
        self.unwritten: list[history.Episode] = []
        """Finished episodes that ``episodes.csv`` may lack."""

    def __len__(self) -> int:
        return len(self.by_name)

    def use(self, name: str) -> Stream:
        """The stream of this environment, which becomes the most recently used."""
        if name in self.by_name:
            self.by_name.move_to_end(name)
        else:
            self.by_name[name] = Stream(name)
        return self.by_name[name]

    def count(self, stream: Stream, reward: float, time: float) -> None:
        """Count a step of a stream."""
        if not stream.running:
            stream.running, stream.began = True, time
        self.steps += 1
        stream.returned += reward
        stream.length += 1

    def finish(self, stream: Stream, time: float, *, terminated: bool) -> None:
        """End a stream's episode."""
        self.finished += 1
        self.episodes.append(
            Episode(self.finished, stream.returned, stream.length, terminated, not terminated, stream.name, time)
        )
        seconds = 0.0 if stream.began is None else round(time - stream.began, 6)
        row = history.Episode(self.finished, self.steps, float(stream.returned), stream.length, seconds)
        self.unwritten.append(row)
        stream.running, stream.returned, stream.length, stream.began = False, 0.0, 0, None

    def mean_return(self) -> float | None:
        """Mean return of the last 100 episodes; None if there are none."""
        newest = [episode.episode_return for episode in list(self.episodes)[-100:]]
        return float(np.mean(newest)) if newest else None

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything, for a checkpoint."""
        streams = list(self.by_name.values())
        return {
            "finished": self.finished,
            "names": [stream.name for stream in streams],
            "running": [stream.running for stream in streams],
            "returns": np.array([stream.returned for stream in streams], np.float64),
            "lengths": np.array([stream.length for stream in streams], np.int64),
            "rows": {str(k): stack(stream.rows) for k, stream in enumerate(streams) if stream.rows},
            "episode_environments": [episode.environment for episode in self.episodes],
            **{
                name: np.array([getattr(episode, field) for episode in self.episodes], dtype)
                for name, (field, dtype) in _COLUMNS.items()
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.finished = state["finished"]
        self.unwritten.clear()
        self.by_name.clear()
        for k, name in enumerate(state["names"]):
            waiting = state["rows"].get(str(k))
            rows = [] if waiting is None else rows_of(waiting)
            returned, length = float(state["returns"][k]), int(state["lengths"][k])
            self.by_name[name] = Stream(name, bool(state["running"][k]), returned, length, rows)
        self.episodes.clear()
        names = state["episode_environments"]
        first = self.finished - len(names) + 1
        columns = zip(names, *(state[column].tolist() for column in _COLUMNS), strict=True)
        for number, (environment, total, steps, terminated, time) in enumerate(columns, start=first):
            self.episodes.append(Episode(number, total, steps, terminated, not terminated, environment, time))
