"""The builder: a process that compiles programs, and ends after a while without work.

It is started as ``python -m axonrl.serving.workers.builder DESCRIPTOR PROGRAMS``, with an inherited Unix socket.

=========== ============================ ==============================================================================
``do``      body                         what
=========== ============================ ==============================================================================
``build``   a recipe                     have its program, with the weights of its seed; then, once nobody waits, spare
                                         seeds (``spares`` in the head: how many there shall be)
``refill``  ``{"digest": ...}``          spare seeds alone
=========== ============================ ==============================================================================

Answers are ``{"digest", "built", "seconds"}``, or a failure in the form of workers.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ...core.errors import ArgumentError, CheckpointError
from ...core.tensorflow_import import load_tensorflow
from ...run_dir.programs import VARIABLE
from .. import logs
from ..catalogue.recipes import Recipe
from . import program_builder
from .messages import Frame, encode, read
from .parent_death import wait_for

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
        self._spares: dict[str, int] = {}
        """Digests of programs that need spare seeds, and how many."""

    def run(self) -> None:
        """Serve until the gateway is gone, or there has been no work for a while."""
        while True:
            if wait_for([self._connection], 0 if self._spares else self._idle_seconds):
                frame = read(self._connection)
                if frame is None:
                    return
                self._connection.sendall(self._answer(frame))
            elif self._spares:
                self._make_spares()
            else:
                return

    def _answer(self, frame: Frame) -> bytes:
        recipe: Recipe | None = None
        try:
            value = json.loads(frame.body)
            match frame.head.get("do"):
                case "build":
                    recipe = Recipe.from_json(value)
                    body = self._build(recipe)
                case "refill":
                    body = {"digest": value["digest"]}
                case other:
                    raise ArgumentError(f"do must be build or refill, got {other!r}", "do", other)
            self._spares[body["digest"]] = int(frame.head.get("spares", program_builder.SPARES))
            status = 200
        except Exception as error:  # TensorFlow raises its own errors; none may end the builder
            status, body = program_builder.failure(recipe, error)
        return encode({"id": frame.head.get("id"), "status": status}, json.dumps(body).encode())

    def _build(self, recipe: Recipe) -> dict[str, Any]:
        began = time.monotonic()
        built, digest = program_builder.build(recipe, self._programs)
        return {"digest": digest, "built": built, "seconds": round(time.monotonic() - began, 3)}

    def _make_spares(self) -> None:
        """Make some for one program; then waiting requests come first."""
        digest, wanted = next(iter(self._spares.items()))
        try:
            done = program_builder.add_spares(self._programs, digest, wanted)
        except (ValueError, CheckpointError, OSError) as error:
            logger.warning("there are no spare seeds for %s: %s", digest, error)
            done = True
        if done:
            del self._spares[digest]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the builder."""
    parser = argparse.ArgumentParser(prog="axonrl.serving.workers.builder")
    parser.add_argument("descriptor", type=int)
    parser.add_argument("programs", type=Path)
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    parser.add_argument("--log-level", default="info")
    given = parser.parse_args(arguments)
    logs.configure_child(given.log_level)
    os.environ[VARIABLE] = ""  # a service keeps nothing outside its folder
    load_tensorflow()  # now, not when a recipe arrives: it takes as long as compiling a small one
    with socket.socket(fileno=given.descriptor) as connection:
        connection.setblocking(True)
        Builder(connection, given.programs, given.idle_seconds).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
