"""Which executor runs the actor and which the learner: a rule on ops and shapes, said and kept.

What costs little more than its call runs in LiteRT if it converts; what costs its arithmetic, or does not convert, runs
in TensorFlow. Actor and learner are chosen separately.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Final, TypeAlias

import tensorflow as tf

from ..policies.executors import ActorAndLearner, Executor
from .litert.conversion import ConversionError, convert
from .litert.executor import LiteRTExecutor
from .litert.fingerprint import fingerprint
from .tensorflow import TensorFlowExecutor
from .tracing.program import Predict, Program, Train
from .trial import try_out

LITERT: Final = "litert"
TENSORFLOW: Final = "tensorflow"
ACTOR: Final = "actor"
LEARNER: Final = "learner"
_TITLES: Final = {LITERT: "LiteRT", TENSORFLOW: "TensorFlow"}
_FORMAT: Final = "4"
"""Of converted programs: raised when the same functions are to be converted differently."""

_KEEP: Final = 32
_made: dict[str, bytes] = {}
"""By key, what this process converted last: many small runs in one process often have the same model."""

Cache: TypeAlias = "Callable[[str, str, Callable[[], bytes]], bytes]"
"""``cache(name, key, make)`` returns what is kept under this name with this key, else what ``make`` returns."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """The executors of a run. ``runtimes`` and ``why`` have an entry for the actor and one for the learner."""

    runtimes: Mapping[str, str]
    why: Mapping[str, str]

    def __str__(self) -> str:
        if len(self.runtimes) == 2 and len({(self.runtimes[part], self.why[part]) for part in self.runtimes}) == 1:
            return f"actor and learner run in {_TITLES[self.runtimes[ACTOR]]}: {self.why[ACTOR]}"
        return "; ".join(
            f"the {part} runs in {_TITLES[kind]}: {self.why[part]}" for part, kind in self.runtimes.items()
        )


def choose(
    program: Program, train: Train | None, runtime: str, kept: Mapping[str, str] | None, cache: Cache
) -> tuple[Executor, Choice]:
    """The executor for a traced ``model_fn``.

    Args:
        program: what was traced.
        train: its TRAIN, or None to act only.
        runtime: ``"auto"``, or the name of the one that shall run both.
        kept: the executors with which the run was begun; they are used whatever the rule says.
        cache: where converted programs are kept.

    Raises:
        ValueError: what was asked for by name, or was begun with, cannot be had; names the op.
    """
    parts: dict[str, Predict | Train] = {ACTOR: program.predict}
    if train is not None:
        parts[LEARNER] = train
    if kept is not None:
        wanted = {part: kept[part] for part in parts}
        why = dict.fromkeys(parts, "the run was begun so")
    elif runtime == TENSORFLOW:
        wanted, why = dict.fromkeys(parts, TENSORFLOW), dict.fromkeys(parts, "as asked for")
    else:
        obstacles = {part: _obstacle(traced, runtime == LITERT) for part, traced in parts.items()}
        wanted = {part: TENSORFLOW if obstacle else LITERT for part, obstacle in obstacles.items()}
        reason = "as asked for" if runtime == LITERT else "it is small, and converts"
        why = {part: obstacle or reason for part, obstacle in obstacles.items()}
    contents, failed = _converted(program, train, [part for part in parts if wanted[part] == LITERT], cache)
    if failed and kept is not None:
        raise ValueError(
            f"this run of {program.name} was begun with its {_listed(failed)} in LiteRT, which does not take it any"
            f" more ({'; '.join(failed.values())}): go on with the versions that it was begun with"
        )
    why.update(failed)
    choice = Choice({part: TENSORFLOW if part in failed else kind for part, kind in wanted.items()}, why)
    if runtime == LITERT and kept is None and TENSORFLOW in choice.runtimes.values():
        refused = {part: why[part] for part, kind in choice.runtimes.items() if kind == TENSORFLOW}
        raise ValueError(
            f"runtime='litert', but LiteRT cannot run the {_listed(refused)} of {program.name}:"
            f" {'; '.join(dict.fromkeys(refused.values()))}; runtime='auto' would take TensorFlow for that"
        )
    return _executor(program, train, contents), choice


def _obstacle(traced: Predict | Train, by_name: bool) -> str | None:
    """What speaks against LiteRT before any conversion is tried; its size does not if LiteRT was asked for by name."""
    return traced.unfit or (None if by_name else traced.large)


def _converted(
    program: Program, train: Train | None, parts: Sequence[str], cache: Cache
) -> tuple[dict[tuple[str, ...], bytes], dict[str, str]]:
    """One LiteRT program for all these parts, or as many as convert alone; and why the others do not."""
    contents: dict[tuple[str, ...], bytes] = {}
    failed: dict[str, str] = {}
    try:
        if parts:
            contents[tuple(parts)] = _content(program, train, parts, cache)
    except ConversionError as error:
        if len(parts) == 1:
            return {}, {parts[0]: str(error)}
        for part in parts:
            alone, reasons = _converted(program, train, [part], cache)
            contents.update(alone)
            failed.update(reasons)
    return contents, failed


def _content(program: Program, train: Train | None, parts: Sequence[str], cache: Cache) -> bytes:
    functions = {}
    variables = program.store.predict_variables()
    if ACTOR in parts:
        functions["act"] = program.predict.function
    if LEARNER in parts and train is not None:
        functions["train"] = train.function
        variables = program.store.variables()
    listed = list(variables.values())

    key = fingerprint(functions, listed, _FORMAT, tf.__version__, version("ai-edge-litert"))

    def make() -> bytes:
        if key not in _made:
            content = convert(functions, listed)
            try_out(program, train if LEARNER in parts else None, content)
            _made[key] = content
            if len(_made) > _KEEP:
                del _made[next(iter(_made))]
        return _made[key]

    return cache("-and-".join(parts), key, make)


def _executor(program: Program, train: Train | None, contents: Mapping[tuple[str, ...], bytes]) -> Executor:
    if not contents:
        return TensorFlowExecutor(program, train)
    if train is None or (ACTOR, LEARNER) in contents:
        return LiteRTExecutor(program, train, next(iter(contents.values())))
    actor: Executor = TensorFlowExecutor(program, None)
    learner: Executor = TensorFlowExecutor(program, train)
    if (ACTOR,) in contents:
        actor = LiteRTExecutor(program, None, contents[ACTOR,])
    if (LEARNER,) in contents:
        learner = LiteRTExecutor(program, train, contents[LEARNER,])
    return ActorAndLearner(actor, learner)


def _listed(parts: Mapping[str, str]) -> str:
    return " and ".join(parts)
