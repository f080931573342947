"""The links between replicas on real sockets: batches, limits, failures, and coming back from them."""

import asyncio

import pytest

from epoxy.model.messages import (
    AcceptOk,
    Behind,
    Commit,
    CommitOk,
    Failed,
    Read,
    Reply,
    Request,
)
from tests.transport.http.harness import run, until
from tests.transport.peers.pair import NEVER_MS, PEER, Replica, accept, patient, peers_to, read, replica_server


def number_of(request: Request) -> Reply:
    """A reply by which its request can be told."""
    assert isinstance(request, Read)
    return Behind(version=int(request.key))


def test_every_request_gets_its_own_reply() -> None:
    async def story() -> None:
        async with replica_server(Replica(number_of)) as server, peers_to(server.port) as caller:
            answers = [caller.send(read(number)) for number in range(5000)]
            assert await asyncio.gather(*answers) == [Behind(version=number) for number in range(5000)]

    run(story())


def test_an_envelope_is_delivered_in_order_and_answered_by_its_last() -> None:
    replica = Replica(lambda request: CommitOk() if isinstance(request, Commit) else AcceptOk())
    commit = Commit(key=b"k", epoch=1, proposal=accept().proposal)

    async def story() -> None:
        async with replica_server(replica) as server, peers_to(server.port) as caller:
            answers = [caller.send(commit, accept(1)), caller.send(accept(2), commit), caller.send(commit)]
            assert await asyncio.gather(*answers) == [AcceptOk(), CommitOk(), CommitOk()]
            assert replica.asked == [commit, accept(1), accept(2), commit, commit]
            assert caller.peers.messages_sent == {PEER: 5}

    run(story())


def test_nobody_has_to_wait_for_an_answer() -> None:
    replica = Replica()

    async def story() -> None:
        async with replica_server(replica) as server, peers_to(server.port) as caller:
            caller.peers.send(PEER, [accept(1)], None)
            assert await caller.send(accept(2)) == AcceptOk()
            assert replica.asked == [accept(1), accept(2)]

    run(story())


def test_what_nobody_waits_for_takes_the_next_batch() -> None:
    replica = Replica()
    limits = patient(lazy_ms=NEVER_MS, probe_ms=NEVER_MS)

    async def story() -> None:
        async with replica_server(replica) as server, peers_to(server.port, limits=limits) as caller:
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
        async with replica_server(replica) as server, peers_to(server.port, limits=limits) as caller:
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
        async with replica_server(replica) as server, peers_to(server.port) as caller:
            await caller.reached()
            caller.peers.send(PEER, [accept(1)], None)
            await until(lambda: replica.asked == [accept(1)])

    run(story())


def test_what_comes_together_leaves_together() -> None:
    async def story() -> None:
        async with replica_server(Replica()) as server, peers_to(server.port) as caller:
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
        async with replica_server(replica) as server, peers_to(server.port, limits=limits) as caller:
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
        async with replica_server(replica) as server, peers_to(server.port, limits=limits) as caller:
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
        async with replica_server(replica) as server, peers_to(server.port, limits=limits) as caller:
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
        async with replica_server(replica) as server, peers_to(server.port, limits=limits) as caller:
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
        async with replica_server(Replica()) as server:
            async with peers_to(server.port, limits=patient(queue_messages=10)) as caller:
                replies = await asyncio.gather(*(caller.send(accept(number)) for number in range(15)))
                assert replies == [AcceptOk()] * 10 + [Failed(reason="queue full")] * 5
            async with peers_to(server.port, limits=patient(queue_bytes=100_000)) as caller:
                replies = await asyncio.gather(*(caller.send(accept(number, size=60_000)) for number in range(4)))
                assert replies == [AcceptOk()] * 2 + [Failed(reason="queue full")] * 2
                assert await caller.send(accept()) == AcceptOk()

    run(story())


def test_a_peer_nobody_knows() -> None:
    async def story() -> None:
        async with replica_server(Replica()) as server, peers_to(server.port) as caller:
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
