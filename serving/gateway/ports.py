"""What the gateway asks of rooms that are handed in, beside the accounts' database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Answer(Protocol):
    """What a worker answered."""

    @property
    def status(self) -> int:
        """An HTTP status."""

    @property
    def body(self) -> bytes:
        """JSON, or the bytes of a state."""

    @property
    def replayed(self) -> bool:
        """The request was done before, and this is its first answer."""

    @property
    def retry_after(self) -> int | None:
        """Seconds after which to repeat it."""


class Pool(Protocol):
    """The workers."""

    async def ask(self, agent: str, do: str, body: bytes = b"", **head: Any) -> Answer:
        """Have an agent do something; never raises for a worker's trouble."""


class Recipe(Protocol):
    """What an agent is made from."""

    @property
    def model(self) -> str:
        """Lower case."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Complete."""

    def to_json(self) -> Any:
        """Exact."""


class Catalogue(Protocol):
    """The models that are hosted."""

    def recipe(self, model: str, config: Mapping[str, Any]) -> Recipe:
        """The recipe; ``ArgumentError`` for what is wrong."""

    def described(self) -> Sequence[Mapping[str, Any]]:
        """The models with their hyperparameters."""
