"""Which of its children a gateway takes to hang."""

import asyncio
import socket
import subprocess
import sys

from axonrl.serving.workers.child import Child, watch_for_hang
from axonrl.serving.workers.messages import BEAT, encode, read

SECONDS = 0.2


async def watch(process: subprocess.Popen[bytes]) -> int:
    """A child that is played here, at the other end of a socket, goes from one case to the next."""
    ours, theirs = socket.socketpair()
    child = Child("worker 1", 1)
    child.process = process
    ours.setblocking(False)
    await asyncio.get_running_loop().create_connection(lambda: child, sock=ours)
    watching = asyncio.create_task(watch_for_hang(child, SECONDS))
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
