import datetime as dt
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from axonrl.serving.accounts import Accounts, Audit, Database

PASSWORD = "correct horse battery"
START = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
on_both: Final = pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.server)], indirect=True
)
"""For tests of what the two databases might do differently: on each of them."""


class Hands:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> dt.datetime:
        return self.time

    def move(self, **by: float) -> None:
        self.time += dt.timedelta(**by)


def at_once(call: Callable[[int], object], count: int) -> None:
    with ThreadPoolExecutor(count) as threads:
        list(threads.map(call, range(count)))


def with_alice(database: Database, clock: Hands | None = None, folder: Path | None = None) -> Accounts:
    clock = clock or Hands()
    accounts = Accounts(database, audit=Audit(database, folder, clock=clock), clock=clock)
    accounts.add_user("alice", PASSWORD)
    return accounts
