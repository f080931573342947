"""Replies out of a byte stream that is cut anywhere."""

import pytest

from epoxy.agent.connection import MAX_REPLY_BYTES, ReplyReader
from epoxy.agent.redis import ServerError
from epoxy.model.errors import InvalidValue, Oversized

STREAM = b"+OK\r\n:42\r\n$5\r\na\r\nbc\r\n$-1\r\n*2\r\n$1\r\nx\r\n:7\r\n-ERR no\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_replies_out_of_a_stream(size: int) -> None:
    reader = ReplyReader()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    *replies, error = [reply for piece in pieces for reply in reader.feed(piece)]
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
