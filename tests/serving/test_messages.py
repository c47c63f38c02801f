import socket
import threading

import pytest

from axonrl.serving.workers.messages import Frame, FrameError, cut, encode, read
from axonrl.tests.raising import raised

#: Length 12 (2 + 8 + 2), head of 8 bytes, then both.
BYTES = b"\x0c\x00\x00\x00\x08\x00" + b'{"id":1}' + b"\x00\xff"


def test_frames_are_bytes_that_are_cut_wherever_they_were_torn() -> None:
    assert encode({"id": 1}, b"\x00\xff") == BYTES
    assert cut(bytearray(BYTES)) == [Frame({"id": 1}, b"\x00\xff")]
    sent = BYTES + encode({"id": 2, "do": "act"}) + BYTES
    for size in range(1, len(sent) + 1):
        held, found = bytearray(), list[int]()
        for begin in range(0, len(sent), size):
            held += sent[begin : begin + size]
            found += [frame.head["id"] for frame in cut(held)]
        assert found == [1, 2, 1]
        assert not held


@pytest.mark.parametrize(
    "wrong",
    [
        b"\x01\x00\x00\x00\x00",
        b"\xff\xff\xff\xff\x00\x00",
        b"\x04\x00\x00\x00\x05\x00{}",
        b"\x04\x00\x00\x00\x02\x00[]",
        b"\x04\x00\x00\x00\x02\x00\xff\xff",
    ],
    ids=["too short", "too long", "longer head than frame", "no object", "no UTF-8"],
)
def test_what_is_no_frame_is_refused(wrong: bytes) -> None:
    buffer = bytearray(BYTES + wrong)
    raised(FrameError, cut, buffer)
    assert buffer == wrong


def test_a_head_that_is_too_long_is_not_sent() -> None:
    assert len(encode({"a": "x" * (65_535 - 8)})) == 6 + 65_535
    raised(ValueError, encode, {"a": "x" * (65_536 - 8)}, match="65,535")


def test_reading_waits_for_whole_frames() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(BYTES[:7])
        rest = threading.Timer(0, lambda: theirs.sendall(BYTES[7:] + BYTES))
        rest.start()
        assert read(ours) == read(ours) == Frame({"id": 1}, b"\x00\xff")
        rest.join()
        theirs.shutdown(socket.SHUT_WR)
        assert read(ours) is None


def test_a_connection_that_ends_within_a_frame() -> None:
    for size in (3, 7):
        ours, theirs = socket.socketpair()
        with ours:
            theirs.sendall(BYTES[:size])
            theirs.close()
            raised(FrameError, read, ours)
