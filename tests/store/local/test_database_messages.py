import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, msgpack

from epoxy.store.local.database_messages import (
    LENGTH_BYTES,
    MAX_FRAME_BYTES,
    BadDatabaseFrame,
    BatchAsk,
    DatabaseAnswer,
    FrameBuffer,
    RowsAsk,
    answer_decoder,
    ask_decoder,
    framed,
)
from epoxy.store.shared.database import GroupCommit


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(1, 97))
def test_frames_are_cut_wherever_the_socket_cuts_them(values: list[bytes], size: int) -> None:
    sent = b"".join([framed(value) for value in values])
    buffer, found = FrameBuffer(), list[bytes]()
    for place in range(0, len(sent), size):
        found += [msgpack.decode(frame) for frame in buffer.feed(sent[place : place + size])]
    assert found == values


def test_a_frame_that_is_longer_than_any_is_refused_before_it_is_held() -> None:
    with pytest.raises(BadDatabaseFrame, match=f"{MAX_FRAME_BYTES + 1} bytes"):
        list(FrameBuffer().feed((MAX_FRAME_BYTES + 1).to_bytes(LENGTH_BYTES, "little")))


def test_asks_and_answers_come_back_as_they_were() -> None:
    batch = GroupCommit(1, 2, 3, [(b"k", b"v", 4)], [b"d"], [[(b"p", b"s", b"v")]], False, 5)
    for ask in (BatchAsk(7, batch), RowsAsk(8, [b"a", b"b"])):
        assert msgpack.encode(ask_decoder.decode(framed(ask)[LENGTH_BYTES:])) == msgpack.encode(ask)
    answer = DatabaseAnswer(9, Raw(msgpack.encode({b"a": b"b"})), "why")
    found = answer_decoder.decode(framed(answer)[LENGTH_BYTES:])
    assert (found.number, msgpack.decode(found.value), found.failure) == (9, {b"a": b"b"}, "why")
