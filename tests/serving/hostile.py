"""Files that are no state of an agent, or a dangerous one, made of a state."""

import io
import itertools
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any


class _Writes:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


def pickled(path: Path) -> bytes:
    """What would write a file if it were unpickled."""
    return pickle.dumps(_Writes(path))


def yaml(path: Path) -> bytes:
    """What would write one if it were loaded by an unsafe loader."""
    return f"!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{path}']]\n".encode()


def zipped(content: bytes) -> bytes:
    """A file in an archive, as PyTorch has it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", content)
    return file.getvalue()


def parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of a safetensors file, and what is behind it."""
    end = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:end])
    return header, content[end:]


def joined(header: dict[str, Any], behind: bytes) -> bytes:
    written = json.dumps(header).encode()
    return len(written).to_bytes(8, "little") + written + behind


def damaged(content: bytes, path: Path) -> dict[str, tuple[bytes, str]]:
    """Files in the place of one with arrays of ``float32``, and the codes with which they must be refused."""
    header, behind = parts(content)
    name, other = _alike(header)
    begin, end = header[name]["data_offsets"]

    def with_entry(**more: Any) -> bytes:
        return joined({**header, name: {**header[name], **more}}, behind)

    overlapping = {"data_offsets": header[name]["data_offsets"]}
    nan = bytearray(behind)
    nan[begin : begin + 4] = b"\x00\x00\xc0\x7f"
    return {
        "pickle": (pickled(path), "unsafe_state"),
        "yaml": (yaml(path), "unsafe_state"),
        "zip": (zipped(pickled(path)), "unsafe_state"),
        "nothing": (b"", "unsafe_state"),
        "a header of 2**63 bytes": ((2**63).to_bytes(8, "little") + content[8:], "unsafe_state"),
        "offsets behind the end": (with_entry(data_offsets=[begin + len(behind), end + len(behind)]), "unsafe_state"),
        "an unknown dtype": (with_entry(dtype="O"), "unsafe_state"),
        "another dtype": (with_entry(dtype="I32"), "state_mismatch"),
        "another shape": (with_entry(shape=[1, *header[name]["shape"]]), "state_mismatch"),
        "NaN": (joined(header, bytes(nan)), "invalid_value"),
        "overlapping offsets": (joined({**header, other: {**header[other], **overlapping}}, behind), "unsafe_state"),
        "bytes of no array": (content + b"\x00" * 8, "unsafe_state"),
    }


def _alike(header: dict[str, Any]) -> tuple[str, str]:
    """The names of two arrays of ``float32`` with the same shape, of which neither is empty."""
    floats = [name for name in header if header[name].get("dtype") == "F32" and 0 not in header[name]["shape"]]
    floats.sort(key=lambda name: header[name]["shape"])
    return next((a, b) for a, b in itertools.pairwise(floats) if header[a]["shape"] == header[b]["shape"])
