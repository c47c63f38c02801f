"""Database of a service: users, tokens, agents by name, audit."""

from ..refusals import RefusedError, UnusableError
from .accounts import Accounts
from .agents import AgentRows
from .audit import Audit, By
from .data_folder import open_service
from .database import Database
from .grants import Grant, Lifetimes
from .idempotency import Idempotency

__all__ = [
    "Accounts",
    "AgentRows",
    "Audit",
    "By",
    "Database",
    "Grant",
    "Idempotency",
    "Lifetimes",
    "RefusedError",
    "UnusableError",
    "open_service",
]
