"""Warm start: initial weights of a new run, taken from another one."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..core.errors import ArgumentError
from ..core.protocols import Array, State
from ..environments.batched import BatchedEnvironment
from ..environments.statistics import names_of, statistics_of, taken_over
from ..run_dir import record
from ..run_dir.checkpoints import CheckpointStore
from ..run_dir.snapshot import Counters as Progress
from ..run_dir.snapshot import PolicySnapshot, load_snapshot, policies_in, snapshot_of
from ..run_dir.starts import began_in
from . import keras_files

_NUMBER = re.compile(r"^[0-9]{4,}\.")
"""Prefix of a variable's name: its index among all variables."""
logger = logging.getLogger("axonrl")


@dataclasses.dataclass(frozen=True)
class WarmStart:
    """Source of a new run's initial weights, as in TensorFlow's Estimators.

    Variables are matched by name, without the leading number: ``0003.online/mlp/dense1/kernel`` is
    ``online/mlp/dense1/kernel``. Variables missing in the source keep their initial values. The optimizer's state and
    the counters start over; a target network becomes a copy of its online network at the first update. Statistics of
    normalising wrappers are taken if the new environment has the same wrappers.

    Args:
        from_: a run folder; a policy file (``best.safetensors``, the ``weights.safetensors`` of an export); a model or
            weights saved by Keras (``model.keras``, ``model.weights.h5``, ``weights.h5``), whose layers are matched by
            name, and by order among equal names; or a mapping of names to weights, as ``Agent.get_weights`` returns.
        variables: a regular expression for whole names of variables: ``"online/.*"``. A Keras file must contain all
            selected variables.
        policy: for a run folder: ``"last"`` for its newest checkpoint, or the name of a kept policy (``"best"``), which
            has only the variables used to act.

    Raises:
        ArgumentError: an argument has another type, or ``variables`` is not a regular expression.
    """

    from_: str | Path | Mapping[str, Array]
    variables: str = ".*"
    policy: str = "last"

    def __post_init__(self) -> None:
        if not isinstance(self.from_, str | Path | Mapping) or not self.from_:
            what = "a run folder, a policy or Keras file, or weights by name"
            message = f"warm_start must be {what}, got {self.from_!r}"
            raise ArgumentError(message, "warm_start", self.from_)
        try:
            re.compile(self.variables)
        except (re.error, TypeError) as error:
            message = f"WarmStart.variables must be a regular expression, got {self.variables!r}: {error}"
            raise ArgumentError(message, "WarmStart.variables", self.variables) from None
        if not isinstance(self.policy, str) or not self.policy:
            message = f"WarmStart.policy must be the name of a policy, got {self.policy!r}"
            raise ArgumentError(message, "WarmStart.policy", self.policy)

    def as_record(self, folder: Path | None = None) -> dict[str, Any]:
        """Entry of ``run.json``; a relative path is resolved against ``folder``, or the current folder if None."""
        source = "weights" if isinstance(self.from_, Mapping) else str(((folder or Path()) / self.from_).absolute())
        return {"from": source, "variables": self.variables, "policy": self.policy}


WarmStartLike: TypeAlias = "WarmStart | str | Path | Mapping[str, Array]"
"""Values for ``Agent(warm_start=...)``."""


@dataclasses.dataclass(frozen=True)
class Taken:
    """Result of a warm start: weights by the new run's names; unmatched names (without numbers); statistics."""

    weights: Mapping[str, Array]
    new: tuple[str, ...]
    statistics: State | None


def as_warm_start(value: Any) -> WarmStart | None:
    """Convert a user's ``warm_start``; ``ArgumentError`` for an unsuitable value."""
    return value if value is None or isinstance(value, WarmStart) else WarmStart(value)


def first_statistics(env: BatchedEnvironment | None, taken: Taken | None) -> State:
    """Initial statistics of a new run's wrappers: those of its warm start, if there are any.

    Args:
        env: the environments, or similar ones; None if a caller owns the loop.
        taken: result of the warm start; None without one.
    """
    if env is None:
        return {}
    own = statistics_of(env.env)
    if taken is not None and taken.statistics is not None:
        if (found := taken_over(env.env, taken.statistics)) is not None:
            return found
        logger.warning(
            "warm start: statistics of normalising wrappers are not taken: this environment has other wrappers"
        )
    elif taken is not None and own:
        logger.warning("warm start: the source has no statistics; those of %s start over", " and ".join(names_of(own)))
    return own


def source_of(start: WarmStart) -> PolicySnapshot:
    """Read the source of a warm start.

    Raises:
        ArgumentError: there is no such run, file or policy.
        CheckpointError: it cannot be read.
    """
    if isinstance(start.from_, Mapping):
        weights = {name: np.asarray(value) for name, value in start.from_.items()}
        return PolicySnapshot("given", weights, None, Progress())
    path = Path(start.from_)
    if path.is_file():
        return load_snapshot(path.stem, path)
    if record.read(path) is None:
        what = "holds no run" if path.is_dir() else "does not exist"
        raise _no_source(start, f"{path} {what}")
    if start.policy != "last":
        kept = path / f"{start.policy}.safetensors"
        if not kept.is_file():
            raise _no_source(start, f"{path} holds no policy {start.policy!r}, only {policies_in(path)}")
        return load_snapshot(start.policy, kept)
    loaded = CheckpointStore(path).open()
    if loaded is None:
        raise _no_source(start, f"{path} has no checkpoint")
    return snapshot_of("last", loaded[1])


def take(start: WarmStart, variables: Mapping[str, Any], acting: Mapping[str, Any]) -> Taken:
    """Match the weights of the source with a new run's.

    Args:
        start: the source and the selection.
        variables: all variables of the new run by name; each has ``shape``, ``dtype`` and ``trainable``.
        acting: the variables of PREDICT.

    Raises:
        ArgumentError: the source is missing, a variable does not fit, or nothing is taken.
        CheckpointError: the source cannot be read.
    """
    if start.policy != "last" and (isinstance(start.from_, Mapping) or Path(start.from_).is_file()):
        given = "weights by name" if isinstance(start.from_, Mapping) else start.from_
        message = f"WarmStart.policy applies only to a run folder; leave it out for {given}, got {start.policy!r}"
        raise ArgumentError(message, "WarmStart.policy", start.policy)
    if _is_of_keras(start):
        return _taken_from_keras(start, variables, acting)
    source = source_of(start)
    theirs = _by_plain_name(source.weights)
    names = {key: name for name, key in zip(variables, _keys(variables), strict=True)}
    able = _able_to_take(variables, acting)
    wanted = [key for key in names if re.fullmatch(start.variables, key[0]) and names[key] in able]
    taken: dict[str, Array] = {}
    new: list[str] = []
    unfit: dict[str, str] = {}
    for key in wanted:
        name = names[key]
        if key not in theirs:
            new.append(key[0])
            continue
        array, variable = theirs[key], variables[name]
        shape = tuple(variable.shape)
        if array.shape != shape or array.dtype != variable.dtype:
            here = f"{variable.dtype.name}{list(shape)}"
            unfit[key[0]] = f"{key[0]} is {array.dtype}{list(array.shape)} in the source, {here} in the run"
        else:
            taken[name] = array
    where = "the given weights" if isinstance(start.from_, Mapping) else f"{start.from_} ({source.name} policy)"
    if unfit:
        raise _unfit(start, f"variables of {where} do not fit: {'; '.join(unfit.values())}", unfit, taken)
    _check_taken(start, taken, where, (name for name, _ in theirs), (name for name, _ in names))
    logger.info(
        "Warm start from %s: took %d variables (%s); new: %s", where, len(taken), _plain(taken), ", ".join(new) or "-"
    )
    return Taken(taken, tuple(new), source.statistics or None)


def _is_of_keras(start: WarmStart) -> bool:
    if isinstance(start.from_, Mapping):
        return False
    path = Path(start.from_)
    return path.suffix in keras_files.SUFFIXES and not path.is_dir()


def _taken_from_keras(start: WarmStart, variables: Mapping[str, Any], acting: Mapping[str, Any]) -> Taken:
    """Take weights from a Keras file, which must have all selected variables, and no others if all are selected."""
    path = Path(str(start.from_))
    if not path.is_file():
        raise _no_source(start, f"{path} does not exist")
    able = _able_to_take(variables, acting)
    layers = keras_files.read_layers(path)
    found = keras_files.fit(layers, variables, able, start.variables)
    if found.unfit:
        whys = dict.fromkeys(found.unfit.values())
        listed = [f"{', '.join(name for name, one in found.unfit.items() if one == why)}: {why}" for why in whys]
        there = ", ".join(layer.path for layer in layers) or "none"
        problem = f"{path} does not fit: {'; '.join(listed)}. The layers of the file are {there}"
        raise _unfit(start, problem, found.unfit, found.taken)
    _check_taken(start, found.taken, path, (layer.path for layer in layers), able)
    if found.unused and start.variables == WarmStart.variables:
        unused, here = ", ".join(found.unused), _plain(able)
        raise _no_source(
            start,
            f"{path} has layers that the new run lacks: {unused}; the new run has {here}. Select variables:"
            " WarmStart(..., variables='...')",
        )
    taken = {name: found.taken[name] for name in variables if name in found.taken}
    logger.info("Warm start from %s: took %d variables (%s)", path, len(taken), _plain(taken))
    return Taken(taken, (), None)


def _able_to_take(variables: Mapping[str, Any], acting: Mapping[str, Any]) -> dict[str, Any]:
    """Variables that may be taken; an optimizer's are excluded."""
    return {name: variable for name, variable in variables.items() if name in acting or variable.trainable}


def _unfit(start: WarmStart, problem: str, names: Iterable[str], others: Iterable[str]) -> ArgumentError:
    """The error about variables that do not fit; ``others`` are those that do."""
    selection = _without(start.variables, names)
    if any(re.fullmatch(selection, _NUMBER.sub("", name)) for name in others):
        return _no_source(start, f"{problem}. Leave them out: WarmStart(..., variables='{selection}')")
    return _no_source(start, f"{problem}. No layer fits: do both runs have the same spaces, and params of networks?")


def _check_taken(start: WarmStart, taken: Sized, where: object, theirs: Iterable[str], ours: Iterable[str]) -> None:
    if not taken:
        has = f"it has {_plain(theirs) or 'none'}; the new run has {_plain(ours) or 'none'}"
        raise _no_source(start, f"{start.variables!r} takes nothing from {where}; {has}")


def _plain(names: Iterable[str]) -> str:
    """List names without numbers, each once."""
    return ", ".join(dict.fromkeys(_NUMBER.sub("", name) for name in names))


def refuse_other(
    found: Mapping[str, Any] | None, start: WarmStart | None, where: Path, *, is_new: bool = False
) -> None:
    """Raise ``ArgumentError`` if an existing run was started from another source; repeating its source is allowed.

    A run that is new, as it was killed before its first checkpoint, needs its source again.
    """
    if start is None:
        if is_new and found is not None:
            source = f"warm_start={found.get('from')!r}"
            message = f"{where} has no checkpoint yet, and was started with {source}: give it to the Agent again"
            raise ArgumentError(message, "warm_start", start)
        return
    if found is None:
        message = f"{where} holds a run that was started without warm_start; choose another model_dir"
        raise ArgumentError(message, "warm_start", start)
    given = start.as_record()
    if found.get("from") != given["from"]:  # relative to the current folder
        given = start.as_record(began_in(where))
    changed = [f"{key} ({found.get(key)!r} -> {value!r})" for key, value in given.items() if found.get(key) != value]
    if changed:
        message = f"{where} was started with another warm_start: {', '.join(changed)}; choose another model_dir"
        raise ArgumentError(message, "warm_start", start)


def _by_plain_name(weights: Mapping[str, Array]) -> dict[tuple[str, int], Array]:
    return dict(zip(_keys(weights), weights.values(), strict=True))


def _keys(names: Any) -> list[tuple[str, int]]:
    """Names without numbers, and the occurrence among equal ones."""
    seen: Counter[str] = Counter()
    keys = []
    for name in names:
        plain = _NUMBER.sub("", name)
        keys.append((plain, seen[plain]))
        seen[plain] += 1
    return keys


def _without(variables: str, unfit: Iterable[str]) -> str:
    """Extend the regular expression to exclude the layers of these variables."""
    layers = dict.fromkeys(
        f"{layer}/" if layer else f"{name}$" for name in unfit for layer in [name.rpartition("/")[0]]
    )
    return f"(?!{'|'.join(layers)})" + (variables if variables == ".*" else f"(?:{variables})")


def _no_source(start: WarmStart, problem: str) -> ArgumentError:
    return ArgumentError(f"warm start: {problem}", "warm_start", start)
