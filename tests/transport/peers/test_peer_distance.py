"""Who is there instead of a peer, and the way between two."""

import asyncio
from collections.abc import Sequence

import pytest

from epoxy.codec import wire
from epoxy.model.messages import (
    AcceptOk,
    Failed,
    Request,
)
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.transport.peers.transport import Peers
from epoxy.transport.wan.emulation import Link
from tests.transport.http.harness import run, until
from tests.transport.peers.pair import (
    HASTY,
    ME,
    NEVER_MS,
    PEER,
    SECRET,
    Replica,
    accept,
    patient,
    peers_to,
    replica_server,
)

# Whoever is there instead of the peer.

FORGED = wire.encode_peer_response(wire.decode_peer_response(b"\x04\x00\x01\x01"))
IMPOSTORS = {
    "speaks something else": b"220 mail ready\r\n",
    "answers twice": b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n" * 3,
    "has no such page": b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
    "forges an acceptance": b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(FORGED), FORGED),
    "forges a signature": b"HTTP/1.1 200 OK\r\nepoxy-mac: %b\r\ncontent-length: %d\r\n\r\n%b"
    % (b"0" * 64, len(FORGED), FORGED),
    "talks without end": b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n" + b"x" * 5_000_000,
    "has headers without end": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 5000,
    "hangs up": b"",
}


@pytest.mark.parametrize("name", IMPOSTORS)
def test_an_impostor_is_not_believed(name: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(IMPOSTORS[name])
        if not IMPOSTORS[name]:
            writer.close()
        try:
            while await reader.read(1 << 16):
                writer.write(IMPOSTORS[name])
        except OSError:
            pass
        writer.transport.abort()

    async def story() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with peers_to(port, limits=HASTY) as caller:
            for number in range(3):
                assert isinstance(await caller.send(accept(number)), Failed)
                assert not caller.peers.reachable(PEER)
        server.close()
        await until(lambda: len(asyncio.all_tasks()) <= 2)

    run(story())


def test_another_cluster_is_not_joined() -> None:
    replica = Replica()

    async def story() -> None:
        other = replica_server(replica, secret=b"another secret of another cluster")
        async with other as server, peers_to(server.port, limits=HASTY) as caller:
            assert isinstance(await caller.send(accept()), Failed)
            assert not caller.peers.reachable(PEER)

    run(story())
    assert replica.asked == []


# The way between them.


def test_the_emulated_distance_is_measured() -> None:
    """At least what was asked for, give or take the timer's millisecond; how much more depends on the machine."""

    async def story() -> None:
        async with replica_server(Replica()) as server, peers_to(server.port, rtt_ms=40.0) as caller:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            assert await caller.send(accept()) == AcceptOk()
            assert (loop.time() - began_s) * 1000 >= 38
            rtt_ms = caller.peers.rtt_ms(PEER)
            assert rtt_ms is not None
            assert rtt_ms >= 38

    run(story())


def test_what_the_peer_does_is_no_part_of_the_distance_but_of_what_it_costs() -> None:
    replica = Replica()

    async def story() -> None:
        async with (
            replica_server(replica) as server,
            peers_to(server.port, limits=patient(probe_ms=NEVER_MS)) as caller,
        ):
            await caller.reached()
            before_ms = caller.peers.rtt_ms(PEER)
            replica.silent = True
            answer = caller.send(accept())
            await until(lambda: bool(replica.waiting))
            await until(lambda: caller.peers.waited_ms(PEER) > 50)
            assert caller.peers.silent_ms(PEER) >= caller.peers.waited_ms(PEER)
            replica.speak()
            await answer
            assert caller.peers.waited_ms(PEER) == 0.0
            assert caller.peers.lag_ms(PEER) > 45
            assert (caller.peers.lag_ms(99), caller.peers.waited_ms(99)) == (0.0, 0.0)
            after_ms = caller.peers.rtt_ms(PEER)
            assert before_ms is not None
            assert after_ms is not None
            assert after_ms <= before_ms

    run(story())


def test_a_cut_link_fails_and_heals() -> None:
    replica = Replica()

    async def story() -> None:
        async with replica_server(replica) as server, peers_to(server.port, limits=HASTY, rtt_ms=4.0) as caller:
            await caller.reached()
            caller.link.cut(PEER)
            assert await caller.send(accept(1)) == Failed(reason="timeout")
            assert replica.asked == []
            assert await caller.send(accept(2)) == Failed(reason="unreachable")
            caller.link.heal(PEER)
            assert await caller.insist(accept(3)) == AcceptOk()
            # One way: it is heard, and its answer is lost.
            caller.link.cut(PEER, sends=True, hears=False)
            assert await caller.send(accept(4)) == Failed(reason="timeout")
            assert accept(4) in replica.asked
            caller.link.heal(PEER)
            assert await caller.insist(accept(5)) == AcceptOk()

    run(story())


@pytest.mark.parametrize(("sends", "heard"), [(True, False), (False, True), (False, False)])
def test_a_link_cut_at_the_other_end(sends: bool, heard: bool) -> None:
    replica = Replica()

    async def story() -> None:
        link = Link(LoopClock(asyncio.get_running_loop()))
        async with replica_server(replica, link=link) as server, peers_to(server.port, limits=HASTY) as caller:
            await caller.reached()
            link.cut(ME, sends=sends, hears=heard)
            assert await caller.send(accept(1)) == Failed(reason="timeout")
            assert replica.asked == ([accept(1)] if heard else [])
            link.heal(ME)
            assert await caller.insist(accept(2)) == AcceptOk()

    run(story())


@pytest.mark.pure("replaces a function of the codec")
def test_a_request_for_all_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Sequence[Request]] = []
    encode = wire.encode_requests

    def counted(requests: Sequence[Request]) -> bytes:
        encoded.append(requests)
        return encode(requests)

    monkeypatch.setattr(wire, "encode_requests", counted)
    replicas = {2: Replica(), 3: Replica()}

    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with replica_server(replicas[2], me=2) as one, replica_server(replicas[3], me=3) as other:
            links = {2: f"http://127.0.0.1:{one.port}", 3: f"http://127.0.0.1:{other.port}"}
            peers = Peers(
                ME, SECRET, links, epoch=lambda: 1, clock=LoopClock(loop), dice=SystemDice(), limits=patient()
            )
            peers.start()
            for request in (accept(1), accept(2)):
                for to in (2, 3):
                    peers.send(to, (request,), None)
            peers.send(2, (accept(3), accept(4)), None)
            await until(lambda: len(replicas[2].asked) == 4 and len(replicas[3].asked) == 2)
            await peers.stop()

    run(story())
    assert encoded == [(accept(1),), (accept(2),), (accept(3), accept(4))]
    assert replicas[2].asked == [accept(number) for number in (1, 2, 3, 4)]
    assert replicas[3].asked == [accept(number) for number in (1, 2)]


def test_the_secret_stays_secret() -> None:
    """Nothing that is logged or sent carries it."""

    async def story() -> None:
        heard: list[bytes] = []

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            writer.transport.abort()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with peers_to(server.sockets[0].getsockname()[1], limits=HASTY):
            await until(lambda: bool(heard))
        server.close()
        assert heard[0].startswith(b"GET /v2/epoxy/stream HTTP/1.1\r\nhost: 127.0.0.1:")
        assert SECRET not in heard[0]

    run(story())
