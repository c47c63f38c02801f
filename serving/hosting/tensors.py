"""Untrusted safetensors: arrays that the library accepts, compared with those that are expected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from safetensors import SafetensorError, deserialize

from ...core.protocols import Array, ArraySpec
from ...run_dir.arrays import DTYPES, encode_arrays
from ..refusals import RefusedError

_ABOUT: Final = "axonrl"
_MOST_HEADER: Final = 1 << 20
_TYPES: Final = {kind: name for name, kind in DTYPES.items()}


def encode(arrays: Mapping[str, Array], about: str | None = None) -> bytes:
    """One safetensors file, with a text in its metadata; equal arrays give equal bytes."""
    return b"".join(encode_arrays(arrays, None if about is None else {_ABOUT: about}))


def decode(content: bytes, where: str) -> tuple[dict[str, Array], Any]:
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


class Group(NamedTuple):
    """Expected arrays, whose names have a prefix; ``where``: their place in the request, for errors.

    ``most``: the maximum length of an additional first axis, which is the same for all of them; None if there is none.
    """

    prefix: str
    where: str
    specs: Mapping[str, ArraySpec]
    most: int | None = None


def check_groups(arrays: Mapping[str, Array], *groups: Group) -> list[dict[str, Array]]:
    """Compare arrays with an agent's own, and check their values.

    Returns:
        The arrays of each group, without prefixes.

    Raises:
        RefusedError: ``state_mismatch`` for other arrays, ``unsafe_state`` for a boolean that is neither 0 nor 1,
            ``invalid_value`` if a number is NaN or infinite.
    """
    differing = sorted(set(arrays) ^ {group.prefix + name for group in groups for name in group.specs})
    if differing:
        raise mismatch("the state", f"holds other arrays than this agent's: {', '.join(differing[:3])}"[:300])
    return [_check_group(arrays, *group) for group in groups]


def _check_group(
    arrays: Mapping[str, Array], prefix: str, where: str, specs: Mapping[str, ArraySpec], most: int | None
) -> dict[str, Array]:
    found = {name: arrays[prefix + name] for name in specs}
    rows = () if most is None else next(iter(found.values())).shape[:1] or (0,)
    if most is not None and any(count > most for count in rows):
        raise mismatch(where, f"holds {rows[0]:,} rows, of which this agent has at most {most:,}")
    for name, array in found.items():
        spec, full = specs[name], (*rows, *specs[name].shape)
        if (array.dtype, array.shape) != (spec.dtype, full):
            got, own = f"{array.dtype}{list(array.shape)}", f"{spec.dtype}{list(full)}"
            raise mismatch(where, f"holds {name} as {got}, this agent's is {own}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise RefusedError("invalid_value", f"{where}: {name} is not finite", [(where, f"{name} is not finite")])
        if array.dtype.kind == "b" and bool((array.view(np.uint8) > 1).any()):
            raise _unsafe(where, f"{name} holds bytes other than 0 and 1")
    return found


def mismatch(where: str, what: str) -> RefusedError:
    """The refusal of a state of another agent."""
    return RefusedError("state_mismatch", f"{where} {what}", [(where, what)])


def _unsafe(where: str, what: str) -> RefusedError:
    return RefusedError("unsafe_state", f"{where} is not a safetensors file: {what}", [(where, what)])
