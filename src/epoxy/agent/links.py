"""The control network: a connection to each peer that this agent speaks on, and one from each that it listens on.

Protocols, not streams: a heartbeat is one call when it comes and one when it goes, and nothing wakes up in between.
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import cast

from epoxy.codec.resp import CommandReader
from epoxy.model.address import Address
from epoxy.model.errors import CodecError
from epoxy.node.process.listening import listen
from epoxy.protocol.elect import codec as wire
from epoxy.protocol.elect import handshake
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.handshake import ElectHello, HandshakeRefused, Party
from epoxy.protocol.elect.messages import Message
from epoxy.protocol.elect.send_queue import SendQueue

LOGGER = logging.getLogger("epoxy")

HELLO_S = 3.0
"""For the whole handshake. Whoever takes longer has something else in mind."""

MAX_GUESTS = 64
"""Connections, those that have proved nothing yet among them. A cluster has 15 nodes; the rest is reconnects."""

BACKLOG_BYTES = 16_384
"""What the system may not have taken yet before messages stay in the outbox, where newer ones replace them."""

Receive = Callable[[Message], None]
Introduce = Callable[[], Party]
"""Who this node is by now: which lists of nodes it counts may change while it runs."""

encode = lru_cache(maxsize=4)(wire.encode)
"""Most peers are told the same, in the same moment: a heartbeat to the leader and one to all others."""


class Dialer:
    """Speaks to one peer. It is dialled again, a heartbeat later, whenever the connection ends."""

    def __init__(self, introduce: Introduce, peer: str, address: Address, config: ElectConfig) -> None:
        self._introduce = introduce
        self._peer = peer
        self._address = address
        self._retry_s = config.timing.hb_interval_ms / 1000
        self._silence_ms = config.timing.down_after_ms
        self._box = SendQueue()
        self._line: OutgoingLink | None = None
        self._told = ""

    @property
    def connected(self) -> bool:
        return self._line is not None

    def put(self, message: Message) -> None:
        self._box.put(message)
        self._flush()

    def _flush(self) -> None:
        if self._line is not None and self._line.has_room:
            self._line.write(b"".join([encode(message) for message in self._box.take()]))

    async def run(self) -> None:
        while True:
            try:
                await self._speak()
            except (OSError, TimeoutError, CodecError, HandshakeRefused) as error:
                self._tell(error)
            await asyncio.sleep(self._retry_s)

    def _tell(self, error: Exception) -> None:
        """Once for each reason: a peer that is down for a day must not fill the log."""
        words = f"{type(error).__name__}: {error}"
        if words != self._told:
            self._told = words
            LOGGER.warning("no connection to a peer", extra={"peer": self._peer, "reason": words})

    async def _speak(self) -> None:
        line = OutgoingLink(self._introduce(), self._peer)
        try:
            async with asyncio.timeout(HELLO_S):
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: line, self._address.host, self._address.port)
                line.set_up(self._silence_ms)
                await line.proved
            self._line, self._told = line, ""
            LOGGER.info("connected to a peer", extra={"peer": self._peer})
            self._flush()
            await line.lost
        finally:
            self._line = None
            line.close()


class Wire(asyncio.Protocol):
    """Whole frames out of what arrives; whatever is wrong with one ends the connection."""

    def __init__(self) -> None:
        self._commands = CommandReader(wire.LIMITS)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            words = wire.skim(data) if self._commands.at_rest else None
            for frame in self._commands.feed(data) if words is None else (words,):
                self.take(frame)
            if self._commands.fault is not None:
                raise self._commands.fault
        except (HandshakeRefused, CodecError) as error:
            self.refuse(error)
            self.close()

    def take(self, frame: list[bytes]) -> None:
        raise NotImplementedError

    def refuse(self, error: Exception) -> None:
        raise NotImplementedError

    def connection_lost(self, _: Exception | None) -> None:
        """Nothing may be written from here on, not even before those who wait for the end have been told of it."""
        self._transport = None

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class OutgoingLink(Wire):
    """The dialer's side of a connection. The peer says nothing on it behind the handshake."""

    def __init__(self, party: Party, peer: str) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        self.proved: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._party = party
        self._peer = peer
        self._first = handshake.hello(party, peer, secrets.token_bytes(handshake.NONCE_BYTES))

    @property
    def has_room(self) -> bool:
        return self._transport is not None and self._transport.get_write_buffer_size() < BACKLOG_BYTES

    def set_up(self, silence_ms: int) -> None:
        """Small messages leave at once, and a peer that acknowledges nothing is given up."""
        if self._transport is None:
            return
        link: socket.socket = self._transport.get_extra_info("socket")
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_ms)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write(wire.encode_hello(self._first))

    def take(self, frame: list[bytes]) -> None:
        if self.proved.done():
            raise HandshakeRefused(f"{self._peer!r} speaks where it should listen")
        second, proof = wire.decode_hello(frame)
        handshake.check_hello(self._party, second)
        handshake.check_proof(self._party.secret, "acceptor", self._first, second, proof)
        self.write(wire.encode_proof(handshake.prove(self._party.secret, "dialer", self._first, second)))
        self.proved.set_result(None)

    def refuse(self, error: Exception) -> None:
        self._end(error)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._end(HandshakeRefused(f"{self._peer!r} hung up; its log says why"))

    def _end(self, error: Exception) -> None:
        if not self.proved.done():
            self.proved.set_exception(error)
            self.proved.exception()
        if not self.lost.done():
            self.lost.set_result(None)


class LinkListener:
    """Hears all peers. A new connection of a peer takes the place of its old one."""

    def __init__(self, introduce: Introduce, receive: Receive) -> None:
        self.introduce = introduce
        self.receive = receive
        self._guests: dict[Guest, None] = {}
        """In the order in which they came."""
        self._told = ""
        self._server: asyncio.Server | None = None

    async def start(self, address: Address) -> None:
        opening = asyncio.get_running_loop().create_server(lambda: Guest(self), address.host, address.port)
        self._server = await listen("node.listen", address, opening)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for guest in list(self._guests):
            guest.close()

    def join(self, guest: "Guest") -> None:
        """When there are too many, the one that has proved nothing for longest makes way: strangers that hold their
        connections must not keep out a peer, whose handshake takes a round trip."""
        self._guests[guest] = None
        if len(self._guests) > MAX_GUESTS:
            last = next((each for each in self._guests if not each.sender), guest)
            self.leave(last)
            last.close()

    def leave(self, guest: "Guest") -> None:
        self._guests.pop(guest, None)

    def keep(self, known: set[str]) -> None:
        """Whose node is no longer counted is not listened to."""
        for guest in list(self._guests):
            if guest.sender and guest.sender not in known:
                guest.close()

    def take_place(self, newcomer: "Guest") -> None:
        for guest in list(self._guests):
            if guest is not newcomer and guest.sender == newcomer.sender:
                guest.close()

    def tell(self, reason: str) -> None:
        """Once for each reason in a row: whoever is refused comes again with the next heartbeat."""
        if reason != self._told:
            self._told = reason
            LOGGER.warning("refused a connection", extra={"reason": reason})


class Guest(Wire):
    """Somebody who has dialled. `sender`: who it has proved to be."""

    def __init__(self, listener: LinkListener) -> None:
        super().__init__()
        self.sender = ""
        self._listener = listener
        self._hellos: tuple[ElectHello, ElectHello] | None = None
        self._late = asyncio.get_running_loop().call_later(HELLO_S, self.close)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._listener.join(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._late.cancel()
        self._listener.leave(self)

    def take(self, frame: list[bytes]) -> None:
        if self.sender:
            self._hear(frame)
        elif self._hellos is None:
            self._greet(frame)
        else:
            self._believe(frame)

    def refuse(self, error: Exception) -> None:
        self._listener.tell(str(error))

    def _greet(self, frame: list[bytes]) -> None:
        party = self._listener.introduce()
        first, _ = wire.decode_hello(frame)
        handshake.check_hello(party, first)
        second = handshake.hello(party, first.sender, secrets.token_bytes(handshake.NONCE_BYTES))
        self._hellos = first, second
        self.write(wire.encode_hello(second, handshake.prove(party.secret, "acceptor", first, second)))

    def _believe(self, frame: list[bytes]) -> None:
        assert self._hellos is not None
        secret = self._listener.introduce().secret
        handshake.check_proof(secret, "dialer", *self._hellos, wire.decode_proof(frame))
        self.sender = self._hellos[0].sender
        self._late.cancel()
        self._listener.take_place(self)

    def _hear(self, frame: list[bytes]) -> None:
        message = wire.decode(frame)
        if message.node != self.sender:
            raise HandshakeRefused(f"{self.sender!r} speaks in the name of {message.node!r}")
        self._listener.receive(message)
