"""The builder: a process that compiles programs, and ends after a while without work.

A request is a recipe: have its program. The answer is ``{"digest", "built"}``, or a failure in the form of workers.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
from pathlib import Path
from typing import Any, Final

from ...core.tensorflow_import import load_tensorflow
from .. import logs
from ..catalogue.recipes import Recipe
from . import program_builder
from .messages import Frame, encode, read, wait_for

IDLE_SECONDS: Final = 60.0
logger = logging.getLogger("axonrl.serving")


class Builder:
    """Answers one request after the other.

    Args:
        connection: socket to the gateway.
        programs: the folder of all programs.
        idle_seconds: time without work after which it ends.
    """

    def __init__(self, connection: socket.socket, programs: Path, idle_seconds: float = IDLE_SECONDS) -> None:
        self._connection = connection
        self._programs = programs
        self._idle_seconds = idle_seconds

    def run(self) -> None:
        """Serve until the gateway is gone, or there has been no work for a while."""
        while wait_for([self._connection], self._idle_seconds):
            frame = read(self._connection)
            if frame is None:
                return
            self._connection.sendall(self._answer(frame))

    def _answer(self, frame: Frame) -> bytes:
        recipe: Recipe | None = None
        status = 200
        try:
            recipe = Recipe.from_json(json.loads(frame.body))
            built, digest = program_builder.build(recipe, self._programs)
            body: dict[str, Any] = {"digest": digest, "built": built}
        except Exception as error:  # TensorFlow raises its own errors; none may end the builder
            refused = program_builder.refusal(recipe, error)
            status, body = refused.status, refused.to_json()
        return encode({"id": frame.head.get("id"), "status": status}, json.dumps(body).encode())


def main() -> int:
    """``python -m axonrl.serving.workers.builder FD PROGRAMS LOG_LEVEL``: what the pool starts."""
    logs.configure_child(sys.argv[3])
    load_tensorflow()  # now, not when a recipe arrives: it takes as long as compiling a small one
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        connection.setblocking(True)
        Builder(connection, Path(sys.argv[2])).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
