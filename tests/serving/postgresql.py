"""A real PostgreSQL, from Debian's package, for tests: in a temporary folder, with a Unix socket alone."""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

_READY: Final = "ready to accept connections"
_UNSAFE_BUT_FAST: Final = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "listen_addresses=")


class PostgreSQL:
    """A server that can be stopped and started again.

    Args:
        programs: the folder with its programs.
        folder: where its data and its socket are.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._names = itertools.count()
        self._process: subprocess.Popen[str] | None = None
        data = [str(folder / "data"), "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        command = [*_as_postgres(), str(programs / "initdb"), "-D", *data]
        subprocess.run(command, check=True, capture_output=True, timeout=240, cwd=folder)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [word for setting in _UNSAFE_BUT_FAST for word in ("-c", setting)]
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), "-k", str(self._folder)]
        self._process = subprocess.Popen(
            [*_as_postgres(), *command, *settings], stderr=subprocess.PIPE, text=True, cwd=self._folder
        )
        assert self._process.stderr is not None
        lines = iter(self._process.stderr)
        read = list(itertools.takewhile(lambda line: _READY not in line, lines))
        assert self._process.poll() is None, "".join(read)
        self._drain = threading.Thread(target=list, args=(lines,), daemon=True)
        self._drain.start()

    def stop(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.send_signal(signal.SIGINT)  # it waits for no client, and writes what was committed
            process.wait(timeout=240)
            self._drain.join()
            assert process.stderr is not None
            process.stderr.close()

    def new(self) -> str:
        """The URL of a new, empty database: in truth a user with an empty schema of its own, which takes no files."""
        name = f"test{next(self._names)}"
        with psycopg.connect(f"host={self._folder} user=postgres dbname=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {name} LOGIN")
            connection.execute(f"CREATE SCHEMA AUTHORIZATION {name}")
        return f"postgresql://{name}@/postgres?host={self._folder}"


def _as_postgres() -> list[str]:
    """It refuses to run as root; and it ends with the process of the tests, whatever becomes of that."""
    other = ["--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", "--pdeathsig", "KILL", *other]


@contextlib.contextmanager
def running() -> Iterator[PostgreSQL]:
    """A started server; skips where there is none, but never in CI."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("PostgreSQL is missing: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="axonrl-pg-", dir="/tmp"))  # short: a socket's path has 107 characters
    try:
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
        server = PostgreSQL(found[-1].parent, folder)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
