"""Whoever holds what: peers and strangers have budgets of their own."""

from epoxy.transport.connections import Account, Budget
from epoxy.transport.gate import Gate
from epoxy.transport.limits import HttpLimits
from epoxy.transport.peers import PeerEndpoint
from tests.transport.harness import Door, until, with_door
from tests.transport.pair import Replica, accept
from tests.transport.test_endpoint import frame, post, unsigned, verifier


def test_uploads_that_hang_do_not_keep_peers_out() -> None:
    """A crowd holds all that strangers may hold. Peers have a budget of their own, once they have shown who they are,
    and a request that shows it is short."""
    replica = Replica()
    long = [accept(number, 10_000) for number in range(3)]

    async def test(door: Door) -> None:
        peer, stranger = await door.dial(), await door.dial()
        crowd = [await door.dial() for _ in range(4)]
        for client in crowd:
            client.send(unsigned(b"v" * 10_000)[:-1])
        await until(lambda: door.connections.strangers.bytes > 40_000)
        stranger.send(post(frame(*long)))
        assert (await stranger.rest()).startswith(b"HTTP/1.1 503 ")
        for body in (frame(), frame(*long), frame(*long)):
            peer.send(post(body))
            assert (await peer.answer())[0].startswith(b"HTTP/1.1 200 ")
        assert door.connections.peers.bytes == 0, "given back"

    with_door(PeerEndpoint(replica.handle, Gate(verifier())), test, HttpLimits(held_bytes=40_000))


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
