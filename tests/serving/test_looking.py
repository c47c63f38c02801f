"""For how long a process looks before it sleeps, where it does not look at all, and which of its children hang."""

import asyncio
import itertools
import socket
import subprocess
import sys

import pytest

from axonrl.serving.workers import spin_wait
from axonrl.serving.workers.child import Child
from axonrl.serving.workers.hang_detection import watched
from axonrl.serving.workers.messages import BEAT, encode, read

SECONDS = 0.2


class Clock:
    """Each reading is a third of a look later than the one before."""

    def __init__(self) -> None:
        self._readings = itertools.count()

    def monotonic(self) -> float:
        return 100.0 + next(self._readings) * spin_wait.LOOK_SECONDS / 3


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spin_wait, "time", Clock())


@pytest.mark.usefixtures("clock")
def test_a_look_ends_with_what_is_found_or_after_its_time() -> None:
    found = iter(["", "", "it", "never"])
    assert spin_wait.look(lambda: next(found)) == "it"
    looks = itertools.count()
    assert spin_wait.look(lambda: next(looks) < 0) is False
    assert next(looks) == 3, "it looked at 1/3, 2/3 and 3/3 of its time"


@pytest.mark.usefixtures("clock")
def test_a_loop_looks_once_at_a_time_and_sleeps_afterwards() -> None:
    async def looks(wanted: int) -> int:
        asked = itertools.count()
        loop = asyncio.get_running_loop()
        looks = spin_wait.LoopLooks(lambda: next(asked) < wanted)
        looks.begin(loop)
        looks.begin(loop)  # it goes on, and is not done twice
        for _ in range(10):
            await asyncio.sleep(0)
        return next(asked)

    assert asyncio.run(looks(2)) == 3, "until it is not wanted"
    assert asyncio.run(looks(10)) == 3, "until its time is over"


async def watch(process: subprocess.Popen[bytes]) -> int:
    """A child that is played here, at the other end of a socket, goes from one case to the next."""
    ours, theirs = socket.socketpair()
    child = Child("worker 1", 1)
    child.process = process
    ours.setblocking(False)
    await asyncio.get_running_loop().create_connection(lambda: child, sock=ours)
    watching = asyncio.create_task(watched(child, SECONDS))
    with theirs:
        asking = asyncio.create_task(child.ask({"do": "act"}, b"", 60.0))
        await asyncio.sleep(3 * SECONDS)
        assert process.poll() is None, "it has not begun yet"
        for _ in range(30):
            theirs.sendall(encode({"id": BEAT}))
            await asyncio.sleep(SECONDS / 10)
        assert process.poll() is None, "it is busy with the request, and gets on"
        frame = read(theirs)
        assert frame is not None
        theirs.sendall(encode({"id": frame.head["id"], "status": 200}))
        assert (await asking)[0]["status"] == 200
        await asyncio.sleep(3 * SECONDS)
        assert process.poll() is None, "nobody has asked it anything"
        given_up = asyncio.create_task(child.ask({"do": "act"}, b"", 0.0))
        await asyncio.wait([given_up])
        assert isinstance(given_up.exception(), asyncio.TimeoutError)
        await asyncio.to_thread(process.wait, 30)  # nobody waits for the answer any more, but it is owed
    return await watching


def test_a_child_hangs_that_owes_an_answer_and_does_not_beat() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        try:
            assert asyncio.run(watch(process)) == 1
            assert process.returncode == -9
        finally:
            process.kill()
