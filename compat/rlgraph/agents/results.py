"""Results of ``update``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Loss(float):
    """A loss as a float, which also unpacks and indexes like the tuple that RLgraph 0.1 returned.

    Args:
        value: the mean loss.
        parts: the tuple's items.
    """

    parts: tuple[Any, ...]
    """The tuple that it unpacks into."""

    def __new__(cls, value: float, parts: tuple[Any, ...]) -> Loss:
        """Create the float and attach the tuple."""
        made = super().__new__(cls, value)
        made.parts = parts
        return made

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parts)

    def __getitem__(self, index: Any) -> Any:
        return self.parts[index]

    def __len__(self) -> int:
        return len(self.parts)
