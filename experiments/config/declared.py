"""The section ``params``: typed names, set by ``-P`` and used as ``${name}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from ...core.yaml_text import Place, scalar, show
from ..errors import ExperimentError, Findings
from .files import Document
from .sections import Section, integer_if_whole, validate

TYPES: Final[Mapping[str, type]] = {"int": int, "float": float, "bool": bool, "str": str}
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Valid names of params."""


class Param(Section):
    """A declared param: its type and its value. ``${name}`` stands for the value."""

    type: Literal["int", "float", "bool", "str"]
    """The type of the value; an integer is accepted for a float."""
    default: Any
    """The value without ``-P name=value``."""


def declared_params(document: Document, given: Mapping[str, str], findings: Findings) -> dict[str, Param]:
    """The section ``params``, with the values of ``-P`` in place of defaults.

    Args:
        document: the file.
        given: ``-P``: names to values, as text.
        findings: collects what is wrong.

    Returns:
        The valid ones.
    """
    section = document.values.get("params", {})
    if not isinstance(section, dict):
        findings.add(document.error(("params",), f"must be a mapping, got {show(section)}"))
        return {}
    params: dict[str, Param] = {}
    for name, value in section.items():
        with findings.collecting():
            params[name] = _param(name, value, document)
    for name, text in given.items():
        if name in params or name not in section:
            with findings.collecting():
                params[name] = _param_from_option(name, text, params)
    return params


def _param_from_option(name: str, text: str, params: Mapping[str, Param]) -> Param:
    """Make a param with the value of ``-P``."""
    source, param = f"-P {name}={text}", params.get(name)
    if param is None:
        there = ", ".join(f"{one} ({known.type}, {show(known.default)})" for one, known in params.items())
        message = f"the file declares no param of this name; it declares {there}"
        if not params:
            message = "the file declares no params; --set PATH=VALUE replaces any value"
        raise Document(source, {}, {(): Place(source)}).error(("params", name), message, name=name, choices=params)
    try:
        return Param(type=param.type, default=convert(text if param.type == "str" else scalar(text), param.type))
    except ValueError as error:
        raise ExperimentError(source, str(error), key=name) from None


def _param(name: str, value: Any, document: Document) -> Param:
    at = ("params", name)
    if not NAME.fullmatch(name):
        raise document.error(at, "a param's name must consist of letters, digits and _, and not begin with a digit")
    if not isinstance(value, dict):  # the short form: name: default
        kind = next((kind for kind, python in TYPES.items() if type(value) is python), None)
        if kind is None:
            raise document.error(at, f"must be a number, true, false, text, or a type and a default; got {show(value)}")
        value = {"type": kind, "default": value}
    param = validate(Param, value, at, document)
    try:
        return Param(type=param.type, default=convert(param.default, param.type))
    except ValueError as error:
        raise document.error((*at, "default"), str(error)) from None


def convert(value: Any, kind: str) -> Any:
    """Convert to the declared type: an integer to a float, ``1e4`` to an integer; ``ValueError`` otherwise."""
    if kind == "float" and type(value) is int:
        return float(value)
    if kind == "int":
        value = integer_if_whole(value)
    if type(value) is not TYPES[kind]:
        raise ValueError(f"must be of type {kind}, got {show(value)}")
    if isinstance(value, str) and "${" in value:  # it would be replaced when the resolved file is read
        raise ValueError(f"must not contain '${{', got {show(value)}")
    return value
