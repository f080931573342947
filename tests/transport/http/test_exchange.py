"""One request and its one answer, on a connection of a test."""

import pytest

from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.header_memo import EVERYWHERE
from epoxy.transport.http.request import HttpRequest
from epoxy.transport.http.upgraded import UpgradedProtocol
from tests.api.http.http_bench import Wire


def wire(method: str = "GET") -> Wire:
    return Wire(HttpRequest(method, b"/", b"", {}, b""))


def test_an_answer_tells_its_length_and_is_given_once() -> None:
    here = wire()
    here.exchange.respond(200, b"body")
    head, _, body = here.sent.partition(b"\r\n\r\n")
    assert b"content-length: 4" in head
    assert body == b"body"
    with pytest.raises(AssertionError, match="one answer"):
        here.exchange.respond(200, b"again")


@pytest.mark.parametrize(("method", "status", "sized"), [("HEAD", 200, True), ("GET", 204, False), ("GET", 304, False)])
def test_answers_without_a_body(method: str, status: int, sized: bool) -> None:
    here = wire(method)
    here.exchange.respond(status, b"body")
    assert here.sent.endswith(b"\r\n\r\n")
    assert (b"content-length: 4" in here.sent) is sized


def test_a_lasting_answer_is_offered_to_the_cache() -> None:
    here = wire()
    here.exchange.respond(200, b"x", lasting=EVERYWHERE)
    assert here.kept == [here.sent]


def test_an_answer_after_the_connection_is_lost_is_ignored() -> None:
    here = wire()
    here.exchange.lost()
    here.exchange.fail(500, "internal", "late")
    assert here.sent == b""
    assert here.exchange.answered


def test_a_stream_sends_chunks_until_it_is_closed() -> None:
    here, ended = wire(), list[str]()
    stream = here.exchange.stream(200, content_type=b"text/plain")
    stream.on_close(lambda: ended.append("closed"))
    stream.write(b"abc")
    stream.write(b"")
    stream.close()
    assert here.sent.partition(b"\r\n\r\n")[2] == b"3\r\nabc\r\n0\r\n\r\n"
    stream.lost()
    stream.lost()
    stream.on_close(lambda: ended.append("at once"))
    assert ended == ["closed", "at once"]
    assert not stream.writable


def test_a_lost_exchange_is_not_upgraded() -> None:
    here = wire()
    here.exchange.lost()
    assert not here.exchange.upgrade(UpgradedProtocol(), ())
    assert isinstance(here.exchange, Exchange)
    assert not here.exchange.answered
