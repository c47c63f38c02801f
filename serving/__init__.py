"""Agents over HTTP: the client `RemoteAgent`, and the service that hosts agents (`axonrl serve`).

Names are imported on first use, so that the service's own processes do not load the client.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import OTHER_MODELS as OTHER_MODELS
    from .client import SUPPORTED_MODELS as SUPPORTED_MODELS
    from .client import AuthenticationError as AuthenticationError
    from .client import Conflict as Conflict
    from .client import EncodedAgentState as EncodedAgentState
    from .client import InvalidRequest as InvalidRequest
    from .client import NotFound as NotFound
    from .client import RateLimited as RateLimited
    from .client import RemoteAgent as RemoteAgent
    from .client import ServiceError as ServiceError
    from .client import ServiceUnavailable as ServiceUnavailable
    from .client import wait_until_agent_exists as wait_until_agent_exists
    from .client import wait_until_agent_is_active as wait_until_agent_is_active
    from .client.asynchronous import AsyncRemoteAgent as AsyncRemoteAgent

__all__ = [
    "OTHER_MODELS",
    "SUPPORTED_MODELS",
    "AsyncRemoteAgent",
    "AuthenticationError",
    "Conflict",
    "EncodedAgentState",
    "InvalidRequest",
    "NotFound",
    "RateLimited",
    "RemoteAgent",
    "ServiceError",
    "ServiceUnavailable",
    "wait_until_agent_exists",
    "wait_until_agent_is_active",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        module = "client.asynchronous" if name == "AsyncRemoteAgent" else "client"  # asyncio takes time to import
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
