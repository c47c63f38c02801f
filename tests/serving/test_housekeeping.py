"""What a gateway does beside the requests, and when, on a clock that goes on only while everybody waits."""

import asyncio
import itertools
import logging
import selectors
import types
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from axonrl.serving.gateway import server
from axonrl.serving.refusals import RefusedError

Job = Callable[[], Awaitable[None]]


class Loop(asyncio.SelectorEventLoop):
    """Where nothing waits for real time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.seconds


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        self._loop.seconds += timeout or 0.0
        return super().select(0)


def every_four_seconds(job: Job) -> list[Any]:
    return [asyncio.ensure_future(server._repeat(4.0, job))]


def begun(
    tasks: Callable[[Job], list[Any]], *, takes: float, until: float, error: Exception | None = None
) -> list[float]:
    """When a job began, until a time, that takes some seconds and may then fail."""
    loop, times = Loop(), list[float]()

    async def job() -> None:
        times.append(loop.time())
        await asyncio.sleep(takes)
        if error is not None:
            raise error

    async def run() -> None:
        running = tasks(job)
        await asyncio.sleep(until)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    return times


@pytest.mark.parametrize(("takes", "times"), [(1.5, [4, 8, 12, 16]), (6.0, [4, 10, 16])])
def test_a_job_begins_every_four_seconds_however_long_it_takes(takes: float, times: list[float]) -> None:
    assert begun(every_four_seconds, takes=takes, until=17.0) == pytest.approx(times)


def test_what_is_done_once_a_day_is_also_done_by_a_service_that_is_restarted_each_night() -> None:
    def daily(job: Job) -> list[Any]:
        return [asyncio.ensure_future(server._repeat(86_400.0, job))]

    assert begun(daily, takes=1.0, until=100_000.0) == pytest.approx([60, 86_460])


@pytest.mark.parametrize("error", [RefusedError("database_unavailable", "down"), ValueError("a bug")])
def test_a_job_that_fails_is_tried_again(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "axonrl.serving"):
        assert begun(every_four_seconds, takes=0.5, until=9.0, error=error) == pytest.approx([4, 8])
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["will try again in 4 seconds"] * 2


@pytest.mark.parametrize("name", ["refresh", "finish_removals"])
def test_what_the_command_line_changes_is_known_within_five_seconds(name: str) -> None:
    """Just after the database was asked it changes; it is asked again, and that takes a while."""
    takes = 0.9

    def tasks(job: Job) -> list[Any]:
        async def nothing() -> None:
            pass

        jobs = dict.fromkeys(("refresh", "finish_removals", "note_used", "record_unrecorded"), nothing) | {name: job}
        tokens = types.SimpleNamespace(refresh=jobs.pop("refresh"))
        gateway: Any = types.SimpleNamespace(**jobs, threads=None, tokens=tokens)
        return server.housekeeping(gateway)

    times = begun(tasks, takes=takes, until=59.0)
    assert len(times) == 14
    assert max(later + takes - earlier for earlier, later in itertools.pairwise(times)) < 5
