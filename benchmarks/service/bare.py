"""The yardstick: a FastAPI endpoint that parses the body and answers a constant, under the service's own uvicorn.

``python -m axonrl.benchmarks.service.bare`` prints its port. It is what FastAPI alone costs.
"""

from __future__ import annotations

import socket

import uvicorn
import uvloop
from fastapi import FastAPI, Request, Response

ANSWER = b'{"action":[1]}'


def application() -> FastAPI:
    """The endpoint; it takes what the service takes, at the same paths."""
    app = FastAPI(openapi_url=None)

    @app.post("/api/v1/agents/{name}/{what}")
    async def constant(request: Request) -> Response:
        await request.json()
        return Response(ANSWER, media_type="application/json")

    return app


def main() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as bound:
        config = uvicorn.Config(
            application(), http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
        )
        print(bound.getsockname()[1], flush=True)
        uvloop.run(uvicorn.Server(config).serve([bound]))


if __name__ == "__main__":
    main()
