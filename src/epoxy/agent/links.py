"""The control network: an outgoing connection to each peer, and an incoming one from each.

Protocols, not streams: sending or receiving a heartbeat is one call, without a task switch. What a connection carries
is `link_session`'s: a handshake, then sealed frames; with `[tls]` all of it inside TLS, where both ends show
certificates.
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
from epoxy.protocol.elect.handshake import HandshakeRefused, Party
from epoxy.protocol.elect.link_session import AcceptorSession, DialerSession, refusal
from epoxy.protocol.elect.messages import Message
from epoxy.protocol.elect.send_queue import SendQueue
from epoxy.transport.http import listener
from epoxy.transport.tls import ContextOf

LOGGER = logging.getLogger("epoxy")

HANDSHAKE_S = 3.0
"""For the whole handshake."""

MAX_INCOMING = 64
"""Including connections that have not finished their handshake. A cluster has 15 nodes; the rest is for reconnects."""

BACKLOG_BYTES = 16_384
"""Unsent bytes in the transport above which messages stay in the send queue, where newer ones replace them."""

Receive = Callable[[Message], None]
PartyOf = Callable[[], Party]
"""This node's side of a handshake. The lists of nodes and the secrets in it may change while the agent runs."""

encode = lru_cache(maxsize=4)(wire.encode)
"""Most peers get the same message at the same moment: a heartbeat to the leader and one to all others."""


class Dialer:
    """The outgoing connection to one peer. Reconnects a heartbeat after it ends."""

    def __init__(
        self, party_of: PartyOf, peer: str, address: Address, config: ElectConfig, tls: ContextOf | None = None
    ) -> None:
        self._party_of = party_of
        self._tls = tls
        self._peer = peer
        self._address = address
        self._retry_s = config.timing.hb_interval_ms / 1000
        self._silence_ms = config.timing.down_after_ms
        self._queue = SendQueue()
        self._link: OutgoingLink | None = None
        self._logged = ""

    @property
    def connected(self) -> bool:
        return self._link is not None

    def put(self, message: Message) -> None:
        self._queue.put(message)
        self._flush()

    def _flush(self) -> None:
        if self._link is not None and self._link.has_room:
            self._link.send([encode(message) for message in self._queue.take()])

    def renew(self, accepted: tuple[bytes, ...]) -> None:
        """Other secrets are accepted now: a connection that was made with none of them ends."""
        if self._link is not None and self._link.secret not in accepted:
            self._link.close()

    async def run(self) -> None:
        while True:
            try:
                await self._connect_until_lost()
            except (OSError, TimeoutError, CodecError, HandshakeRefused) as error:
                self._log_failure(error)
            await asyncio.sleep(self._retry_s)

    def _log_failure(self, error: Exception) -> None:
        """Once for each reason: a peer that is down for a day must not fill the log."""
        words = f"{type(error).__name__}: {error}"
        if words != self._logged:
            self._logged = words
            LOGGER.warning("no connection to a peer", extra={"peer": self._peer, "reason": words})

    async def _connect_until_lost(self) -> None:
        link = OutgoingLink(self._party_of(), self._peer)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                loop = asyncio.get_running_loop()
                host, tls = self._address.host, self._tls() if self._tls is not None else None
                await loop.create_connection(
                    lambda: link, host, self._address.port, ssl=tls, server_hostname=host if tls is not None else None
                )
                link.set_up(self._silence_ms)
                await link.proved
            if link.secret not in self._party_of().secrets:
                raise HandshakeRefused("the secret of this connection was replaced during its handshake")
            self._link, self._logged = link, ""
            LOGGER.info("connected to a peer", extra={"peer": self._peer})
            self._flush()
            await link.lost
        finally:
            self._link = None
            link.close()


class ControlLink(asyncio.Protocol):
    """Frames out of a byte stream; an invalid one closes the connection."""

    def __init__(self) -> None:
        self._commands = CommandReader(wire.LINK_LIMITS)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._commands.feed(data):
                self.receive_frame(frame)
            if self._commands.fault is not None:
                raise self._commands.fault
        except (HandshakeRefused, CodecError) as error:
            self._part(self.refuse(error))

    def receive_frame(self, frame: list[bytes]) -> None:
        raise NotImplementedError

    def refuse(self, error: Exception) -> bytes:
        """Called before the connection is closed. Returns the last bytes to send."""
        raise NotImplementedError

    def connection_lost(self, _: Exception | None) -> None:
        """From here on nothing may be written, even before `lost` has been resolved."""
        self._transport = None

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _part(self, last: bytes) -> None:
        if last and self._transport is not None:
            self._transport.write(last)
            self._transport.close()
        else:
            self.close()


class OutgoingLink(ControlLink):
    """The dialer's side of a connection. After the handshake the peer sends nothing on it."""

    def __init__(self, party: Party, peer: str) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        self.proved: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._peer = peer
        self._session = DialerSession(party, peer, secrets.token_bytes(handshake.NONCE_BYTES))

    @property
    def secret(self) -> bytes:
        return self._session.secret

    @property
    def has_room(self) -> bool:
        return self._transport is not None and self._transport.get_write_buffer_size() < BACKLOG_BYTES

    def set_up(self, silence_ms: int) -> None:
        """Send small messages at once, and give up a peer that acknowledges nothing."""
        if self._transport is None:
            return
        link: socket.socket = self._transport.get_extra_info("socket")
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_ms)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.write(self._session.greeting)

    def receive_frame(self, frame: list[bytes]) -> None:
        if self.proved.done():
            raise HandshakeRefused(f"{self._peer!r} sent a message on a connection that it should only read")
        self.write(self._session.conclude(frame))
        self.proved.set_result(None)

    def send(self, messages: list[bytes]) -> None:
        """Seals are numbered, so each is made when its frame leaves."""
        self.write(b"".join([self._session.seal(message) for message in messages]))

    def refuse(self, error: Exception) -> bytes:
        self._end(error)
        return b""

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._end(HandshakeRefused(f"{self._peer!r} closed the connection; its log says why"))

    def _end(self, error: Exception) -> None:
        if not self.proved.done():
            self.proved.set_exception(error)
            self.proved.exception()
        if not self.lost.done():
            self.lost.set_result(None)


class LinkListener:
    """Accepts all peers. A new connection of a peer replaces its old one."""

    def __init__(self, party_of: PartyOf, receive: Receive, tls: ContextOf | None = None) -> None:
        self.party_of = party_of
        self._tls = tls
        self.receive = receive
        self._incoming: dict[IncomingLink, None] = {}
        """In the order of their arrival."""
        self._logged = ""
        self._server: listener.Listener | None = None

    async def start(self, address: Address) -> None:
        opening = listener.listen(lambda: IncomingLink(self), address.host, address.port, self._tls)
        self._server = await listen("node.listen", address, opening)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in list(self._incoming):
            link.close()

    def join(self, link: "IncomingLink") -> None:
        """Over the limit, the oldest connection without a finished handshake is closed: connections that are merely
        held open must not keep out a peer, whose handshake takes a round trip."""
        self._incoming[link] = None
        if len(self._incoming) > MAX_INCOMING:
            last = next((each for each in self._incoming if not each.sender), link)
            self.leave(last)
            last.close()

    def leave(self, link: "IncomingLink") -> None:
        self._incoming.pop(link, None)

    def close_others(self, known: set[str]) -> None:
        """Close the connections of nodes that are no longer counted."""
        for link in list(self._incoming):
            if link.sender and link.sender not in known:
                link.close()

    def renew(self, accepted: tuple[bytes, ...]) -> None:
        """Other secrets are accepted now: connections that were made with none of them end; so do those that have
        proved none yet, because the answer they were given was made with the secrets of before."""
        for link in list(self._incoming):
            if link.secret not in accepted:
                link.close()

    def replace_older(self, newcomer: "IncomingLink") -> None:
        for link in list(self._incoming):
            if link is not newcomer and link.sender == newcomer.sender:
                link.close()

    def log_refusal(self, reason: str) -> None:
        """Once for each reason in a row: a refused peer tries again with the next heartbeat."""
        if reason != self._logged:
            self._logged = reason
            LOGGER.warning("refused a connection", extra={"reason": reason})


class IncomingLink(ControlLink):
    """An accepted connection. `sender`: the node that it has proved to be; empty before."""

    def __init__(self, listener: LinkListener) -> None:
        super().__init__()
        self._listener = listener
        self._session = AcceptorSession()
        self._late: asyncio.TimerHandle | None = None

    @property
    def sender(self) -> str:
        return self._session.sender

    @property
    def secret(self) -> bytes:
        return self._session.secret

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """With TLS its handshake is over: a timer that began before it might have ended already."""
        super().connection_made(transport)
        self._late = asyncio.get_running_loop().call_later(HANDSHAKE_S, self.close)
        self._listener.join(self)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._on_time()
        self._listener.leave(self)

    def receive_frame(self, frame: list[bytes]) -> None:
        session = self._session
        if session.sender:
            self._listener.receive(session.open(frame))
        elif session.is_greeted:
            session.conclude(frame)
            self._on_time()
            self._listener.replace_older(self)
        else:
            nonce = secrets.token_bytes(handshake.NONCE_BYTES)
            self.write(session.greet(self._listener.party_of(), frame, nonce))

    def _on_time(self) -> None:
        if self._late is not None:
            self._late.cancel()

    def refuse(self, error: Exception) -> bytes:
        self._listener.log_refusal(str(error))
        return refusal(error)
