"""RemoteAgent: an agent hosted by a service; uses only the standard library."""

from .errors import (
    AuthenticationError,
    Conflict,
    InvalidRequest,
    NotFound,
    RateLimited,
    ServiceError,
    ServiceUnavailable,
)
from .models import OTHER_MODELS, SUPPORTED_MODELS
from .readiness import wait_until_agent_exists, wait_until_agent_is_active
from .remote_agent import RemoteAgent
from .state import EncodedAgentState

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
