"""Real sockets: writes that wait behind a key that stands still, and whose clients leave, never take effect."""

import asyncio

import pytest

from epoxy.runtime.admission import Ticket
from epoxy_sim.patching import Patch, applied
from tests.api.resp.resp_world import Cluster, Rope, cluster, run, until

CLIENTS = 500


async def left_alone(built: Cluster, port: int, clients: int) -> tuple[int, bytes]:
    """One write is under way and cannot be decided, those of so many clients wait behind it, and these clients leave.
    Then messages arrive again: how many writes took effect, and the value."""
    node = built.nodes[1]
    built.is_mute = True
    first, *others = [Rope(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(clients + 1)]
    first.send("SET k first")
    await until(lambda: node.in_flight == 1)
    for number, rope in enumerate(others):
        rope.send(f"SET k {number}")
    await until(lambda: node.in_flight == clients + 1)
    for number, rope in enumerate(others):
        if number % 2:
            rope.writer.close()
        else:
            rope.writer.transport.abort()
    for _ in range(200):
        await asyncio.sleep(0.005)
        if node.in_flight == 1:
            break
    waiting = node.in_flight - 1
    built.is_mute = False
    await first.expect(b"+OK\r\n")
    await until(lambda: node.in_flight == 0)
    found = node.replica.newest(b"k")
    assert found is not None
    assert found.value is not None
    first.writer.transport.abort()
    await asyncio.gather(*[rope.writer.wait_closed() for rope in (first, *others)], return_exceptions=True)
    assert waiting == 0, f"{waiting} writes of clients that are gone still wait"
    return found.version, found.value


def test_what_has_not_begun_is_dropped_when_its_client_is_gone() -> None:
    async def story() -> None:
        async with cluster(3) as (built, ports):
            assert await left_alone(built, ports[0], CLIENTS) == (1, b"first")
            assert built.nodes[1].abandoned == CLIENTS

    run(story)


@pytest.mark.pure("plants a fault in the admission")
def test_writes_that_outlive_their_clients_are_caught() -> None:
    async def story() -> None:
        async with cluster(3) as (built, ports):
            with pytest.raises(AssertionError, match="still wait"):
                await left_alone(built, ports[0], 5)
            found = built.nodes[1].replica.newest(b"k")
            assert found is not None
            assert found.version == 6, "and they took effect"

    with applied((Patch(Ticket, "abandon", lambda _: None),)):
        asyncio.run(story())


def test_a_write_that_waits_is_answered_within_the_limit_of_redis_clients() -> None:
    """What has begun is not known, what waits is definitely not done."""

    async def story() -> None:
        async with cluster(3, request_timeout_ms=200) as (built, ports):
            built.is_mute = True
            ropes = [Rope(*await asyncio.open_connection("127.0.0.1", ports[0])) for _ in range(2)]
            ropes[0].send("SET k first")
            await until(lambda: built.nodes[1].in_flight == 1)
            ropes[1].send("SET k second")
            assert (await ropes[0].line()).startswith("-INDEFINITE no decision about 'k'")
            assert (await ropes[1].line()).startswith("-BUSY nothing was written to 'k': its turn")
            built.is_mute = False
            await until(lambda: built.nodes[1].in_flight == 0)
            found = built.nodes[1].replica.newest(b"k")
            assert found is None or found.value == b"first"
            for rope in ropes:
                rope.writer.transport.abort()

    run(story)
