"""``axonrl serve`` as a process of its own, for tests: started, killed, started again on the same port, and ended."""

import contextlib
import http.client
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

from axonrl.serving import RemoteAgent

from .live import Server, agent, prepared, running

SMALL: Final[dict[str, Any]] = {"seed": 0, "hidden_layers": [8], "batch_size": 8, "buffer_size": 500}


class Service(Server):
    """A server on a new data folder, with the user ``alice`` and two workers.

    Args:
        data: the folder; made here.
        programs: the folder of programs that are compiled already.
        options: more words for ``axonrl serve``.
        environment: more variables of the process.
        database: its address, if it is another one than SQLite's in the folder.
    """

    def __init__(
        self,
        data: Path,
        programs: Path,
        options: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        database: str | None = None,
    ) -> None:
        options = [*options, *(() if database is None else ("--database", database))]
        super().__init__(data, "--workers", "2", *options, environment=environment)
        self.programs = programs
        self.token = prepared(data, programs, database=database)
        (data / "programs").symlink_to(programs)

    def worker_of(self, agent: str) -> int:
        return int((self.folder(agent) / "lock.pid").read_text())

    def folder(self, agent: str) -> Path:
        found: str = self.agent(agent).info()["id"]
        return self.data / "agents" / found

    def agent(self, name: str, **more: Any) -> RemoteAgent:
        return agent(self, self.token, name, **more)

    def ask(
        self, method: str, path: str, body: object = None, key: str | None = None, token: str | None = None, **more: str
    ) -> tuple[int, dict[str, str], Any]:
        return super().ask(method, path, body, key, token or self.token, **more)

    def ready(self) -> int:
        return self.ask("GET", "/readyz")[0]


def serving(
    data: Path, programs: Path, options: Sequence[str] = (), environment: dict[str, str] | None = None
) -> contextlib.AbstractContextManager[Service]:
    """A started server, which is ended whatever happens."""
    return running(Service(data, programs, options, environment))


@contextlib.contextmanager
def quiet(service: Service) -> Iterator[None]:
    """Meanwhile no process of it says that something unexpected has happened."""
    before = service.log.stat().st_size
    yield
    assert "Traceback" not in service.log.read_bytes()[before:].decode()


def timesteps(agent: RemoteAgent) -> int:
    found: int = agent.info()["counters"]["global_timestep"]
    return found


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@contextlib.contextmanager
def dropping() -> Iterator[list[int]]:
    """Every third answer is lost on its way to a client of this process; the statuses of all that a service gave."""
    statuses, respond = list[int](), http.client.HTTPConnection.getresponse

    def lost(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        answer = respond(connection)
        statuses.append(answer.status)
        if len(statuses) % 3 == 0:
            connection.close()
            raise ConnectionResetError
        return answer

    with mock.patch.object(http.client.HTTPConnection, "getresponse", lost):
        yield statuses
