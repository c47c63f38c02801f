"""Applies accepted steps to a hosted agent, in the same way live and when a journal is replayed."""

from __future__ import annotations

import collections
import logging
import math
import time
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ...core.errors import NonFiniteError
from ...core.protocols import State
from ...estimators.stepper import Stepper
from .pending_actions import recorded_anew
from .records import Record
from .streams import MOST, UNROLL, Stream, Streams

logger = logging.getLogger("axonrl.serving")
_Piece: TypeAlias = tuple[str, Mapping[str, Any] | None, float]
"""An environment, its step or None for the end of its episode, and the time of arrival."""
_CUT: Final[dict[str, Any]] = {}
"""Marker among rows to be stored: the next row begins another episode."""
_LONG: Final = 0.001
"""Seconds; longer updates must not delay other agents."""


class AcceptedSteps:
    """Stores the transitions of accepted records in order, and runs the updates that are due.

    The result depends only on the state and the records, so that replaying a journal gives the same bits.

    Args:
        stepper: stepper of one lane; nothing else may drive it.
        gathers: whether steps of several environments are stored in unrolls of one environment each, as n-step returns
            and rollouts need.
    """

    def __init__(self, stepper: Stepper, gathers: bool) -> None:
        self.stepper = stepper
        self.gathers = gathers
        self.streams = Streams(stepper.counters.global_episode, stepper.counters.global_timestep)
        self.last_update: dict[str, float] | None = None
        """Loss and metrics of the last update; None before the first."""
        self.failure: str | None = None
        """Why it stopped learning; None if it learns."""
        self._pending: collections.deque[_Piece] = collections.deque()
        self._rows: collections.deque[dict[str, Any]] = collections.deque()
        self._steps_pending = 0
        self._durations: collections.deque[float] = collections.deque(maxlen=3)
        self._seconds_of_update = 0.0
        """The shortest of the last three, so that an interruption does not count; 0 until there are two: the first
        one prepares the executor, too."""

    # -- applying, a piece at a time ----------------------------------------------------------------------------------

    def accept(self, record: Record) -> None:
        """Queue a record."""
        steps = record.steps or [None] * len(record.environments)
        self._pending.extend((name, step, record.time) for name, step in zip(record.environments, steps, strict=True))
        self._steps_pending += len(record.steps)

    @property
    def has_work(self) -> bool:
        """Whether anything is left to do."""
        return self.failure is None and bool(self.stepper.pending_updates or self._rows or self._pending)

    @property
    def left(self) -> int:
        """Steps and transitions left to apply."""
        return len(self._rows) + len(self._pending)

    @property
    def next_is_update(self) -> bool:
        """Whether the next piece is an update."""
        return self.stepper.pending_updates > 0

    @property
    def next_is_long(self) -> bool:
        """Whether the next piece is an update of over a millisecond, or one of the first two, of unknown duration."""
        return self.stepper.pending_updates > 0 and not 0.0 < self._seconds_of_update <= _LONG

    def work(self) -> None:
        """Do one piece: an update, storing one transition, or taking the next step or end of an episode.

        Any error becomes the ``failure`` of this agent, and affects no other.
        """
        try:
            self._work()
        except Exception as error:
            logger.exception("an agent has failed")
            self.failure = f"{type(error).__name__}: {error}"

    def _work(self) -> None:
        if self.stepper.pending_updates:
            self._learn()
        elif self._rows:
            row = self._rows.popleft()
            if row is _CUT:
                self.stepper.memory.cut()  # type: ignore[attr-defined] # the catalogue has axonrl's own memories
            else:
                self.stepper.store_one(row)
        else:
            self._take(*self._pending.popleft())

    def reset(self) -> None:
        """Drop pending work and the failure, before a state is loaded."""
        self._pending.clear()
        self._rows.clear()
        self._steps_pending, self.failure, self.last_update = 0, None, None
        self.stepper.pending_updates = 0

    def seconds_owed(self) -> float:
        """Estimated seconds of the due and coming updates, by the duration of the last ones; 0 if it does not learn."""
        if self.failure is not None or not self._seconds_of_update:
            return 0.0
        schedule = self.stepper.schedule
        waiting = self._steps_pending + len(self._rows)
        now = self.stepper.counters.global_timestep
        due = 0 if self.stepper.memory.is_rollout else schedule.due(now + waiting) - schedule.due(now)
        return (self.stepper.pending_updates + due) * self._seconds_of_update

    def _learn(self) -> None:
        began = time.perf_counter()
        step = self.stepper.counters.global_step
        try:
            facts = self.stepper.learn()
        except NonFiniteError as error:
            self.failure = f"update {step + 1} failed: {error}"
            return
        self.stepper.pending_updates -= 1
        if not math.isfinite(facts.loss):
            self.failure = f"the loss of update {step + 1} is {facts.loss}"
        self.last_update = {"loss": facts.loss, **facts.metrics}
        self._durations.append(time.perf_counter() - began)
        if len(self._durations) > 1:
            self._seconds_of_update = min(self._durations)

    def _take(self, name: str, step: Mapping[str, Any] | None, now: float) -> None:
        """Take a step or the end of an episode; everything before is applied, which computations here depend on."""
        if step is None:
            if name in self.streams.by_name:
                self._end(self.streams.use(name), now)
            return
        self._steps_pending -= 1
        row = dict(step)
        if any(key not in row for key in self.stepper.behaviour.recorded):
            row |= recorded_anew(self.stepper, row["observation"], row["action"])
        self._step(name, row, now)

    def _step(self, name: str, row: dict[str, Any], now: float) -> None:
        streams = self.streams
        if name not in streams.by_name:
            self._make_room(now)
        stream = streams.use(name)
        streams.count(stream, row["reward"], now)
        if not self.gathers:
            self._rows.append(row)
        else:
            stream.rows.append(row)
            ended = row["terminated"] or row["truncated"]
            if len(streams) == 1 or ended or len(stream.rows) == UNROLL:
                self._flush(stream, ended or len(streams) > 1)
        if row["terminated"] or row["truncated"]:
            streams.finish(stream, now, terminated=row["terminated"])

    def _make_room(self, now: float) -> None:
        """Close the least recently used environment before another one comes."""
        streams = self.streams
        if len(streams) == MOST:
            self._end(next(iter(streams.by_name.values())), now)
            streams.by_name.popitem(last=False)
        if self.gathers and len(streams) == 1:  # its steps were stored as they arrived
            self._rows.append(_CUT)

    def _end(self, stream: Stream, now: float) -> None:
        """End an environment's running episode with its last step, truncated."""
        if stream.rows:
            stream.rows[-1]["truncated"] = True
            self._flush(stream, cut=True)
        elif self.gathers and len(self.streams) == 1:
            self._rows.append(_CUT)
        if stream.running:
            self.streams.finish(stream, now, terminated=False)

    def _flush(self, stream: Stream, cut: bool) -> None:
        self._rows.extend(stream.rows)
        stream.rows = []
        if cut:
            self._rows.append(_CUT)

    def progress(self, accepted: int) -> dict[str, Any]:
        """Counters and mean return for ``info``; ``accepted``: number of accepted steps."""
        return {
            "counters": {
                "global_timestep": accepted,
                "global_step": self.stepper.counters.global_step,
                "global_episode": self.streams.finished,
            },
            "episode_return_mean": self.streams.mean_return(),
        }

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """State of the streams, when nothing is left to do; the stepper has its own state.

        Raises:
            RuntimeError: something is left to do.
        """
        if self.has_work:
            raise RuntimeError("a hosted agent is saved when everything that it accepted has been applied")
        return {"streams": self.streams.state_dict(), "facts": self.last_update}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.streams.load_state_dict(state["streams"])
        self.last_update = state["facts"]
