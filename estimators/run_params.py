"""The params of a run: checked as given, and compared with the recorded ones."""

from __future__ import annotations

import dataclasses
import json
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.checks import plain, same_json, shortened
from ..core.errors import ArgumentError
from ..core.protocols import ModelFn
from ..core.trees import copied
from ..policies.compiled import CompiledProgram
from ..run_dir.record import RunRecord, recordable


def as_mapping(params: Any) -> dict[str, Any] | None:
    """Copy params to a mapping of Python values; for a dataclass such as ``DQNParams``, only non-default ones.

    Raises:
        ArgumentError: ``params`` is neither, or a number exceeds float64.
    """
    if dataclasses.is_dataclass(params) and not isinstance(params, type):
        given = {field.name: (getattr(params, field.name), field.default) for field in dataclasses.fields(params)}
        pairs = {name: (plain(value), plain(default)) for name, (value, default) in given.items()}
        params = {name: value for name, (value, default) in pairs.items() if value != default}
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise ArgumentError(f"params must be a mapping of names to values, got {shortened(params)}", "params", params)
    for key, value in params.items():
        if not isinstance(key, str):
            raise ArgumentError(f"the keys of params must be strings, got {key!r}", "params", key)
        _refuse_beyond_float64(f"params[{key!r}]", value)
    return {name: copied(plain(value)) for name, value in params.items()}


def refuse_other_class(params: Any, model_fn: ModelFn) -> None:
    """Raise ``ArgumentError`` for a dataclass that ``model_fn`` does not declare: its defaults would not count."""
    if not dataclasses.is_dataclass(params):
        return
    if (classes := _declared_by(model_fn)) and not isinstance(params, classes):
        message = f"params must be a mapping or a {classes[0].__name__}, got a {type(params).__name__}"
        raise ArgumentError(message, "params", params)


def _declared_by(model_fn: ModelFn | None) -> tuple[type[Any], ...]:
    """The dataclasses in the annotation of ``params``."""
    try:
        hint = typing.get_type_hints(model_fn).get("params")
    except Exception:  # a user's annotations may hold anything
        return ()
    either = typing.get_args(hint) or (hint,)
    return tuple(one for one in either if isinstance(one, type) and dataclasses.is_dataclass(one))


def recorded_params(record: RunRecord | None, model_dir: Path) -> dict[str, Any] | None:
    """The params of a recorded run, if there are any; ``ArgumentError`` if not all could be recorded."""
    if record is None or (record.params is None and not record.unrecorded):
        return None
    if record.unrecorded:
        names = ", ".join(record.unrecorded)
        message = f"{model_dir} could not record the params {names} as JSON: pass params again"
        raise ArgumentError(message, "params", None)
    return dict(record.params or {})


def refuse_other(
    params: Mapping[str, Any] | None, record: RunRecord, model_dir: Path, model_fn: ModelFn | None
) -> None:
    """Raise ``ArgumentError`` if params differ from those recorded, defaults that ``model_fn`` declares included."""
    given, unrecorded = recordable(params)
    had, has = _through_json(record.params) or {}, _through_json(given) or {}
    names = sorted(name for name in had.keys() | has.keys() if not same_json(had.get(name), has.get(name)))
    changed = [name for name in names if name not in (*unrecorded, *record.unrecorded)]
    if changed and not any(_are_equal(cls, had, has) for cls in _declared_by(model_fn)):
        listed = ", ".join(f"{name} ({had.get(name)!r} -> {has.get(name)!r})" for name in changed)
        message = f"{model_dir} was started with other params: {listed}; choose another model_dir"
        raise ArgumentError(message, "params", params)


def _are_equal(cls: type[Any], had: Mapping[str, Any], has: Mapping[str, Any]) -> bool:
    try:
        return bool(cls(**had) == cls(**has))
    except Exception:  # invalid ones are reported when the model is built
        return False


def compiled_for(
    program: CompiledProgram, params: Mapping[str, Any] | None, record: RunRecord | None
) -> CompiledProgram:
    """The program for the given params, or the recorded ones; ``ValueError`` if it does not support them."""
    if params is None and record is not None:
        params = record.params
    wanted = _through_json(recordable(params)[0])
    return program if wanted is None else program.with_params(wanted)


def _through_json(params: Mapping[str, Any] | None) -> Any:
    """The params as read back from a JSON file."""
    return json.loads(json.dumps(params))


def _refuse_beyond_float64(where: str, value: Any) -> None:
    """Raise for integers that float64, and so programs and records, cannot hold."""
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        message = f"{where} must be a number that float64 holds, up to {sys.float_info.max:.2g}, got {shortened(value)}"
        raise ArgumentError(message, where, value)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for key, item in items:
        _refuse_beyond_float64(f"{where}[{key!r}]", item)
