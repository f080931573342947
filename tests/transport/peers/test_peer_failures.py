"""Links between replicas when something fails, and coming back from it."""

import asyncio

import pytest

from epoxy.model.messages import (
    AcceptOk,
    Failed,
    Read,
    ReadOk,
    Reply,
    Request,
)
from epoxy.model.records import MAX_VALUE_BYTES, Proposal, ProposalId
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.testing import free_ports
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.limits import HttpLimits, PeerLimits
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.keyring import keyring_of
from epoxy.transport.peers.link_context import Identity, LinkContext
from epoxy.transport.peers.peer import PeerLink
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.peers.transport import PeerEndpoint
from epoxy.transport.wan.emulation import Link
from tests.transport.http.harness import expect_report, run, running_server, until
from tests.transport.peers.pair import HASTY, ME, PEER, SECRET, Replica, accept, peers_to, read, replica_server


def test_no_answer_in_time_is_a_failure_and_life_goes_on() -> None:
    replica = Replica()

    async def story() -> None:
        async with replica_server(replica) as server, peers_to(server.port, limits=HASTY) as caller:
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
        world = LinkContext(clock, SystemDice(), Link(clock), None)
        peer = PeerLink(
            PEER, "http://127.0.0.1:1", Identity(ME, keyring_of(SECRET), lambda: 1, OpenGate()), world, PeerLimits()
        )
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
        async with replica_server(replica) as server, peers_to(server.port, limits=HASTY) as caller:
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
        assert all(isinstance(report, UnicodeError) for report in reports)

    run(story())


def test_a_peer_that_is_absent_at_the_start() -> None:
    (port,) = free_ports(1)

    async def story() -> None:
        async with peers_to(port, limits=HASTY) as caller:
            assert await caller.send(accept(1)) == Failed(reason="unreachable")
            assert await caller.send(accept(2)) == Failed(reason="unreachable")
            async with replica_server(Replica(), port=port):
                assert await caller.insist(accept(3)) == AcceptOk()

    run(story())


def test_a_greeting_is_heard_however_late_its_turn_is() -> None:
    """A process that is not run for a while between reading and serving must not refuse its peers."""
    endpoint = PeerEndpoint(Replica().handle, Authenticator(Verifier(PEER, SECRET)))

    async def story() -> None:
        async with running_server(endpoint, HttpLimits(turn_s=0.0)) as opened, peers_to(opened.port) as caller:
            assert await caller.send(accept()) == AcceptOk()

    run(story())


def test_each_new_reason_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """What comes behind "connection refused" is what an operator has to mend."""
    (port,) = free_ports(1)
    caplog.set_level("INFO", "epoxy.peers")
    attempts: list[Exchange] = []
    told: list[str] = []

    def refuse(exchange: Exchange) -> None:
        attempts.append(exchange)
        exchange.fail(401, "unauthenticated", f"your clock is {len(attempts)} s behind")

    def lines() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "epoxy.peers"]

    async def story() -> None:
        async with peers_to(port, limits=HASTY) as caller:
            await until(lambda: "refused" in caller.peers.trouble(PEER))
            async with running_server(refuse, port=port):
                await until(lambda: len(attempts) > 5)
                assert caller.peers.trouble(PEER).startswith("answered 401 Unauthorized: your clock is ")
                assert caller.peers.trouble(PEER).endswith(" s behind"), "what it says, not the JSON around it"
                told.extend(lines())
            # Between the two servers it is refused once more, perhaps, which is told again.
            async with replica_server(Replica(), port=port):
                await caller.reached()
                assert caller.peers.trouble(PEER) == ""

    run(story())
    assert [sum(words in line for line in told) for words in ("onnection refused", "your clock")] == [1, 1]
    assert "refused" in told[0], "in the order in which they came up"
    assert sum("is reachable" in line for line in lines()) == 1


def test_a_peer_that_restarts() -> None:
    (port,) = free_ports(1)
    replica = Replica()

    async def story() -> None:
        async with peers_to(port, limits=HASTY) as caller:
            for _ in range(3):
                async with replica_server(replica, port=port):
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
        async with replica_server(replica) as server:
            async with peers_to(server.port) as caller:
                flying = caller.send(accept(1))
                await until(lambda: bool(replica.waiting))
                queued = caller.send(accept(2))
            assert isinstance(await flying, Failed)
            assert isinstance(await queued, Failed)
            assert await caller.send(accept(3)) == Failed(reason="unreachable")
            replica.speak()
            await until(lambda: not server.connections)

    run(story())


LARGE = Proposal(value=b"v" * MAX_VALUE_BYTES, version=1, mutable=False, proposal_id=ProposalId(2, 1))


def test_answers_that_do_not_fit_into_one_frame_come_in_several() -> None:
    replica = Replica(lambda _: ReadOk(committed=LARGE, vote=None))

    async def story() -> None:
        async with replica_server(replica) as server, peers_to(server.port) as caller:
            replies = await asyncio.gather(*(caller.send(read(number)) for number in range(10)))
            assert replies == [ReadOk(committed=LARGE, vote=None)] * 10
            # Three fit into a frame: ten, seven, four and one were asked.
            assert len(replica.asked) == 22

    run(story())


def test_an_answer_that_fits_into_no_frame_is_a_failure() -> None:
    """It takes an envelope nobody makes: replies to all of its requests must arrive together."""
    replica = Replica(lambda _: ReadOk(committed=LARGE, vote=None))

    async def story() -> None:
        async with replica_server(replica) as server, peers_to(server.port) as caller:
            lone = caller.send(*(read(number) for number in range(5)))
            other = caller.send(read(6))
            assert await lone == Failed(reason="the answer does not fit into a frame")
            assert isinstance(await other, ReadOk)

    run(story())


def test_what_cannot_be_encoded_fails_alone() -> None:
    async def story() -> None:
        async with replica_server(Replica()) as server, peers_to(server.port) as caller:
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
        async with replica_server(Replica()) as server, peers_to(server.port) as caller:
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
        async with replica_server(Replica(reply)) as server, peers_to(server.port) as caller:
            await caller.reached()
            failed = await caller.send(accept(1))
            assert isinstance(failed, Failed)
            assert failed.reason.startswith("answered 500: ")
            assert await caller.send(accept(2)) == AcceptOk()
        assert [str(report) for report in reports] == ["planted"]

    run(story())
