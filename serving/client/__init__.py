"""RemoteAgent: an agent that a service hosts, with nothing but the standard library."""

from .errors import (
    AuthenticationError,
    Conflict,
    InvalidRequest,
    NotFound,
    RateLimited,
    ServiceError,
    ServiceUnavailable,
)
from .known import OTHER_MODELS, SUPPORTED_MODELS
from .remote_agent import RemoteAgent
from .state import EncodedAgentState
from .waiting import wait_until_agent_exists, wait_until_agent_is_active

__all__ = [
    "OTHER_MODELS",
    "SUPPORTED_MODELS",
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
