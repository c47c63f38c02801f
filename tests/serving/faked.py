"""A gateway with fakes behind it in a process of its own, and requests as bytes of a connection."""

import http.client
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any, Final

from .live import Server

ROOT: Final = Path(__file__).parent.parent.parent
ACT: Final = "/api/v1/agents/cart/act"
SECONDS: Final = 60.0
"""At most, for what takes less than one on an idle machine."""


class Faked(Server):
    def __init__(self, folder: Path, *sets: str) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, environment={"PYTHONPATH": os.pathsep.join([str(ROOT / ".build"), str(ROOT)])})
        self._sets = sets

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.serving.gateway_program", str(self.data), *self._sets]

    @property
    def token(self) -> str:
        return self.log.read_text().partition("\n")[0]

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS, source_address=(address, 0))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def request(self, target: str = f"POST {ACT}", body: bytes = b"[0]", more: str = "") -> bytes:
        head = f"{target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\nContent-Length: {len(body)}\r\n"
        return f"{head}{more}\r\n".encode() + body


def read(connection: socket.socket) -> bytes:
    """All until the server closes; a reset is an end as well."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def answer(connection: socket.socket) -> tuple[int, Any]:
    response = http.client.HTTPResponse(connection)
    response.begin()
    body = response.read()
    return response.status, json.loads(body)


def exchange(server: Faked, sent: bytes) -> tuple[int, Any]:
    with server.connect() as connection:
        connection.sendall(sent)
        return answer(connection)
