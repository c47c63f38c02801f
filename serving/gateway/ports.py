"""Protocols of the injected rooms, except the accounts' database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Answer(Protocol):
    """A worker's answer."""

    @property
    def status(self) -> int:
        """An HTTP status."""

    @property
    def body(self) -> bytes:
        """JSON, or the bytes of a state."""

    @property
    def replayed(self) -> bool:
        """Whether the request was done before, and this is its first answer."""

    @property
    def retry_after(self) -> int | None:
        """Seconds after which to repeat the request."""


class Pool(Protocol):
    """The workers."""

    async def ask(self, agent: str, do: str, body: bytes = b"", **head: Any) -> Answer:
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
