"""The mark of a forwarded request: what it says is believed only with the cluster's secret, and for this request."""

import pytest

from epoxy.transport.http.request import HttpRequest
from epoxy.transport.peers.auth import WINDOW_MS
from epoxy.transport.peers.forwarded_mark import FORWARDED, BadMark, ForwardedClient, ForwardedMarks
from epoxy.transport.peers.keyring import Keyring, SigningKey, keyring_of

SECRET = b"0123456789abcdef"
CLIENT = ForwardedClient("fe80::1%eth0", "node.http", ("ci.example.com", "spiffe://a/b c, d"))


def asked(method: str = "POST", path: bytes = b"/v2/members", query: bytes = b"a=1", mark: bytes = b"") -> HttpRequest:
    return HttpRequest(method, path, query, {FORWARDED: mark}, b"")


def marked() -> bytes:
    return ForwardedMarks(keyring_of(SECRET), lambda: 1000).make(asked(), CLIENT)


def test_a_mark_says_who_the_client_is() -> None:
    mark = marked()
    assert b"\r" not in mark
    assert b"\n" not in mark
    marks = ForwardedMarks(keyring_of(SECRET), lambda: 1000)
    assert marks.read(asked(mark=mark)) == CLIENT
    bare = ForwardedClient("", "")
    assert marks.read(asked(mark=marks.make(asked(), bare))) == bare


@pytest.mark.parametrize(
    "request_of_another",
    [
        asked("GET", mark=marked()),
        asked(path=b"/v2/auth", mark=marked()),
        asked(query=b"a=2", mark=marked()),
        asked(mark=marked().replace(b"node.http", b"node.admin")),
        asked(mark=marked().replace(b"ci.", b"di.")),
        asked(mark=b"1" + marked()),
        asked(mark=marked()[:-1]),
        asked(mark=b""),
        asked(mark=b"\xff,,,,"),
    ],
)
def test_a_mark_is_of_one_request_and_cannot_be_changed(request_of_another: HttpRequest) -> None:
    with pytest.raises(BadMark, match="not signed with this cluster's secret"):
        ForwardedMarks(keyring_of(SECRET), lambda: 1000).read(request_of_another)


def test_another_secret_makes_no_mark_and_one_that_is_being_replaced_does() -> None:
    mark = marked()
    with pytest.raises(BadMark):
        ForwardedMarks(keyring_of(b"another secret!!"), lambda: 1000).read(asked(mark=mark))
    both = Keyring(SigningKey(b"another secret!!"), SigningKey(SECRET))
    assert ForwardedMarks(both, lambda: 1000).read(asked(mark=mark)) == CLIENT


@pytest.mark.parametrize("now_ms", [1000 + WINDOW_MS + 1, 1000 - WINDOW_MS - 1])
def test_an_old_mark_is_none(now_ms: int) -> None:
    with pytest.raises(BadMark, match="30 s off: compare them"):
        ForwardedMarks(keyring_of(SECRET), lambda: now_ms).read(asked(mark=marked()))
    assert ForwardedMarks(keyring_of(SECRET), lambda: 1000 + WINDOW_MS).read(asked(mark=marked())) == CLIENT
