import socket
import threading

from axonrl.serving.workers.messages import Frame, cut, encode, read

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
