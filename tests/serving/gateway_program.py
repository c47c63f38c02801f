"""A gateway with fakes behind it, as a program: python gateway_program.py DIR path=value ..."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from axonrl.serving.gateway.server import serve
from axonrl.serving.gateway.settings import load
from axonrl.serving.workers.pool import WorkerResponse

from . import gateway_fakes
from .gateway_fakes import FakePool, fake_gateway


class Pool(FakePool):
    """Some agents that are there; an act with noise 1 takes a while, and episodes have 8 MiB."""

    async def ask(self, agent: str, do: str, body: bytes = b"", **head: object) -> WorkerResponse:
        self.steps.setdefault(agent, 0)
        if do == "act" and head.get("noise") == 1:
            await asyncio.sleep(0.4)
        if do == "episodes":
            return WorkerResponse(200, b"[%s]" % (b" " * 2**23))
        self.asked.clear()
        return await super().ask(agent, do, body, **head)


@contextlib.asynccontextmanager
async def processes() -> AsyncIterator[None]:
    """What is there while the server serves."""
    print("workers started", file=sys.stderr, flush=True)
    yield
    print("workers stopped", file=sys.stderr, flush=True)


def main(folder: Path, *sets: str) -> int:
    """Serve alice's agent ``cart``."""
    gateway_fakes.IN_MEMORY = str(folder)  # it may be killed: nothing is left elsewhere
    settings = load(None, dict(one.split("=", 1) for one in ("listen.port=0", *sets)))
    gateway, database, tokens = fake_gateway(folder, settings, Pool())
    row = gateway.rows.add(gateway.accounts.user("alice").id, "cart", "dqn", "", gateway_fakes.CARTPOLE)
    gateway.rows.set_ready(row.id)
    print(tokens["alice"], file=sys.stderr, flush=True)
    try:
        return 128 + serve(gateway, during=processes())
    finally:
        database.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
