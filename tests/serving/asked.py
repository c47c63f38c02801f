"""A worker without a gateway: it runs in a thread of the test, which has the gateway's end of its connection."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from axonrl.serving.workers.messages import BEAT, Frame, encode, read
from axonrl.serving.workers.settings import WorkerSettings
from axonrl.serving.workers.worker import Worker

DATA = {"state": [0.0] * 4, "action": [1], "reward": 1.0, "next_state": [1.0] * 4, "done": False}
STEP = json.dumps({"step_data": DATA}).encode()
ACT = json.dumps([0.0] * 4).encode()


class Asked:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.numbers = 0

    def ask(self, agent: str, do: str, body: bytes = b"", **head: object) -> Frame:
        self.send((agent, do, body), **head)
        frame = self.answer()
        assert frame.head["id"] == self.numbers
        return frame

    def send(self, *requests: tuple[str, str, bytes], **head: object) -> None:
        """Send requests at once, without waiting for their answers."""
        content = b""
        for agent, do, body in requests:
            self.numbers += 1
            content += encode({"id": self.numbers, "agent": agent, "do": do, **head}, body)
        self.connection.sendall(content)

    def answer(self) -> Frame:
        """The next frame that is no beat."""
        for _ in range(60):  # one beat a second
            frame = read(self.connection)
            assert frame is not None
            if frame.head["id"] != BEAT:
                return frame
        raise AssertionError("there was no answer")

    def tally(self) -> dict[str, Any]:
        """What the worker has counted; it opens no agent, and does not count as using one."""
        found: dict[str, Any] = json.loads(self.ask("", "tally").body)
        return found


@contextlib.contextmanager
def working(folder: Path, programs: Path, **settings: Any) -> Iterator[Asked]:
    """A worker on a new folder, until the end of the context."""
    (folder / "agents").mkdir()
    (folder / "programs").symlink_to(programs)
    ours, theirs = socket.socketpair()
    ours.settimeout(120)
    with ours, theirs:
        thread = threading.Thread(target=Worker(theirs, WorkerSettings(str(folder), **settings)).run)
        thread.start()
        try:
            yield Asked(ours)
        finally:
            with contextlib.suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)
            thread.join(30)


def statuses(frames: list[Frame]) -> list[int]:
    return [frame.head["status"] for frame in frames]
