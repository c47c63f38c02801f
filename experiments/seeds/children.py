"""A process that tells how it goes in lines of JSON, seen from the one that starts it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, cast

ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""For processes that share the machine. TensorFlow's variables are none of these: exact resume compares them."""


class Child:
    """The process.

    Args:
        main: what it calls, with the arguments.
        arguments: text.
        output: where its standard error goes, appended.
        variables: its environment.
    """

    def __init__(
        self,
        main: Callable[[Sequence[str]], None],
        arguments: Sequence[str],
        output: Path,
        variables: Mapping[str, str],
    ) -> None:
        self._rest = b""
        # What can be imported here can be imported there: a model function may be the user's own.
        code = f"import sys; sys.path[:] = {sys.path}; from {main.__module__} import main; main(sys.argv[1:])"
        with output.open("ab") as file:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                stdin=subprocess.PIPE,  # closes when this process ends, whatever ends it
                stdout=subprocess.PIPE,
                stderr=file,
                env=dict(variables),
                start_new_session=True,  # Ctrl-C comes to this process alone, which tells the others
            )
        self.stdout = cast("IO[bytes]", self.popen.stdout)
        os.set_blocking(self.stdout.fileno(), False)

    def read(self) -> bytes | None:
        """What there is to read; empty at the end, None where there is nothing now."""
        try:
            return os.read(self.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return None

    def values(self, data: bytes) -> Iterator[dict[str, Any]]:
        """The whole lines in what was read."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return map(json.loads, lines)

    def write(self, **values: Any) -> None:
        """Write it a line; one that has ended meanwhile is no error."""
        with contextlib.suppress(OSError, ValueError):
            stdin = cast("IO[bytes]", self.popen.stdin)
            stdin.write(json.dumps(values).encode() + b"\n")
            stdin.flush()

    def wait(self, seconds: float) -> None:
        """Wait for its end, which follows that of its output; not for long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(seconds)

    def close(self) -> None:
        """Close the pipes."""
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
