"""States that were damaged, or are dangerous: they are refused, and the agent is as it was."""

import base64
import io
import itertools
import json
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonrl.serving.hosting.agent import HostedAgent, to_bytes
from axonrl.serving.refusals import RefusedError

from .hosted import Host

SIZES = ("model", "state_size", "action_size")
Sent = Callable[..., str]


@pytest.fixture
def sent(learned: tuple[Host, HostedAgent], tmp_path: Path) -> Iterator[Sent]:
    """Puts states into the agent; nothing that was sent has changed it in the end, or written a file."""
    host, agent = learned

    def put(state: Any, *, is_file: bool = False) -> str:
        """The code with which it is refused; empty where it is taken."""
        try:
            agent.put_state(state if is_file else to_bytes(state), host.stepper_of, is_file=is_file)
        except RefusedError as error:
            return error.code if error.status == 422 else f"{error.status}"
        return ""

    before = agent.get_state(), agent.info().value["counters"]
    assert before[1] == {"global_timestep": 30, "global_step": 23, "global_episode": 1}
    yield put
    assert (agent.get_state(), agent.info().value["counters"]) == before
    assert list(tmp_path.iterdir()) == []


class _Writes:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


def as_pickle(path: Path) -> bytes:
    """What would write a file if it were unpickled."""
    return pickle.dumps(_Writes(path))


def as_yaml(path: Path) -> bytes:
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
        "pickle": (as_pickle(path), "unsafe_state"),
        "yaml": (as_yaml(path), "unsafe_state"),
        "zip": (zipped(as_pickle(path)), "unsafe_state"),
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


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_snapshots_that_are_refused(untouched: HostedAgent, sent: Sent, tmp_path: Path) -> None:
    state = untouched.get_state().value
    changes: list[tuple[dict[str, Any], str]] = []
    for field in ("encoded_network", "encoded_buffer"):
        whole = base64.b64decode(state[field])
        made = damaged(whole, tmp_path / "written")
        changes += [({field: encoded(content)}, code) for content, code in made.values()]
        no_text: list[Any] = ["no base64!", None, []]
        changes += [({field: other}, "unsafe_state") for other in no_text]
    pickled, yaml = as_pickle(tmp_path / "written"), as_yaml(tmp_path / "written")
    many = b"[" + b"[]," * 120_000 + b"[]]"  # JSON, and too much of it to be read
    changes += [({"encoded_config": encoded(content)}, "unsafe_state") for content in (pickled, yaml, many)]
    changes += [({field: what}, "state_mismatch") for field in SIZES for what in (encoded(pickled), [*yaml], None)]
    changes += [({"model": "ppo"}, "state_mismatch"), ({"state_size": 5}, "state_mismatch")]
    changes += [({"action_size": "2"}, "state_mismatch"), ({"more": 1}, "invalid_value")]
    for change, code in changes:
        assert sent({**state, **change}) == code, str(change)[:300]
    for field in state:
        assert sent({name: value for name, value in state.items() if name != field}) == "invalid_value", field
    assert sent(state) == ""


def test_files_that_are_refused(untouched: HostedAgent, sent: Sent, tmp_path: Path) -> None:
    content = untouched.get_state(as_file=True).value
    header, behind = parts(content)
    for what, (made, code) in damaged(content, tmp_path / "written").items():
        assert sent(made, is_file=True) == code, what
    about = json.loads(header["__metadata__"]["axonrl"])
    pickled, yaml = as_pickle(tmp_path / "written"), as_yaml(tmp_path / "written").decode()
    changes: list[tuple[dict[str, Any], str]] = [
        *(({field: what}, "state_mismatch") for field in SIZES for what in (yaml, [*pickled])),
        *(({"config": what}, "unsafe_state") for what in (yaml, encoded(pickled))),
        *(({"config": [*pickled]}, "invalid_value"), ({"more": 1}, "invalid_value")),
    ]
    for change, code in changes:
        metadata = {"axonrl": json.dumps({**about, **change})}
        assert sent(joined({**header, "__metadata__": metadata}, behind), is_file=True) == code, change
    others: list[tuple[dict[str, Any], str]] = [
        *(({}, "unsafe_state"), ({"axonrl": [1]}, "unsafe_state"), ({"axonrl": "a: b"}, "unsafe_state")),
        ({"axonrl": "[]"}, "invalid_value"),
    ]
    for other, code in others:
        assert sent(joined({**header, "__metadata__": other}, behind), is_file=True) == code, other
    assert sent(content, is_file=True) == ""
