"""What a worker sends: in frames, pings first, and never too much of it in memory."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from epoxy.client import outbox as module
from epoxy.client.outbox import Outbox, OutboxFull
from epoxy.codec.envoy_frames import from_envoy
from epoxy.model.envoy_messages import FromEnvoy, Goodbye, Ping, Response, Running

PATIENCE_S = 60.0


def run(story: Callable[[Outbox], Awaitable[None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(story(Outbox()), PATIENCE_S)

    asyncio.run(main())


async def read(outbox: Outbox) -> list[FromEnvoy]:
    frame = await outbox.frame()
    assert frame is not None
    return from_envoy.read(frame, text=False)


def answer(number: int, size: int = 10) -> Response:
    return Response(request_id=number, body=b"x" * size)


def test_what_came_in_one_turn_is_one_frame_in_order() -> None:
    async def story(outbox: Outbox) -> None:
        waiting = asyncio.create_task(read(outbox))
        await asyncio.sleep(0)
        said: list[FromEnvoy] = [answer(number) for number in range(50)]
        for message in said:
            outbox.put(message)
        assert await waiting == said
        assert outbox.bytes == 0

    run(story)


def test_turns_that_follow_each_other_share_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """One busy actor answers one request in each."""
    monkeypatch.setattr(module, "GATHER_S", PATIENCE_S)

    async def story(outbox: Outbox) -> None:
        waiting = asyncio.create_task(read(outbox))
        await asyncio.sleep(0)
        for number in range(2 * module.TURNS):
            outbox.put(answer(number))
            await asyncio.sleep(0)
        assert module.TURNS <= len(await waiting) <= 2 * module.TURNS

    run(story)


def test_a_ping_overtakes_what_waits() -> None:
    async def story(outbox: Outbox) -> None:
        for number in range(10):
            outbox.put(answer(number, 100_000))
        outbox.put(Ping(sent_ms=5))
        first = await read(outbox)
        assert first[0] == Ping(sent_ms=5)
        later = [each for _ in range(4) for each in await read(outbox)]
        assert [each.request_id for each in first[1:] + later if isinstance(each, Response)] == list(range(10))

    run(story)


def test_frames_have_a_limit_which_a_single_message_may_exceed() -> None:
    async def story(outbox: Outbox) -> None:
        for size in (1 << 20, 200_000, 50_000, 50_000):
            outbox.put(answer(1, size))
        assert [len(await read(outbox)) for _ in range(3)] == [1, 2, 1]

    run(story)


def test_actors_wait_for_room_and_code_that_does_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENOUGH_BYTES", 1_000)
    monkeypatch.setattr(module, "MAX_BYTES", 5_000)

    async def story(outbox: Outbox) -> None:
        await outbox.room()
        outbox.put(answer(1, 2_000))
        waiting = asyncio.create_task(outbox.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        outbox.put(answer(2, 2_000))
        with pytest.raises(OutboxFull, match="wait for the node already"):
            outbox.put(answer(3, 2_000))
        assert len(await read(outbox)) == 2
        await waiting

    run(story)


def test_the_goodbye_is_the_last_word() -> None:
    async def story(outbox: Outbox) -> None:
        outbox.put(Goodbye())
        outbox.put(Running(actor_id="01", generation=1))
        assert await read(outbox) == [Goodbye()]
        assert await outbox.frame() is None

    run(story)


def test_one_that_is_closed_keeps_nothing_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENOUGH_BYTES", 0)

    async def story(outbox: Outbox) -> None:
        outbox.put(answer(1))
        outbox.close()
        await outbox.room()

    run(story)
