"""Heads and pieces: what is left out on the wire, and sizes that fit into each other."""

from msgspec import msgpack

from epoxy.model import exchanges
from epoxy.model.exchanges import Head, Piece, RequestHead
from epoxy.transport.http.websocket import MAX_MESSAGE_BYTES


def test_what_has_its_default_is_left_out() -> None:
    assert msgpack.decode(msgpack.encode(RequestHead())) == {}
    assert msgpack.decode(msgpack.encode(Piece(stream=3, body=b"x"))) == {"type": "piece", "stream": 3, "body": b"x"}
    assert msgpack.decode(msgpack.encode(Head(stream=3))) == {"type": "head", "stream": 3}


def test_sizes_fit_into_each_other() -> None:
    assert exchanges.WHOLE_BYTES <= exchanges.WINDOW_BYTES <= exchanges.MAX_PIECE_BYTES < MAX_MESSAGE_BYTES
