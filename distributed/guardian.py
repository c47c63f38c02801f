"""A local Ray cluster that ends with the process that started it, even if that process is killed.

Ray's daemons may outlive a driver that is killed. So they run below a small process, the guardian, which holds a pipe
to the driver and ends them all when the pipe closes. It has its own session, so that Ctrl-C in a terminal reaches
only the driver, and it adopts orphaned descendants, so that it finds all of them.

The guardian, and the process that starts Ray, run this file as a script; it imports nothing of axonrl.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_START_S: Final = 60.0
_END_S: Final = 20.0
_LOOK_S: Final = 0.5
"""Seconds between checks for the driver; forked processes may hold the pipe open."""
_LEFT: Final = b"."
"""Sent by the driver before it closes the pipe; without it, the driver was killed, or ended by Ray."""
_NEEDED: Final = ("raylet", "gcs_server")
"""Daemons that the cluster cannot work without."""
_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): orphans below this process become its children."""
_LONGEST_FOLDER: Final = 30
"""Longest folder, in characters; Ray puts its sockets below it, and their paths are limited to 107."""


class Guardian:
    """A local cluster, and the process that ends it.

    Args:
        params: parameters of Ray's node, as JSON values.
        env: environment variables of the cluster's processes.

    Raises:
        RuntimeError: the cluster does not start; the message includes Ray's.
    """

    def __init__(self, params: Mapping[str, Any], env: Mapping[str, str]) -> None:
        base = tempfile.gettempdir()
        base = base if len(base) <= _LONGEST_FOLDER else "/tmp"
        self.folder = tempfile.mkdtemp(prefix="axonrl-ray-", dir=base)
        command = [sys.executable, "-I", "-S", __file__, "guard", self.folder, json.dumps(params)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True
        )
        self.pid = self._process.pid
        self.ended: str | None = None
        """Which of Ray's daemons has ended, as last reported."""
        try:
            self.address = self._answer()
        except BaseException:
            self.close()
            raise

    def _answer(self) -> str:
        output = self._process.stdout
        assert output is not None
        ready, _, _ = select.select([output], [], [], _START_S)
        line = output.readline() if ready else b""
        if not line:
            raise RuntimeError(f"Ray did not start within {_START_S:.0f} s")
        answer = json.loads(line)
        if answer["code"] != 0:
            raise RuntimeError(f"Ray did not start:\n{answer['said']}")
        started = json.loads(str(answer["said"]).splitlines()[-1])
        self.daemons: dict[str, int] = started["daemons"]
        return str(started["address"])

    def ended_daemon(self) -> str | None:
        """Report which of Ray's daemons has ended, as a message; None while all run."""
        output = self._process.stdout
        if self.ended is None and output is not None and select.select([output], [], [], 0)[0]:
            line = output.readline()
            self.ended = json.loads(line)["ended"] if line else "the guardian process of the Ray cluster has ended"
        return self.ended

    def close(self) -> None:
        """End the cluster; returns when its processes have ended."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(_LEFT)
                self._process.stdin.flush()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(_END_S + 10)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def descendants(pid: int) -> set[int]:
    """All running processes below this one, zombies excluded."""
    children: dict[int, list[int]] = {}
    for one, parent in _processes():
        children.setdefault(parent, []).append(one)
    found: set[int] = set()
    open_ = [pid]
    while open_:
        new = set(children.get(open_.pop(), ())) - found
        found |= new
        open_ += new
    return found


def _processes() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    yield int(folder.name), int(parent)


def guard(folder: str, params: str) -> None:
    """Start a cluster, print its address, wait until the driver ends, and end the cluster."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    said = Path(folder, "start.log")
    try:
        with said.open("wb") as log:
            command = [sys.executable, __file__, "start", folder, params]
            starting = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        code = _code_of(starting.pid, parent)
        answer = {"code": code, "said": said.read_text(errors="replace")[-3000:]}
        os.write(1, json.dumps(answer).encode() + b"\n")
        if code == 0:
            _watch(parent, json.loads(str(answer["said"]).splitlines()[-1])["daemons"])
    finally:
        _end_all()
        shutil.rmtree(folder, ignore_errors=True)


def _watch(parent: int, daemons: Mapping[str, int]) -> None:
    """Wait until the driver ends. Report the end of a daemon to it, or to its stderr if Ray ended the driver too."""
    names: dict[int, str] = {daemons[name]: name for name in _NEEDED}
    message: str | None = None
    wanted = True
    while wanted:
        wanted = _is_wanted(parent, _LOOK_S)
        for pid, code in _reap():
            if pid in names and message is None:
                how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
                message = f"Ray's {names[pid]} (process {pid}) {how}: the cluster is lost"
                with contextlib.suppress(BrokenPipeError):
                    os.write(1, json.dumps({"ended": message}).encode() + b"\n")
    if message is not None and not (select.select([0], [], [], 0)[0] and os.read(0, 1) == _LEFT):
        say = f"axonrl: {message}, and Ray has ended the training. The newest checkpoint is whole: resume from it."
        os.write(2, f"\n{say}\n".encode())


def start(folder: str, params: str) -> None:
    """Start Ray's daemons and print their address. They outlive this process."""
    sys.path[:] = [path for path in sys.path if Path(path) != Path(__file__).parent]
    from ray._private.node import Node
    from ray._private.parameter import RayParams

    class Head(Node):
        def start_api_server(self, **_: object) -> None:
            """Start nothing: without a dashboard Ray's server has no task, and takes 120 MB."""

    # Like `ray start --head`, without the processes for clients, autoscaler and driver log, 90 MB each.
    fixed: dict[str, Any] = {"include_dashboard": False, "no_monitor": True, "include_log_monitor": False}
    made = RayParams(temp_dir=folder, **fixed, **json.loads(params))
    node = Head(made, head=True, shutdown_at_exit=False, spawn_reaper=False)
    daemons = {name: started[0].process.pid for name, started in node.all_processes.items()}
    print(f"\n{json.dumps({'address': node.address, 'daemons': daemons})}", flush=True)
    os._exit(0)


def _code_of(pid: int, parent: int) -> int:
    while _is_wanted(parent, 0.02):
        for ended, code in _reap():
            if ended == pid:
                return code
    sys.exit(0)


def _is_wanted(parent: int, timeout: float) -> bool:
    """Does the driver still run? Waits up to ``timeout`` seconds for its end."""
    ready, _, _ = select.select([0], [], [], timeout)
    return not ready and os.getppid() == parent


def _reap() -> list[tuple[int, int]]:
    """Reap processes that have ended; returns their ids and exit statuses."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not pid:
            return found
        found.append((pid, os.waitstatus_to_exitcode(status)))


def _end_all() -> None:
    """Kill all processes below this one, and reap them."""
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
        except ChildProcessError:
            return


if __name__ == "__main__":
    {"guard": guard, "start": start}[sys.argv[1]](*sys.argv[2:])
