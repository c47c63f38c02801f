"""``policy.json``: description of an exported policy, beside its program and weights. Loads no TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from ..core import fields
from ..core.checks import all_finite, flag
from ..core.errors import ArgumentError
from ..core.protocols import Array, ArraySpec
from ..core.spread import divisor
from . import weight_patches
from .weight_patches import Placement

FILE: Final = "policy.json"
PROGRAM: Final = "policy.tflite"
WEIGHTS: Final = "weights.safetensors"
ONNX: Final = "policy.onnx"
PARITY: Final = "parity.json"
CARD: Final = "README.md"
LOADED: Final = (FILE, PROGRAM, WEIGHTS)  # the files from which a policy is loaded
FILES: Final = (*LOADED, ONNX, PARITY, CARD)
FORMAT: Final = "axonrl policy"
FORMAT_VERSION: Final = 1


def _name_of_file(name: str, value: Any) -> None:
    fields.text(name, value)
    if Path(value).name != value or "\0" in value:
        raise ArgumentError(f"{name} must be the name of a file beside this one, got {value!r}", name, value)


_KIND: Final = {"kind": fields.text}
_WRITTEN: Final = {"file": _name_of_file, "size": fields.integer(), "sha256": fields.text}
_SPECS: Final = fields.each(fields.spec)
_MOMENTS: Final = fields.fields({"values": fields.array, "dtype": fields.dtype})
_PLACEMENT: Final = fields.row(fields.text, fields.integer(), fields.shape, fields.real)
_LIMITS: Final = fields.optional(fields.array)
_FIELDS: Final = fields.fields(
    {
        **dict.fromkeys(("format", "model", "policy"), fields.text),
        "format_version": fields.integer(),
        "trained": fields.fields(dict.fromkeys(("global_step", "global_timestep", "global_episode"), fields.integer())),
        "made_with": fields.each(fields.optional(fields.scalar)),
        "observation": fields.fields(
            {
                "space": fields.space,
                "arrays": fields.each(
                    fields.fields({"shape": fields.shape, "dtype": fields.dtype}, {"low": _LIMITS, "high": _LIMITS})
                ),
            }
        ),
        "normalization": fields.optional(
            fields.fields(
                {**_KIND, "mean": _MOMENTS, "var": _MOMENTS, "epsilon": fields.real},
                {"clip": fields.optional(fields.real), "parts": fields.each(fields.shape)},
            )
        ),
        "action": fields.fields({"space": fields.space}, {"array": fields.spec, "arrays": _SPECS}),
        "predictions": _SPECS,
        "state": fields.optional(_SPECS),
        "exploration": fields.optional(
            fields.fields(
                _KIND,
                {
                    **dict.fromkeys(("epsilon", "mu", "sigma", "temperature", "theta"), fields.real),
                    **dict.fromkeys(("relative", "squashed"), flag),
                    "ends": fields.list_of(fields.real),
                    "action": fields.array,
                    "resample_every": fields.optional(fields.integer(1)),
                },
            )
        ),
        "exploration_note": fields.optional(fields.text),
        "program": fields.optional(
            fields.fields(
                {**_WRITTEN, "weights": fields.text, "placements": fields.optional(fields.list_of(_PLACEMENT))}
            )
        ),
        "weights": fields.fields({**_WRITTEN, "arrays": _SPECS}),
    },
    {
        "preprocessing": fields.mapping,
        "onnx": fields.fields({**_WRITTEN, "opset": fields.integer(), "inputs": _SPECS}),
    },
)
"""Contents of ``FILE``."""


@dataclasses.dataclass(frozen=True)
class Part:
    """An array of an observation, as the policy uses it.

    ``low`` and ``high`` are the minimum and maximum for spaces where other values are meaningless (Discrete and
    similar).
    """

    name: str
    spec: ArraySpec
    low: Any = None
    high: Any = None


@dataclasses.dataclass(frozen=True)
class Normalization:
    """Normalisation of observations with learned statistics; axonrl's wrapper clips, Gymnasium's does not."""

    mean: Array
    var: Array
    epsilon: float
    clip: float | None = None

    @functools.cached_property
    def divisor(self) -> Array:
        """Divisor of deviations from the mean. Gymnasium's divides even by rounding errors of a zero variance."""
        if self.clip is None:
            return np.asarray(np.sqrt(self.var + self.epsilon))
        return np.asarray(divisor(self.mean, self.var, self.epsilon))

    def __call__(self, observation: Array) -> Array:
        """Normalise with the same operations as in training, for identical bits; non-finite values stay non-finite."""
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks for non-finite values
            if self.clip is not None:
                observation = np.asarray(observation, np.float32)  # as in axonrl's environments
            normalized = np.asarray((observation - self.mean) / self.divisor)
        if self.clip is not None and all_finite(normalized):
            normalized = np.minimum(np.maximum(normalized, -self.clip), self.clip)
        return np.asarray(np.float32(normalized))


@dataclasses.dataclass(frozen=True)
class Description:
    """Contents of ``policy.json`` needed to act; ``everything`` is the whole file."""

    path: Path
    everything: Mapping[str, Any]
    model: str
    observation: tuple[Part, ...]
    is_dict: bool
    normalization: Mapping[str, Normalization]
    """Normalisation by part of the observation."""
    action_space: Mapping[str, Any]
    predictions: Mapping[str, ArraySpec]
    state: Mapping[str, ArraySpec] | None
    exploration: Mapping[str, Any] | None
    placements: tuple[Placement, ...] | None
    """Placements of the weights in a program with constant weights; None if the weights are variables."""
    weights: Mapping[str, ArraySpec]


def read(directory: Path) -> Description:
    """Read the description in an export.

    Raises:
        ValueError: it is missing, damaged, or of another format version; names the file and the field.
    """
    path = directory / FILE
    value = read_json(path, FORMAT, FORMAT_VERSION, "export it again")
    fields.check(path, value, _FIELDS)
    if value["program"] is None:
        raise ValueError(f"{path} has no LiteRT program, only {ONNX}: export it with formats=['litert', 'onnx']")
    return _parse_description(path, value)


@contextlib.contextmanager
def naming_field(path: Path, field: str) -> Iterator[None]:
    """Convert any error with this field of a file to an ``ArgumentError`` that names both."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ArgumentError(f"{path}: {field} is invalid: {type(error).__name__}: {error}", field) from error


def read_json(path: Path, kind: str, version: int, advice: str) -> Mapping[str, Any]:
    """Read a JSON file with a supported format and version.

    Args:
        path: the file.
        kind: expected format.
        version: expected format version.
        advice: what to do about another version.

    Raises:
        ValueError: it is unreadable or different; names the file.
    """
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): is this the right directory?") from error
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict) or value.get("format") != kind:
        raise ValueError(f"{path} is not of format {kind!r}")
    if value.get("format_version") != version:
        raise ValueError(
            f"{path} has format version {value.get('format_version')!r}, but this version of axonrl reads"
            f" {version}: {advice}"
        )
    return value


class Described(Protocol):
    """A directory's JSON file, with an entry for each other file."""

    @property
    def path(self) -> Path:
        """Path of the JSON file."""

    @property
    def everything(self) -> Mapping[str, Any]:
        """Contents of the JSON file."""


def read_part(description: Described, part: str) -> bytes:
    """Read and verify the file of an entry, ``program`` or ``weights``.

    Raises:
        ValueError: the file is missing or damaged; names it.
    """
    try:
        recorded = description.everything[part]
        path = description.path.parent / str(recorded["file"])
        size, digest = recorded["size"], recorded["sha256"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{description.path} is incomplete: {error!r}") from error
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) != size:
        raise ValueError(f"{path} is damaged: it has {len(content)} bytes instead of {size}")
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{path} is damaged: its SHA-256 differs from that in {description.path.name}")
    return content


def specs_to_json(specs: Mapping[str, ArraySpec]) -> dict[str, Any]:
    """Specs by name as a JSON value."""
    return {name: {"shape": list(spec.shape), "dtype": spec.dtype.name} for name, spec in specs.items()}


def space_attributes(space: Mapping[str, Any]) -> dict[str, Any]:
    """Decode a space described by ``environments.spaces.to_json``: attributes are numbers and arrays.

    For a Dict or Tuple: ``spaces``, the attributes of the inner spaces by key, or by number as text.
    """
    found: dict[str, Any] = {"type": space["type"]}
    if space["type"] == "Box":
        shape, dtype = tuple(space["shape"]), np.dtype(space["dtype"])
        found |= {"shape": shape, "dtype": dtype}
        for name in ("low", "high"):
            bound = space[name]
            found[name] = np.array(bound, dtype) if isinstance(bound, list) else np.full(shape, bound, dtype)
        return found
    if space["type"] == "Discrete":
        return {**found, "n": space["n"], "start": space["start"], "dtype": np.dtype(space["dtype"])}
    if space["type"] == "MultiDiscrete":
        dtype = np.dtype(space["dtype"])
        sizes, start = (np.array(space[name], dtype) for name in ("nvec", "start"))
        return {**found, "nvec": sizes, "start": start, "dtype": dtype}
    if space["type"] == "MultiBinary":
        size = space["n"]
        return {**found, "shape": (size,) if isinstance(size, int) else tuple(size)}
    if space["type"] == "Dict":
        return {**found, "spaces": {key: space_attributes(part) for key, part in space["spaces"]}}
    if space["type"] == "Tuple":
        return {**found, "spaces": {str(i): space_attributes(part) for i, part in enumerate(space["spaces"])}}
    raise ValueError(f"{space['type']} is not an action space")


def _parse_description(path: Path, value: Mapping[str, Any]) -> Description:
    observation, weights, state = value["observation"], _specs(value["weights"]["arrays"]), value["state"]
    arrays, placements = parts(observation["arrays"]), value["program"]["placements"]
    with naming_field(path, "observation.arrays"):
        if not arrays:
            raise ValueError("there is none")
        for part in arrays:
            for limit in (part.low, part.high):
                np.broadcast_to(0 if limit is None else limit, part.spec.shape)
    with naming_field(path, "normalization"):
        normalization = normalization_from(value["normalization"])
        shapes = {part.name: part.spec.shape for part in arrays}
        for name, one in normalization.items():
            if not one.mean.shape == one.var.shape == shapes[name]:
                raise ValueError(f"its moments have shape {one.mean.shape}, the observation {shapes[name]}")
    with naming_field(path, "action.space"):
        action_space = space_attributes(value["action"]["space"])
    with naming_field(path, "program.placements"):
        placed = None if placements is None else weight_patches.from_json(placements)
        if unknown := {place.name for place in placed or ()} - weights.keys():
            raise ValueError(f"unknown weight {unknown.pop()!r}")
    return Description(
        path=path,
        everything=value,
        model=value["model"],
        observation=arrays,
        is_dict=observation["space"]["type"] in ("Dict", "Tuple"),
        normalization=normalization,
        action_space=action_space,
        predictions=_specs(value["predictions"]),
        state=_specs(state) if state else None,
        exploration=value["exploration"],
        placements=placed,
        weights=weights,
    )


def _specs(value: Mapping[str, Any]) -> dict[str, ArraySpec]:
    return {name: ArraySpec(tuple(spec["shape"]), spec["dtype"]) for name, spec in value.items()}


def parts(value: Mapping[str, Any]) -> tuple[Part, ...]:
    """Decode the arrays of an observation."""
    return tuple(_part(name, part) for name, part in value.items())


def _part(name: str, value: Mapping[str, Any]) -> Part:
    low, high = (value.get(bound) for bound in ("low", "high"))
    return Part(
        name,
        ArraySpec(tuple(value["shape"]), value["dtype"]),
        None if low is None else np.array(low),
        None if high is None else np.array(high),
    )


def normalization_from(value: Mapping[str, Any] | None) -> dict[str, Normalization]:
    """Decode the normalisation of parts of an observation; a single array is the part ``""``."""
    if value is None:
        return {}
    mean, var = (np.array(value[moment]["values"], value[moment]["dtype"]) for moment in ("mean", "var"))
    settings = float(value["epsilon"]), None if (clip := value.get("clip")) is None else float(clip)
    if "parts" not in value:
        return {"": Normalization(mean, var, *settings)}
    found, start = {}, 0
    for name, shape in sorted(value["parts"].items()):  # in the order in which the moments were joined
        end = start + math.prod(shape)
        found[name] = Normalization(mean[start:end].reshape(shape), var[start:end].reshape(shape), *settings)
        start = end
    return found
