"""Arrays as safetensors files, and states (nested mappings) as arrays and JSON.

The safetensors library reads and checks files. Its ``save_file`` is not used, as it stores non-contiguous arrays in the
wrong order without a warning, hides the operating system's error number, and leaves a randomly named file when killed.
The format is: 8 bytes with the length of the header (little-endian), the header in JSON, the arrays in order.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np
from safetensors import SafetensorError, safe_open

from ..core.chunked_arrays import Stream
from ..core.errors import CheckpointError
from ..core.protocols import Array, State
from .files import CHUNK_BYTES, write_atomically

DTYPES: Final = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
}
"""NumPy's name of a dtype to the name in safetensors."""
_METADATA: Final = "__metadata__"
"""The only name in a safetensors header that is not the name of an array."""

# Marks in state.json: an object whose only key is one of these is not a mapping of the state. In the state's own keys,
# a leading "$" is doubled.
_ARRAY, _SCALAR, _INT = "$array", "$scalar", "$int"


def save_arrays(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays into one safetensors file, with :func:`.files.write_atomically`.

    Args:
        path: the file.
        arrays: name to array, of a boolean, integer or floating dtype of at most 64 bits.
        metadata: texts for the file's header.

    Raises:
        ValueError: a dtype that safetensors or NumPy lacks, or metadata that is not text; names it.
        CheckpointError: the file cannot be written.
    """
    write_atomically(path, encode_arrays(arrays, metadata))


def load_arrays(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Read a safetensors file.

    Returns:
        The arrays by name (in no particular order), writable and in this machine's byte order, and the metadata.

    Raises:
        CheckpointError: it is missing, unreadable, or not a complete safetensors file; names it.
    """
    try:
        with safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def encode_arrays(
    arrays: Mapping[str, Array | Stream], metadata: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """Encode arrays in the safetensors format, piece by piece; contiguous arrays are not copied, others one at a time.

    A chunked array is read in chunks.

    Raises:
        ValueError: as for :func:`save_arrays`, before the first piece.
    """
    header: dict[str, Any] = {}
    for name, text in (metadata or {}).items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ValueError(f"metadata must map strings to strings, got {name!r}: {text!r}")
        header.setdefault(_METADATA, {})[name] = text
    names = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)  # keeps every array aligned
    offset = 0
    for name in names:
        array = arrays[name]
        if name == _METADATA:
            raise ValueError(f"an array cannot be named {name!r}, which safetensors reserves")
        if array.dtype.name not in DTYPES:
            raise ValueError(f"array {name!r} has the dtype {array.dtype}, expected one of {', '.join(DTYPES)}")
        end = offset + array.nbytes
        header[name] = {"dtype": DTYPES[array.dtype.name], "shape": array.shape, "data_offsets": (offset, end)}
        offset = end
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    return itertools.chain([len(encoded).to_bytes(8, "little"), encoded], *(_pieces(arrays[name]) for name in names))


def split_state(state: State) -> tuple[dict[str, Array | Stream], dict[str, Any]]:
    """Split a state into arrays and a JSON value; :func:`join_state` is the inverse.

    An array is named by its path of keys, quoted as in a URL and joined by ``/``. NumPy scalars become arrays without
    axes and are restored as scalars, as a Python float would change the dtypes of later computations. Chunked arrays
    stay chunked.

    Raises:
        ValueError: a value cannot be stored exactly; names its place in the state.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"a state must be a mapping, got {type(state).__name__}")
    arrays: dict[str, Array | Stream] = {}
    return arrays, _encode_mapping(state, "state", "", arrays)


def join_state(arrays: Mapping[str, Any], tree: Any) -> Any:
    """Join what :func:`split_state` returned.

    Raises:
        CheckpointError: an array is missing; names it.
    """
    if isinstance(tree, list):
        return [join_state(arrays, item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) == 1:
        ((mark, value),) = tree.items()
        if mark in (_ARRAY, _SCALAR):
            if value not in arrays:
                raise CheckpointError(f"the array {value!r} is missing")
            return arrays[value] if mark == _ARRAY else arrays[value][()]
        if mark == _INT:
            return int(value, 16)
    return {key[key.startswith("$") :]: join_state(arrays, value) for key, value in tree.items()}


def _encode_mapping(value: Mapping[Any, Any], path: str, prefix: str, arrays: dict[str, Array | Stream] | None) -> Any:
    result = {}
    for key, item in value.items():
        if type(key) is not str:
            raise ValueError(f"the keys of {path} must be strings, got {key!r}")
        name = prefix + quote(key, safe=" :", errors="surrogatepass")
        mark = "$" if key.startswith("$") else ""
        result[mark + key] = _encode(item, f"{path}[{key!r}]", name, arrays)
    return result


def _encode(value: Any, path: str, name: str, arrays: dict[str, Array | Stream] | None) -> Any:
    """Encode ``value`` as JSON; arrays are moved to ``arrays``, which is ``None`` inside lists."""
    kind = type(value)
    if kind is int:
        # Python limits the length of decimal numbers.
        return value if value.bit_length() <= 128 else {_INT: hex(value)}
    if value is None or kind in (bool, float, str):
        return value
    if kind is list:
        return [_encode(item, f"{path}[{i}]", name, None) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return _encode_mapping(value, path, f"{name}/", arrays)
    # Exact types only: a masked array, for example, would lose its mask.
    if not (isinstance(value, np.generic) or kind in (np.ndarray, np.memmap, Stream)):
        raise ValueError(
            f"{path} is of type {kind.__name__}; a state holds mappings, NumPy arrays, None, bool, int, float, str"
            f" and lists of these values"
        )
    if arrays is None:
        raise ValueError(f"{path} is a NumPy value inside a list; arrays are allowed in mappings only")
    if value.dtype.name not in DTYPES:
        raise ValueError(f"{path} has the dtype {value.dtype}, expected one of {', '.join(DTYPES)}")
    if name == _METADATA:
        name = "%5F" + name[1:]  # quote() never writes this
    arrays[name] = value if isinstance(value, Stream) else np.asarray(value)
    return {_SCALAR if isinstance(value, np.generic) else _ARRAY: name}


def _pieces(array: Array | Stream) -> Iterator[memoryview]:
    """Yield the bytes of an array: C order, little-endian."""
    if isinstance(array, Stream):
        for chunk in array.chunks():
            yield from _pieces(chunk)
        return
    flat = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
    for start in range(0, flat.size, CHUNK_BYTES):
        yield flat[start : start + CHUNK_BYTES].data
