"""Fencing: of several processes that see an agent's folder, only the one with the highest epoch may write.

A process that takes over an agent first puts a file ``epochs/<epoch>`` into its folder, and only then reads the folder.
A writer looks for a higher epoch before acknowledging: if there is none, its write came before the other process began
to read, which therefore has it; if there is one, it does not acknowledge. So it does not matter for how long a process
was stopped, at which instruction, or what its clock says.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from ...run_dir.files import make_folders, sync_folder

_FOLDER: Final = "epochs"


class OutdatedError(Exception):
    """Another process has taken over this agent: nothing may be written any more."""


class Fence:
    """The epochs of one agent's folder.

    Args:
        path: the agent's folder.
        epoch: this process's epoch; 0 if no other process can see the folder: then nothing is written or read here.
    """

    def __init__(self, path: Path, epoch: int) -> None:
        self.epoch = epoch
        self._folder = path / _FOLDER

    def put(self) -> None:
        """Take over the folder, before anything in it is read.

        Raises:
            OutdatedError: a later epoch has it.
            OSError: it cannot be written.
        """
        if not self.epoch:
            return
        make_folders(self._folder)
        (self._folder / str(self.epoch)).touch(mode=0o600)
        sync_folder(self._folder)
        self.check()
        for epoch in self._epochs():
            if epoch < self.epoch:
                (self._folder / str(epoch)).unlink(missing_ok=True)
                (self._folder.parent / lock_name(epoch)).unlink(missing_ok=True)

    def check(self) -> None:
        """Raise OutdatedError if another process has taken over the folder, or the folder is gone."""
        if self.epoch and max(self._epochs(), default=-1) != self.epoch:
            raise OutdatedError(f"another server has taken over {self._folder.parent}, in which this one has written")

    def _epochs(self) -> list[int]:
        with contextlib.suppress(FileNotFoundError):
            return [int(name) for name in os.listdir(self._folder) if name.isdecimal()]  # noqa: PTH208 - only names
        return []


def lock_name(epoch: int) -> str:
    """The lock file of an epoch: a lock held by a process believed dead does not block later epochs."""
    return f"lock-{epoch}" if epoch else "lock"
