import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from axonrl.errors import CheckpointError
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.tests.estimators.dying import DYING, run_dying
from axonrl.tests.run_dir.states import FILES, counted, counter_of, newest


def test_a_second_writer_in_the_same_process_is_refused(tmp_path: Path) -> None:
    first, second = CheckpointStore(tmp_path), CheckpointStore(tmp_path)
    with pytest.raises(ZeroDivisionError), first.lock():
        raise ZeroDivisionError  # which frees it
    with first.lock():
        for store in (second, first):
            with pytest.raises(CheckpointError, match=re.escape(f"{tmp_path} is in use")) as caught, store.lock():
                pass
            assert f"process {os.getpid()}" in str(caught.value)
        with pytest.raises(CheckpointError, match="in use by another writer"):
            second.save(counted(1))
        first.save(counted(1))
        assert newest(second)[0] == 1  # readers need no lock
    with second.lock():
        second.save(counted(2))
        with pytest.raises(CheckpointError, match="in use by another writer"):
            first.save(counted(3))  # what it held once does not count
    assert newest(first)[0] == 2


HOLDER = """
import sys, pathlib
from axonrl.run_dir.checkpoints import CheckpointStore
with CheckpointStore(pathlib.Path(sys.argv[1])).lock():
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_writer_in_another_process_is_refused_until_it_is_gone(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with (
            pytest.raises(CheckpointError, match=rf"is in use by another writer \(process {holder.pid}\)"),
            CheckpointStore(tmp_path).lock(),
        ):
            pass
        holder.kill()
        holder.wait()
    with CheckpointStore(tmp_path).lock():  # a killed writer holds nothing
        pass


COUNTED = """
import json, os, pathlib, signal, sys
import numpy as np
from axonrl.core.protocols import ArraySpec
from axonrl.run_dir import checkpoint_folder, checkpoint_parts
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.core.chunked_arrays import Piece, Stream
from axonrl.tests.run_dir import states

checkpoint_folder._INLINE_BYTES, checkpoint_parts.MOST_PARTS = 0, 3
streams = {}  # with them, a state also has the numbers 10 n .. 100 n - 1, of which the next one shares most

def counted(n):
    if "parts" in sys.argv:
        streams["stream"] = Stream(ArraySpec((), np.int64), [Piece("series", 10 * n, 100 * n, np.arange)])
    return {**streams, **states.counted(n)}

store = CheckpointStore(pathlib.Path(sys.argv[1]), keep_max=2)
"""

SAVING = (
    COUNTED
    + """
with store.lock():
    found = store.load()
    n = found[1]["n"] if found else 0
    print(n, flush=True)
    while True:
        n += 1
        assert int(store.save(counted(n)).name[-8:]) == n
        print(n, flush=True)
"""
)


def test_killed_at_random_instants_the_newest_state_is_whole_and_never_older_than_reported(tmp_path: Path) -> None:
    rng = random.Random(0)
    reported = 0
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", SAVING, str(tmp_path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert int(child.stdout.readline()) == reported  # the child goes on where the one before was killed
            lines = [child.stdout.readline() for _ in range(rng.randrange(1, 8))]
            time.sleep(rng.random() * 0.01)  # somewhere within a save
            child.send_signal(signal.SIGKILL)
            lines += child.stdout.read().splitlines()
            child.wait()
        reported = int(lines[-1])
        index, state = newest(CheckpointStore(tmp_path))  # a warning would be an error
        assert counter_of(state) == index
        assert index in (reported, reported + 1)  # + 1: in place, killed before it was reported
        reported = index


CRASHING = (
    COUNTED
    + DYING
    + """
# Save again and again; the process dies just before its k-th call to the file system, for every k.
for n in range(1, 4):
    store.save(counted(n))
for k in range(1, 100):
    before = store.load()[1]["n"]
    child = os.fork()
    if child == 0:
        die_before_call(k)
        store.save(counted(before + 1))
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    index, state = store.load()
    if streams:
        assert state["stream"].tolist() == list(range(10 * index, 100 * index))
    # Old checkpoints too are whole or gone, however far the pruning got.
    folders = (store.model_dir / "checkpoints").glob("checkpoint-*")
    files = [(folder, json.loads((folder / "manifest.json").read_bytes())["files"]) for folder in folders]
    broken = sum({path.name for path in folder.iterdir()} != {"manifest.json", *names} for folder, names in files)
    print(status, broken, before, index, states.counter_of(state), flush=True)
    if status != 9:
        break
print(sorted(os.listdir(store.model_dir / "checkpoints")))
"""
)


@pytest.mark.parametrize("kind", ["arrays", "parts"])
def test_killed_before_each_call_to_the_file_system(tmp_path: Path, kind: str) -> None:
    *lines, folders = run_dying(CRASHING, str(tmp_path), kind)
    rows = [tuple(map(int, line.split())) for line in lines]
    for _, broken, before, index, counter in rows:
        assert broken == 0
        assert counter == index  # whole, all of it of one save
        assert index in (before, before + 1)
    assert [row[0] for row in rows] == [9] * (len(rows) - 1) + [0]
    died = [(before, index) for status, _, before, index, *_ in rows if status == 9]
    assert any(before == index for before, index in died)  # before the rename
    assert any(before < index for before, index in died)  # after it, while pruning
    last = rows[-1][3]
    assert folders == str([f"checkpoint-{last - 1:08d}", f"checkpoint-{last:08d}"])  # no leftovers


def test_every_file_and_folder_is_on_the_disk_before_the_checkpoint_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(tmp_path)
    store.save(counted(1))
    events = []
    fsync, rename = os.fsync, Path.rename

    def record_fsync(descriptor: int) -> None:
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def record_rename(source: Path, target: Path) -> Path:
        events.append(f"{source.name} -> {target.name}")
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(Path, "rename", record_rename)
    store.save(counted(2))
    hidden = f".checkpoint-00000002-{os.getpid()}.tmp"
    assert events == [*FILES, hidden, f"{hidden} -> checkpoint-00000002", "checkpoints"]
