"""The agent's port for clients, in turns: none of them keeps the agent from its heartbeats."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop
from msgspec.structs import replace

from epoxy.agent.redis import encode
from epoxy.agent.sentinel_server import (
    COMMANDS_PER_TURN,
    MAX_UNREAD_BYTES,
    READ_BYTES,
    ClientConnection,
    SentinelServer,
)
from epoxy.model.address import Address
from epoxy.model.elect_status import AgentStatus
from epoxy.testing import free_ports
from tests.agent.test_sentinel import STATUS, source_of

PATIENCE_S = 60.0
MASTERS = encode(("SENTINEL", "MASTERS"))
MANY = 20_000


class House:
    """A server, and how often it was asked for the status."""

    def __init__(self) -> None:
        self.asked = 0
        (port,) = free_ports(1)
        self.address = Address("127.0.0.1", port)
        self.server = SentinelServer(replace(source_of(), status=self._status))

    def _status(self) -> AgentStatus:
        self.asked += 1
        return replace(STATUS, switches=self.asked)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.address.host, self.address.port)


def play(story: Callable[[House], Awaitable[None]]) -> None:
    async def run() -> None:
        house = House()
        await house.server.start(house.address)
        try:
            await asyncio.wait_for(story(house), PATIENCE_S)
        finally:
            house.server.close()

    uvloop.run(run())


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *words: str) -> bytes:
    writer.write(encode(words))
    return await reader.readline()


def test_who_does_not_read_is_not_answered_without_end() -> None:
    async def story(house: House) -> None:
        _, greedy = await house.dial()
        greedy.write(MASTERS * MANY)
        reader, writer = await house.dial()
        before = -1
        while house.asked > before:
            before = house.asked
            for _ in range(20):
                assert await ask(reader, writer, "PING") == b"+PONG\r\n"
        assert house.asked < MANY
        greedy.transport.abort()
        writer.close()

    play(story)


def test_who_reads_is_answered_all_of_it_and_in_order() -> None:
    async def story(house: House) -> None:
        reader, writer = await house.dial()
        count = 10 * READ_BYTES // len(MASTERS)
        writer.write(MASTERS * count + encode(("PING",)))
        told = await reader.readuntil(b"+PONG\r\n")
        writer.write(b"GET / HTTP/1.1\r\n")
        told += await reader.read()
        assert told.count(b"mymaster") == count
        assert told.count(b"+PONG\r\n") == 1
        assert told.endswith(b"\r\n")
        assert b"-ERR Protocol error" in told[-200:]
        assert len(told) > MAX_UNREAD_BYTES
        writer.close()

    play(story)


def test_a_client_has_a_turn_for_each_question_and_none_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    more: list[bool] = []
    answer_one = ClientConnection.answer_one

    def counted(client: ClientConnection) -> bool:
        more.append(answer_one(client))
        return more[-1]

    monkeypatch.setattr(ClientConnection, "answer_one", counted)

    async def story(house: House) -> None:
        reader, writer = await house.dial()
        for _ in range(3):
            assert await ask(reader, writer, "PING") == b"+PONG\r\n"
        assert more == [False] * 3
        writer.close()

    play(story)


def test_a_turn_is_bounded_however_many_ask() -> None:
    async def story(house: House) -> None:
        ends = [await house.dial() for _ in range(3 * COMMANDS_PER_TURN)]
        most, last = 0, 0
        for _, writer in ends:
            writer.write(MASTERS * 50)
        while house.asked < 3 * COMMANDS_PER_TURN * 50:
            await asyncio.sleep(0)
            most, last = max(most, house.asked - last), house.asked
        assert 0 < most <= 2 * COMMANDS_PER_TURN
        for _, writer in ends:
            writer.transport.abort()

    play(story)
