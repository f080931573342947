"""Replies out of a byte stream that is cut anywhere."""

import pytest

from epoxy.agent.connection import MAX_REPLY_BYTES, ReplyReader
from epoxy.agent.redis import ServerError
from epoxy.model.errors import InvalidValue, Oversized

STREAM = b"+OK\r\n:42\r\n$5\r\na\r\nbc\r\n$-1\r\n*2\r\n$1\r\nx\r\n:7\r\n-ERR no\r\n"


def fed(reader: ReplyReader, stream: bytes, size: int) -> list[object]:
    """The replies of a stream that comes in pieces."""
    return [reply for at in range(0, len(stream), size) for reply in reader.feed(stream[at : at + size])]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_replies_out_of_a_stream(size: int) -> None:
    *replies, error = fed(ReplyReader(), STREAM, size)
    assert replies == [b"OK", 42, b"a\r\nbc", None, [b"x", 7]]
    assert isinstance(error, ServerError)
    assert str(error) == "ERR no"


def test_what_is_no_reply_is_refused() -> None:
    with pytest.raises(InvalidValue):
        ReplyReader().feed(b"HTTP/1.1 400\r\n")


def test_a_reply_without_end_is_refused() -> None:
    reader = ReplyReader()
    with pytest.raises(Oversized):
        reader.feed(b"$9999999\r\n" + bytes(MAX_REPLY_BYTES))


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_an_array_too_long_for_a_reply_is_refused_at_its_header(size: int) -> None:
    for stream in (b"*3000000000\r\n", b"+OK\r\n*1\r\n*9999999\r\n"):
        with pytest.raises(Oversized):
            fed(ReplyReader(), stream, size)


def test_an_array_of_many_elements_is_read() -> None:
    assert ReplyReader().feed(b"*100000\r\n" + b":1\r\n" * 100_000) == [[1] * 100_000]
