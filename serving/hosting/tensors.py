"""Untrusted safetensors: the header is compared with the expected arrays before anything is read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from safetensors.numpy import save

from ...core.protocols import Array, ArraySpec
from .failures import RefusedError

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


def encoded(arrays: Mapping[str, Array]) -> bytes:
    """One safetensors file; equal arrays give equal bytes."""
    content: bytes = save({name: np.array(array, order="C") for name, array in arrays.items()})
    return content


def decoded(
    content: bytes, where: str, groups: Sequence[tuple[Mapping[str, ArraySpec], int | None]]
) -> dict[str, Array]:
    """The arrays of a safetensors file, as views of it.

    Args:
        content: the file.
        where: its place in the request, for errors.
        groups: expected arrays, each group with None if the shapes are exact; else with the maximum length of an
            additional first axis, which is the same for all arrays of the group.

    Raises:
        RefusedError: ``unsafe_state`` if it is not a complete safetensors file, ``state_mismatch`` if it holds other
            arrays, ``invalid_value`` if a number is NaN or infinite.
    """
    header, begin = _header(content, where)
    header.pop("__metadata__", None)
    expected = {name for group, _ in groups for name in group}
    if set(header) != expected:
        differing = sorted(set(header) ^ expected)
        raise _mismatch(where, f"other arrays than this agent's: {', '.join(differing[:3])}"[:300])
    found: dict[str, Array] = {}
    spans: list[tuple[int, int]] = []
    for group, rows in groups:
        count: int | None = None
        for name, spec in group.items():
            dtype, shape, span = _entry(header[name], where, name)
            if rows is not None:
                if not shape or shape[0] > rows or (count is not None and shape[0] != count):
                    raise _mismatch(where, f"{name} of the shape {list(shape)}")
                count = shape[0]
            full = spec.shape if count is None else (count, *spec.shape)
            if dtype != spec.dtype or shape != full:
                raise _mismatch(where, f"{name} as {dtype}{list(shape)}, this agent's is {spec.dtype}{list(full)}")
            size = math.prod(full) * dtype.itemsize
            if span[1] - span[0] != size or begin + span[1] > len(content):
                raise _unsafe(where, f"{name} has {span[1] - span[0]} bytes, its shape needs {size}")
            spans.append(span)
            found[name] = np.frombuffer(content, dtype, size // dtype.itemsize, begin + span[0]).reshape(full)
    _refuse_gaps(spans, len(content) - begin, where)
    for name, array in found.items():
        _refuse_values(array, where, name)
    return found


def joined(files: Mapping[str, bytes], about: str) -> bytes:
    """Join several safetensors files into one, with a prefix for each file's arrays; ``about`` is in the metadata."""
    header: dict[str, Any] = {"__metadata__": {_ABOUT: about}}
    pieces, total = [], 0
    for prefix, content in files.items():
        inner, begin = _header(content, prefix)
        inner.pop("__metadata__", None)
        for name, entry in inner.items():
            header[prefix + name] = {**entry, "data_offsets": [total + at for at in entry["data_offsets"]]}
        pieces.append(content[begin:])
        total += len(content) - begin
    return _file(header, pieces)


def parted(content: bytes, where: str, prefixes: Sequence[str]) -> tuple[dict[str, bytes], str]:
    """The inverse of :func:`joined`: a file for each prefix, and ``about``.

    Checks only that their arrays cover the content, each byte once, so that no more is copied than was received.

    Raises:
        RefusedError: it is not such a file.
    """
    header, begin = _header(content, where)
    about = header.pop("__metadata__", None)
    if not isinstance(about, dict) or not isinstance(about.get(_ABOUT), str):
        raise _unsafe(where, "its metadata do not describe a state")
    spans = {name: _entry(entry, where, name)[2] for name, entry in header.items()}
    _refuse_gaps(list(spans.values()), len(content) - begin, where)
    files = {}
    for prefix in prefixes:
        names = [name for name in header if name.startswith(prefix)]
        inner, pieces, total = dict[str, Any](), [], 0
        for name in names:
            first, end = spans[name]
            inner[name.removeprefix(prefix)] = {**header.pop(name), "data_offsets": [total, total + end - first]}
            pieces.append(content[begin + first : begin + end])
            total += end - first
        files[prefix] = _file(inner, pieces)
    if header:
        raise _mismatch(where, f"other arrays than a state's: {', '.join(sorted(header)[:3])}"[:300])
    return files, about[_ABOUT]


def _file(header: Mapping[str, Any], pieces: Sequence[bytes]) -> bytes:
    written = json.dumps(header, separators=(",", ":")).encode()
    written += b" " * (-len(written) % 8)
    return len(written).to_bytes(8, "little") + written + b"".join(pieces)


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


def _entry(value: Any, where: str, name: str) -> tuple[np.dtype[Any], tuple[int, ...], tuple[int, int]]:
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


def _mismatch(where: str, what: str) -> RefusedError:
    return RefusedError("state_mismatch", f"{where} holds {what}", [(where, what)])
