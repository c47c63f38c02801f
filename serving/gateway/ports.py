"""Protocols of the injected rooms, except the accounts' database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..workers.pool import WorkerResponse


class Pool(Protocol):
    """The workers."""

    async def ask(self, agent: str, do: str, body: bytes = b"", **head: Any) -> WorkerResponse:
        """Send a request to an agent's worker; never raises for a worker's failure."""


class Recipe(Protocol):
    """Recipe of an agent."""

    @property
    def model(self) -> str:
        """The model's name, lower case."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The complete configuration."""

    def to_json(self) -> Any:
        """Exact JSON form."""


class Catalogue(Protocol):
    """The hosted models."""

    def recipe(self, model: str, config: Mapping[str, Any]) -> Recipe:
        """Make the recipe; ``ArgumentError`` if invalid."""

    def described(self) -> Sequence[Mapping[str, Any]]:
        """The models with their hyperparameters."""
