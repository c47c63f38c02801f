"""Refusals of a hosted agent."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any, Final

from ...core.errors import CheckpointError

STATUS: Final = {
    "invalid_json": 400,
    "not_found": 404,
    "agent_inactive": 409,
    "agent_failed": 409,
    "learning_off": 409,
    "body_too_large": 413,
    "invalid_value": 422,
    "idempotency_key_reused": 422,
    "state_mismatch": 422,
    "unsafe_state": 422,
    "internal": 500,
    "agent_busy": 503,
    "unavailable": 503,
    "storage_full": 507,
}
"""Code of a failure to its HTTP status."""


class RefusedError(Exception):
    """A request is refused, and nothing has changed.

    Args:
        code: one of ``STATUS``.
        detail: what is wrong, for people.
        errors: each invalid place, and what is wrong there.
        retry_after: seconds after which the request may be repeated; None if that is useless.
    """

    def __init__(
        self, code: str, detail: str, errors: Sequence[tuple[str, str]] = (), retry_after: int | None = None
    ) -> None:
        super().__init__(code, detail, errors, retry_after)
        self.code = code
        self.detail = detail
        self.errors = tuple(errors)
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.code]

    def to_json(self) -> dict[str, Any]:
        """The answer's body."""
        errors = [{"where": where, "what": what} for where, what in self.errors]
        return {"code": self.code, "detail": self.detail, "errors": errors}


def invalid(where: str, what: str) -> RefusedError:
    """The refusal of an invalid value, with its place in the request."""
    return RefusedError("invalid_value", f"{where}: {what}", [(where, what)])


def of_checkpoint(error: CheckpointError) -> RefusedError:
    """The refusal for a checkpoint that cannot be written or read."""
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
        return RefusedError("storage_full", "there is no space left to save the agent", retry_after=1)
    if isinstance(cause, OSError):
        return RefusedError("unavailable", str(error), retry_after=1)
    return RefusedError("agent_failed", f"the agent cannot be opened: {error}")
