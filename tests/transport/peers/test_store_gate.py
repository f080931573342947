"""Links that ask a gate: what both ends are told of each other's starts, and what a refused one hears."""

from epoxy.model.incarnation import Greeting, MismatchCode, Sighting
from epoxy.model.messages import AcceptOk, Failed
from tests.transport.http.harness import run, until
from tests.transport.peers.pair import (
    CLONE,
    HASTY,
    ME,
    PEER,
    HandGate,
    Replica,
    accept,
    peers_to,
    replica_server,
)

OURS, THEIRS = 0x0A, 0x0B


def gates() -> tuple[HandGate, HandGate]:
    """Of the client and of the server, that have met before."""
    here, there = HandGate(OURS, nonce=10, position=100), HandGate(THEIRS, nonce=20, position=200)
    here.known = Sighting(store=THEIRS, counter=1, nonce=20, position=190)
    there.known = Sighting(store=OURS, counter=1, nonce=10, position=90)
    return here, there


def test_both_ends_learn_what_the_other_remembers_and_hear_every_frame() -> None:
    here, there = gates()

    async def story() -> None:
        async with (
            replica_server(Replica(), gate=there) as opened,
            peers_to(opened.port, gate=here) as caller,
        ):
            assert await caller.send(accept(1)) == AcceptOk()
            here.at, there.at = 101, 201
            assert await caller.send(accept(2)) == AcceptOk()
            await until(lambda: (ME, 10, 101) in there.of("hear") and (PEER, 20, 201) in here.of("hear"))
        await until(lambda: there.of("disconnected") == there.of("connected"))

    run(story())
    assert here.of("told")[0] == (PEER, there.known)
    assert there.of("told")[0] == (ME, here.known)
    server = Greeting(incarnation=there.incarnation, position=200, known=there.known)
    client = Greeting(incarnation=here.incarnation, position=100, known=here.known)
    assert here.of("meet")[0] == (PEER, server, here.known)
    assert there.of("meet")[0] == (ME, client, None), "at the handshake, for the log"
    assert (ME, client, there.known) in there.of("meet"), "at the first frame, by what the handshake said"
    assert set(here.of("answered")) == {PEER}
    assert set(here.of("connected")) == {(PEER, 20)}
    assert here.of("disconnected") == here.of("connected")


def test_a_start_that_the_server_refuses_is_told_why_and_told_to_its_own_gate() -> None:
    here, there = gates()
    there.mismatch = CLONE
    replica = Replica()

    async def story() -> None:
        async with (
            replica_server(replica, gate=there) as opened,
            peers_to(opened.port, gate=here, limits=HASTY) as caller,
        ):
            await until(lambda: bool(here.of("objected")))
            assert "403: clone: another process was started from a copy" in caller.peers.trouble(PEER)
            assert not caller.peers.reachable(PEER)
            assert isinstance(await caller.send(accept(1)), Failed)
            there.mismatch = None
            await caller.reached()

    run(story())
    assert set(here.of("objected")) == {(PEER, MismatchCode.CLONE)}
    assert here.of("told")[0] == (PEER, there.known), "the handshake was completed"
    assert replica.asked == []


def test_a_server_that_the_client_refuses_is_sent_nothing() -> None:
    here, there = gates()
    here.mismatch = CLONE
    replica = Replica()

    async def story() -> None:
        async with (
            replica_server(replica, gate=there) as opened,
            peers_to(opened.port, gate=here, limits=HASTY) as caller,
        ):
            await until(lambda: caller.peers.trouble(PEER) == "clone: another process was started from a copy")
            assert there.of("told"), "it learns what is remembered of it"
            assert there.of("connected") == here.of("answered") == here.of("connected") == []
            here.mismatch = None
            await caller.reached()

    run(story())
    assert replica.asked == []


def test_an_answer_of_a_start_that_another_one_replaced_does_not_count() -> None:
    here, there = gates()

    async def story() -> None:
        async with (
            replica_server(Replica(), gate=there) as opened,
            peers_to(opened.port, gate=here) as caller,
        ):
            assert await caller.send(accept(1)) == AcceptOk()
            here.hears, here.mismatch = False, CLONE
            here.calls.clear()
            reply = await caller.send(accept(2))
            assert isinstance(reply, Failed)
            assert "clone: another process" in reply.reason
            assert here.of("answered") == []

    run(story())
