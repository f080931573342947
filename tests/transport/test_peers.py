"""The links between replicas on real sockets: batches, limits, failures, and coming back from them."""

import asyncio
from collections.abc import Sequence

import pytest

from epoxy.codec import wire
from epoxy.model.messages import (
    AcceptOk,
    Behind,
    Commit,
    CommitOk,
    Failed,
    Read,
    ReadOk,
    Reply,
    Request,
)
from epoxy.model.records import MAX_VALUE_BYTES, Proposal, ProposalId
from epoxy.node.clock import LoopClock, SystemDice
from epoxy.testing import free_ports
from epoxy.transport.batch import Shortest
from epoxy.transport.limits import PeerLimits
from epoxy.transport.link import Link
from epoxy.transport.peer import Peer
from epoxy.transport.peers import Peers
from epoxy.transport.world import Identity, World
from tests.transport.harness import expect_report, run, until
from tests.transport.pair import (
    HASTY,
    ME,
    NEVER_MS,
    PEER,
    SECRET,
    Replica,
    accept,
    patient,
    peers_to,
    read,
    replica_door,
)


def number_of(request: Request) -> Reply:
    """A reply by which its request can be told."""
    assert isinstance(request, Read)
    return Behind(version=int(request.key))


def test_every_request_gets_its_own_reply() -> None:
    async def story() -> None:
        async with replica_door(Replica(number_of)) as door, peers_to(door.port) as caller:
            answers = [caller.send(read(number)) for number in range(5000)]
            assert await asyncio.gather(*answers) == [Behind(version=number) for number in range(5000)]

    run(story())


def test_an_envelope_is_delivered_in_order_and_answered_by_its_last() -> None:
    replica = Replica(lambda request: CommitOk() if isinstance(request, Commit) else AcceptOk())
    commit = Commit(key=b"k", epoch=1, proposal=accept().proposal)

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port) as caller:
            answers = [caller.send(commit, accept(1)), caller.send(accept(2), commit), caller.send(commit)]
            assert await asyncio.gather(*answers) == [AcceptOk(), CommitOk(), CommitOk()]
            assert replica.asked == [commit, accept(1), accept(2), commit, commit]
            assert caller.peers.messages_sent == {PEER: 5}

    run(story())


def test_nobody_has_to_wait_for_an_answer() -> None:
    replica = Replica()

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port) as caller:
            caller.peers.send(PEER, [accept(1)], None)
            assert await caller.send(accept(2)) == AcceptOk()
            assert replica.asked == [accept(1), accept(2)]

    run(story())


def test_what_nobody_waits_for_takes_the_next_batch() -> None:
    replica = Replica()
    limits = patient(lazy_ms=NEVER_MS, probe_ms=NEVER_MS)

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port, limits=limits) as caller:
            await caller.reached()
            before = caller.peers.batches_sent[PEER]
            caller.peers.send(PEER, [accept(1)], None)
            caller.peers.send(PEER, [accept(2)], None)
            for _ in range(100):
                await asyncio.sleep(0)
            assert caller.peers.batches_sent[PEER] == before
            assert await caller.send(accept(3)) == AcceptOk()
            assert caller.peers.batches_sent[PEER] == before + 1
            assert replica.asked == [accept(1), accept(2), accept(3)]

    run(story())


def test_on_a_busy_link_what_nobody_waits_for_may_wait_longer() -> None:
    """A batch of many says that there will be another; one of few, that there may be none."""
    replica = Replica()
    limits = patient(lazy_ms=0.0, busy_lazy_ms=NEVER_MS, busy_messages=3, probe_ms=NEVER_MS)

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port, limits=limits) as caller:
            await caller.reached()
            await asyncio.gather(*(caller.send(accept(number)) for number in range(3)))
            before = caller.peers.batches_sent[PEER]
            caller.peers.send(PEER, [accept(3)], None)
            for _ in range(100):
                await asyncio.sleep(0)
            assert caller.peers.batches_sent[PEER] == before
            assert await caller.send(accept(4)) == AcceptOk()
            caller.peers.send(PEER, [accept(5)], None)
            await until(lambda: replica.asked == [accept(number) for number in range(6)])

    run(story())


def test_what_nobody_waits_for_leaves_by_itself_in_the_end() -> None:
    replica = Replica()

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port) as caller:
            await caller.reached()
            caller.peers.send(PEER, [accept(1)], None)
            await until(lambda: replica.asked == [accept(1)])

    run(story())


def test_what_comes_together_leaves_together() -> None:
    async def story() -> None:
        async with replica_door(Replica()) as door, peers_to(door.port) as caller:
            await caller.reached()
            before = caller.peers.batches_sent[PEER]
            await asyncio.gather(*(caller.send(accept(number)) for number in range(200)))
            # A probe may have left meanwhile, once a second.
            assert caller.peers.batches_sent[PEER] - before <= 2

    run(story())


def test_batches_have_limits() -> None:
    replica = Replica()
    limits = patient(batch_messages=10, batch_bytes=100_000, probe_ms=NEVER_MS)

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port, limits=limits) as caller:
            await caller.reached()
            before = caller.peers.batches_sent[PEER]
            await asyncio.gather(*(caller.send(accept(number)) for number in range(95)))
            assert caller.peers.batches_sent[PEER] - before == 10
            before = caller.peers.batches_sent[PEER]
            await asyncio.gather(*(caller.send(accept(number, size=60_000)) for number in range(6)))
            assert caller.peers.batches_sent[PEER] - before == 3

    run(story())


def test_messages_gather_while_many_batches_are_under_way() -> None:
    replica = Replica()
    limits = patient(eager_batches=2, gather_ms=NEVER_MS, probe_ms=NEVER_MS)

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port, limits=limits) as caller:
            await caller.reached()
            replica.silent = True
            sent = [caller.send(accept(0))]
            await until(lambda: len(replica.asked) == 1)
            sent.append(caller.send(accept(1)))
            await until(lambda: len(replica.asked) == 2)
            sent += [caller.send(accept(number)) for number in range(2, 50)]
            before = caller.peers.batches_sent[PEER]
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(replica.asked) == 2
            replica.speak()
            await until(lambda: len(replica.asked) == 50)
            assert caller.peers.batches_sent[PEER] - before == 1
            replica.speak()
            assert await asyncio.gather(*sent) == [AcceptOk()] * 50

    run(story())


def test_a_message_on_a_quiet_link_does_not_wait_however_many_are_under_way() -> None:
    replica = Replica()
    limits = patient(eager_batches=0, gather_ms=0.0, probe_ms=NEVER_MS)

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port, limits=limits) as caller:
            await caller.reached()
            replica.silent = True
            for number in range(20):
                caller.send(accept(number))
                await until(lambda asked=number + 1: len(replica.asked) == asked)
            replica.speak()

    run(story())


def test_no_more_than_the_limit_is_under_way() -> None:
    replica = Replica()
    limits = patient(batch_messages=1, flying_batches=5, probe_ms=NEVER_MS)

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port, limits=limits) as caller:
            await caller.reached()
            replica.silent = True
            sent = [caller.send(accept(number)) for number in range(50)]
            answered = 0
            while answered < 50:
                await until(lambda: bool(replica.waiting))
                assert len(replica.asked) - answered <= 5
                answered += len(replica.waiting)
                replica.speak()
            assert await asyncio.gather(*sent) == [AcceptOk()] * 50

    run(story())


def test_a_full_queue_says_so() -> None:
    """Before the first connection everything waits."""

    async def story() -> None:
        async with replica_door(Replica()) as door:
            async with peers_to(door.port, limits=patient(queue_messages=10)) as caller:
                replies = await asyncio.gather(*(caller.send(accept(number)) for number in range(15)))
                assert replies == [AcceptOk()] * 10 + [Failed(reason="queue full")] * 5
            async with peers_to(door.port, limits=patient(queue_bytes=100_000)) as caller:
                replies = await asyncio.gather(*(caller.send(accept(number, size=60_000)) for number in range(4)))
                assert replies == [AcceptOk()] * 2 + [Failed(reason="queue full")] * 2
                assert await caller.send(accept()) == AcceptOk()

    run(story())


def test_a_peer_nobody_knows() -> None:
    async def story() -> None:
        async with replica_door(Replica()) as door, peers_to(door.port) as caller:
            replies: list[Reply] = []
            caller.peers.send(9, [accept()], replies.append)
            caller.peers.send(9, [accept()], None)
            assert replies == [Failed(reason="replica 9 has no address here")]
            assert not caller.peers.reachable(9)
            assert caller.peers.rtt_ms(9) is None

    run(story())


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://", "127.0.0.1:7800", "https://127.0.0.1:1"])
def test_an_address_that_cannot_be_used(url: str) -> None:
    async def story() -> None:
        scheme, _, host = url.partition("://")
        with pytest.raises(ValueError, match=r"is no address of a peer|wants TLS"):
            async with peers_to(1, scheme=scheme, host=host):
                pass

    run(story())


# Failures.


def test_no_answer_in_time_is_a_failure_and_life_goes_on() -> None:
    replica = Replica()

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port, limits=HASTY) as caller:
            await caller.reached()
            replica.silent = True
            lost = [caller.send(accept(number)) for number in (1, 2, 3)]
            assert await asyncio.gather(*lost) == [Failed(reason="timeout")] * 3
            replica.silent = False
            assert await caller.insist(accept(3)) == AcceptOk()

    run(story())


class Hands(LoopClock):
    """A clock that is moved by hand."""

    now = 0.0

    def now_ms(self) -> float:
        return self.now


@pytest.mark.pure("inherits from the clock")
def test_who_stood_still_calls_nobody_late_before_looking() -> None:
    async def story() -> None:
        clock = Hands(asyncio.get_running_loop())
        world = World(clock, SystemDice(), Link(clock), None)
        peer = Peer(PEER, "http://127.0.0.1:1", Identity(ME, SECRET, lambda: 1), world, PeerLimits())
        replies: list[Reply] = []
        peer.send(b"", 1, replies.append)
        for clock.now in (250, 500, 5000):
            peer.tick()
        assert replies == []
        clock.now = 5250
        peer.tick()
        assert replies == [Failed(reason="timeout")]

    run(story())


def test_a_peer_whose_disk_stands_still_is_down_until_it_moves() -> None:
    replica = Replica()

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port, limits=HASTY) as caller:
            await caller.reached()
            replica.silent = True
            assert await caller.send(accept(1)) == Failed(reason="timeout")
            for _ in range(3):
                # Probes get there, and wait like everything else.
                replica.waiting.clear()
                await until(lambda: len(replica.waiting) >= 2)
                assert not caller.peers.reachable(PEER)
                assert await caller.send(accept(2)) == Failed(reason="unreachable")
            replica.silent = False
            assert await caller.insist(accept(3)) == AcceptOk()

    run(story())


def test_a_surprise_while_connecting_is_told_and_survived() -> None:
    async def story() -> None:
        reports: list[BaseException] = []
        expect_report(reports)
        async with peers_to(80, host=f"{'x' * 64}.example", limits=HASTY) as caller:
            assert await caller.send(accept()) == Failed(reason="unreachable")
            first = len(reports)
            await until(lambda: len(reports) > first + 2)
        assert {type(report) for report in reports} == {UnicodeError}

    run(story())


def test_a_peer_that_is_absent_at_the_start() -> None:
    (port,) = free_ports(1)

    async def story() -> None:
        async with peers_to(port, limits=HASTY) as caller:
            assert await caller.send(accept(1)) == Failed(reason="unreachable")
            assert await caller.send(accept(2)) == Failed(reason="unreachable")
            async with replica_door(Replica(), port=port):
                assert await caller.insist(accept(3)) == AcceptOk()

    run(story())


def test_a_peer_that_restarts() -> None:
    (port,) = free_ports(1)
    replica = Replica()

    async def story() -> None:
        async with peers_to(port, limits=HASTY) as caller:
            for _ in range(3):
                async with replica_door(replica, port=port):
                    await caller.insist(accept())
                    replica.silent = True
                    lost = caller.send(accept(7))
                    await until(lambda: bool(replica.waiting))
                assert await lost == Failed(reason="connection lost")
                await caller.reached(False)
                replica.silent = False

    run(story())


def test_stopping_answers_everybody() -> None:
    replica = Replica()
    replica.silent = True

    async def story() -> None:
        async with replica_door(replica) as door:
            async with peers_to(door.port) as caller:
                flying = caller.send(accept(1))
                await until(lambda: bool(replica.waiting))
                queued = caller.send(accept(2))
            assert isinstance(await flying, Failed)
            assert isinstance(await queued, Failed)
            assert await caller.send(accept(3)) == Failed(reason="unreachable")
            replica.speak()
            await until(lambda: not door.connections)

    run(story())


LARGE = Proposal(value=b"v" * MAX_VALUE_BYTES, version=1, mutable=False, proposal_id=ProposalId(2, 1))


def test_answers_that_do_not_fit_into_one_frame_come_in_several() -> None:
    replica = Replica(lambda _: ReadOk(committed=LARGE, vote=None))

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port) as caller:
            replies = await asyncio.gather(*(caller.send(read(number)) for number in range(10)))
            assert replies == [ReadOk(committed=LARGE, vote=None)] * 10
            # Three fit into a frame: ten, seven, four and one were asked.
            assert len(replica.asked) == 22

    run(story())


def test_an_answer_that_fits_into_no_frame_is_a_failure() -> None:
    """It takes an envelope nobody makes: replies to all of its requests must arrive together."""
    replica = Replica(lambda _: ReadOk(committed=LARGE, vote=None))

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port) as caller:
            lone = caller.send(*(read(number) for number in range(5)))
            other = caller.send(read(6))
            assert await lone == Failed(reason="the answer does not fit into a frame")
            assert isinstance(await other, ReadOk)

    run(story())


def test_what_cannot_be_encoded_fails_alone() -> None:
    async def story() -> None:
        async with replica_door(Replica()) as door, peers_to(door.port) as caller:
            await caller.reached()
            before = caller.send(accept(1))
            failed = await caller.send(Read(key=b"k" * 5000, epoch=1))
            assert isinstance(failed, Failed)
            assert "above the limit of 1024" in failed.reason
            caller.peers.send(PEER, [Read(key=b"", epoch=1)], None)
            assert await caller.send(accept(2)) == await before == AcceptOk()

    run(story())


def test_one_who_fails_at_its_answer_keeps_nobody_from_theirs() -> None:
    async def story() -> None:
        reports: list[BaseException] = []
        expect_report(reports)
        async with replica_door(Replica()) as door, peers_to(door.port) as caller:
            before = caller.send(accept(1))
            caller.peers.send(PEER, [accept(2)], lambda _: raise_planted())
            after = caller.send(accept(3))
            assert await before == await after == AcceptOk()
            assert await caller.send(accept(4)) == AcceptOk()
        assert [str(report) for report in reports] == ["planted"]

    run(story())


def raise_planted() -> None:
    raise ValueError("planted")


def test_a_peer_that_fails_at_one_batch_is_not_given_up() -> None:
    def reply(request: Request) -> Reply:
        if request == accept(1):
            raise_planted()
        return AcceptOk()

    async def story() -> None:
        reports: list[BaseException] = []
        expect_report(reports)
        async with replica_door(Replica(reply)) as door, peers_to(door.port) as caller:
            await caller.reached()
            failed = await caller.send(accept(1))
            assert isinstance(failed, Failed)
            assert failed.reason.startswith("answered 500: ")
            assert await caller.send(accept(2)) == AcceptOk()
        assert [str(report) for report in reports] == ["planted"]

    run(story())


# Whoever is there instead of the peer.

FORGED = wire.encode_peer_response(wire.decode_peer_response(b"\x02\x00\x01\x01"))
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
        other = replica_door(replica, secret=b"another secret of another cluster")
        async with other as door, peers_to(door.port, limits=HASTY) as caller:
            assert isinstance(await caller.send(accept()), Failed)
            assert not caller.peers.reachable(PEER)

    run(story())
    assert replica.asked == []


# The way between them.


def test_the_emulated_distance_is_measured() -> None:
    """At least what was asked for, give or take the timer's millisecond; how much more depends on the machine."""

    async def story() -> None:
        async with replica_door(Replica()) as door, peers_to(door.port, rtt_ms=40.0) as caller:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            assert await caller.send(accept()) == AcceptOk()
            assert (loop.time() - began_s) * 1000 >= 38
            rtt_ms = caller.peers.rtt_ms(PEER)
            assert rtt_ms is not None
            assert rtt_ms >= 38

    run(story())


def test_what_the_peer_does_is_no_part_of_the_distance() -> None:
    replica = Replica()

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port, limits=patient(probe_ms=NEVER_MS)) as caller:
            await caller.reached()
            before_ms = caller.peers.rtt_ms(PEER)
            replica.silent = True
            answer = caller.send(accept())
            await until(lambda: bool(replica.waiting))
            await asyncio.sleep(0.05)
            replica.speak()
            await answer
            after_ms = caller.peers.rtt_ms(PEER)
            assert before_ms is not None
            assert after_ms is not None
            assert after_ms <= before_ms

    run(story())


def test_the_shortest_of_the_last_while() -> None:
    shortest = Shortest()
    assert shortest.value is None
    for now_ms, sample_ms, expected in (
        (0, 30.0, 30.0),
        (1000, 20.0, 20.0),
        (5001, 40.0, 20.0),
        (10002, 50.0, 40.0),
        (15003, 60.0, 50.0),
    ):
        shortest.add(sample_ms, now_ms)
        assert shortest.value == expected


def test_a_cut_link_fails_and_heals() -> None:
    replica = Replica()

    async def story() -> None:
        async with replica_door(replica) as door, peers_to(door.port, limits=HASTY, rtt_ms=4.0) as caller:
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
        async with replica_door(replica, link=link) as door, peers_to(door.port, limits=HASTY) as caller:
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
        async with replica_door(replicas[2], me=2) as one, replica_door(replicas[3], me=3) as other:
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
