"""Untrusted safetensors: arrays that the library accepts, compared with those that are expected."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError, deserialize

from ...core.protocols import Array, ArraySpec
from ...run_dir.arrays import DTYPES, encode_arrays
from ..refusals import RefusedError

_ABOUT: Final = "axonrl"
_MOST_HEADER: Final = 1 << 20
_TYPES: Final = {kind: name for name, kind in DTYPES.items()}


def encoded(arrays: Mapping[str, Array], about: str | None = None) -> bytes:
    """One safetensors file, with a text in its metadata; equal arrays give equal bytes."""
    return b"".join(encode_arrays(arrays, None if about is None else {_ABOUT: about}))


def decoded(content: bytes, where: str) -> tuple[dict[str, Array], Any]:
    """The arrays of a safetensors file, each byte of which belongs to its header or to one of them.

    Args:
        content: the file.
        where: its place in the request, for errors.

    Returns:
        The arrays by name, and the text in its metadata; anything, where there is none.

    Raises:
        RefusedError: ``unsafe_state``: it is not a complete safetensors file, or has types that NumPy lacks.
    """
    begin = 8 + int.from_bytes(content[:8], "little")
    try:
        if begin > _MOST_HEADER:
            raise SafetensorError("its header is too large")
        found = deserialize(content)  # type: ignore[no-untyped-call]
        arrays = {name: np.frombuffer(one["data"], _TYPES[one["dtype"]]).reshape(one["shape"]) for name, one in found}
    except SafetensorError as error:
        raise _unsafe(where, str(error).removeprefix("Error while deserializing: ")) from None
    except KeyError as error:
        raise _unsafe(where, f"NumPy has no type {error}") from None
    metadata = json.loads(content[8:begin]).get("__metadata__") or {}
    return arrays, metadata.get(_ABOUT)


def expected(
    arrays: Mapping[str, Array], groups: Sequence[tuple[Mapping[str, ArraySpec], int | None]], where: str
) -> dict[str, Array]:
    """Compare arrays with an agent's own, and check their values.

    Args:
        arrays: arrays of a client.
        groups: expected arrays, each group with None if the shapes are exact; else with the maximum length of an
            additional first axis, which is the same for all arrays of the group.
        where: their place in the request, for errors.

    Returns:
        The arrays in the order of the groups.

    Raises:
        RefusedError: ``state_mismatch`` for other arrays, ``unsafe_state`` for a boolean that is neither 0 nor 1,
            ``invalid_value`` if a number is NaN or infinite.
    """
    differing = sorted(set(arrays) ^ {name for group, _ in groups for name in group})
    if differing:
        raise mismatch(where, f"holds other arrays than this agent's: {', '.join(differing[:3])}"[:300])
    for group, most in groups:
        rows = arrays[next(iter(group))].shape[:1] if most is not None else ()
        if any(count > (most or 0) for count in rows):
            raise mismatch(where, f"holds {rows[0]:,} rows, of which this agent has at most {most:,}")
        for name, spec in group.items():
            array, full = arrays[name], (*rows, *spec.shape)
            if (array.dtype, array.shape) != (spec.dtype, full):
                got, own = f"{array.dtype}{list(array.shape)}", f"{spec.dtype}{list(full)}"
                raise mismatch(where, f"holds {name} as {got}, this agent's is {own}")
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise RefusedError(
                    "invalid_value", f"{where}: {name} is not finite", [(where, f"{name} is not finite")]
                )
            if array.dtype.kind == "b" and bool((array.view(np.uint8) > 1).any()):
                raise _unsafe(where, f"{name} holds other bytes than 0 and 1")
    return {name: arrays[name] for group, _ in groups for name in group}


def mismatch(where: str, what: str) -> RefusedError:
    """The refusal of a state of another agent."""
    return RefusedError("state_mismatch", f"{where} {what}", [(where, what)])


def _unsafe(where: str, what: str) -> RefusedError:
    return RefusedError("unsafe_state", f"{where} is not a safetensors file: {what}", [(where, what)])
