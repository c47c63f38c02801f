"""Recipe: the complete definition of an agent, in JSON values."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from ...core.checks import shortened
from ...core.errors import ArgumentError
from ...policies import free_params
from ...run_dir.provenance import version_of

_FORMAT: Final = 1
"""Raise it when the same recipe compiles to another program with the same versions of all packages."""
_PACKAGES: Final = ("axonrl", "tensorflow", "keras", "ai-edge-litert")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Definition of an agent, independent of defaults, which a later version may change."""

    model: str
    """The model's name, lower case."""
    config: dict[str, Any]
    """Sizes and every hyperparameter with its value, in the user's form."""
    model_fn: str
    """Its name in the registry."""
    params: dict[str, Any]
    memory: dict[str, Any]
    """``kind``, and the arguments of a memory of this kind."""
    first_update: int
    update_frequency: int
    observation: dict[str, Any]
    action: dict[str, Any]
    """Spaces in the form of ``environments.spaces.to_json``."""
    noise: str
    """Meaning of a noise level: ``epsilon``, ``gaussian``, or none where actions are ``drawn``."""
    gathers: bool
    """Whether steps of several environments are stored in unrolls of one environment each."""

    @property
    def seed(self) -> int:
        """Seed of initial weights and generators."""
        return int(self.config["seed"])

    @property
    def digest(self) -> str:
        """Name of its compiled program: :attr:`family`, and a hash of all that the program depends on.

        It does not depend on the seed or a replay's size.
        """
        return f"{self.family}-{_sha256(self._parts(self.params))[:40]}"

    @property
    def family(self) -> str:
        """Equal for recipes that differ only in numbers of the params, some of which may be inputs of the program."""
        return _sha256(self._parts(free_params.family(self.params)))[:24]

    def _parts(self, params: Mapping[str, Any]) -> dict[str, Any]:
        batch = {
            "kind": self.memory["kind"],
            "size": self.memory.get("batch_size", self.memory["size"]),  # a rollout is a batch
            "sampler": self.memory.get("sampler", {}).get("kind"),
        }
        return {
            "format": _FORMAT,
            "model_fn": self.model_fn,
            "params": params,
            "spaces": [self.observation, self.action],
            "batch": batch,
            "versions": _versions(),
        }

    def to_json(self) -> dict[str, Any]:
        """The recipe as JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Recipe:
        """The exact inverse of :meth:`to_json`, independent of the current catalogue.

        Raises:
            ArgumentError: ``value`` is something else.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(value, Mapping) or set(value) != set(names):
            given = sorted(map(str, value)) if isinstance(value, Mapping) else value
            raise ArgumentError(f"a recipe has {', '.join(names)}; got {shortened(given)}", "recipe", value)
        return cls(**value)


def _sha256(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@functools.cache
def _versions() -> Mapping[str, str | None]:
    return {name: version_of(name) for name in _PACKAGES}
