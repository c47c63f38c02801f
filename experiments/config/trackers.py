"""The section ``tracker`` of an experiment file: servers that show the run while it trains."""

from __future__ import annotations

from typing import Any, Final

from ...core import registry
from ..errors import Findings
from .files import Document
from .sections import Named, Section, as_list, validate

DEFAULT_TRACKER: Final = "polyaxon"
"""The default kind of a tracker. Every run has exactly one tracker of this kind."""


class Tracker(Named):
    """A tracker, such as a server, which shows the run while it trains. Its settings are written beside its kind.

    Tokens belong in environment variables, never in the file.
    """

    kind: str = DEFAULT_TRACKER
    """A name that ``axonrl list`` lists, or ``package.module:name``."""

    @property
    def kwargs(self) -> dict[str, Any]:
        """The settings; null means the default."""
        return {name: value for name, value in super().kwargs.items() if value is not None}


def trackers_of(given: Any, document: Document, findings: Findings) -> list[Tracker]:
    """Read the trackers; the settings of built-in ones are checked."""
    trackers: list[Tracker] = []
    given = as_list(given)
    for index, one in enumerate(given if isinstance(given, list) else ()):
        at = ("tracker", index)
        with findings.collecting():
            tracker = validate(Tracker, one, at, document)
            if tracker.kind == DEFAULT_TRACKER and any(other.kind == DEFAULT_TRACKER for other in trackers):
                raise document.error(at, f"duplicate tracker {tracker.kind!r}: a run has one of this kind")
            if (settings := tracker_settings(tracker.kind)) is not None:
                values = validate(settings, tracker.kwargs, at, document)
                tracker = Tracker(kind=tracker.kind, **values.model_dump(exclude_none=True))
            trackers.append(tracker)
    return trackers


def tracker_settings(kind: str) -> type[Section] | None:
    """The section with a built-in tracker's settings, if its class declares one as ``settings``."""
    if kind not in registry.BUILT_IN["tracker"]:
        return None
    settings: type[Section] | None = getattr(registry.find("tracker", kind), "settings", None)
    return settings
