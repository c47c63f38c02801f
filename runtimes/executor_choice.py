"""Choice of executors for actor and learner: a rule on ops and shapes, logged and recorded.

LiteRT runs small programs whose ops are in ``litert/op_allowlist.py``, if they convert and a trial agrees with
TensorFlow. TensorFlow runs everything else. Actor and learner are chosen separately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Final, TypeAlias

import tensorflow as tf

from ..core.tensorflow_import import announce
from ..policies import reasons
from ..policies.executors import ActorAndLearner, Executor
from ..policies.reasons import ACTOR, LEARNER, LITERT, TENSORFLOW, Choice, Reason
from .litert import op_allowlist
from .litert.conversion import ConversionError, convert
from .litert.executor import lite_executor
from .litert.fingerprint import fingerprint
from .tensorflow import TensorFlowExecutor
from .tracing.program import Predict, Program, Train
from .trial import Trial

_FORMAT: Final = "6"
"""Version of the conversion. Increase it when the same functions convert to other programs."""

Cache: TypeAlias = "Callable[[str, str, Callable[[], bytes]], bytes]"
"""``cache(name, key, make)`` returns cached content for this name and key, or calls ``make``."""
Contents: TypeAlias = "dict[tuple[str, ...], bytes]"
"""LiteRT programs by the parts that they run: one for actor and learner together, or one for each."""


def choose(
    program: Program, train: Train | None, runtime: str, kept: Mapping[str, str] | None, cache: Cache
) -> tuple[Executor, Choice]:
    """Choose and make the executor of a traced ``model_fn``.

    Args:
        program: the traced program.
        train: its TRAIN, or None to act only.
        runtime: ``"auto"``, or the name of the executor for both.
        kept: the executors recorded at the run's start, which override the rule.
        cache: for converted programs.

    Raises:
        ValueError: LiteRT was requested, or is recorded, and it cannot run the program; names the op.
    """
    contents, choice = choose_and_convert(program, train, runtime, kept, cache)
    return _executor(program, train, contents), choice


def choose_and_convert(
    program: Program, train: Train | None, runtime: str, kept: Mapping[str, str] | None, cache: Cache
) -> tuple[Contents, Choice]:
    """Choose as :func:`choose`, and return the LiteRT programs that the executor runs."""
    parts: dict[str, Predict | Train] = {ACTOR: program.predict}
    if train is not None:
        parts[LEARNER] = train
    if kept is not None:
        wanted = {part: kept[part] for part in parts}
        why = dict.fromkeys(parts, Reason(reasons.RECORDED))
    elif runtime == TENSORFLOW:
        wanted, why = dict.fromkeys(parts, TENSORFLOW), dict.fromkeys(parts, Reason(reasons.REQUESTED))
    else:
        obstacles = {part: _obstacle(traced, runtime == LITERT) for part, traced in parts.items()}
        wanted = {part: TENSORFLOW if obstacle else LITERT for part, obstacle in obstacles.items()}
        reason = Reason(reasons.REQUESTED if runtime == LITERT else reasons.SMALL)
        why = {part: obstacle or reason for part, obstacle in obstacles.items()}
    contents, failed = _convert_parts(program, train, [part for part in parts if wanted[part] == LITERT], cache)
    if failed and kept is not None:
        raise ValueError(
            f"This run of {program.name} started with its {' and '.join(failed)} in LiteRT, which can no longer run it:"
            f" {_join_reasons(failed)}. Resume it with its original versions."
        )
    why.update(failed)
    choice = Choice({part: TENSORFLOW if part in failed else kind for part, kind in wanted.items()}, why)
    if runtime == LITERT and kept is None and TENSORFLOW in choice.runtimes.values():
        refused = {part: why[part] for part, kind in choice.runtimes.items() if kind == TENSORFLOW}
        raise ValueError(
            f"runtime='litert', but LiteRT cannot run the {' and '.join(refused)} of {program.name}:"
            f" {_join_reasons(refused)}. With runtime='auto', TensorFlow runs it."
        )
    return contents, choice


def convert_actor(program: Program, cache: Cache) -> bytes:
    """Convert PREDICT to a LiteRT program, whatever runs it in training; ``ValueError`` if that is impossible."""
    obstacle = _obstacle(program.predict, by_name=True)
    contents, failed = ({}, {ACTOR: obstacle}) if obstacle else _convert_parts(program, None, [ACTOR], cache)
    if failed:
        raise ValueError(f"LiteRT cannot run the {ACTOR} of {program.name}: {failed[ACTOR]}")
    return contents[ACTOR,]


def _obstacle(traced: Predict | Train, by_name: bool) -> Reason | None:
    """Reason against LiteRT that is known before a conversion; size does not count if LiteRT was requested."""
    if traced.large is not None and not by_name:
        return Reason(reasons.LARGE, traced.large)
    unproven = op_allowlist.find_unproven(traced.function.graph)
    return None if unproven is None else Reason(reasons.NOT_LISTED, unproven)


def _convert_parts(
    program: Program, train: Train | None, parts: Sequence[str], cache: Cache
) -> tuple[Contents, dict[str, Reason]]:
    """Convert all parts to one LiteRT program, else each that converts alone; also returns reasons for the others."""
    contents: Contents = {}
    failed: dict[str, Reason] = {}
    try:
        if parts:
            contents[tuple(parts)] = _content(program, train, parts, cache)
    except ConversionError as error:
        if len(parts) == 1:
            return {}, {parts[0]: Reason(error.code, str(error))}
        for part in parts:
            alone, refused = _convert_parts(program, train, [part], cache)
            contents.update(alone)
            failed.update(refused)
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
        announce(f"Converting {program.name} to LiteRT ...")
        trial = Trial(program, train if LEARNER in parts else None, ACTOR in parts)
        with ThreadPoolExecutor(1) as thread:  # in parallel to the converter, which uses one processor
            expected = thread.submit(trial.expected)
            content = convert(functions, listed)
            trial.compare(content, expected.result())
        return content

    return cache("-and-".join(parts), key, make)


def _executor(program: Program, train: Train | None, contents: Contents) -> Executor:
    if not contents:
        return TensorFlowExecutor(program, train)
    if train is None or (ACTOR, LEARNER) in contents:
        return lite_executor(program, train, next(iter(contents.values())))
    actor: Executor = TensorFlowExecutor(program, None)
    learner: Executor = TensorFlowExecutor(program, train)
    if (ACTOR,) in contents:
        actor = lite_executor(program, None, contents[ACTOR,])
    if (LEARNER,) in contents:
        learner = lite_executor(program, train, contents[LEARNER,])
    return ActorAndLearner(actor, learner)


def _join_reasons(why: Mapping[str, Reason]) -> str:
    return "; ".join(dict.fromkeys(map(str, why.values())))
