"""Server-sent events, however they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.client import feed
from epoxy.client.feed import Event, EventReader, Feed
from epoxy.client.http1 import NotHttp
from epoxy.client.routing import fleet_of
from epoxy.model.errors import CursorGone, Unavailable, UnexpectedAnswer

STREAM = b": alive\nid: 1\n\nid: 2\ndata: a\ndata:b\r\n\r\ndata: {}\nid: 3\nretry: 5\n\nid: 4\ndata: unfinished"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CHANGE = b'id: 7\ndata: {"key": "a%FF", "value_base64": "YQ==", "version": 1, "mutable": true, "more": 1}\n\n'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@given(cuts=st.lists(st.integers(0, len(STREAM))).map(sorted))
def test_events_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    reader = EventReader()
    pieces = [STREAM[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)]
    assert [event for piece in pieces for event in reader.feed(piece)] == [
        Event(cursor="1", data=None),
        Event(cursor="2", data="a\nb"),
        Event(cursor="3", data="{}"),
    ]


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_EVENT_BYTES", 1 << 20)
    reader = EventReader()
    list(reader.feed(b"data: " + bytes(1 << 19)))
    with pytest.raises(NotHttp, match="more than 1 MiB"):
        list(reader.feed(bytes(1 << 19)))


def test_a_heartbeat_moves_the_cursor_on() -> None:
    stream = Feed(fleet_of(["http://a:1"]), b"", None, follow=True)
    stream.request()
    assert list(stream.feed(HEAD + chunk(b": alive\nid: 9\n\n"))) == []
    assert b"GET /v2/changes?after=9 " in stream.request()


def test_a_change_is_decoded_and_remembered() -> None:
    stream = Feed(fleet_of(["http://a:1", "http://b:1"]), b"", None, follow=True)
    stream.request()
    (change,) = stream.feed(HEAD + chunk(CHANGE))
    assert (change.cursor, change.key, change.value, change.version) == ("7", b"a\xff", b"a", 1)
    stream.ended("lost")
    assert stream.node.host == "a", "once a node has answered, no other is asked"
    assert b"after=7" in stream.request()


def test_what_is_no_longer_kept_is_told_and_not_tried_again() -> None:
    """Before the stream, and in the middle of it."""
    refused = Feed(fleet_of(["http://a:1"]), b"", "00", follow=True)
    refused.request()
    body = b'{"error": {"code": "cursor_gone", "message": "gone", "definite": true}}'
    head = b"HTTP/1.1 410 Gone\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with pytest.raises(CursorGone, match="gone"):
        list(refused.feed(head + body))
    slow = Feed(fleet_of(["http://a:1"]), b"", None, follow=False)
    slow.request()
    with pytest.raises(CursorGone, match="too slow"):
        list(slow.feed(HEAD + chunk(b'event: gone\ndata: {"message": "too slow"}\n\n')))


def test_pauses_grow_while_the_node_is_away_and_shrink_when_it_is_back() -> None:
    stream = Feed(fleet_of(["http://a:1"]), b"", None, follow=True)
    stream.request()
    list(stream.feed(HEAD))
    pauses = []
    for _ in range(9):
        stream.ended("refused")
        pauses.append(stream.pause_s)
    assert pauses[:3] == [0.1, 0.2, 0.4]
    assert pauses[-1] == 5.0
    stream.request()
    list(stream.feed(HEAD))
    stream.ended("lost")
    assert stream.pause_s == 0.1


def test_with_a_cursor_only_the_first_node_is_asked() -> None:
    stream = Feed(fleet_of(["http://a:1", "http://b:1"]), b"", "00", follow=True)
    with pytest.raises(Unavailable, match=r"http://a:1: refused$"):
        stream.ended("refused")


def test_what_is_no_change_is_told_and_not_retried_for_ever() -> None:
    stream = Feed(fleet_of(["http://a:1"]), b"", None, follow=True)
    stream.request()
    with pytest.raises(UnexpectedAnswer, match="no Epoxy node sends"):
        list(stream.feed(HEAD + chunk(b"id: 1\ndata: hello\n\n")))
