"""Untrusted safetensors: arrays that the library accepts, compared with those that are expected."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from ...core.protocols import Array, ArraySpec
from ..refusals import RefusedError

_Entry: TypeAlias = "tuple[str, tuple[int, ...], bytearray]"
"""Type, shape and content of an array."""
_ABOUT: Final = "axonrl"
_MOST_HEADER: Final = 1 << 20
_KINDS: Final = {"b": "BOOL", "f": "F", "i": "I", "u": "U"}


def encoded(arrays: Mapping[str, Array], about: str | None = None) -> bytes:
    """One safetensors file, with a text in its metadata; equal arrays give equal bytes."""
    metadata = None if about is None else {_ABOUT: about}
    content: bytes = save({name: np.array(array, order="C") for name, array in arrays.items()}, metadata)
    return content


class Tensors:
    """The arrays of a safetensors file, each byte of which belongs to its header or to one of them.

    Args:
        where: its place in the request, for errors.
        entries: the arrays by name.
        about: the text in its metadata; anything, where there is none.
    """

    def __init__(self, where: str, entries: dict[str, _Entry], about: Any = None) -> None:
        self._where, self._entries, self.about = where, entries, about

    @classmethod
    def parse(cls, content: bytes, where: str) -> Tensors:
        """Read a file; RefusedError ``unsafe_state`` if it is not a complete safetensors file."""
        begin = 8 + int.from_bytes(content[:8], "little")
        try:
            if begin > _MOST_HEADER:
                raise SafetensorError("its header is too large")
            found = deserialize(content)  # type: ignore[no-untyped-call]
            entries = {name: (one["dtype"], tuple(one["shape"]), one["data"]) for name, one in found}
        except SafetensorError as error:
            raise _unsafe(where, str(error).removeprefix("Error while deserializing: ")) from None
        metadata = json.loads(content[8:begin]).get("__metadata__") or {}
        return cls(where, entries, metadata.get(_ABOUT))

    def part(self, prefix: str, where: str) -> Tensors:
        """The arrays with a prefix in their names, which these lose and leave."""
        names = [name for name in self._entries if name.startswith(prefix)]
        entries = {name.removeprefix(prefix): self._entries.pop(name) for name in names}
        return Tensors(where, entries)

    def refuse_rest(self) -> None:
        """Refuse arrays that belong to no part.

        Raises:
            RefusedError: ``state_mismatch``.
        """
        if self._entries:
            raise self._mismatch(f"other arrays than a state's: {', '.join(sorted(self._entries)[:3])}"[:300])

    def arrays(self, groups: Sequence[tuple[Mapping[str, ArraySpec], int | None]]) -> dict[str, Array]:
        """The expected arrays.

        Args:
            groups: expected arrays, each group with None if the shapes are exact; else with the maximum length of an
                additional first axis, which is the same for all arrays of the group.

        Raises:
            RefusedError: ``state_mismatch`` for other arrays, ``unsafe_state`` for a boolean that is neither 0 nor 1,
                ``invalid_value`` if a number is NaN or infinite.
        """
        differing = sorted(set(self._entries) ^ {name for group, _ in groups for name in group})
        if differing:
            raise self._mismatch(f"other arrays than this agent's: {', '.join(differing[:3])}"[:300])
        found: dict[str, Array] = {}
        for group, rows in groups:
            count: int | None = None
            for name, spec in group.items():
                kind, shape, content = self._entries[name]
                if rows is not None:
                    if not shape or shape[0] > rows or (count is not None and shape[0] != count):
                        raise self._mismatch(f"{name} of the shape {list(shape)}")
                    count = shape[0]
                full = spec.shape if count is None else (count, *spec.shape)
                if kind != _kind(spec.dtype) or shape != full:
                    raise self._mismatch(f"{name} as {kind}{list(shape)}, this agent's is {spec.dtype}{list(full)}")
                found[name] = np.frombuffer(content, spec.dtype).reshape(full)
        for name, array in found.items():
            _refuse_values(array, self._where, name)
        return found

    def _mismatch(self, what: str) -> RefusedError:
        return RefusedError("state_mismatch", f"{self._where} holds {what}", [(self._where, what)])


def _refuse_values(array: Array, where: str, name: str) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise RefusedError("invalid_value", f"{where}: {name} is not finite", [(where, f"{name} is not finite")])
    if array.dtype.kind == "b" and bool((array.view(np.uint8) > 1).any()):
        raise _unsafe(where, f"{name} holds other bytes than 0 and 1")


def _kind(dtype: np.dtype[Any]) -> str:
    """The format's name of a type: ``F32``."""
    kind = _KINDS[dtype.kind]
    return kind if kind == "BOOL" else f"{kind}{8 * dtype.itemsize}"


def _unsafe(where: str, what: str) -> RefusedError:
    return RefusedError("unsafe_state", f"{where} is not a safetensors file: {what}", [(where, what)])
