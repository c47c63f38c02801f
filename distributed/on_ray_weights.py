"""Transfer of weights from the learner to the store that actors read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..core.protocols import Array, State
from .ray_connection import refusing_full_disk

PUBLISH_S: Final = 0.02
"""Minimum seconds between two publications."""
_ANSWER_S: Final = 60.0
"""Seconds after which a store that does not answer counts as ended."""


class RayWeights:
    """Sends the newest weights to a store.

    Args:
        launch: starts a store.
        every_s: minimum seconds between two transfers.
    """

    def __init__(self, launch: Callable[[], Any], every_s: float) -> None:
        self._launch, self._every = launch, every_s
        self.store = launch()
        self.pending: tuple[int, Mapping[str, Array], State | None] | None = None
        """Weights not sent yet."""
        self._at = 0.0
        self._answer: Any = None

    @refusing_full_disk()
    def flush(self) -> Any:
        """Send pending weights if due; returns a new store if the old one has ended."""
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
        """Wait until the store has the weights sent last, so that no reader gets older ones."""
        import ray

        ray.wait([self._answer], timeout=_ANSWER_S)
