"""Weights on their way from the learner to a store that actors ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..core.protocols import Array, State

PUBLISH_S: Final = 0.02
"""Weights are not published more often."""
_ANSWER_S: Final = 60.0
"""A store that answers so late has ended."""


class RayWeights:
    """The newest weights on their way to a store.

    Args:
        launch: makes a store.
        every_s: weights are not handed over more often.
    """

    def __init__(self, launch: Callable[[], Any], every_s: float) -> None:
        self._launch, self._every = launch, every_s
        self.store = launch()
        self.pending: tuple[int, Mapping[str, Array], State | None] | None = None
        """What was not handed over yet."""
        self._at = 0.0
        self._answer: Any = None

    def flush(self) -> Any:
        """Hand over what is pending, if it is time; returns a new store if the old one has ended."""
        import ray

        now = time.monotonic()
        if self.pending is None or now - self._at < self._every:
            return None
        following = None
        if self._answer is not None:
            if not ray.wait([self._answer], timeout=0)[0]:
                return None
            try:
                ray.get(self._answer, timeout=_ANSWER_S)
            except ray.exceptions.RayError:
                following = self.store = self._launch()
        version, *content = self.pending
        self._answer = self.store.publish.remote(version, [ray.put(content)])
        self.pending, self._at = None, now
        return following

    def arrive(self) -> None:
        """Wait until the store has what was handed over: whoever asks then gets no other."""
        import ray

        ray.wait([self._answer], timeout=_ANSWER_S)
