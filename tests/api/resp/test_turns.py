"""Commands that take more than one turn of the event loop."""

import asyncio
from collections.abc import Callable

import pytest

from epoxy.api.resp.command import RespSession
from epoxy.api.resp.turns import Spread
from epoxy.codec import resp
from tests.api.resp.resp_world import (
    FakeNode,
    found,
    proposal,
    run,
    turns,
    until,
    world,
)


def test_a_command_of_many_keys_lets_others_have_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any time of its own, it looks at one key in each turn of the loop."""
    monkeypatch.setattr("epoxy.api.resp.turns.TURN_S", -1.0)

    async def story() -> None:
        async with world() as at:
            at.node.held[b"k"] = proposal(b"v")
            busy, other = await at.connect(), await at.connect()
            await other.says("PING", b"+PONG\r\n")
            busy.send("EXISTS" + " k" * 1000, "MGET k k", "PING")
            await until(lambda: at.node.peeked > 0)
            await other.says("PING", b"+PONG\r\n")
            assert at.node.peeked < 1000
            await busy.expect(b":1000\r\n" + resp.array([resp.bulk(b"v")] * 2) + b"+PONG\r\n")
            assert at.node.peeked == 1002

    run(story)


def test_deleting_many_keys_lets_others_have_a_turn_and_ends_with_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.api.resp.turns.TURN_S", -1.0)

    async def story() -> None:
        async with world() as at:
            busy, other = await at.connect(), await at.connect()
            busy.send("DEL" + " k" * 1000)
            await until(lambda: at.node.asked > 0)
            await other.says("PING", b"+PONG\r\n")
            assert 0 < at.node.asked < 1000
            at.door.abort()
            await until(lambda: not at.door.connections)
            begun = at.node.asked
            await turns(50)
            assert at.node.asked == begun

    run(story)


def test_a_bug_in_a_later_turn_is_told_and_leaves_the_connection_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.api.resp.turns.TURN_S", -1.0)

    async def story() -> None:
        seen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
        async with world() as at:
            at.node.held[b"k"] = proposal(b"v")
            at.node.broken = {b"x"}
            client = await at.connect()
            client.send("MGET k k x k", "PING")
            await client.expect(b"-INDEFINITE internal error, outcome unknown\r\n+PONG\r\n")
            assert [str(each) for each in seen] == ["a bug"]

    run(story)


def test_operations_that_end_at_once_leave_no_turn_behind_that_lets_commands_overtake_the_next() -> None:
    """Each but the last asks for another turn. When that comes there is nothing left to do, and an EXEC may run."""
    turns_left, told = list[Callable[[], None]](), list[bytes]()

    class LaterSession(RespSession):
        def soon(self, step: Callable[[], None]) -> None:
            turns_left.append(step)

    session = LaterSession(FakeNode(), 1)
    Spread(session, "abc", lambda _, ended: ended(), lambda: False, lambda: told.append(b"all"), told.append).go_on()
    assert (told, session.executing) == ([b"all"], False)
    session.executing = True
    while turns_left:
        turns_left.pop()()
    assert (told, session.executing) == ([b"all"], True)


def test_keys_asked_for_elsewhere_wait_for_room_at_the_node() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.room = 5
            client = await at.connect()
            client.send("EXISTS" + " k" * 12)
            most = 0
            for _ in range(12):
                await until(lambda: bool(at.node.reads))
                await turns()
                most = max(most, len(at.node.reads))
                at.node.reads.popleft()[2](found(b"v"))
            await client.expect(b":12\r\n")
            assert most == 5

    run(story)
