"""The agent's port for clients over real sockets: who is served, who is turned away, and who is let go."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from epoxy.agent import sentinel_server
from epoxy.agent.sentinel_server import SentinelServer
from epoxy.model.address import Address
from epoxy.testing import free_ports
from epoxy.transport.http import reserves
from tests.agent.test_sentinel import source_of

PATIENCE_S = 60.0


class House:
    def __init__(self) -> None:
        (port,) = free_ports(1)
        self.address = Address("127.0.0.1", port)
        self.server = SentinelServer(source_of())

    async def come(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.address.host, self.address.port)


def play(story: Callable[[House], Awaitable[None]]) -> None:
    """Nothing but what the story expects may end a connection."""
    failures: list[dict[str, object]] = []

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        house = House()
        await house.server.start(house.address)
        try:
            await asyncio.wait_for(story(house), PATIENCE_S)
        finally:
            house.server.close()

    uvloop.run(run())
    assert failures == []


def test_commands_are_answered_and_quit_ends_the_connection() -> None:
    async def story(house: House) -> None:
        reader, writer = await house.come()
        writer.write(b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n")
        assert await reader.read() == b"+PONG\r\n+OK\r\n"
        writer.close()

    play(story)


@pytest.mark.parametrize("noise", [b"*1\r\n$x\r\n", b"*99999999\r\n", b"*1\r\n$-7\r\n"])
def test_who_speaks_no_resp_is_told_and_let_go(noise: bytes) -> None:
    async def story(house: House) -> None:
        reader, writer = await house.come()
        writer.write(b"*1\r\n$4\r\nPING\r\n" + noise)
        said = await reader.read()
        assert said.startswith(b"+PONG\r\n-ERR Protocol error: ")
        writer.close()

    play(story)


def test_clients_above_the_limit_are_refused_until_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentinel_server, "MAX_CLIENTS", 1)

    async def story(house: House) -> None:
        reader, writer = await house.come()
        writer.write(b"*1\r\n$4\r\nPING\r\n")
        assert await reader.readline() == b"+PONG\r\n"
        refused, late = await house.come()
        house.server.publish("+switch-master", "words that one who was turned away must not hear")
        assert await refused.read() == b"-ERR max number of clients reached\r\n"
        late.close()
        writer.close()
        while True:
            reader, writer = await house.come()
            writer.write(b"*1\r\n$4\r\nPING\r\n")
            if await reader.readline() == b"+PONG\r\n":
                break
            writer.close()
        writer.close()

    play(story)


def test_a_subscriber_hears_and_one_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentinel_server, "MAX_UNREAD_BYTES", 1000)

    async def story(house: House) -> None:
        reader, writer = await house.come()
        writer.write(b"*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n")
        assert b"subscribe" in await reader.readuntil(b":1\r\n")
        house.server.publish("+switch-master", "mymaster a 1 b 2")
        assert b"mymaster a 1 b 2" in await reader.readuntil(b"b 2\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        while house.server._clients:
            house.server.publish("+switch-master", "x" * 100_000)
            await asyncio.sleep(0)
        writer.close()

    play(story)


def test_of_clients_that_do_not_read_only_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentinel_server, "MAX_STALLED", 2)

    async def story(house: House) -> None:
        greedy = [await house.come() for _ in range(4)]
        ask = b"*2\r\n$8\r\nSENTINEL\r\n$7\r\nMASTERS\r\n" * 20_000
        for reader, writer in greedy:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(ask)
        while len(house.server._clients) != 2:
            await asyncio.sleep(0.01)
        assert len(house.server._stalled) <= 2
        reader, writer = await house.come()
        writer.write(b"*1\r\n$4\r\nPING\r\n")
        assert await reader.readline() == b"+PONG\r\n"
        for _, each in (*greedy, (reader, writer)):
            each.transport.abort()

    play(story)


def test_clients_leave_descriptors_for_other_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserves, "ceiling", lambda: sentinel_server.RESERVED_FILES + 3)

    async def story(house: House) -> None:
        assert house.server._most == 3

    play(story)
