"""Reasons for the choice of executors: codes for programs, a sentence for people. Loads no TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

LITERT: Final = "litert"
TENSORFLOW: Final = "tensorflow"
ACTOR: Final = "actor"
LEARNER: Final = "learner"

SMALL: Final = "small"
LARGE: Final = "large"
NOT_LISTED: Final = "not_listed"
NOT_CONVERTED: Final = "not_converted"
DIFFERS: Final = "differs"
REQUESTED: Final = "requested"
RECORDED: Final = "recorded"

_SENTENCES: Final = {
    SMALL: "the model is small and converts",
    LARGE: "the model is large ({})",
    NOT_LISTED: "LiteRT is not proven to agree with TensorFlow on {}",
    NOT_CONVERTED: "it does not convert ({})",
    DIFFERS: "the converted program differs from TensorFlow ({})",
    REQUESTED: "as requested",
    RECORDED: "as recorded when this run started",
}
_TITLES: Final = {LITERT: "LiteRT", TENSORFLOW: "TensorFlow"}


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why an executor was chosen.

    Args:
        code: one of this module's constants; for programs.
        detail: the op, or other details for people; not for comparison.
    """

    code: str
    detail: str = ""

    def __str__(self) -> str:
        return _SENTENCES.get(self.code, self.code).format(self.detail)


@dataclasses.dataclass(frozen=True)
class Choice:
    """The executors of a run. ``runtimes`` and ``why`` have an entry for the actor and one for the learner."""

    runtimes: Mapping[str, str]
    why: Mapping[str, Reason]

    def __str__(self) -> str:
        return sentence(self.runtimes, self.why)


def from_record(value: Mapping[str, Any]) -> Reason:
    """Parse a reason of ``run.json``."""
    return Reason(str(value["code"]), str(value["detail"]))


def sentence(runtimes: Mapping[str, str], why: Mapping[str, Reason]) -> str:
    """Say in one sentence which executor runs what, and why.

    Args:
        runtimes: ``"litert"`` or ``"tensorflow"`` for ``"actor"``, ``"learner"`` or both.
        why: a reason for each of them.
    """
    if len(runtimes) > 1 and len({(runtimes[part], why[part]) for part in runtimes}) == 1:
        runtime, reason = next(iter(runtimes.values())), next(iter(why.values()))
        return f"Using {_phrase(runtime, 'actor and learner', reason)}."
    phrases = [_phrase(runtime, f"the {part}", why[part]) for part, runtime in runtimes.items()]
    return f"Using {'; '.join(phrases)}."


def _phrase(runtime: str, parts: str, reason: Reason) -> str:
    separator = ", " if reason.code in (REQUESTED, RECORDED) else ": "
    return f"{_TITLES[runtime]} for {parts}{separator}{reason}"
