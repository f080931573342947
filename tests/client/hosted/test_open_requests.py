"""How requests come in and how their answers leave: whole or in pieces, once or again, and with which connection."""

import asyncio
from typing import Any

import pytest

from epoxy.client.hosted import Actor, Request, Response
from epoxy.client.hosted.mailbox import MAX_QUEUED
from epoxy.client.hosted.open_requests import MAX_GATHERED
from epoxy.model.actors import MAX_REQUEST_BYTES
from epoxy.model.exchanges import WINDOW_BYTES, Credit, Head, Piece, RequestHead, Reset
from tests.client.hosted.bench import UNIX_MS, Stage, play, restarted


class Counter(Actor):
    async def on_request(self, request: Request) -> Any:
        if request.path == "/fail":
            raise ValueError
        self.state["count"] = self.state.get("count", 0) + 1
        if request.path == "/large":
            return bytes(5_000)
        return Response(str(self.state["count"]), status=201, headers={"x": "y"})


def test_a_request_that_is_asked_again_is_carried_out_once() -> None:
    async def story() -> None:
        stage = Stage(Counter)
        stage.ask(1, idempotency_key="k")
        stage.ask(2, idempotency_key="k")
        await stage.quiet()
        stage.ask(3, idempotency_key="k")
        assert stage.responses == [], "its answer waits for the save, whoever asks"
        stage.saved()
        assert [(each.request_id, each.body, each.status) for each in stage.responses] == [
            (number, b"1", 201) for number in (1, 2, 3)
        ]
        assert len(stage.saves) == 1
        second = Stage(Counter, restarted(stage), saving=True)
        second.ask(4, idempotency_key="k")
        await second.until(lambda: second.responses)
        assert (second.responses[0].body, second.responses[0].headers[0]) == (b"1", ("x", "y"))
        second.unix_ms = UNIX_MS + 3_600_000
        second.ask(5, idempotency_key="k")
        await second.until(lambda: len(second.responses) == 2)
        assert second.bodies()[1] == b"2", "after an hour it is another one"

    play(story)


def test_a_request_that_failed_is_carried_out_when_it_is_asked_again() -> None:
    async def story() -> None:
        stage = Stage(Counter, saving=True)
        stage.ask(1, path="/fail", idempotency_key="k")
        stage.ask(2, idempotency_key="k")
        stage.ask(3, idempotency_key="k")
        await stage.until(lambda: len(stage.responses) == 3)
        assert [(each.request_id, each.error, each.body) for each in stage.responses] == [
            (1, True, b"the actor failed: ValueError"),
            (2, False, b"1"),
            (3, False, b"1"),
        ]

    play(story)


def test_an_answer_that_is_too_large_to_be_kept_is_not_given_again() -> None:
    async def story() -> None:
        stage = Stage(Counter, saving=True)
        stage.ask(1, path="/large", idempotency_key="k")
        stage.ask(2, path="/large", idempotency_key="k")
        await stage.until(lambda: len(stage.responses) == 2)
        assert len(stage.responses[0].body) == 5_000
        assert stage.responses[1].error
        assert b"carried out before" in stage.responses[1].body
        assert stage.state == {"count": 1}

    play(story)


def test_an_actor_does_not_wait_for_itself() -> None:
    async def story() -> None:
        stage = Stage(Counter)
        stage.ask(1, chain=("02bb", "01aa"))
        assert [(each.error, each.refused) for each in stage.responses] == [(True, True)]

    play(story)


class Echo(Actor):
    async def on_request(self, request: Request) -> bytes:
        return request.body


def test_more_than_fit_the_mailbox_are_refused_unseen() -> None:
    async def story() -> None:
        stage = Stage(Echo)
        for number in range(MAX_QUEUED + 2):
            stage.ask(number)
        assert [(each.request_id, each.refused, each.busy) for each in stage.responses] == [
            (MAX_QUEUED, True, True),
            (MAX_QUEUED + 1, True, True),
        ]

    play(story)


def test_a_body_of_declared_length_comes_whole() -> None:
    async def story() -> None:
        stage = Stage(Echo)
        stage.open(5, b"ab", headers=(("Content-Length", "4"),))
        await stage.quiet()
        assert (stage.link.sent, stage.link.streams) == ([], {5}), "not even credit: it can still be given to another"
        stage.hear(Piece(stream=5, body=b"cd", fin=True))
        await stage.until(lambda: stage.link.sent)
        assert stage.link.sent == [Head(stream=5, status=200, body=b"abcd", fin=True)]
        assert stage.link.streams == set()

    play(story)


@pytest.mark.parametrize("length", ["9" * 5_000, "x", "-1", str(MAX_REQUEST_BYTES + 1)])
def test_a_body_of_another_length_is_given_to_the_code_as_it_comes(length: str) -> None:
    async def story() -> None:
        stage = Stage(Echo)
        stage.open(5, b"ab", headers=(("content-length", length),))
        await stage.until(lambda: stage.link.sent)
        (reset,) = stage.link.of(Reset)
        assert "await request.read()" in reset.reason

    play(story)


def test_a_body_longer_than_it_declared_and_too_many_at_a_time_are_refused() -> None:
    async def story() -> None:
        stage = Stage(Echo)
        stage.open(5, headers=(("content-length", "4"),))
        for _ in range(5):
            stage.hear(Piece(stream=5, body=bytes(WINDOW_BYTES)))
        (reset,) = stage.link.of(Reset)
        assert "more than it declared" in reset.reason
        for stream in range(10, 10 + MAX_GATHERED + 1):
            stage.open(stream, headers=(("content-length", "4"),))
        assert [each.stream for each in stage.link.of(Reset) if each.refused][-1] == 10 + MAX_GATHERED

    play(story)


def test_a_client_that_goes_away_takes_its_request_along_unless_it_runs() -> None:
    seen: list[str] = []

    class Slow(Actor):
        async def on_request(self, request: Request) -> None:
            seen.append(request.path)
            await asyncio.sleep(0)

    async def story() -> None:
        stage = Stage(Slow)
        stage.open(5, fin=True, path="/gone")
        stage.open(6, fin=True, path="/stays")
        stage.hear(Reset(stream=5))
        await stage.until(lambda: stage.link.sent)
        assert seen == ["/stays"]
        assert [each.stream for each in stage.link.of(Head)] == [6]

    play(story)


def test_answers_never_go_to_another_connection() -> None:
    """Numbers of requests begin anew with a node that was restarted."""

    async def story() -> None:
        stage = Stage(Counter)
        stage.ask(1)
        stage.ask(2)
        await stage.until(lambda: stage.saves)
        stage.task.lost()
        stage.task.connected()
        stage.ask(2, path="/fail")
        stage.saved()
        await stage.quiet()
        assert [(each.request_id, each.error) for each in stage.responses] == [(2, True)]
        assert len(stage.saves) == 2, "the save under way was sent again"

    play(story)


def test_heads_reach_the_code() -> None:
    heads: list[RequestHead] = []

    class Asked(Actor):
        async def on_request(self, request: Request) -> None:
            heads.append(request.head)

    async def story() -> None:
        stage = Stage(Asked)
        stage.ask(1, method="GET", path="/a", caller="me")
        await stage.until(lambda: stage.responses)
        assert (heads[0].method, heads[0].path, heads[0].caller) == ("GET", "/a", "me")
        assert stage.responses[0].body == b""

    play(story)


def test_credit_of_a_body_goes_back_as_the_code_takes_it() -> None:
    class Reads(Actor):
        async def on_request(self, request: Request) -> bytes:
            return await request.read()

    async def story() -> None:
        stage = Stage(Reads)
        stage.open(5, b"a")
        stage.hear(Piece(stream=5, body=b"bc"))
        await stage.until(lambda: stage.link.of(Credit))
        stage.hear(Piece(stream=5, body=b"d", fin=True))
        await stage.until(lambda: stage.link.of(Head))
        assert [each.amount for each in stage.link.of(Credit)] == [2 + 64]
        assert stage.link.of(Head)[0].body == b"abcd"

    play(story)
