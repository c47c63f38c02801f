"""Which process may write to an agent's folder, where several see it: the one with the highest epoch.

Whoever takes an agent over first puts a file ``epochs/<epoch>`` into its folder, and reads the folder only then. Who
wrote something looks for a higher epoch before acknowledging it: if there is none, what was written came before the
other one began to read, which so has it; if there is one, it is not acknowledged. So it does not matter for how long a
process was stopped, or between which two instructions, or what its clock says.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from ...run_dir.files import make_folders, sync_folder

_FOLDER: Final = "epochs"


class OutdatedError(Exception):
    """Another process has taken over this agent since: nothing may be written any more."""


class Fence:
    """The epochs of one agent's folder.

    Args:
        path: the agent's folder.
        epoch: this process's; 0 where no other process can see the folder, and then nothing is written or read here.
    """

    def __init__(self, path: Path, epoch: int) -> None:
        self.epoch = epoch
        self._folder = path / _FOLDER

    def put(self) -> None:
        """Take the folder over, before anything in it is read.

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
        """Nobody has taken it over since; OutdatedError if somebody has, or the folder is gone."""
        if self.epoch and max(self._epochs(), default=-1) != self.epoch:
            raise OutdatedError(f"another server has taken over {self._folder.parent}, in which this one has written")

    def _epochs(self) -> list[int]:
        with contextlib.suppress(FileNotFoundError):
            return [int(name) for name in os.listdir(self._folder) if name.isdecimal()]  # noqa: PTH208 - only names
        return []


def lock_name(epoch: int) -> str:
    """The lock of an epoch: one that a process holds which is believed dead keeps no later one out."""
    return f"lock-{epoch}" if epoch else "lock"
