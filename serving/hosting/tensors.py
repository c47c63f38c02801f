"""Untrusted safetensors: the header is compared with the expected arrays before anything is read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from safetensors.numpy import save

from ...core.protocols import Array, ArraySpec
from ..refusals import RefusedError

_Entry: TypeAlias = "tuple[np.dtype[Any], tuple[int, ...], tuple[int, int]]"
_ABOUT: Final = "axonrl"
_MOST_HEADER: Final = 1 << 20
_DTYPES: Final = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "int16",
    "U16": "uint16",
    "I32": "int32",
    "U32": "uint32",
    "I64": "int64",
    "U64": "uint64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
}


def encoded(arrays: Mapping[str, Array], about: str | None = None) -> bytes:
    """One safetensors file, with a text in its metadata; equal arrays give equal bytes."""
    metadata = None if about is None else {_ABOUT: about}
    content: bytes = save({name: np.array(array, order="C") for name, array in arrays.items()}, metadata)
    return content


class Tensors:
    """The arrays of a safetensors file, by its header. Nothing is read yet.

    Args:
        content: the file.
        begin: where its header ends.
        where: its place in the request, for errors.
        entries: dtype, shape, and begin and end of each array.
        about: the text in its metadata; anything, where there is none.
    """

    def __init__(self, content: bytes, begin: int, where: str, entries: dict[str, _Entry], about: Any = None) -> None:
        self._content, self._begin, self._where, self._entries, self.about = content, begin, where, entries, about

    @classmethod
    def parse(cls, content: bytes, where: str) -> Tensors:
        """Read the header, which must account for each byte once.

        Raises:
            RefusedError: ``unsafe_state``: it is not a complete safetensors file.
        """
        header, begin = _header(content, where)
        metadata = header.pop("__metadata__", None)
        entries = {name: _entry(value, where, name) for name, value in header.items()}
        _refuse_gaps([span for _, _, span in entries.values()], len(content) - begin, where)
        return cls(content, begin, where, entries, metadata.get(_ABOUT) if isinstance(metadata, dict) else None)

    def part(self, prefix: str, where: str) -> Tensors:
        """The arrays with a prefix in their names, which these lose and leave."""
        names = [name for name in self._entries if name.startswith(prefix)]
        entries = {name.removeprefix(prefix): self._entries.pop(name) for name in names}
        return Tensors(self._content, self._begin, where, entries)

    def refuse_rest(self) -> None:
        """Refuse arrays that belong to no part.

        Raises:
            RefusedError: ``state_mismatch``.
        """
        if self._entries:
            raise self._mismatch(f"other arrays than a state's: {', '.join(sorted(self._entries)[:3])}"[:300])

    def arrays(self, groups: Sequence[tuple[Mapping[str, ArraySpec], int | None]]) -> dict[str, Array]:
        """The arrays, as views of the file.

        Args:
            groups: expected arrays, each group with None if the shapes are exact; else with the maximum length of an
                additional first axis, which is the same for all arrays of the group.

        Raises:
            RefusedError: ``state_mismatch`` for other arrays, ``unsafe_state`` if the bytes of one are not those of
                its shape, ``invalid_value`` if a number is NaN or infinite.
        """
        differing = sorted(set(self._entries) ^ {name for group, _ in groups for name in group})
        if differing:
            raise self._mismatch(f"other arrays than this agent's: {', '.join(differing[:3])}"[:300])
        found: dict[str, Array] = {}
        for group, rows in groups:
            count: int | None = None
            for name, spec in group.items():
                dtype, shape, (first, end) = self._entries[name]
                if rows is not None:
                    if not shape or shape[0] > rows or (count is not None and shape[0] != count):
                        raise self._mismatch(f"{name} of the shape {list(shape)}")
                    count = shape[0]
                full = spec.shape if count is None else (count, *spec.shape)
                if dtype != spec.dtype or shape != full:
                    raise self._mismatch(f"{name} as {dtype}{list(shape)}, this agent's is {spec.dtype}{list(full)}")
                size = math.prod(full) * dtype.itemsize
                if end - first != size:
                    raise _unsafe(self._where, f"{name} has {end - first} bytes, its shape needs {size}")
                found[name] = np.frombuffer(self._content, dtype, size // dtype.itemsize, self._begin + first).reshape(
                    full
                )
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


def _header(content: bytes, where: str) -> tuple[dict[str, Any], int]:
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > _MOST_HEADER or 8 + size > len(content):
        raise _unsafe(where, "its header is not that of a safetensors file")
    try:
        header = json.loads(content[8 : 8 + size])
    except (ValueError, RecursionError):
        raise _unsafe(where, "its header is not JSON") from None
    if not isinstance(header, dict):
        raise _unsafe(where, "its header is not an object")
    return header, 8 + size


def _entry(value: Any, where: str, name: str) -> _Entry:
    try:
        dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
        if dtype not in _DTYPES or not isinstance(shape, list) or not isinstance(offsets, list) or len(offsets) != 2:
            raise TypeError(dtype)
        if not all(type(one) is int and 0 <= one < 1 << 40 for one in [*shape, *offsets]):
            raise TypeError(shape)
    except (KeyError, TypeError):
        raise _unsafe(where, f"its header does not describe {name}") from None
    return np.dtype(_DTYPES[dtype]), tuple(shape), (offsets[0], offsets[1])


def _refuse_gaps(spans: Sequence[tuple[int, int]], total: int, where: str) -> None:
    at = 0
    for first, end in sorted(spans):
        if first != at or end < first:
            raise _unsafe(where, "its arrays overlap, or leave gaps")
        at = end
    if at != total:
        raise _unsafe(where, f"it has {total - at} bytes that belong to no array")


def _unsafe(where: str, what: str) -> RefusedError:
    return RefusedError("unsafe_state", f"{where} is not a safetensors file: {what}", [(where, what)])
