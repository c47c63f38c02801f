"""Checkpoints: one folder each, written atomically, verified when read, with one writer at a time."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from ..core.errors import CheckpointError
from ..core.protocols import State
from .checkpoint_folder import FOR_GOOD, KEPT_SINCE, MANIFEST, Content, read, read_manifest, temporary_of
from .checkpoint_parts import Part
from .files import make_folders, remove

BEGINNING: Final = 1
"""Index of the first checkpoint of a run, written before its first timestep."""
_FOLDER: Final = re.compile(r"checkpoint-(\d{8,})", re.ASCII)


class CheckpointStore:
    """The checkpoints of a run, in ``<model_dir>/checkpoints``.

    A checkpoint is the folder ``checkpoint-<index>``; the index counts the saves of the run from 1 and is never reused.
    It is written as a hidden folder, synced to disk and renamed, so that a crash at any time leaves earlier checkpoints
    intact. It contains ``arrays.safetensors``, ``state.json``, and ``manifest.json`` with the size and the SHA-256 of
    each file.

    Chunked arrays (see :mod:`axonrl.core.chunked_arrays`) are in further files, the parts (see
    :mod:`.checkpoint_parts`). A new checkpoint links the parts of the one that this store last wrote or read, whose
    state it must continue, and writes only new items. Each folder is complete: it may be copied or removed
    independently of the others.

    Args:
        model_dir: the run's directory; created by the first writer.
        keep_max: number of newest checkpoints to keep.
        lock_name: file to lock in ``model_dir``; concurrent writers need different ones.
        keep_every_hours: keep a checkpoint permanently if it is written at least this many hours after the last
            permanent one, or after the very first checkpoint; None for none. Existing permanent checkpoints are always
            kept.
        clock: returns seconds since the epoch; for tests.

    Raises:
        ValueError: ``keep_max`` is below 1.
    """

    def __init__(
        self,
        model_dir: Path,
        keep_max: int = 5,
        lock_name: str = "lock",
        *,
        keep_every_hours: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(keep_max, bool) or not isinstance(keep_max, int) or keep_max < 1:
            raise ValueError(f"keep_max must be an integer of at least 1, got {keep_max!r}")
        self.model_dir = Path(model_dir)
        self.keep_max = keep_max
        self._folder = self.model_dir / "checkpoints"
        self._lock_name = lock_name
        self._keep_every_hours = keep_every_hours
        self._clock = clock
        self._locked = False
        self._parts: list[Part] = []  # of the checkpoint that this store last wrote or read

    @contextlib.contextmanager
    def lock(self, *, trains: bool = True) -> Iterator[bool]:
        """Be the only writer, in this process and on this machine, within the context. Readers need no lock.

        Args:
            trains: whether the run continues within the context; if not, a run whose writer was killed stays known as
                killed.

        Yields:
            Whether the writer before was killed.

        Raises:
            CheckpointError: there is another writer (names its process, if known), or ``model_dir`` cannot be written;
                raised at once, without waiting.
        """
        lock = FileLock(self.model_dir / self._lock_name, thread_local=False)
        # Not in the lock file itself, which other writers may truncate on opening.
        holder = self.model_dir / f"{self._lock_name}.pid"
        try:
            make_folders(self.model_dir)
            lock.acquire(blocking=False)
        except Timeout:
            raise CheckpointError(f"{self.model_dir} is in use by another writer{_holder(holder)}") from None
        except OSError as error:
            raise CheckpointError(f"the model directory {self.model_dir} cannot be used: {error}") from error
        killed = b""
        try:
            self._locked = True
            with contextlib.suppress(OSError):  # serves the message above, and says who was killed
                killed = holder.read_bytes() if holder.exists() else b""
                holder.write_text(str(os.getpid()))
            yield bool(killed)
        finally:
            self._locked = False
            with contextlib.suppress(OSError):
                if killed and not trains:
                    holder.write_bytes(killed)
                else:
                    holder.unlink()
            lock.release()

    def newest(self) -> int | None:
        """Index of the newest checkpoint, by name only; ``None`` if there is none.

        Raises:
            CheckpointError: the checkpoints' folder cannot be read, or is a file.
        """
        return max(self._indices(), default=None)

    def indices(self) -> list[int]:
        """Indices of all checkpoints, by name only, oldest first; errors as for :meth:`newest`."""
        return sorted(self._indices())

    def save(self, state: State, about: Mapping[str, Any] | None = None) -> Path:
        """Write a checkpoint, then remove the oldest ones beyond ``keep_max``, except permanent ones.

        Takes the lock if it is not held.

        Args:
            state: maps strings to arrays, chunked arrays, JSON values or further mappings; ``state["counters"]`` is
                also shown in the manifest. Arrays may have any layout and byte order; they are read back contiguous and
                native.
            about: JSON values for :meth:`about`, which does not read the state.

        Returns:
            The folder of the checkpoint, synced to disk.

        Raises:
            ValueError: a value cannot be stored exactly; names its place. Nothing is written.
            CheckpointError: another writer, or the disk is full or not writable. Earlier checkpoints are unchanged.
        """
        content = Content.of(state)
        with contextlib.nullcontext() if self._locked else self.lock():
            newest = self.newest()
            folder = self.folder_of((newest or 0) + 1)
            shown = ({} if about is None else {"about": dict(about)}) | self._kept_for()
            try:
                make_folders(self._folder)
                for leftover in self._folder.glob(".checkpoint-*.tmp"):  # of killed writers: this one holds the lock
                    shutil.rmtree(leftover, ignore_errors=True)
                self._parts = content.write(folder, shown, self._parts)
            except OSError as error:
                earlier = f" (newest: {self.folder_of(newest).name})" if newest is not None else " (there are none yet)"
                raise CheckpointError(
                    f"the checkpoint {folder} cannot be written: {error}; the earlier checkpoints stay valid{earlier}"
                ) from error
            self._prune()
        return folder

    def load(self) -> tuple[int, State] | None:
        """Read the newest intact checkpoint, with arrays instead of chunked arrays; see :meth:`open`."""
        return self._newest_whole(streams=False)

    def open(self) -> tuple[int, State] | None:
        """Read the newest intact checkpoint. Skipping a damaged one gives a ``UserWarning`` that names it.

        Returns:
            Its index and its state; ``None`` if there are no checkpoints at all. Chunked arrays read from its files,
            even after these are removed; they have been verified.

        Raises:
            CheckpointError: all are damaged (lists each with its damage), or they cannot be read.
        """
        return self._newest_whole(streams=True)

    def read(self, index: int) -> State:
        """Read the state of a checkpoint, in the form of :meth:`open`.

        Raises:
            CheckpointError: it is damaged or missing; names it.
        """
        folder = self.folder_of(index)
        try:
            return read(folder, index, streams=True)[0]
        except CheckpointError as error:
            raise CheckpointError(f"the checkpoint {folder} is damaged: {error}") from error

    def about(self, index: int) -> tuple[dict[str, Any], int]:
        """Read the ``about`` values of a checkpoint and its size in bytes, from its manifest only.

        Raises:
            CheckpointError: the manifest is damaged or missing.
        """
        path = self.folder_of(index) / MANIFEST
        manifest, records = read_manifest(path, index)
        return manifest.get("about", {}), path.stat().st_size + sum(one.size for one in records.values())

    def _newest_whole(self, *, streams: bool) -> tuple[int, State] | None:
        damage: dict[int, str] = {}
        while left := [index for index in self._indices() if index not in damage]:
            index = max(left)
            folder = self.folder_of(index)
            try:
                state, parts = read(folder, index, streams)
            except CheckpointError as error:
                if os.path.lexists(folder):  # if not, a writer has just removed it: look again for newer ones
                    damage[index] = str(error)
                continue
            for other, what in damage.items():
                message = f"the checkpoint {self.folder_of(other)} is damaged: {what}; using {folder.name} instead"
                warnings.warn(message, UserWarning, stacklevel=3)
            self._parts = parts
            return index, state
        if damage:
            each = "".join(f"\n  {self.folder_of(index).name}: {what}" for index, what in damage.items())
            raise CheckpointError(f"every checkpoint in {self._folder} is damaged:{each}")
        return None

    def folder_of(self, index: int) -> Path:
        """The folder of a checkpoint."""
        return self._folder / f"checkpoint-{index:08d}"

    def _indices(self) -> list[int]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - names are all that is wanted
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError(f"the checkpoints in {self._folder} cannot be read: {error}") from error
        indices = [int(match[1]) for name in names if (match := _FOLDER.fullmatch(name))]
        return [index for index in indices if self.folder_of(index).name in names]  # not "checkpoint-0000000001"

    def _kept_for(self) -> dict[str, Any]:
        """Manifest entries on how long the next checkpoint is kept."""
        if self._keep_every_hours is None:
            return {}
        now = self._clock()
        said = (self._manifest(index) for index in sorted(self._indices(), reverse=True))
        since = next((manifest[KEPT_SINCE] for manifest in said if KEPT_SINCE in manifest), now)
        for_good = now - since >= 3600 * self._keep_every_hours
        return {FOR_GOOD: for_good, KEPT_SINCE: now if for_good else since}

    def _manifest(self, index: int) -> Mapping[str, Any]:
        """Read the manifest; empty if it is damaged."""
        try:
            return read_manifest(self.folder_of(index) / MANIFEST, index)[0]
        except CheckpointError:
            return {}

    def _prune(self) -> None:
        for index in sorted(self._indices())[: -self.keep_max]:
            folder = self.folder_of(index)
            if self._manifest(index).get(FOR_GOOD):
                continue
            try:
                # Renamed first, so that a partly removed folder is never taken for a checkpoint.
                remove(folder.rename(temporary_of(folder)))
            except OSError as error:
                warnings.warn(f"the old checkpoint {folder} cannot be removed: {error}", UserWarning, stacklevel=3)


def _holder(path: Path) -> str:
    try:
        return f" (process {int(path.read_text())})"
    except (OSError, ValueError):
        return ""
