"""The peers' addresses, asked by whoever finds them."""

from itertools import count

import pytest

from epoxy.codec import wire
from epoxy.model.frames import PeerRequest, PeerResponse
from epoxy.model.messages import AcceptOk, Behind, Reply, Request
from epoxy.transport.limits import CHANGELOG_READ_PATH, MESSAGE_PATH
from epoxy.transport.peers import auth
from epoxy.transport.peers.auth import OPERATOR, Admits, Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.signed_header import SignedHeader, greeting_text
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.peers.transport import PeerEndpoint, encode_replies, how_many_fit
from tests.transport.http.harness import RunningServer, until, with_server
from tests.transport.peers.pair import ME, PEER, SECRET, Replica, accept, read

NONCES = count(1)
NOW_MS = 1_800_000_000_000


def verifier(admits: Admits = auth.admit_all) -> Verifier:
    return Verifier(PEER, SECRET, admits=admits, now_ms=lambda: NOW_MS)


def frame(*requests: Request, sender: int = ME, recipient: int = PEER) -> bytes:
    return wire.encode_peer_request(PeerRequest(sender=sender, recipient=recipient, requests=requests))


def post(
    body: bytes, *, path: bytes = MESSAGE_PATH, sender: int = ME, secret: bytes = SECRET, age_ms: int = 0
) -> bytes:
    header = SignedHeader(sender, PEER, 1, NOW_MS - age_ms, next(NONCES))
    return unsigned(body, path, b"authorization: " + auth.sign(secret, header, path, body)[0])


def unsigned(body: bytes, path: bytes = MESSAGE_PATH, header: bytes = b"x: y") -> bytes:
    return b"POST %b HTTP/1.1\r\n%b\r\ncontent-length: %d\r\n\r\n%b" % (path, header, len(body), body)


def test_requests_are_answered_in_order_and_signed() -> None:
    replica = Replica(lambda request: Behind(version=int(request.key)))  # type: ignore[union-attr]

    async def test(server: RunningServer) -> None:
        request = post(frame(read(1), read(2), read(3)))
        mac = request.partition(b"\r\ncontent-length")[0].rpartition(b",")[2]
        head, _, body = (await server.ask(request)).partition(b"\r\n\r\n")
        assert wire.decode_peer_response(body) == PeerResponse(replies=tuple(Behind(version=n) for n in (1, 2, 3)))
        text = greeting_text(OpenGate().greeting(ME))
        expected = b"epoxy-mac: %b,%b" % (text, auth.answer_mac(SECRET, mac, 200, text, body))
        assert expected in head.split(b"\r\n")
        assert b"\r\nepoxy-took-us: " in head

    with_server(PeerEndpoint(replica.handle, Authenticator(verifier())), test)


def test_replies_wait_until_they_are_durable() -> None:
    replica = Replica()
    replica.silent = True

    async def test(server: RunningServer) -> None:
        client, other = await server.dial(), await server.dial()
        client.send(post(frame(accept(1), accept(2))))
        await until(lambda: len(replica.waiting) == 1)
        assert not client.transport.is_closing()
        assert client.reader.at_eof() is False
        other.send(post(frame(accept(3))))
        await until(lambda: len(replica.waiting) == 2)
        replica.waiting.pop()()
        _, body = await other.answer()
        assert wire.decode_peer_response(body) == PeerResponse(replies=(AcceptOk(),)), "others are not held up"
        replica.speak()
        _, body = await client.answer()
        assert wire.decode_peer_response(body) == PeerResponse(replies=(AcceptOk(), AcceptOk()))

    with_server(PeerEndpoint(replica.handle, Authenticator(verifier())), test)


def test_a_probe_waits_for_the_disk_too() -> None:
    """Or a replica whose disk stands still would look alive."""
    replica = Replica()
    replica.silent = True

    async def test(server: RunningServer) -> None:
        client = await server.dial()
        client.send(post(frame()))
        await until(lambda: len(replica.waiting) == 1)
        replica.speak()
        _, body = await client.answer()
        assert wire.decode_peer_response(body) == PeerResponse(replies=())

    with_server(PeerEndpoint(replica.handle, Authenticator(verifier())), test)


REFUSED = {
    "nothing signed": (401, unsigned(frame(accept()))),
    "another secret": (401, post(frame(accept()), secret=b"another")),
    "an old signature": (401, post(frame(accept()), age_ms=60_000)),
    "a signature from the future": (401, post(frame(accept()), age_ms=-60_000)),
    "another body": (401, post(frame(accept(1))).replace(b"key/1", b"key/2")),
    "another address": (401, post(frame(accept())).replace(MESSAGE_PATH, CHANGELOG_READ_PATH)),
    "the operator": (401, post(frame(accept(), sender=OPERATOR), sender=OPERATOR)),
    "a signature sent twice": (
        401,
        post(frame(accept())).replace(b"\r\ncontent-length", b"\r\nauthorization: x\r\ncontent-length"),
    ),
    "a frame of somebody else": (400, post(frame(accept(), sender=3))),
    "a frame for somebody else": (400, post(frame(accept(), recipient=3))),
    "no frame": (400, post(b"hello")),
    "an empty body": (400, post(b"")),
    "an unsigned read of the changelog": (401, unsigned(b"", CHANGELOG_READ_PATH)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    status, request = REFUSED[name]
    replica = Replica()

    async def test(server: RunningServer) -> None:
        answer = await server.ask(request)
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert b'{"error":{"code":' in answer
        assert b"epoxy-mac" not in answer

    with_server(PeerEndpoint(replica.handle, Authenticator(verifier())), test)
    assert replica.asked == []


def test_a_repetition_is_heard_once() -> None:
    replica = Replica()

    async def test(server: RunningServer) -> None:
        request = post(frame(accept()))
        assert (await server.ask(request)).startswith(b"HTTP/1.1 200 ")
        assert (await server.ask(request)).startswith(b"HTTP/1.1 401 ")

    with_server(PeerEndpoint(replica.handle, Authenticator(verifier())), test)
    assert len(replica.asked) == 1


def test_a_replica_that_was_removed_is_refused() -> None:
    replica = Replica()
    members = {1: frozenset((ME, PEER)), 2: frozenset((PEER,))}
    epoch = 1

    def admits(sender: int, sender_epoch: int) -> bool:
        return sender in members[epoch] or sender_epoch > epoch

    async def test(server: RunningServer) -> None:
        nonlocal epoch
        assert (await server.ask(post(frame(accept())))).startswith(b"HTTP/1.1 200 ")
        epoch = 2
        assert (await server.ask(post(frame(accept())))).startswith(b"HTTP/1.1 401 ")

    with_server(PeerEndpoint(replica.handle, Authenticator(verifier(admits))), test)


def test_frames_above_the_limit_are_not_read() -> None:
    async def test(server: RunningServer) -> None:
        assert (await server.ask(post(b"x" * (wire.MAX_ENCODED_BYTES + 1)))).startswith(b"HTTP/1.1 413 ")

    with_server(PeerEndpoint(Replica().handle, Authenticator(verifier())), test)


def test_replies_of_every_size_fill_a_frame() -> None:
    """What fits is sent, and the frame it makes can be read."""
    replies: list[Reply] = [AcceptOk()] * wire.MAX_BATCH
    assert how_many_fit(replies) == wire.MAX_BATCH
    assert wire.decode_peer_response(encode_replies(replies)).replies == tuple(replies)
