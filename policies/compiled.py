"""Programs written by ``Agent.compile``: a training program as files. Loads no TensorFlow.

================================  ====================================================================================
file                              contents
================================  ====================================================================================
``program.json``                  the description: modes, variables, spaces, versions, and digests of each program and
                                  of the description itself
``program.tflite``                acting and learning, with the variables inside
``policy.tflite``                 acting only, for exports
``initial.pb``                    the initialisers, as a TensorFlow graph of the seed's random numbers; if they can be
                                  expressed as one
``weights/seed-<n>.safetensors``  the initial values of all variables for one run seed
================================  ====================================================================================
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError, safe_open

from ..core.checks import integer, shortened
from ..core.errors import ArgumentError
from ..core.initializers import Draw, model_seed
from ..core.protocols import Array
from ..explorations.description import made_from, space_of
from . import free_params, modes_json, weight_patches
from .description import read_json, read_part, space_attributes
from .modes import PredictMode, TrainMode, VariableSpec
from .reasons import Reason, from_record
from .weight_patches import FrozenProgram

FILE: Final = "program.json"
PROGRAM: Final = "program.tflite"
POLICY: Final = "policy.tflite"
INITIAL: Final = "initial.pb"
WEIGHTS: Final = "weights"
FILES: Final = (FILE, PROGRAM, POLICY, INITIAL, WEIGHTS)
FORMAT: Final = "axonrl compiled program"
FORMAT_VERSION: Final = 1
RUNTIME: Final = "ai-edge-litert"
"""Package on whose version a program's results depend."""
_NAME: Final = re.compile(r"seed-(0|[1-9][0-9]*)\.safetensors")
_AGAIN: Final = "Delete it, and axonrl.policies.add_seeds makes it again"
_SHA256: Final = "sha256"
"""Entry of ``FILE`` with the digest of all other entries."""


@dataclasses.dataclass(frozen=True)
class CompiledProgram:
    """The parsed directory written by ``Agent.compile``; ``everything`` is the content of ``FILE``.

    The exploration in its modes has state: read the directory again for another run in the same process.
    """

    path: Path
    everything: Mapping[str, Any]
    name: str
    predict: PredictMode
    train: TrainMode
    every_variable: Mapping[str, VariableSpec]
    num_predict: int
    why: Mapping[str, Reason]

    @property
    def directory(self) -> Path:
        """The program's folder."""
        return self.path.parent

    @property
    def seed(self) -> int:
        """Seed of the run for which it was compiled."""
        return int(self.everything["seed"])

    @property
    def spaces(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Spaces of one environment's observations and actions, as JSON values."""
        return self.everything["spaces"]["observation"], self.everything["spaces"]["action"]

    @property
    def model_fn(self) -> str | None:
        """Importable name of the function; None if it has none."""
        name: str | None = self.everything["model_fn"]
        return name

    @property
    def params(self) -> Mapping[str, Any] | None:
        """The function's params, without those in ``unrecorded``, which JSON cannot hold."""
        params: Mapping[str, Any] | None = self.everything["params"]
        return params

    @property
    def unrecorded(self) -> tuple[str, ...]:
        """Names of the params that JSON cannot hold."""
        return tuple(self.everything["unrecorded"])

    @property
    def made_with(self) -> Mapping[str, Any]:
        """Versions and machine of the compilation."""
        made: Mapping[str, Any] = self.everything["made_with"]
        return made

    def with_params(self, params: Mapping[str, Any]) -> CompiledProgram:
        """The program for a run with these params, which are JSON values.

        Raises:
            ArgumentError: params differ that are not free.
        """
        described = free_params.with_params(self.everything, params)
        if described is None:
            free = sorted({*self.free["inputs"], *self.free["exploration"]})
            may = f"; {', '.join(free)} may have other values of the same sign" if free else ""
            message = f"{self.directory} was compiled with params {self.params}, got {dict(params)}{may}"
            raise ArgumentError(message, "params", params)
        return _parse_program(self.path, described)

    @property
    def free(self) -> Mapping[str, Any]:
        """Names of the free params, as in ``FILE``: see :mod:`axonrl.policies.free_params`."""
        free: Mapping[str, Any] = self.everything["free"]
        return free

    def variables(self) -> Mapping[str, VariableSpec]:
        """The variables in order, by name."""
        return self.every_variable

    def predict_variables(self) -> Mapping[str, VariableSpec]:
        """Variables created by PREDICT, which come first."""
        names = list(self.every_variable)[: self.num_predict]
        return {name: self.every_variable[name] for name in names}

    def program(self) -> bytes:
        """Read the LiteRT file that acts and learns; ``ValueError`` if it is damaged."""
        return read_part(self, "program")

    def acting_program(self) -> FrozenProgram | bytes:
        """Read the LiteRT file that only acts; ``ValueError`` if it is damaged."""
        content, placements = read_part(self, "policy"), self.everything["policy"]["placements"]
        return content if placements is None else FrozenProgram(content, weight_patches.from_json(placements))

    def check(self, seed: int) -> None:
        """Read every file that a run with this seed needs; ``ValueError`` if one is missing or damaged."""
        self.program(), self.acting_program()
        there = self.seeds()
        if there and seed not in there and self.has_every_seed:
            self._check_draws()
        else:
            self.weights(seed)

    # -- initial weights ----------------------------------------------------------------------------------------------

    def seeds(self) -> list[int]:
        """Seeds with a file of initial weights, sorted."""
        found = [_NAME.fullmatch(path.name) for path in (self.directory / WEIGHTS).glob("seed-*") if path.is_file()]
        return sorted(int(match[1]) for match in found if match)

    def has_seed(self, seed: int) -> bool:
        """Are there initial weights for this seed?"""
        there = self.seeds()
        return seed in there or (bool(there) and self.has_every_seed)

    @property
    def has_every_seed(self) -> bool:
        """Can the initial weights of every seed be computed from those of one, as NumPy draws them?"""
        drawn = self.everything.get("drawn")
        return drawn is not None and bool(drawn["every_seed"])

    def draws(self, seed: int) -> dict[str, Array]:
        """The initial values of a seed that NumPy draws, by variable."""
        drawn = self.everything.get("drawn") or {"variables": {}}
        return {name: Draw.from_json(one)(model_seed(seed)) for name, one in drawn["variables"].items()}

    def weights_path(self, seed: int) -> Path:
        """Path of a seed's initial weights, existing or not."""
        return self.directory / WEIGHTS / f"seed-{seed}.safetensors"

    def weights(self, seed: int) -> dict[str, Array]:
        """Read the initial weights of a run with this seed, by name.

        Raises:
            ValueError: there are none for this seed (lists those there are), or the file is damaged.
        """
        seed, there = integer("seed", seed, at_least=0), self.seeds()
        if seed not in there and there and self.has_every_seed:
            self._check_draws()
            return {**self.weights(self._base_seed()), **self.draws(seed)}
        if seed not in there:
            only, where = f", only for {_seeds_text(there)}" if there else "", str(self.directory)
            raise ArgumentError(
                f"{where} has no initial weights for seed {shortened(seed)}{only}. With TensorFlow installed,"
                f" axonrl.policies.add_seeds({where!r}, [{shortened(seed)}]) creates them",
                "seed",
                seed,
            )
        path = self.weights_path(seed)
        try:
            with safe_open(path, framework="np") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                about = dict(file.metadata() or {})
        except (
            AttributeError,
            OSError,
            SafetensorError,
            TypeError,
        ) as error:  # the last two for dtypes that NumPy lacks
            raise ValueError(f"{path} cannot be read: {error}. {_AGAIN}") from error
        expected = {name: (spec.shape, spec.dtype) for name, spec in self.every_variable.items()}
        if {name: (array.shape, array.dtype) for name, array in arrays.items()} != expected:
            raise ValueError(f"{path} does not contain the variables described in {FILE}. {_AGAIN}")
        ordered = {name: arrays[name] for name in expected}
        described = self.about_weights(seed, ordered)
        if any(about.get(name) != described[name] for name in ("program", "seed")):
            raise ValueError(f"{path} belongs to another program or another seed. {_AGAIN}")
        if about != described:
            raise ValueError(f"{path} is damaged: its SHA-256 has changed. {_AGAIN}")
        return ordered

    def _base_seed(self) -> int:
        """The seed from whose file the weights of other seeds are computed."""
        there = self.seeds()
        return self.seed if self.seed in there else there[0]

    @functools.cached_property
    def _other_draw(self) -> str | None:
        """A variable of the known seed that NumPy draws differently on this machine; None if there is none."""
        weights, draws = self.weights(self._base_seed()), self.draws(self._base_seed())
        return next((name for name, value in draws.items() if value.tobytes() != weights[name].tobytes()), None)

    def _check_draws(self) -> None:
        if (name := self._other_draw) is not None:
            raise ValueError(f"{self.path}: NumPy draws other initial weights here ({name}). Compile it again")

    def about_weights(self, seed: int, weights: Mapping[str, Array]) -> dict[str, str]:
        """Metadata for a file of initial weights."""
        return {"program": self.everything["program"]["sha256"], "seed": str(seed), "sha256": _digest(weights)}


def read(directory: str | Path) -> CompiledProgram:
    """Read the program in a directory.

    Raises:
        ValueError: a file is missing, damaged, or made by other versions; names it.
    """
    if not isinstance(directory, str | os.PathLike) or not str(directory):
        message = f"a compiled program must be given as the path of a directory, got {directory!r}"
        raise ArgumentError(message, "compiled", directory)
    path = Path(directory) / FILE
    value = read_json(path, FORMAT, FORMAT_VERSION, "compile it again")
    if value.get(_SHA256) != _seal(value):
        raise ValueError(f"{path} is damaged or was edited: its SHA-256 has changed")
    here, made_with = metadata.version(RUNTIME), value["made_with"][RUNTIME]
    if made_with != here:
        raise ValueError(
            f"{path} was compiled with {RUNTIME} {made_with}; this is {here}, whose results may differ: compile it"
            " again"
        )
    return _parse_program(path, value)


def with_digest(described: Mapping[str, Any]) -> dict[str, Any]:
    """Content of ``FILE``: a description with a digest of itself."""
    return {**described, _SHA256: _seal(described)}


def _seal(described: Mapping[str, Any]) -> str:
    content = {name: value for name, value in described.items() if name != _SHA256}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _digest(weights: Mapping[str, Array]) -> str:
    """Digest of weights in the order of the program's variables."""
    sha = hashlib.sha256()
    for name, array in weights.items():
        sha.update(f"{name} {array.dtype.name} {array.shape} ".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def _parse_program(path: Path, value: Mapping[str, Any]) -> CompiledProgram:
    predict, train = value["predict"], value["train"]
    space = space_of(space_attributes(value["spaces"]["action"]))
    try:
        exploration = made_from(predict["exploration"], space)
    except Exception as error:  # a user's own class may be missing, changed, or not importable here
        kind = predict["exploration"]["kind"]
        raise ValueError(f"{path} cannot be used here: its exploration {kind} cannot be created: {error!r}") from error
    return CompiledProgram(
        path=path,
        everything=value,
        name=str(value["model"]),
        predict=PredictMode(
            outputs=modes_json.tree(predict["outputs"]),
            exploration=exploration,
            record=tuple(predict["record"]),
            state=None if predict["state"] is None else modes_json.tree(predict["state"]),
            noise=modes_json.requests(predict["noise"]),
        ),
        train=TrainMode(
            batch=modes_json.tree(train["batch"]),
            metrics=tuple(train["metrics"]),
            noise=modes_json.requests(train["noise"]),
            reads=frozenset(train["reads"]),
            has_td_error=bool(train["has_td_error"]),
            reads_progress=bool(train["reads_progress"]),
            params=train["params"],
        ),
        every_variable={
            one["name"]: VariableSpec(tuple(one["shape"]), np.dtype(one["dtype"]), bool(one["trainable"]))
            for one in value["variables"]
        },
        num_predict=int(value["predict_variables"]),
        why={part: from_record(reason) for part, reason in value["runtime_why"].items()},
    )


def _seeds_text(seeds: Sequence[int]) -> str:
    """``0 to 7``, or ``0, 5, 9``."""
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds)) or "none"
