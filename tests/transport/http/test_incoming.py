"""A request while it is read: its target, and its limits."""

import pytest

from epoxy.transport.http.incoming import Incoming, Refusal
from epoxy.transport.limits import HttpLimits

LIMITS = HttpLimits(head_bytes=100, body_bytes=10, body_limits={b"/long": 20})


def incoming(url: bytes = b"/") -> Incoming:
    found = Incoming(LIMITS)
    found.add_url(url)
    return found


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (b"/a?b=c#d", (b"/a", b"b=c")),
        (b"http://host/a?b", (b"/a", b"b")),
        (b"http://host", (b"/", b"")),
        (b"/a#?b", (b"/a", b"")),
    ],
)
def test_path_and_query(url: bytes, target: tuple[bytes, bytes]) -> None:
    assert incoming(url).target() == target


@pytest.mark.parametrize("url", [b"*", b"host:80", b"http:///a"])
def test_another_target_is_refused(url: bytes) -> None:
    with pytest.raises(Refusal, match="neither a path nor an address"):
        incoming(url).target()


def test_a_header_sent_twice_is_joined() -> None:
    found = incoming()
    found.add_header(b"X-Name", b"1")
    found.add_header(b"x-name", b"2")
    assert found.headers == {b"x-name": b"1, 2"}


def test_heads_are_limited_with_unfinished_lines() -> None:
    found = incoming()
    found.count_head(99)
    with pytest.raises(Refusal) as refusal:
        found.count_head(1)
    assert refusal.value.status == 431
    found = incoming()
    found.count_unfinished(100)
    with pytest.raises(Refusal):
        found.count_unfinished(1)


def test_bodies_are_limited_by_what_is_announced_and_by_what_comes() -> None:
    announced = incoming()
    announced.add_header(b"content-length", b"11")
    with pytest.raises(Refusal) as refusal:
        announced.expect_body()
    assert refusal.value.status == 413
    longer = incoming(b"/long")
    longer.expect_body()
    longer.add_body(b"x" * 12)
    longer.add_body(b"y" * 8)
    assert longer.body == b"x" * 12 + b"y" * 8
    with pytest.raises(Refusal):
        longer.add_body(b"z")


def test_only_the_chunked_coding_is_read() -> None:
    coded = incoming()
    coded.add_header(b"transfer-encoding", b"gzip, chunked")
    with pytest.raises(Refusal) as refusal:
        coded.expect_body()
    assert refusal.value.status == 501


def test_framing_without_a_body_is_refused() -> None:
    found = incoming()
    found.count_framing(LIMITS.head_bytes + 1)
    with pytest.raises(Refusal, match="more framing than body"):
        found.count_framing(1)
