"""The JSON schema of experiment files, with which editors complete and validate them.

It is generated from the classes in schema.py, with their docstrings as descriptions. It adds what a file may contain
beyond a resolved experiment: short forms, ``${name}`` for any value, and ``include``; and the known names.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable
from typing import Any, Final

from ...core import registry
from ...core.protocols import CACHES, RUNTIMES, RunConfig
from ...distributed.settings import ACTOR_RUNTIMES, BACKENDS, PLACEMENTS, Settings
from ...estimators.limits import Plan
from . import secrets
from .declared import NAME
from .schema import CLUSTER_FIELDS, CONFIG_FIELDS, PLAN_FIELDS, ExperimentFile
from .sections import Section
from .trackers import DEFAULT_TRACKER, tracker_settings

_REFERENCE: Final = {"$ref": "#/$defs/Reference"}
_ELSEWHERE: Final = {"type": "string", "pattern": ":"}
"""A ``package.module:name``."""
_ABOUT: Final = ("title", "description", "default")
_CHOICES: Final = {
    "runtime": RUNTIMES,
    "cache": CACHES,
    "backend": BACKENDS,
    "placement": PLACEMENTS,
    "actor_runtime": ACTOR_RUNTIMES,
}
"""Fields that take one of a few words."""
_TYPES: Final = {
    "Sequence[float]": "array",
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "str": "string",
    "None": "null",
}


def experiment_schema() -> dict[str, Any]:
    """The schema (JSON Schema, draft 2020-12), as plain data."""
    made = ExperimentFile.model_json_schema() | {"description": "What axonrl run trains, and how."}
    definitions = made.pop("$defs")
    param = definitions.pop("Param")
    del definitions["Plan"]
    del param["title"]
    made = _with_references(made)
    definitions = {name: _with_references(one) for name, one in definitions.items() if name != "Named"}
    _name_things(made["properties"], definitions)
    made["properties"]["params"] |= {
        "propertyNames": {"pattern": f"^{NAME.pattern}$"},
        "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Param"}, {"type": ["string", "number", "boolean"]}]},
    }
    made["properties"]["config"] = {**made["properties"]["config"], **_arguments(RunConfig, CONFIG_FIELDS)}
    cluster = made["properties"]["distributed"]
    section = {"type": ["object", "null"], **_arguments(Settings, CLUSTER_FIELDS)}
    made["properties"]["distributed"] = {"description": cluster["description"], **section}
    plan = {"type": ["object", "null"], **_arguments(Plan, PLAN_FIELDS, minimum=1)}
    made["properties"]["train"] = {"description": made["properties"]["train"]["description"], **plan}
    names = {"type": "string", "minLength": 1}
    made["properties"]["include"] = {
        "description": "Default values: files, by paths relative to this one, or shipped experiments, by their names.",
        "anyOf": [names, {"type": "array", "items": names, "uniqueItems": True}],
    }
    made["required"] = ["environment", "agent"]  # without a name, the file's name is used
    definitions["Param"] = param
    definitions["Reference"] = {
        "description": "The value of a param that the file declares under 'params'.",
        "type": "string",
        "pattern": r"\$\{[^}]*\}",  # also within a text: ${thousands}e3 is a number
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An experiment of axonrl",
        **_required_without_include(made, definitions),
        "$defs": dict(sorted(definitions.items())),
    }


def _name_things(properties: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Add the known names, alone or with arguments."""
    from ...environments.wrapping import NAMES

    agent, environment, tracker = (definitions[name] for name in ("AgentSection", "Environment", "Tracker"))
    agent["properties"]["model_fn"] |= _one_of(registry.names("model_fn"), _ELSEWHERE)
    del agent["properties"]["model_fn"]["type"]
    definitions["Memory"] = _kinds(registry.names("memory"), _ELSEWHERE, "A memory, by name alone or with arguments.")
    definitions["Hook"] = _kinds(registry.names("hook"), _ELSEWHERE, "A hook, by name alone or with arguments.")
    definitions["Wrapper"] = _kinds(NAMES, _ELSEWHERE, "A wrapper, by name alone or with arguments.")
    agent["properties"]["warm_start"]["anyOf"].insert(0, {"type": "string"})
    agent["properties"]["memory"]["anyOf"] = [{"$ref": "#/$defs/Memory"}, {"type": "null"}]
    environment["properties"]["wrappers"]["items"] = {"$ref": "#/$defs/Wrapper"}
    about = "In place of the id: PettingZoo's, or a function that makes a world of agents, package.module:function."
    environment["properties"]["pettingzoo"] = {"description": about, "type": "string"}
    properties["hooks"]["items"] = {"$ref": "#/$defs/Hook"}

    kinds = _one_of(registry.names("tracker"), _ELSEWHERE)
    del tracker["properties"]["kind"]["type"]
    tracker["properties"]["kind"] |= kinds
    secret = re.sub("[a-z]", lambda letter: f"[{letter[0].upper()}{letter[0]}]", secrets.KEY.pattern)
    tracker["propertyNames"] = {"not": {"pattern": secret}}
    sections = {kind: tracker_settings(kind) for kind in registry.BUILT_IN["tracker"]}
    tracker["allOf"] = [_settings(kind, section) for kind, section in sections.items() if section is not None]
    one = {"anyOf": [kinds, {"$ref": "#/$defs/Tracker"}]}
    properties["tracker"] = {
        "description": properties["tracker"]["description"],
        "anyOf": [*one["anyOf"], {"type": "array", "items": one}],
    }


def _settings(kind: str, section: type[Section]) -> dict[str, Any]:
    """The settings of a tracker, as a schema for mappings of its kind."""
    required = [] if kind == DEFAULT_TRACKER else ["kind"]
    properties = _with_references(section.model_json_schema())["properties"]
    return {
        "if": {"properties": {"kind": {"const": kind}}, "required": required},
        "then": {"properties": properties},
    }


def _kinds(names: Iterable[str], other: dict[str, Any] | None, description: str) -> dict[str, Any]:
    kinds = _one_of(names, other)
    mapping = {"type": "object", "properties": {"kind": kinds}, "required": ["kind"]}
    return {"description": description, "anyOf": [kinds, mapping]}


def _one_of(names: Iterable[str], other: dict[str, Any] | None) -> dict[str, Any]:
    return {"anyOf": [{"enum": list(names)}, *([other] if other else []), _REFERENCE]}


def _with_references(node: Any) -> Any:
    """A schema that accepts ``${name}`` for every number, boolean and word; without generated titles."""
    if isinstance(node, list):
        return [_with_references(item) for item in node]
    if not isinstance(node, dict):
        return node
    kinds = node.get("type")
    scalar = {"integer", "number", "boolean"}.intersection([kinds] if isinstance(kinds, str) else kinds or ())
    if scalar or {"enum", "const", "pattern"} & node.keys():
        about = {key: node[key] for key in _ABOUT[1:] if key in node}
        return {**about, "anyOf": [{key: value for key, value in node.items() if key not in _ABOUT}, _REFERENCE]}
    return {
        key: {name: _with_references(one) for name, one in value.items()}
        if key == "properties"
        else _with_references(value)
        for key, value in node.items()
        if key != "title"
    }


def _arguments(made: Any, names: Iterable[str], **bounds: int) -> dict[str, Any]:
    """The arguments of a dataclass of these names, described by its docstring; ``bounds`` are those of its numbers."""
    about = dict(re.findall(r"^    (\w+): (.*(?:\n {8,}.*)*)", inspect.getdoc(made) or "", re.MULTILINE))
    properties: dict[str, Any] = {}
    for field in dataclasses.fields(made):
        if field.name in names:
            kinds: dict[str, Any] = {"type": [_TYPES[name] for name in str(field.type).split(" | ")], **bounds}
            if field.name in _CHOICES:
                kinds = {"enum": list(_CHOICES[field.name])}
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            properties[field.name] = {
                "description": " ".join(about[field.name].split()),
                "default": default,
                "anyOf": [kinds, _REFERENCE],
            }
    return {"properties": properties, "additionalProperties": False}


def _required_without_include(made: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Require keys only in a file without ``include``."""
    memory: dict[str, Any] = definitions["Memory"]["anyOf"][-1]
    environment = definitions["Environment"]
    required = {
        "environment": {"anyOf": [{"required": [key]} for key in (*environment.pop("required"), "pettingzoo")]},
        "agent": {
            "required": definitions["AgentSection"].pop("required"),
            "properties": {"memory": {"required": memory.pop("required")}},
        },
        "params": {"additionalProperties": {"required": definitions["Param"].pop("required")}},
    }
    return {
        **{key: value for key, value in made.items() if key != "required"},
        "if": {"not": {"required": ["include"]}},
        "then": {"required": made["required"], "properties": required},
    }
