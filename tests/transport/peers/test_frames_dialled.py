"""Frames at the end that dialled: who is believed, and whose answers count."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from epoxy.transport.http.request import HttpReply
from epoxy.transport.peers import frames
from epoxy.transport.peers.frames import FrameDial
from epoxy.transport.peers.keyring import SigningKey
from epoxy.transport.peers.session import PeerSession, accept_handshake
from epoxy.transport.peers.signed_header import Signed, SignedHeader
from tests.transport.http.harness import run, until
from tests.transport.peers.pair import ME, PEER, SECRET
from tests.transport.peers.test_endpoint import NOW_MS
from tests.transport.peers.test_frames import GATE, hello


async def gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        await reader.read()
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


class Impostor:
    """Listens, and answers a greeting and a question with what it is told to."""

    def __init__(
        self, welcome: Callable[[PeerSession], bytes], answer: Callable[[PeerSession], bytes] = lambda _: b""
    ) -> None:
        self.said = hello()
        self._welcome = welcome
        self._answer = answer
        self._turns: list[asyncio.Task[None] | None] = []

    async def listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._turns.append(asyncio.current_task())
        greeting = await reader.readuntil(b"\r\n\r\n")
        mac = greeting.partition(b"\r\nconnection")[0].rpartition(b",")[2]
        session = accept_handshake(Signed(SignedHeader(ME, PEER, 1, NOW_MS, 0), mac, SigningKey(SECRET)), GATE)
        for byte in self._welcome(session):
            writer.write(bytes((byte,)))
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readexactly(4)
            writer.write(self._answer(session))
        await gone(reader, writer)

    async def dialled(self) -> FrameDial:
        self.server = await asyncio.start_server(self.listen, "127.0.0.1", 0)
        dial = FrameDial(lambda: None, lambda _host: self.said)
        port = self.server.sockets[0].getsockname()[1]
        await asyncio.get_running_loop().create_connection(lambda: dial, "127.0.0.1", port)
        return dial

    async def close(self) -> None:
        """Not before its turns are over: Python 3.12.1 complains of streams whose task was cancelled."""
        self.server.close()
        await asyncio.wait([turn for turn in self._turns if turn is not None])


WELCOMES: dict[str, Callable[[PeerSession], bytes]] = {
    "no such page": lambda _: b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
    "another protocol": lambda _: b"SSH-2.0\r\n",
    "without end": lambda _: frames.SWITCHING + b"0" * 2000,
    "another version": lambda session: frames.handshake_answer(session).replace(b"epoxy-frames/5", b"epoxy-frames/6"),
    "no proof": lambda session: frames.handshake_answer(session).partition(b",")[0] + b"\r\n\r\n",
    "no nonce": lambda _: frames.SWITCHING + b"\r\n\r\n",
    "another nonce": lambda session: frames.handshake_answer(session).replace(session.nonce.hex().encode(), b"00" * 16),
    "a proof that is made up": lambda session: frames.handshake_answer(session).replace(
        session.proof.hex().encode(), b"0" * 64
    ),
    "another greeting": lambda session: frames.handshake_answer(session).replace(b",1,", b",2,", 1),
    "another spelling": lambda session: frames.handshake_answer(session).replace(b",1,", b",01,", 1),
    "no greeting": lambda session: frames.handshake_answer(session).replace(session.said + b",", b""),
    "not ASCII": lambda _: frames.SWITCHING + b"\xff\xff,\xff\r\n\r\n",
}


@pytest.mark.parametrize("name", WELCOMES)
def test_who_does_not_switch_or_prove_itself_is_no_peer(name: str) -> None:
    async def story() -> None:
        impostor = Impostor(WELCOMES[name])
        dial = await impostor.dialled()
        with pytest.raises(ConnectionError, match="answered"):
            await dial.opened
        await dial.lost
        await impostor.close()

    run(story())


def test_a_welcome_is_no_answer_to_another_greeting() -> None:
    async def story() -> None:
        recorded = frames.handshake_answer(
            accept_handshake(Signed(SignedHeader(ME, PEER, 1, NOW_MS, 0), b"another mac", SigningKey(SECRET)), GATE)
        )
        impostor = Impostor(lambda _: recorded)
        dial = await impostor.dialled()
        with pytest.raises(ConnectionError, match="answered"):
            await dial.opened
        await dial.lost
        await impostor.close()

    run(story())


def sealed_answer(session: PeerSession) -> bytes:
    return frames.seal_answer(session.answer_seals, 200, 5, True, 7, b"body") + b"body"


def mirrored(session: PeerSession) -> bytes:
    """Sealed the wrong way round, as if it were a question."""
    return frames.seal_answer(session.request_seals, 200, 5, True, 7, b"body") + b"body"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (sealed_answer, [HttpReply(200, {}, b"body", 5, True, 7)]),
        (mirrored, [None]),
        (lambda session: sealed_answer(session).replace(b"body", b"lies"), [None]),
        (lambda session: sealed_answer(session) and sealed_answer(session), [None]),
        (lambda _: b"\x04\x00\x00\x00body", [None]),
    ],
    ids=["sealed", "sealed the other way", "changed", "out of order", "not sealed"],
)
def test_an_answer_counts_if_it_is_sealed(
    given: Callable[[PeerSession], bytes], wanted: list[HttpReply | None]
) -> None:
    """Whatever pieces the welcome comes in."""

    async def story() -> None:
        answers: list[HttpReply | None] = []
        impostor = Impostor(frames.handshake_answer, given)
        dial = await impostor.dialled()
        await dial.opened
        dial.ask(1, b"question", answers.append)
        await until(lambda: bool(answers))
        assert answers == wanted
        dial.abort()
        await dial.lost
        await impostor.close()

    run(story())


def test_who_is_asked_before_the_connection_is_open_or_after_it_is_lost_does_not_answer() -> None:
    async def story() -> None:
        answers: list[HttpReply | None] = []
        impostor = Impostor(frames.handshake_answer)
        dial = await impostor.dialled()
        dial.ask(1, b"question", answers.append)
        await dial.opened
        dial.abort()
        await dial.lost
        dial.ask(1, b"question", answers.append)
        assert answers == [None, None]
        await impostor.close()

    run(story())
