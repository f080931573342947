"""HTTP without a socket: however the bytes are cut, the answer is the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.client import http1
from epoxy.client.http1 import AnswerReader, HttpResponse, NotHttp, encode_request, parse_url

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nEpoxy-Version: 7\r\n\r\nabc"
CHUNKED = b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


def read_all(data: bytes, cuts: list[int]) -> list[tuple[HttpResponse, bool]]:
    """Each answer, and whether its connection may be used again. One read never holds two: we do not pipeline."""
    reader = AnswerReader()
    found = []
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        if (answer := reader.feed(data[begin:end])) is not None:
            found.append((answer, reader.keep_alive))
    return found


@pytest.mark.parametrize(
    ("data", "status", "body", "keep_alive"),
    [(PLAIN, 200, b"abc", True), (CHUNKED, 409, b"abc", True), (EMPTY, 204, b"", False)],
)
@given(cutting=st.data())
def test_an_answer_is_the_same_however_it_is_cut(
    cutting: st.DataObject, data: bytes, status: int, body: bytes, keep_alive: bool
) -> None:
    cuts = sorted(cutting.draw(st.lists(st.integers(0, len(data)))))
    ((answer, kept),) = read_all(data, cuts)
    assert (answer.status, answer.body, kept) == (status, body, keep_alive)


def test_one_after_the_other() -> None:
    found = read_all(PLAIN + CHUNKED + PLAIN, [len(PLAIN), len(PLAIN) + len(CHUNKED)])
    assert [answer.status for answer, _ in found] == [200, 409, 200]
    assert found[0][0].headers["epoxy-version"] == "7"
    assert "epoxy-version" not in found[1][0].headers


def test_an_announcement_is_no_answer() -> None:
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.1 100 Continue\r\n\r\n") is None
    answer = reader.feed(PLAIN)
    assert answer is not None
    assert answer.status == 200


@pytest.mark.parametrize("junk", [b"-ERR unknown\r\n", b"SSH-2.0-x\r\n", b"\x00" * 20, b"HTTP/1.1 abc\r\n\r\n"])
def test_what_is_no_http(junk: bytes) -> None:
    with pytest.raises(NotHttp):
        AnswerReader().feed(junk)


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "MAX_ANSWER_BYTES", 1 << 20)
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")
    reader.feed(bytes(1 << 19))
    with pytest.raises(NotHttp, match="more than 1 MiB"):
        reader.feed(bytes(1 << 19))


def test_a_stream_is_handed_on_as_it_comes() -> None:
    parts: list[bytes] = []
    reader = AnswerReader(on_body=parts.append)
    assert reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n") is None
    assert parts == [b"ab"]
    assert reader.feed(b"1\r\nc\r\n0\r\n\r\n") is not None
    assert parts == [b"ab", b"c"]


def test_requests_say_where_they_go_and_how_long_they_are() -> None:
    node = parse_url("http://[::1]:7800/behind/")
    assert encode_request(node, "PUT", "/v2/kv/k?mode=put", b"") == (
        b"PUT /behind/v2/kv/k?mode=put HTTP/1.1\r\nHost: [::1]:7800\r\nAccept: application/octet-stream\r\n"
        b"Content-Type: application/octet-stream\r\nContent-Length: 0\r\n\r\n"
    )
    assert b"Content-Length" not in encode_request(node, "GET", "/v2/kv/k")
