"""The control network: a connection to each peer that this agent speaks on, and one from each that it listens on."""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable

from epoxy.codec import elect as wire
from epoxy.codec.resp import CommandReader
from epoxy.elect import hello
from epoxy.elect.config import Address, Config
from epoxy.elect.hello import Party, Refused
from epoxy.elect.messages import Message
from epoxy.elect.outbox import Outbox
from epoxy.model.errors import CannotListen, CodecError

LOGGER = logging.getLogger("epoxy")

HELLO_S = 3.0
"""For the whole handshake. Whoever takes longer has something else in mind."""

MAX_GUESTS = 64
"""Connections, those that have proved nothing yet among them. A cluster has 15 nodes; the rest is reconnects."""

READ_BYTES = 4096
BACKLOG_BYTES = 16_384
"""What the system may not have taken yet before messages stay in the outbox, where newer ones replace them."""

Receive = Callable[[Message], None]


class Dialer:
    """Speaks to one peer. It is dialled again, a heartbeat later, whenever the connection ends."""

    def __init__(self, party: Party, peer: str, address: Address, config: Config) -> None:
        self.connected = False
        self._party = party
        self._peer = peer
        self._address = address
        self._retry_s = config.timing.hb_interval_ms / 1000
        self._silence_ms = config.timing.down_after_ms
        self._box = Outbox()
        self._news = asyncio.Event()
        self._told = ""

    def put(self, message: Message) -> None:
        self._box.put(message)
        self._news.set()

    async def run(self) -> None:
        while True:
            try:
                await self._speak()
            except (OSError, TimeoutError, CodecError, Refused, asyncio.IncompleteReadError) as error:
                self._tell(error)
            self.connected = False
            await asyncio.sleep(self._retry_s)

    def _tell(self, error: Exception) -> None:
        """Once for each reason: a peer that is down for a day must not fill the log."""
        words = f"{type(error).__name__}: {error}"
        if words != self._told:
            self._told = words
            LOGGER.warning("no connection to a peer", extra={"peer": self._peer, "reason": words})

    async def _speak(self) -> None:
        async with asyncio.timeout(HELLO_S):
            reader, writer = await asyncio.open_connection(self._address.host, self._address.port)
        try:
            set_up(writer, self._silence_ms)
            async with asyncio.timeout(HELLO_S):
                await introduce(self._party, self._peer, reader, writer)
            self.connected, self._told = True, ""
            LOGGER.info("connected to a peer", extra={"peer": self._peer})
            ended = asyncio.ensure_future(reader.read(1))
            ended.add_done_callback(lambda _: self._news.set())
            try:
                await self._send_until(ended, writer)
            finally:
                ended.cancel()
        finally:
            writer.transport.abort()

    async def _send_until(self, ended: "asyncio.Future[bytes]", writer: asyncio.StreamWriter) -> None:
        """The peer never speaks on this connection, so whatever is read is its end."""
        while not ended.done():
            if len(self._box) and writer.transport.get_write_buffer_size() < BACKLOG_BYTES:
                writer.write(b"".join(wire.encode(message) for message in self._box.take()))
            self._news.clear()
            await self._news.wait()


class Listener:
    """Hears all peers. A new connection of a peer takes the place of its old one."""

    def __init__(self, party: Party, receive: Receive) -> None:
        self._party = party
        self._receive = receive
        self._guests: dict[asyncio.StreamWriter, str] = {}
        self._told = ""
        self._server: asyncio.Server | None = None

    async def start(self, address: Address) -> None:
        try:
            self._server = await asyncio.start_server(self._welcome, address.host, address.port)
        except OSError as error:
            raise CannotListen(f"node.listen: cannot listen on {address}: {error.strerror}") from error

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._guests):
            writer.transport.abort()

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._guests) >= MAX_GUESTS:
            writer.transport.abort()
            return
        self._guests[writer] = ""
        try:
            frames = Frames(reader)
            async with asyncio.timeout(HELLO_S):
                sender = await check(self._party, frames, writer)
            self._take_place(sender, writer)
            while True:
                self._hear(sender, await frames.next())
        except (Refused, CodecError) as refused:
            self._tell(str(refused))
        except (OSError, TimeoutError, EOFError):
            pass
        finally:
            del self._guests[writer]
            writer.transport.abort()

    def _tell(self, reason: str) -> None:
        """Once for each reason in a row: whoever is refused comes again with the next heartbeat."""
        if reason != self._told:
            self._told = reason
            LOGGER.warning("refused a connection", extra={"reason": reason})

    def _take_place(self, sender: str, writer: asyncio.StreamWriter) -> None:
        for other, name in list(self._guests.items()):
            if name == sender:
                other.transport.abort()
        self._guests[writer] = sender

    def _hear(self, sender: str, frame: list[bytes]) -> None:
        message = wire.decode(frame)
        if message.node != sender:
            raise Refused(f"{sender!r} speaks in the name of {message.node!r}")
        self._receive(message)


class Frames:
    """Whole frames out of a stream."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._commands = CommandReader(wire.LIMITS)
        self._ready: list[list[bytes]] = []

    async def next(self) -> list[bytes]:
        while not self._ready:
            data = await self._reader.read(READ_BYTES)
            if not data:
                raise EOFError
            self._ready = self._commands.feed(data)
            if self._commands.fault is not None and not self._ready:
                raise self._commands.fault
        return self._ready.pop(0)


async def introduce(party: Party, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The dialer's side of the handshake."""
    first = hello.hello(party, peer, secrets.token_bytes(hello.NONCE_BYTES))
    writer.write(wire.encode_hello(first))
    try:
        second, proof = wire.decode_hello(await Frames(reader).next())
    except EOFError as error:
        raise Refused(f"{peer!r} hung up; its log says why") from error
    hello.check_hello(party, second)
    hello.check_proof(party.secret, "acceptor", first, second, proof)
    writer.write(wire.encode_proof(hello.prove(party.secret, "dialer", first, second)))


async def check(party: Party, frames: Frames, writer: asyncio.StreamWriter) -> str:
    """The other side of it. Returns who it is."""
    first, _ = wire.decode_hello(await frames.next())
    hello.check_hello(party, first)
    second = hello.hello(party, first.sender, secrets.token_bytes(hello.NONCE_BYTES))
    writer.write(wire.encode_hello(second, hello.prove(party.secret, "acceptor", first, second)))
    hello.check_proof(party.secret, "dialer", first, second, wire.decode_proof(await frames.next()))
    return first.sender


def set_up(writer: asyncio.StreamWriter, silence_ms: int) -> None:
    """Small messages leave at once, and a peer that acknowledges nothing is given up."""
    link: socket.socket = writer.get_extra_info("socket")
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_ms)
