"""An actor's code, and what it may do wrong without harm to others: the function form."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from epoxy.client.hosted import Actor, ActorTask
from epoxy.model.envoy_messages import Response
from tests.client.hosted.bench import PATIENCE_S, Stage


def play(
    code: Callable[[Actor], Awaitable[None]], *asked: bytes, turn: Callable[[ActorTask], object] = id
) -> list[Response]:
    """What was answered when the code has ended. `turn` is called in every turn of the loop."""

    async def main() -> Stage:
        stage = Stage(code)
        for number, body in enumerate(asked):
            stage.ask(number, body)
        async with asyncio.timeout(PATIENCE_S):
            while not stage.ends:
                turn(stage.task)
                await asyncio.sleep(0)
        return stage

    stage = asyncio.run(main())
    assert len(stage.ends) == 1
    return stage.responses


@pytest.mark.parametrize("answer", [7, None, {1}, object()])
def test_an_answer_that_is_neither_bytes_nor_text_is_the_mistake_of_one_actor(answer: Any) -> None:
    """On the wire it would be refused by the node, and with it the worker and all its actors."""

    async def code(actor: Actor) -> None:
        async for request in actor:
            with pytest.raises(TypeError, match=f"not {type(answer).__name__}"):
                request.respond(answer)
            request.respond(bytearray(b"so"))
            return

    assert play(code, b"hi") == [Response(request_id=0, body=b"so")]


def test_an_answer_that_is_not_unicode_fails_alone() -> None:
    """JSON of a client may hold half of a surrogate pair."""

    async def code(actor: Actor) -> None:
        async for request in actor:
            request.respond("caf\ud800")
            return

    reason = b"the answer is not Unicode text, at character 3"
    assert play(code, b"hi") == [Response(request_id=0, body=reason, error=True)]


def test_the_loop_has_a_turn_between_two_requests() -> None:
    """Pings are sent in it: a queue of slow requests must not cost all actors of a worker their lease."""
    turns, seen = [0], []

    async def code(actor: Actor) -> None:
        async for request in actor:
            seen.append(turns[0])
            request.respond()
            if len(seen) == 5:
                return

    def turn(_: ActorTask) -> None:
        turns[0] += 1

    assert len(play(code, *[b"hi"] * 5, turn=turn)) == 5
    assert len(set(seen)) == 5


def test_code_that_goes_on_after_it_was_cancelled_sees_no_more_requests() -> None:
    seen = []

    async def code(actor: Actor) -> None:
        async for request in actor:
            seen.append(request.body)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                request.respond(b"went on")

    def turn(task: ActorTask) -> None:
        if seen:
            task.cancel()

    told = play(code, b"first", b"second", turn=turn)
    assert seen == [b"first"]
    assert [(each.request_id, each.refused) for each in told] == [(0, False), (1, True)]


def test_whatever_code_raises_it_has_ended() -> None:
    class Odd(BaseException):
        """As some libraries have."""

    async def code(actor: Actor) -> None:
        async for _ in actor:
            raise Odd

    told = play(code, b"first", b"second")
    assert [(each.request_id, each.error, each.refused) for each in told] == [(0, True, False), (1, True, True)]


def test_code_that_ends_the_process_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def leaves(_: Actor) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        play(leaves)
    assert "actor room/x ends the whole worker: its code called sys.exit" in caplog.text
