"""Errors of a service's folder or database."""

from __future__ import annotations

from typing import Final

UNAVAILABLE: Final = "database_unavailable"


class UnusableError(RuntimeError):
    """The data folder or the database is unusable; the message says what to do. Commands exit with 2."""
