"""Answers in pieces: at the pace of their readers, beside the turns of their actor."""

from collections.abc import AsyncIterator

import pytest

from epoxy.client.hosted import Actor, Request, Response
from epoxy.model.actors import MAX_REQUEST_BYTES
from epoxy.model.exchanges import WHOLE_BYTES, WINDOW_BYTES, Credit, Head, Piece, Reset, cost
from tests.client.hosted.bench import Stage, play


class Streams(Actor):
    closed = 0
    made = 0

    async def pieces(self, kind: str) -> AsyncIterator[bytes]:
        try:
            for _ in range(10):
                type(self).made += 1
                yield bytes(WHOLE_BYTES)
            if kind == "/broken":
                raise ValueError
            if kind == "/text":
                yield "x"  # type: ignore[misc]
        finally:
            type(self).closed += 1

    async def on_request(self, request: Request) -> Response | bytes:
        if request.path == "/large":
            return bytes(MAX_REQUEST_BYTES + 1)
        self.state["n"] = 1
        return Response(self.pieces(request.path), status=202)


@pytest.fixture(autouse=True)
def anew() -> None:
    Streams.closed = Streams.made = 0


def read_all(stage: Stage) -> None:
    """Gives credit for what has come."""
    amount = sum(cost(piece.body) for piece in stage.link.of(Piece))
    stage.link.sent = [each for each in stage.link.sent if not isinstance(each, Piece)]
    if amount:
        stage.hear(Credit(stream=1, amount=amount))


def asked(path: str, *, saving: bool = True) -> Stage:
    stage = Stage(Streams, saving=saving)
    stage.ask(1, path=path)
    return stage


async def received(stage: Stage) -> int:
    """Bytes of the whole answer, read as they come."""
    count = 0
    while True:
        await stage.until(lambda: stage.link.of(Piece))
        pieces = stage.link.of(Piece)
        count += sum(len(each.body) for each in pieces)
        if pieces[-1].fin:
            return count
        read_all(stage)


def test_a_reader_that_is_slow_holds_up_its_answer_and_not_the_actor() -> None:
    async def story() -> None:
        stage = asked("/")
        await stage.until(lambda: len(stage.link.of(Piece)) * cost(bytes(WHOLE_BYTES)) >= WINDOW_BYTES)
        await stage.quiet(40)
        sent = len(stage.link.of(Piece))
        assert sent == 4
        assert Streams.made == sent + 1, "no more is made than is sent"
        stage.ask(2, path="/", idempotency_key="other")
        await stage.until(lambda: len(stage.link.of(Head)) == 2)

    play(story)


def test_all_of_it_comes_and_its_end() -> None:
    async def story() -> None:
        stage = asked("/")
        assert await received(stage) == 10 * WHOLE_BYTES
        assert stage.link.of(Head) == [Head(stream=1, status=202)]
        await stage.quiet()
        assert (Streams.closed, stage.link.streams) == (1, set())

    play(story)


def test_it_begins_when_the_state_it_rests_on_is_saved() -> None:
    async def story() -> None:
        stage = asked("/", saving=False)
        await stage.until(lambda: stage.saves)
        await stage.quiet()
        assert (stage.link.of(Head), Streams.made) == ([], 0)
        stage.saved()
        await stage.until(lambda: stage.link.of(Piece))

    play(story)


@pytest.mark.parametrize(("path", "told"), [("/broken", "ValueError"), ("/text", "TypeError")])
def test_one_that_fails_breaks_off(path: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        stage = asked(path)

        def ended() -> bool:
            read_all(stage)
            return bool(stage.link.of(Reset))

        await stage.until(ended)
        assert [each.reason for each in stage.link.of(Reset)] == [f"the answer broke off: {told}"]
        await stage.quiet()
        assert (Streams.closed, stage.ends) == (1, [])

    play(story)
    assert "an answer broke off" in caplog.text


@pytest.mark.parametrize("how", ["client", "connection", "end"])
def test_its_iterator_is_closed_when_it_is_not_wanted_any_more(how: str) -> None:
    async def story() -> None:
        stage = asked("/")
        await stage.until(lambda: stage.link.of(Piece))
        await stage.quiet(40)
        if how == "client":
            stage.hear(Reset(stream=1))
        elif how == "connection":
            stage.task.lost()
        else:
            await stage.end()
            assert len(stage.link.of(Reset)) == 1
        await stage.until(lambda: Streams.closed == 1)
        assert stage.link.streams == set()

    play(story)


def test_a_large_answer_goes_in_pieces_by_itself() -> None:
    async def story() -> None:
        assert await received(asked("/large")) == MAX_REQUEST_BYTES + 1

    play(story)
