"""Requests and answers as an actor's code sees them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from epoxy.client.hosted.requests import Answer, FailedAnswer, Request, Response
from epoxy.client.hosted.windows import BodyBuffer
from epoxy.model.actors import MAX_REQUEST_BYTES
from epoxy.model.errors import ConnectionLost, InvalidRequest
from epoxy.model.exchanges import RequestHead


def request(body: bytes = b"", **head: Any) -> tuple[Request, list[Answer]]:
    given: list[Answer] = []
    made = Request(1, body, lambda _, answer: given.append(answer), head=RequestHead(**head))
    return made, given


@pytest.mark.parametrize(
    ("body", "raw", "kind"),
    [
        (b"x", b"x", None),
        (bytearray(b"x"), b"x", None),
        (memoryview(b"x"), b"x", None),
        ("é", "é".encode(), "text/plain; charset=utf-8"),
        ({"a": [1]}, b'{"a":[1]}', "application/json"),
        ([], b"[]", "application/json"),
    ],
)
def test_an_answer_of_each_kind(body: Any, raw: bytes, kind: str | None) -> None:
    answer = Response(body, status=201)
    assert (answer.body, answer.status, answer.headers.get("content-type")) == (raw, 201, kind)
    assert Response(body, headers={"Content-Type": "x/y"}).pairs == (("Content-Type", "x/y"),)


def test_an_answer_can_be_read() -> None:
    assert Response({"a": 1}).json() == {"a": 1}
    assert Response(b"\xff").text == "�"
    assert repr(Response(b"abc")) == "<Response 200, 3 bytes>"
    with pytest.raises(InvalidRequest, match="the answer is not JSON"):
        Response(b"{").json()


@pytest.mark.parametrize("status", [100, 199, 600, "200", True])
def test_a_status_is_a_number_of_an_answer(status: Any) -> None:
    with pytest.raises(InvalidRequest, match="from 200 to 599"):
        Response(b"", status)


def test_what_cannot_be_an_answer_says_so() -> None:
    with pytest.raises(TypeError, match="not set"):
        Response({1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be sent as JSON"):
        Response({"a": object()})
    with pytest.raises(InvalidRequest):
        Response(b"", headers={"a": "\n"})


def test_a_request_has_a_head_and_is_answered_once() -> None:
    asked, given = request(b'{"a": 1}', method="PUT", path="/p", query="q=1", headers=(("X", "y"),), caller="me")
    assert (asked.method, asked.path, asked.query, asked.headers["x"], asked.caller) == ("PUT", "/p", "q=1", "y", "me")
    assert (asked.json(), asked.idempotency_key, repr(asked)) == ({"a": 1}, "", "<Request PUT /p>")
    asked.respond("ok", status=202)
    asked.respond("again")
    asked.fail("again")
    (answer,) = given
    assert isinstance(answer, Response)
    assert (answer.text, answer.status) == ("ok", 202)


def test_a_body_that_is_not_json_is_a_mistake_of_the_client() -> None:
    asked, _ = request(b"{")
    with pytest.raises(InvalidRequest, match="the request is not JSON"):
        asked.json()


def test_an_answer_that_is_too_large_for_a_plain_request_fails() -> None:
    given: list[Answer] = []
    plain = Request(1, b"", lambda _, answer: given.append(answer))
    plain.respond(bytes(MAX_REQUEST_BYTES + 1))
    assert isinstance(given[0], FailedAnswer)
    assert given[0].reason == f"the answer has {MAX_REQUEST_BYTES + 1} bytes; the limit is {MAX_REQUEST_BYTES}"
    asked, whole = request(path="/")
    asked.respond(bytes(MAX_REQUEST_BYTES + 1))
    assert isinstance(whole[0], Response), "it goes in pieces"


def streamed() -> tuple[Request, BodyBuffer]:
    buffer = BodyBuffer(lambda _: None, lambda: made.grew(), gather=False)
    made = Request(1, b"", lambda *_: None, buffer=buffer, streamed=True)
    return made, buffer


def test_a_body_in_pieces() -> None:
    async def story() -> None:
        asked, buffer = streamed()
        with pytest.raises(InvalidRequest, match=r"await request.read\(\)"):
            assert asked.body
        seen: list[bytes] = []

        async def read() -> None:
            seen.extend([piece async for piece in asked.stream()])

        reading = asyncio.create_task(read())
        for body in (b"a", b"b"):
            await asyncio.sleep(0)
            buffer.push(body, fin=False)
        await asyncio.sleep(0)
        buffer.push(b"", fin=True)
        await reading
        assert b"".join(seen) == b"ab"

    asyncio.run(story())


def test_a_body_in_pieces_may_be_read_whole_within_a_limit() -> None:
    async def story() -> None:
        asked, buffer = streamed()
        buffer.push(b"abc", fin=True)
        assert (await asked.read(), asked.body, asked.text) == (b"abc", b"abc", "abc")
        asked, buffer = streamed()
        buffer.push(b"abc", fin=True)
        with pytest.raises(InvalidRequest, match="more than 2 bytes"):
            await asked.read(limit=2)
        asked, buffer = streamed()
        buffer.push(b"abc", fin=False)
        buffer.fail("the client went away")
        with pytest.raises(ConnectionLost, match="the client went away"):
            await asked.read()
        whole, _ = request(b"xyz")
        assert [piece async for piece in whole.stream()] == [b"xyz"]

    asyncio.run(story())


def test_an_answer_in_pieces_has_no_body_of_its_own() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"

    answer = Response(pieces())
    assert (answer.body, answer.content is not None, repr(answer)) == (b"", True, "<Response 200, a stream>")
