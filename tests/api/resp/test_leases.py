"""Versions and sessions, and replies that must not outlive a lease."""

import asyncio

import pytest

from epoxy.model.writes import Consistency, NothingToDelete, Outcome, Path
from epoxy.node.service import Node
from epoxy_sim.patching import Patch, applied
from tests.api.resp.resp_world import Cluster, Rope, cluster, committed, found, proposal, run, until, world

ID = bytes(range(16)).hex()
GONE = NothingToDelete(committed=None, path=Path.SLOW)


def test_the_version_of_a_key_is_its_fencing_token() -> None:
    async def story() -> None:
        async with world() as at:
            at.node.held |= {b"k": proposal(b"v", version=7), b"gone": proposal(None, version=9)}
            client = await at.connect()
            await client.says("EPOXY.VERSION k", b":7\r\n")
            await client.says("epoxy.version gone", b":9\r\n")
            client.send("EPOXY.VERSION new", "READCONSISTENT", "EPOXY.VERSION k")
            await until(lambda: len(at.node.reads) == 2)
            assert [(key, consistency) for key, consistency, _ in at.node.reads] == [
                (b"new", Consistency.OPTIMISTIC),
                (b"k", Consistency.LINEARIZABLE),
            ]
            at.node.reads[0][2](found(None))
            at.node.reads[1][2](found(b"v"))
            await client.expect(b":0\r\n+OK\r\n:1\r\n")

    run(story)


@pytest.mark.parametrize(
    ("command", "outcome", "reply"),
    [
        ("EPOXY.SESSION NEW 30000", committed(b""), f"$32\r\n{ID}\r\n"),
        (f"EPOXY.SESSION RENEW {ID}", committed(b""), "+OK\r\n"),
        (f"epoxy.session renew {ID}", GONE, "-NOSESSION the session is over, or never was\r\n"),
        (f"EPOXY.SESSION END {ID}", committed(None), ":1\r\n"),
        (f"EPOXY.SESSION END {ID}", GONE, ":0\r\n"),
    ],
)
def test_sessions(command: str, outcome: Outcome, reply: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send(command)
            await until(lambda: len(at.node.writes) == 1)
            assert at.node.writes[0][0].ttl_ms == (30_000 if " NEW " in command else 0)
            at.node.writes[0][1](outcome)
            await client.expect(reply.encode())

    run(story)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("EPOXY.SESSION NEW 0", "a session lasts 1 to"),
        ("EPOXY.SESSION NEW soon", "value is not an integer"),
        ("EPOXY.SESSION RENEW 77", "32 hexadecimal digits"),
        ("EPOXY.SESSION KEEP 77", "NEW ttl_ms, RENEW id, END id"),
    ],
)
def test_what_makes_no_sense_is_told_so(command: str, words: str) -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send(command)
            assert words in await client.line()
            assert at.node.asked == 0

    run(story)


async def read_until_over(built: Cluster, port: int) -> bytes:
    """A value that expires, read often enough to be cached, and then when it must be over. Its end cannot be decided,
    so only the count of the replica hides it."""
    client = Rope(*await asyncio.open_connection("127.0.0.1", port))
    await client.says("SET k v PX 30", b"+OK\r\n")
    for _ in range(4):
        client.send("GET k")
        await client.expect(b"$1\r\nv\r\n")
    built.is_mute = True
    await asyncio.sleep(0.25)
    client.send("GET k")
    reply = await client.take(5)
    client.writer.transport.abort()
    return reply


def test_a_cached_reply_does_not_outlive_its_value() -> None:
    async def story() -> None:
        async with cluster(3) as (built, ports):
            assert await read_until_over(built, ports[0]) == b"$-1\r\n"

    run(story)


@pytest.mark.pure("plants a fault in the node")
def test_a_cache_that_does_not_know_of_expiries_is_caught() -> None:
    async def story() -> None:
        async with cluster(3) as (built, ports):
            assert await read_until_over(built, ports[0]) != b"$-1\r\n"

    with applied((Patch(Node, "stays", lambda *_: True),)):
        asyncio.run(story())
