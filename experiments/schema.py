"""What an experiment file may say, and how the command line's options change it.

:func:`load` reads the file, applies ``--set``, gives the declared params their values (``-P``), replaces ``${name}``
and checks the result. Nothing heavy is imported: names of models, memories and hooks are looked up by the runner.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from .. import registry
from ..contracts import RunConfig
from .files import Document, ExperimentError, Path, read, scalar, show
from .values import override, replace

SHIPPED: Final = FilePath(__file__).parent
"""The folder of the experiments that come with axonrl."""
TYPES: Final[Mapping[str, type]] = {"int": int, "float": float, "bool": bool, "str": str}
CONFIG_FIELDS: Final = tuple(
    field.name
    for field in dataclasses.fields(RunConfig)
    if field.name not in ("seed", "observation_space", "action_space")
)
_WORDS = {"string": "text", "integer": "an integer", "boolean": "true or false", "list": "a list", "number": "a number"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Count = Annotated[int, Field(ge=1)]
"""An integer of at least 1."""


class Section(BaseModel):
    """A mapping of the file: no other keys, no conversion of types, not to be changed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Param(Section):
    """A declared param: its type and its value. ``${name}`` stands for the value."""

    type: Literal["int", "float", "bool", "str"]
    default: Any


class Named(Section):
    """Something that is found by its name: its kind, and keyword arguments beside it."""

    model_config = ConfigDict(extra="allow")

    kind: str

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return dict(self.model_extra or {})


class Environment(Section):
    """The environment: its Gymnasium id, how many copies are stepped together, its arguments, and what goes around."""

    id: str
    num_envs: Count = 1
    kwargs: dict[str, Any] = {}
    wrappers: list[Named] = []


class AgentSection(Section):
    """The agent: its model function, the params handed to it, and its memory."""

    model_fn: str
    params: dict[str, Any] = {}
    memory: Named | None = None


class Train(Section):
    """The arguments of ``Agent.train``: when updates run, and the totals at which training ends."""

    first_update: Count = 35
    update_frequency: Count = 10
    max_steps: Count | None = None
    max_episodes: Count | None = None
    max_timesteps: Count | None = None


class Evaluate(Section):
    """The greedy episodes after training."""

    episodes: Count = 100
    policy: Literal["best", "last"] = "last"


class Experiment(Section):
    """A whole experiment file, with every ``${name}`` replaced."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)]
    description: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    params: dict[str, Param] = {}
    environment: Environment
    agent: AgentSection
    config: dict[str, Any] = {}
    train: Train = Train()
    evaluate: Evaluate | None = Evaluate()
    hooks: list[Named] = []


def load(
    path: FilePath, params: Mapping[str, str] | None = None, sets: Mapping[str, str] | None = None
) -> tuple[Experiment, Document]:
    """Read and check an experiment file.

    Args:
        path: the file.
        params: ``-P``: names of declared params to their new values, as text.
        sets: ``--set``: dotted paths to new values, as YAML.

    Returns:
        The experiment, and the document, which knows the line of each value (for errors found later).

    Raises:
        ExperimentError: something in the file or in the options is wrong.
    """
    document = override(read(path), sets or {})
    declared = _declared(document, params or {})
    values = {name: param.default for name, param in declared.items()}
    raw: dict[str, Any] = {
        key: replace(value, (key,), values, document) for key, value in document.values.items() if key != "params"
    }
    raw["params"] = {name: param.model_dump() for name, param in declared.items()}
    raw.setdefault("name", path.stem)
    _expand(raw)
    experiment = _validate(Experiment, raw, (), document)
    _check_config(experiment, document)
    if experiment.evaluate and experiment.evaluate.policy == "best" and not _keeps_best(experiment):
        message = "'best' needs an evaluation hook, which keeps the best policy; without one it is 'last'"
        raise document.error(("evaluate", "policy"), message)
    return experiment, document


def shipped() -> dict[str, FilePath]:
    """The experiments that come with axonrl: name to file."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yml"))}


def _declared(document: Document, given: Mapping[str, str]) -> dict[str, Param]:
    """The section ``params`` with the values of ``-P`` in place of the defaults."""
    section = document.values.get("params", {})
    if not isinstance(section, dict):
        raise document.error(("params",), f"must be a mapping, got {show(section)}")
    params = {name: _param(name, value, document) for name, value in section.items()}
    for name, text in given.items():
        source = f"-P {name}={text}"
        if name not in params:
            there = "" if params else "; the file declares none"
            raise Document(source, {}, {(): source}).error(
                ("params", name), f"the file declares no param of this name{there}", name=name, choices=params
            )
        kind = params[name].type
        try:
            default = _typed(text if kind == "str" else scalar(text), kind)
        except ValueError as error:
            raise ExperimentError(source, str(error), key=name) from None
        params[name] = Param(type=kind, default=default)
    return params


def _param(name: str, value: Any, document: Document) -> Param:
    at = ("params", name)
    if not _NAME.fullmatch(name):
        raise document.error(at, "a param's name consists of letters, digits and _, and begins with no digit")
    if not isinstance(value, dict):  # the short form: name: default
        kind = next((kind for kind, python in TYPES.items() if type(value) is python), None)
        if kind is None:
            raise document.error(at, f"must be a number, true, false, text, or a type and a default; got {show(value)}")
        value = {"type": kind, "default": value}
    param = _validate(Param, value, at, document)
    try:
        return Param(type=param.type, default=_typed(param.default, param.type))
    except ValueError as error:
        raise document.error((*at, "default"), str(error)) from None


def _typed(value: Any, kind: str) -> Any:
    """The value as the declared type; an integer may stand where a float is expected."""
    if kind == "float" and type(value) is int:
        return float(value)
    if type(value) is not TYPES[kind]:
        raise ValueError(f"must be of type {kind}, got {show(value)}")
    if isinstance(value, str) and "${" in value:  # it would be replaced when the resolved file is read again
        raise ValueError(f"must not contain '${{', got {show(value)}")
    return value


def _expand(raw: dict[str, Any]) -> None:
    """Write the short forms out: hooks, wrappers, a memory by name alone; and which policy is evaluated."""
    hooks, agent, evaluate = raw.get("hooks", []), raw.get("agent"), raw.get("evaluate", {})
    if isinstance(hooks, list):
        hooks = raw["hooks"] = _by_kind(hooks)
    environment = raw.get("environment")
    if isinstance(environment, dict) and isinstance(environment.get("wrappers"), list):
        environment["wrappers"] = _by_kind(environment["wrappers"])
    if isinstance(agent, dict) and isinstance(agent.get("memory"), str):
        agent["memory"] = {"kind": agent["memory"]}
    if isinstance(evaluate, dict) and isinstance(hooks, list):
        kinds = [hook.get("kind") for hook in hooks if isinstance(hook, dict)]
        raw["evaluate"] = {"policy": "best" if "evaluation" in kinds else "last", **evaluate}


def _by_kind(items: list[Any]) -> list[Any]:
    return [{"kind": item} if isinstance(item, str) else item for item in items]


def _keeps_best(experiment: Experiment) -> bool:
    """A hook that is not axonrl's own may keep the best policy too."""
    own = registry.BUILT_IN["hook"]
    return any(hook.kind == "evaluation" or hook.kind not in own for hook in experiment.hooks)


def _check_config(experiment: Experiment, document: Document) -> None:
    for name, value in experiment.config.items():
        at = ("config", name)
        if name == "seed":
            raise document.error(at, "the seed is a key of its own, 'seed', beside 'config'")
        if name not in CONFIG_FIELDS:
            raise document.error(at, "unknown key", name=name, choices=CONFIG_FIELDS)
        try:
            RunConfig(**{name: value})
        except (TypeError, ValueError) as error:
            raise document.error(at, str(error)) from None


_Model = TypeVar("_Model", bound=BaseModel)


def _validate(model: type[_Model], raw: Any, at: Path, document: Document) -> _Model:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        found = [(details, _error(details, model, at, document)) for details in error.errors(include_url=False)]
        # One at a time, the first in the file. A key that is missing comes last: it may only be misspelt.
        found.sort(key=lambda pair: (pair[0]["type"] == "missing", pair[1].line or 0))
        raise found[0][1] from None


def _error(details: ErrorDetails, model: type[BaseModel], at: Path, document: Document) -> ExperimentError:
    kind, loc, value = details["type"], details["loc"], details["input"]
    path = (*at, *loc)
    if kind == "extra_forbidden":
        return document.error(path, "unknown key", name=str(loc[-1]), choices=_fields(model, loc[:-1]))
    if kind == "missing":
        return document.error(path, "this key is required")
    if kind in ("model_type", "dict_type"):
        return document.error(path, f"must be a mapping, got {show(value)}")
    if kind == "string_pattern_mismatch":
        return document.error(path, f"must be letters, digits, '.', '_' and '-', got {show(value)}")
    if kind == "int_type" and isinstance(value, float):
        return document.error(path, f"must be an integer without '.' or 'e', got {show(value)}")
    choices = re.findall(r"'(\w+)'", details["msg"]) if kind == "literal_error" else []
    expected = details["msg"].removeprefix("Input should ")
    for pydantic, ours in _WORDS.items():
        expected = expected.replace(f"a valid {pydantic}", ours)
    return document.error(path, f"must {expected}, got {show(value)}", name=str(value), choices=choices)


def _fields(model: Any, loc: Sequence[str | int]) -> list[str]:
    """The keys of the section that an error's location leads to."""
    for part in loc:
        if isinstance(part, int):
            continue
        annotation = model.model_fields[part].annotation
        candidates = [annotation, *get_args(annotation)]
        model = next(found for found in candidates if isinstance(found, type) and issubclass(found, BaseModel))
    return list(model.model_fields)
