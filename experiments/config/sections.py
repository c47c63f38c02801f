"""The base of all sections of an experiment file: strict, with errors that name the line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from ...core.yaml_text import Keys, show
from ..errors import MAX_SHOWN, ExperimentError, Findings
from .files import Document

_WORDS = {"string": "text", "integer": "an integer", "boolean": "true or false", "list": "a list", "number": "a number"}


def integer_if_whole(value: Any) -> Any:
    """A float without a fraction as an integer: ``1e4``. Anything else is returned as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def number_of(value: Any) -> Any:
    """A number, like :func:`integer_if_whole`, also from text, as ``"${thousands}e3"`` becomes."""
    is_text = isinstance(value, str) and _THOUSANDS.fullmatch(value)
    return integer_if_whole(float(value) if is_text else value)


_THOUSANDS: Final = re.compile(r"[0-9]{1,15}e[0-9]{1,2}")
Count = Annotated[int, Field(ge=1), BeforeValidator(number_of)]
"""An integer of at least 1; also ``1e4``, and text, which results if a param is part of it."""


class Section(BaseModel):
    """A mapping of the file: no unknown keys, no conversion of types, immutable."""

    # Docstrings of fields are shown as descriptions by editors: see json_schema.py.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class Short(Section):
    """A section with a short form: text, which is the value of its first key."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        return {next(iter(cls.model_fields)): value} if isinstance(value, str) else value


class Named(Short):
    """Something found by name: its kind, and its keyword arguments beside it."""

    model_config = ConfigDict(extra="allow")

    kind: str
    """A name that ``axonrl list`` lists, or ``package.module:name``."""

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return dict(self.model_extra or {})


def as_list(value: Any) -> Any:
    """A list; a single section is put into one."""
    return [value] if isinstance(value, dict | str) else value


_Model = TypeVar("_Model", bound=BaseModel)


def validate(model: type[_Model], raw: Any, at: Keys, document: Document) -> _Model:
    """Make a section from these values.

    Args:
        model: the section's class.
        raw: the values, with params replaced.
        at: their keys in the document.
        document: for the lines of errors.

    Raises:
        ExperimentError: values are invalid; all errors at once.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        # Errors about missing keys come last: the key may be misspelt.
        details = sorted(error.errors(include_url=False), key=lambda one: one["type"] == "missing")[:MAX_SHOWN]
    findings, misspelt = Findings(), set()
    for one in details:
        *section, key = one["loc"] or ("",)
        found = _error(one, model, at, document)
        if found.nearest:
            misspelt.add((*section, found.nearest))
        if one["type"] != "missing" or (*section, key) not in misspelt:
            findings.add(found)
    findings.raise_all()
    raise AssertionError("an invalid section without an error")


def _error(details: ErrorDetails, model: type[BaseModel], at: Keys, document: Document) -> ExperimentError:
    kind, loc, value = details["type"], details["loc"], details["input"]
    path = (*at, *loc)
    if kind == "extra_forbidden":
        return document.error(path, "unknown key", name=str(loc[-1]), choices=_fields(model, loc[:-1]))
    if kind == "value_error":  # from one of axonrl's validators, with a complete message
        return document.error(path, details["msg"].removeprefix("Value error, "))
    if kind == "missing":
        return document.error(path, "this key is required")
    choices = re.findall(r"'(\w+)'", details["msg"]) if kind == "literal_error" else []
    return document.error(path, f"must {_requirement(details)}, got {show(value)}", name=str(value), choices=choices)


def _requirement(details: ErrorDetails) -> str:
    kind = details["type"]
    if kind in ("model_type", "dict_type", "dataclass_type", "dataclass_exact_type"):
        return "be a mapping"
    if kind == "string_pattern_mismatch":
        return "be letters, digits, '.', '_' and '-'"
    expected = re.sub(r"^\w+ should ", "", details["msg"])  # "Input should be", "String should have"
    expected = expected.replace("greater than or equal to", "at least")
    for pydantic, ours in _WORDS.items():
        expected = expected.replace(f"a valid {pydantic}", ours)
    return expected


def keys_of(model: type[BaseModel]) -> Iterator[str]:
    """The keys of a section and of the sections in it, dotted, for ``--set``. Items of lists are left out."""
    for name, field in model.model_fields.items():
        if dataclasses.is_dataclass(field.default):
            yield from (f"{name}.{one.name}" for one in dataclasses.fields(field.default))
            continue
        inner = next(_sections_in(field.annotation), None)
        if inner is None or get_origin(field.annotation) in (list, dict):
            yield name
        else:
            yield from (f"{name}.{key}" for key in keys_of(inner))


def _fields(model: Any, loc: Sequence[str | int]) -> list[str]:
    """The keys of the section at an error's location."""
    for part in loc:
        if isinstance(part, str):
            field = model.model_fields.get(part)
            model = next(_sections_in(field and field.annotation), Section)
    return list(model.model_fields)


def _sections_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _sections_in(part)
