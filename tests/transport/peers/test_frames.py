"""Connections between peers that were switched to frames: who is heard on them, and what no recording is good for."""

import asyncio
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.codec import wire
from epoxy.codec.seals import SEAL_BYTES
from epoxy.model.frames import PeerResponse
from epoxy.model.messages import Behind
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.request import HttpReply
from epoxy.transport.limits import HttpLimits
from epoxy.transport.peers import frames
from epoxy.transport.peers.auth import Admits, admit_all
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.frames import MAX_FRAME_BYTES, BadFrame, FrameExchange, Frames, PeerHandshake
from epoxy.transport.peers.keyring import SigningKey
from epoxy.transport.peers.negotiation import known_versions
from epoxy.transport.peers.session import PeerSession, accept_handshake, conclude_handshake
from epoxy.transport.peers.signed_header import Signed, SignedHeader
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.peers.transport import PeerEndpoint
from tests.transport.http.harness import Client, RunningServer, expect_report, run, running_server, until, with_server
from tests.transport.peers.pair import ME, PEER, SECRET, Replica, accept, read
from tests.transport.peers.test_endpoint import NONCES, NOW_MS, frame, post, verifier

GATE = OpenGate()


def hello(*, secret: bytes = SECRET, epoch: int = 1, nonce: int = 0) -> PeerHandshake:
    header = SignedHeader(ME, PEER, epoch, NOW_MS, nonce or next(NONCES))
    return PeerHandshake(b"x", SigningKey(secret), header, GATE, known_versions(ME))


def session_of(secret: bytes, mac: bytes, nonce: bytes, header: SignedHeader) -> PeerSession:
    """The client's end of a connection to a server that greets as `GATE` does."""
    return conclude_handshake(SigningKey(secret), mac, nonce, header, GATE.greeting(ME), GATE)


class Caller:
    """A peer's end of a connection that was switched."""

    def __init__(self, client: Client, session: PeerSession) -> None:
        self.client = client
        self.session = session

    def sealed(self, body: bytes, *, epoch: int = 1, position: int = 0) -> bytes:
        return frames.seal_request(self.session.request_seals, epoch, position, body) + body

    def send(self, *bodies: bytes) -> None:
        self.client.send(*(self.sealed(body) for body in bodies))

    async def answer(self) -> HttpReply:
        size = int.from_bytes(await self.client.reader.readexactly(4), "little")
        return frames.read_answer(self.session.answer_seals, await self.client.reader.readexactly(size))

    async def hung_up_on(self) -> None:
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await self.client.reader.readexactly(1)


async def switched(opened: RunningServer, said: PeerHandshake | None = None) -> Caller:
    said = said or hello()
    client = await opened.dial()
    client.send(said.request)
    session = said.session((await client.reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n"))
    assert session is not None
    return Caller(client, session)


def endpoint(replica: Replica, admits: Admits = admit_all) -> PeerEndpoint:
    return PeerEndpoint(replica.handle, Authenticator(verifier(admits)))


# Cutting


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(1, 9), min_size=1))
def test_frames_come_out_as_they_went_in_however_they_are_cut(bodies: list[bytes], sizes: list[int]) -> None:
    data = b"".join(len(body).to_bytes(4, "little") + body for body in bodies)
    cutter, found = Frames(), []
    while data:
        for size in sizes:
            found += cutter.feed(data[:size]) if data[:size] else []
            data = data[size:]
    assert found == bodies
    assert not cutter.has_partial


def test_a_frame_that_is_too_long_is_refused_by_its_length() -> None:
    Frames().feed((MAX_FRAME_BYTES - 4).to_bytes(4, "little"))
    with pytest.raises(BadFrame):
        Frames().feed((MAX_FRAME_BYTES - 3).to_bytes(4, "little"))


# Seals


PROOF = "893266a8d3097175579cc6ccd17fec3b83f9c3ae8e2f082c896d852d0023533f"
QUESTION = "86c50e1983dc5a827725e118963161e3f292d678eafe966fb28cf972befaf68d"
ANSWER = "0f2141eaae3fea36e9d0faea95325f1dab85cb194370f21954a2e942b2165104"


def test_the_bytes_of_a_session() -> None:
    """Written down, so that a change of format is noticed before an upgrade is. The MACs were made with openssl."""
    session = session_of(b"secret", b"greeting", bytes(16), SignedHeader(1, 2, 3, 4, 5))
    assert session.proof.hex() == PROOF
    assert (
        frames.seal_request(session.request_seals, 3, 7, b"body").hex()
        == "34000000" + QUESTION + "0300000000000000" + "0700000000000000"
    )
    assert (
        frames.seal_answer(session.answer_seals, 200, 5, True, 6, b"body").hex()
        == "33000000" + ANSWER + "c800" + "05000000" + "01" + "0600000000000000"
    )


def ends() -> tuple[PeerSession, PeerSession]:
    """Of one connection."""
    header = SignedHeader(ME, PEER, 1, NOW_MS, next(NONCES))
    here = accept_handshake(Signed(header, b"mac", SigningKey(SECRET)), GATE)
    return here, session_of(SECRET, b"mac", here.nonce, header)


@given(st.integers(0, 1 << 63), st.integers(0, (1 << 64) - 1), st.binary(max_size=200), st.data())
def test_a_changed_frame_is_refused(epoch: int, position: int, body: bytes, data: st.DataObject) -> None:
    here, there = ends()
    frame = (frames.seal_request(there.request_seals, epoch, position, body) + body)[4:]
    place = data.draw(st.integers(0, len(frame) - 1))
    forged = bytearray(frame)
    forged[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadFrame):
        frames.read_request(ends()[0], frame)
    for other in (bytes(forged), frame[:place], frame + b"x"):
        fresh = session_of(SECRET, b"mac", here.nonce, here.header)
        with pytest.raises(BadFrame):
            frames.read_request(fresh, other)
    header, at, heard = frames.read_request(here, frame)
    assert (header.epoch, at, heard) == (epoch, position, body)


@given(st.booleans(), st.integers(0, (1 << 64) - 1), st.binary(max_size=200), st.data())
def test_a_changed_answer_is_refused(recorded: bool, position: int, body: bytes, data: st.DataObject) -> None:
    here, there = ends()
    frame = (frames.seal_answer(here.answer_seals, 200, 1 << 40, recorded, position, body) + body)[4:]
    place = data.draw(st.integers(0, len(frame) - 1))
    forged = bytearray(frame)
    forged[place] ^= data.draw(st.integers(1, 255))
    for other in (bytes(forged), frame[:place], frame + b"x"):
        with pytest.raises(BadFrame):
            frames.read_answer(session_of(SECRET, b"mac", here.nonce, here.header).answer_seals, other)
    read = frames.read_answer(there.answer_seals, frame)
    assert read == HttpReply(200, {}, body, frames.MAX_TOOK_US, recorded, position)


# The server's end


def test_frames_are_answered_in_order_and_proved() -> None:
    replica = Replica(lambda request: Behind(version=int(request.key)))  # type: ignore[union-attr]

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        caller.send(*(frame(read(n)) for n in (1, 2, 3)))
        for number in (1, 2, 3):
            got = await caller.answer()
            assert (got.status, got.recorded, got.position) == (200, True, 0)
            assert wire.decode_peer_response(got.body) == PeerResponse(replies=(Behind(version=number),))

    with_server(endpoint(replica), test)


def test_an_answer_waits_for_those_before_it() -> None:
    replica = Replica()
    replica.silent = True

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        caller.send(frame(accept(1)), b"no frame")
        await until(lambda: len(replica.waiting) == 1)
        replica.speak()
        assert [(await caller.answer()).status, (await caller.answer()).status] == [200, 400]

    with_server(endpoint(replica), test)


async def accepted_one(opened: RunningServer, replica: Replica) -> tuple[Caller, bytes]:
    """And the frame, as it went by."""
    caller = await switched(opened)
    recorded = caller.sealed(frame(accept(1)))
    caller.client.send(recorded)
    assert (await caller.answer()).status == 200
    assert replica.asked == [accept(1)]
    return caller, recorded


def test_a_frame_that_is_repeated_is_not_heard_again() -> None:
    replica = Replica()

    async def test(opened: RunningServer) -> None:
        caller, recorded = await accepted_one(opened, replica)
        caller.client.send(recorded)
        await caller.hung_up_on()
        assert replica.asked == [accept(1)]

    with_server(endpoint(replica), test)


def test_a_frame_of_one_connection_is_not_heard_on_another() -> None:
    replica = Replica()

    async def test(opened: RunningServer) -> None:
        _, recorded = await accepted_one(opened, replica)
        other = await switched(opened)
        other.client.send(recorded)
        await other.hung_up_on()
        assert replica.asked == [accept(1)]

    with_server(endpoint(replica), test)


def test_frames_in_another_order_are_not_heard() -> None:
    replica = Replica()

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        first, second = caller.sealed(frame(accept(1))), caller.sealed(frame(accept(2)))
        caller.client.send(second, first)
        await caller.hung_up_on()
        assert replica.asked == []

    with_server(endpoint(replica), test)


def test_a_greeting_that_is_repeated_opens_nothing() -> None:
    """Not even after a restart, when its nonce is forgotten: the keys are others then."""
    replica = Replica()

    async def test(opened: RunningServer) -> None:
        said = hello()
        caller = await switched(opened, said)
        recorded = caller.sealed(frame(accept(1)))
        assert (await opened.ask(said.request)).startswith(b"HTTP/1.1 401 ")
        async with running_server(endpoint(replica)) as restarted:
            client = await restarted.dial()
            client.send(said.request)
            await client.reader.readuntil(b"\r\n\r\n")
            client.send(recorded)
            await Caller(client, caller.session).hung_up_on()
        assert replica.asked == []

    with_server(endpoint(replica), test)


def test_another_epoch_than_was_sealed_is_not_heard() -> None:
    replica = Replica()

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        sealed = bytearray(caller.sealed(frame(accept(1)), epoch=1))
        sealed[4 + SEAL_BYTES] = 2
        caller.client.send(bytes(sealed))
        await caller.hung_up_on()
        assert replica.asked == []

    with_server(endpoint(replica), test)


def test_who_has_no_part_in_an_epoch_is_refused_frame_by_frame() -> None:
    replica = Replica()

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        for epoch in (1, 2, 1):
            caller.client.send(caller.sealed(frame(accept(epoch)), epoch=epoch))
        assert [(await caller.answer()).status for _ in range(3)] == [200, 401, 200]
        assert replica.asked == [accept(1), accept(1)]

    with_server(endpoint(replica, admits=lambda _, epoch: epoch == 1), test)


def test_many_frames_that_are_refused_at_once_are_answered_one_after_the_other() -> None:
    """A node that stood still finds hundreds in its socket. Each answer called for the next one, a call deeper."""
    count = 2 * sys.getrecursionlimit()

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        refused = [caller.sealed(frame(accept(2)), epoch=2) for _ in range(count)]
        caller.client.send(b"".join(refused))
        assert {(await caller.answer()).status for _ in range(count)} == {401}

    with_server(endpoint(Replica(), admits=lambda _, epoch: epoch == 1), test)


def test_a_frame_that_names_others_is_refused() -> None:
    replica = Replica()

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        caller.send(frame(accept(3), sender=7), frame(accept(3), recipient=7), b"no frame", frame(accept(4)))
        assert [(await caller.answer()).status for _ in range(4)] == [400, 400, 400, 200]
        assert replica.asked == [accept(4)]

    with_server(endpoint(replica), test)


def test_only_who_holds_the_secret_is_switched() -> None:
    async def test(opened: RunningServer) -> None:
        for words in (hello(secret=b"another").request, hello().request.replace(b"Epoxy", b"Poxy")):
            assert (await opened.ask(words)).startswith(b"HTTP/1.1 401 ")

    with_server(endpoint(Replica()), test)


def test_a_connection_that_does_not_ask_for_frames_gets_none() -> None:
    async def test(opened: RunningServer) -> None:
        for words in (
            hello().request.replace(b"upgrade: epoxy-frames/5", b"upgrade: websocket"),
            hello().request.replace(b"upgrade", b"x"),
            hello().request.replace(b"epoxy-frames/5", b"epoxy-frames"),
            hello().request.replace(b"epoxy-speaks", b"x-speaks").replace(b"epoxy-frames/5", b"epoxy-frames/2"),
        ):
            answer = await opened.ask(words)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert b" speaks epoxy-frames/5, and " in answer

    with_server(endpoint(Replica()), test)


def test_those_who_speak_http_are_still_served() -> None:
    async def test(opened: RunningServer) -> None:
        assert (await opened.ask(post(frame(accept(1))))).startswith(b"HTTP/1.1 200 ")

    with_server(endpoint(Replica()), test)


def test_nonsense_ends_the_connection() -> None:
    async def test(opened: RunningServer) -> None:
        for nonsense in (
            b"\xff" * 8,
            b"\x00" * 4,
            b"\x02\x00\x00\x00\x00\x00",
            b"\x2f\x00\x00\x00" + bytes(47),
        ):
            caller = await switched(opened)
            caller.client.send(nonsense)
            await caller.hung_up_on()

    with_server(endpoint(Replica()), test)


def test_who_asks_more_than_is_answered_waits() -> None:
    replica = Replica()
    replica.silent = True

    async def story() -> None:
        async with running_server(endpoint(replica), HttpLimits(pipelined=2)) as opened:
            caller = await switched(opened)
            caller.send(*(frame(accept(n)) for n in range(5)))
            await until(lambda: len(replica.waiting) == 2)
            for taken in (2, 4, 5):
                await until(lambda taken=taken: len(replica.asked) == taken)
                replica.speak()
            assert [(await caller.answer()).status for _ in range(5)] == [200] * 5

    run(story())


def test_a_silent_connection_is_hung_up_on() -> None:
    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        opened.late(70)
        assert len(opened.connections) == 1
        opened.late(80)
        await caller.hung_up_on()
        await until(lambda: not opened.connections)

    with_server(endpoint(Replica()), test)


def test_what_has_begun_is_answered_before_the_door_closes() -> None:
    replica = Replica()
    replica.silent = True

    async def test(opened: RunningServer) -> None:
        caller = await switched(opened)
        caller.send(frame(accept(1)))
        await until(lambda: len(replica.waiting) == 1)
        draining = asyncio.create_task(opened.connections.drain(20))
        await asyncio.sleep(0)
        replica.speak()
        await draining
        assert (await caller.answer()).status == 200
        assert await caller.client.rest() == b""

    with_server(endpoint(replica), test)


def test_a_handler_that_fails_says_so() -> None:
    reports: list[BaseException] = []

    authenticator = Authenticator(verifier())

    def fail(_: FrameExchange) -> None:
        raise ZeroDivisionError

    def handle(exchange: Exchange) -> None:
        signed = authenticator.verify(exchange)
        assert signed is not None
        exchange.switch(authenticator.open_session(signed), fail)

    async def test(opened: RunningServer) -> None:
        expect_report(reports)
        caller = await switched(opened)
        caller.send(frame(accept(1)))
        assert (await caller.answer()).status == 500
        assert [type(error) for error in reports] == [ZeroDivisionError]

    with_server(handle, test)
