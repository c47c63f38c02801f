"""An answer's head and body become one write, in order, and nothing written is held back or lost."""

import asyncio

from axonrl.serving.gateway.protocol import JoiningTransport


class Recorded(asyncio.Transport):
    """A transport that notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[object] = []

    def write(self, data: object) -> None:
        self.events.append(data)

    def close(self) -> None:
        self.events.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.events


def test_a_head_and_a_body_are_one_write_and_what_is_alone_does_not_wait() -> None:
    async def told() -> list[object]:
        recorded = Recorded()
        transport = JoiningTransport(recorded, asyncio.get_running_loop())
        transport.write(b"head ")
        assert recorded.events == []
        transport.write(b"body")
        assert recorded.events == [b"head body"]
        transport.write(b"a first part")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert recorded.events[1:] == [b"a first part"]
        transport.write(b"head")
        transport.write(bytes(65_537))
        transport.write(b"last")
        transport.close()
        assert transport.is_closing()
        return recorded.events[2:]

    assert asyncio.run(told()) == [b"head" + bytes(65_537), b"last", "closed"]
