"""Disks that fail: a folder of this file on PYTHONPATH has a process fail as the file ``$FAULTS`` says.

Its content is the name of a function of ``os``, and of an error: ``fdatasync EIO``, ``write ENOSPC``. An empty file, or
none: all is well. Of writing, only journals are affected.
"""

import errno
import os
from collections.abc import Callable
from typing import Any

_FILE = os.environ.get("FAULTS", "")


def _path(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - as above


def _failing(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(descriptor: int, *more: Any) -> Any:
        try:
            with open(_FILE) as file:  # noqa: PTH123 - nothing is to be imported in every process
                told = file.read().split()
        except OSError:
            told = []
        if told and told[0] == name and _path(descriptor).endswith(".log"):
            code = getattr(errno, told[1])
            raise OSError(code, os.strerror(code))
        return function(descriptor, *more)

    return call


if _FILE:
    os.write = _failing("write", os.write)
    os.fdatasync = _failing("fdatasync", os.fdatasync)
