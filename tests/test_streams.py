from typing import Any

import numpy as np

from axonrl.core import chunked_arrays
from axonrl.core.chunked_arrays import Piece, Stream
from axonrl.core.protocols import ArraySpec


def numbers(begin: int, end: int) -> Any:
    return np.arange(begin, end, dtype=np.int32)


def stream() -> Stream:
    """10 .. 12 of a, 13 and 14 of a in another piece, 5 and 6 of b, and an empty piece."""
    pieces = [Piece("a", 10, 13, numbers), Piece("a", 13, 15, numbers), Piece("c", 4, 4, numbers)]
    return Stream(ArraySpec((), np.int32), [*pieces, Piece("b", 5, 7, numbers)])


def test_a_stream_is_the_array_of_its_pieces() -> None:
    one = stream()
    assert np.asarray(one).tolist() == [10, 11, 12, 13, 14, 5, 6]
    assert (len(one), one.shape, one.dtype, one.nbytes) == (7, (7,), np.dtype(np.int32), 28)
    assert one.series == [("a", 10, 15), ("b", 5, 7)]
    assert np.asarray(one, np.float64).dtype == np.float64
    assert np.asarray(Stream(ArraySpec((2,), np.uint8), [])).shape == (0, 2)


def test_a_part_of_a_stream() -> None:
    whole = np.asarray(stream())
    for begin in range(8):
        for end in range(begin, 8):
            assert np.asarray(stream().part(begin, end)).tolist() == whole[begin:end].tolist()
    assert stream().part(2, 6).series == [("a", 12, 15), ("b", 5, 6)]


def test_chunks_have_a_bounded_size(monkeypatch: Any) -> None:
    monkeypatch.setattr(chunked_arrays, "CHUNK_BYTES", 8)
    assert [chunk.tolist() for chunk in stream().chunks()] == [[10, 11], [12], [13, 14], [5, 6]]
    wide = Stream.of(np.arange(8).reshape(2, 4))  # an item is more than a chunk
    assert [chunk.tolist() for chunk in wide.chunks()] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]
    assert Stream.of(wide) is wide


def test_what_is_kept_is_a_copy_but_for_views() -> None:
    array = np.arange(3)
    with chunked_arrays.as_views():
        assert chunked_arrays.kept(array) is array
    copied = chunked_arrays.kept(array)
    array[:] = 7
    assert copied.tolist() == [0, 1, 2]
    assert isinstance(chunked_arrays.kept(stream()), np.ndarray)
