"""Whoever holds what: peers and strangers have budgets of their own."""

import pytest

from epoxy.model.messages import AcceptOk
from epoxy.transport.http.connections import OPERATORS, SWEEP_S, TRIALS, Account, Budget, Connections, TurnShare
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.limits import HttpLimits, PeerLimits
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.transport import PeerEndpoint
from tests.transport.http.harness import RunningServer, echo, get, run, until, with_server
from tests.transport.peers.pair import PEER, SECRET, Replica, accept, peers_to
from tests.transport.peers.test_endpoint import frame, post, unsigned, verifier


def test_uploads_that_hang_do_not_keep_peers_out() -> None:
    """A crowd holds all that strangers may hold. Peers have a budget of their own, once they have shown who they are,
    and a request that shows it is short."""
    replica = Replica()
    long = [accept(number, 10_000) for number in range(3)]

    async def test(server: RunningServer) -> None:
        peer, stranger = await server.dial(), await server.dial()
        crowd = [await server.dial() for _ in range(4)]
        for client in crowd:
            client.send(unsigned(b"v" * 10_000)[:-1])
        await until(lambda: server.connections.client_budget.bytes > 40_000)
        stranger.send(post(frame(*long)))
        assert (await stranger.rest()).startswith(b"HTTP/1.1 503 ")
        for body in (frame(), frame(*long), frame(*long)):
            peer.send(post(body))
            assert (await peer.answer())[0].startswith(b"HTTP/1.1 200 ")
        assert server.connections.peer_budget.bytes == 0, "given back"

    with_server(PeerEndpoint(replica.handle, Authenticator(verifier())), test, HttpLimits(held_bytes=40_000))


def test_an_account_moves_with_all_it_holds() -> None:
    strangers, peers = Budget(), Budget()
    one, other = Account(strangers), Account(strangers)
    one.add(10)
    other.add(5)
    one.move(peers)
    one.add(1)
    assert (strangers.bytes, peers.bytes, one.bytes) == (5, 11, 11)
    assert one.exceeds(10)
    assert not other.exceeds(10)
    one.move(peers)
    assert peers.bytes == 11, "once more changes nothing"


def test_idle_strangers_do_not_use_up_the_connections_of_peers() -> None:
    replica = Replica()

    async def test(server: RunningServer) -> None:
        crowd = [await server.dial() for _ in range(3)]
        await until(lambda: len(server.connections) == 3)
        async with peers_to(server.port, limits=PeerLimits(connections=2)) as caller:
            await caller.reached()
            assert await caller.send(accept(1)) == AcceptOk()
            late = await server.dial()
            late.send(unsigned(frame()))
            assert (await late.answer())[0].startswith(b"HTTP/1.1 401 "), "who asks as a peer does is looked at"
            stranger = await server.dial()
            stranger.send(get())
            assert (await stranger.rest()).startswith(b"HTTP/1.1 503 ")
            crowd.pop().hang_up()
            late.hang_up()
            await until(lambda: len(server.connections) == 4)
            assert await caller.send(accept(2)) == AcceptOk()

    with_server(PeerEndpoint(replica.handle, Authenticator(Verifier(PEER, SECRET))), test, HttpLimits(connections=3))


def test_one_on_trial_says_something_soon_or_goes() -> None:
    async def test(server: RunningServer) -> None:
        first, silent = await server.dial(), await server.dial()
        await until(lambda: len(server.connections) == 2)
        server.late(HttpLimits().trial_s + 2 * SWEEP_S)
        assert (await silent.rest()).startswith(b"HTTP/1.1 503 ")
        first.send(get())
        assert (await first.answer())[0].startswith(b"HTTP/1.1 200 "), "who was there before has its usual time"

    with_server(echo, test, HttpLimits(connections=1))


def test_of_those_on_trial_the_oldest_gives_way() -> None:
    async def test(server: RunningServer) -> None:
        first = await server.dial()
        crowd = [await server.dial() for _ in range(TRIALS + 3)]
        await until(lambda: sum(client.reader.at_eof() for client in crowd) == 3)
        assert [client.reader.at_eof() for client in crowd] == [True] * 3 + [False] * TRIALS
        await until(lambda: len(server.connections) == TRIALS + 1)
        first.send(get())
        assert (await first.answer())[0].startswith(b"HTTP/1.1 200 ")

    with_server(echo, test, HttpLimits(connections=1))


class Silent:
    def __init__(self) -> None:
        self.aborted = False

    def sweep(self, now: float) -> None: ...

    def drain(self) -> None: ...

    def abort(self) -> None:
        self.aborted = True


async def crowded(connections: Connections) -> tuple[Silent, Silent, list[Silent]]:
    """A peer and an operator are among those on trial, and a crowd comes after them."""
    peer, operator, crowd = Silent(), Silent(), [Silent() for _ in range(TRIALS + 8)]
    assert [connections.admit(one, reserved=True) for one in (peer, operator)] == [False, False]
    connections.mark_as_peer(peer)
    assert connections.mark_as_operator(operator)
    admitted = [connections.admit(one) for one in crowd]
    assert admitted == [True] * 2 + [False] * (TRIALS + 6), "neither takes the place of a client"
    assert sum(one.aborted for one in crowd) == 6
    return peer, operator, crowd


def test_peers_and_operators_are_not_counted_among_clients_nor_aborted_for_their_crowd() -> None:
    async def story() -> None:
        connections = Connections(2)
        peer, operator, crowd = await crowded(connections)
        assert not peer.aborted
        assert not operator.aborted
        for one in (peer, operator, *crowd):
            connections.forget(one)
        assert connections.admit(Silent()), "all of it is given back"
        await connections.drain(0)

    run(story())


@pytest.mark.parametrize("rule", ["mark_as_peer", "mark_as_operator"])
@pytest.mark.pure("a rule is replaced")
def test_peers_or_operators_that_are_counted_as_clients_are_noticed(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """A planted fault: the rule forgets that they are none."""

    async def story() -> None:
        connections = Connections(2)
        with pytest.raises(AssertionError):
            await crowded(connections)
        await connections.drain(0)

    monkeypatch.setattr(Connections, rule, lambda *_: True)
    run(story())


def test_operators_beyond_the_limit_are_few() -> None:
    async def story() -> None:
        connections = Connections(0)
        some = [Silent() for _ in range(OPERATORS + 1)]
        for one in some:
            connections.admit(one)
        assert [connections.mark_as_operator(one) for one in some] == [True] * OPERATORS + [False]
        await connections.drain(0)

    run(story())


def test_turns_are_shorter_the_more_connections_wait_for_one() -> None:
    turns = TurnShare(0.010)
    assert turns.turn_s(0.001) == 0.001
    turns.waiting = 9
    assert turns.turn_s(0.001) == 0.001
    turns.waiting = 99
    assert turns.turn_s(0.001) == pytest.approx(0.0001)


def test_clients_are_drained_before_peers() -> None:
    """What a client waits for may be with a peer, which tells it on a connection of its own."""
    replica = Replica()

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        await until(lambda: len(server.connections) == 1)
        async with peers_to(server.port, limits=PeerLimits(connections=1)) as caller:
            await caller.reached()
            await server.connections.drain_clients(10.0)
            assert (await client.rest()).startswith(b"HTTP/1.1 503 "), "told, and closed"
            assert await caller.send(accept(1)) == AcceptOk()
            assert len(server.connections) == 1
            await server.connections.drain(10.0)
            assert len(server.connections) == 0

    with_server(PeerEndpoint(replica.handle, Authenticator(Verifier(PEER, SECRET))), test)


def test_a_client_that_is_not_answered_in_time_is_aborted() -> None:
    asked: list[Exchange] = []

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(get())
        await until(lambda: bool(asked))
        await server.connections.drain_clients(0.0)
        assert await client.rest() == b""

    with_server(asked.append, test)
