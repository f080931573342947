"""Accepting connections within the room that a listener has (`reserves`): the number of a connection just accepted says
how many files the process has open, and decides what becomes of it."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

from epoxy.transport.http.eviction import UnprovenSet, source_of
from epoxy.transport.http.reserves import Room, whole_room
from epoxy.transport.tls import ContextOf

log = logging.getLogger("epoxy.doors")

BACKLOG = 1024
"""Connections the kernel holds until they are accepted: a whole pool that reconnects after a restart."""

ACCEPTED = 64
"""In one turn of the loop: some milliseconds."""

HANDSHAKE_S = 10.0
"""For TLS: as long as the head of a request may take."""

PAUSE_S = 1.0
"""Without accepting, after an accept has failed."""

LOG_EVERY_S = 60.0
"""Between two lines in the log about connections that were closed for want of descriptors."""

Make = Callable[[], asyncio.Protocol]


class Listener:
    """Has those methods of `asyncio.Server` that are used. `reserved` makes the protocol of a connection that is in
    reserve."""

    def __init__(
        self, make: Make, reserved: Make, sockets: Sequence[socket.socket], ssl: ContextOf | None, room: Room
    ) -> None:
        self.sockets = tuple(sockets)
        self._make = make
        self._reserved = reserved
        self._ssl = ssl
        self._room = room
        self._handshakes = UnprovenSet[asyncio.Task[None]](room.handshakes)
        self._at_once = ACCEPTED if ssl is None else min(ACCEPTED, room.handshakes)
        self._loop = asyncio.get_running_loop()
        self._opening: dict[asyncio.Task[None], None] = {}
        self._logged_s = -LOG_EVERY_S
        self._closed = 0
        self._listen()

    @property
    def opening(self) -> int:
        """Connections whose handshake is under way."""
        return len(self._opening)

    def close(self) -> None:
        """Stop listening. Connections stay, those too that the kernel has accepted or whose handshake is under way:
        what they have requested is answered."""
        for each in self.sockets:
            self._loop.remove_reader(each)
            self._accept(each)
            each.close()
        self.sockets = ()

    def hand_on(self) -> Sequence[socket.socket]:
        """Accept no more, and leave the sockets listening for another listener: until that one is there the kernel
        holds new connections. Those that are accepted stay."""
        sockets, self.sockets = self.sockets, ()
        for each in sockets:
            self._loop.remove_reader(each)
        return sockets

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        for task in tuple(self._opening):
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _listen(self) -> None:
        for each in self.sockets:
            self._loop.add_reader(each, self._accept, each)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._at_once):
            try:
                connection, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            if connection.fileno() >= self._room.ceiling:
                connection.close()
                self._log_closed()
            else:
                connection.setblocking(False)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._start_opening(connection, address)

    def _start_opening(self, connection: socket.socket, address: object) -> None:
        make = self._make if connection.fileno() < self._room.reserve else self._reserved
        task = self._loop.create_task(self._open(connection, make))
        self._opening[task] = None
        task.add_done_callback(partial(self._opened, connection))
        if self._ssl is not None and (crowded_out := self._handshakes.add(task, source_of(address))) is not None:
            crowded_out.cancel()

    def _opened(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        del self._opening[task]
        self._handshakes.discard(task)
        if task.cancelled():
            connection.close()

    async def _open(self, connection: socket.socket, make: Make) -> None:
        """A handshake that fails is not logged: any client can cause it."""
        context = self._ssl() if self._ssl is not None else None
        timeout_s = HANDSHAKE_S if context is not None else None
        try:
            await self._loop.connect_accepted_socket(make, connection, ssl=context, ssl_handshake_timeout=timeout_s)
        except OSError:  # TLS's errors and timeouts are among them.
            connection.close()

    def _pause(self, error: OSError) -> None:
        """Out of descriptors or memory after all. A socket that stays readable would make the loop spin."""
        log.warning("cannot accept connections: %s; trying again in %d s", error.strerror, PAUSE_S)
        for each in self.sockets:
            self._loop.remove_reader(each)
        self._loop.call_later(PAUSE_S, self._listen)

    def _log_closed(self) -> None:
        self._closed += 1
        now_s = self._loop.time()
        if now_s - self._logged_s >= LOG_EVERY_S:
            self._logged_s = now_s
            log.warning(
                "out of file descriptors: %d connections were closed at once; raise the limit (ulimit -n), "
                "or lower limits.connections",
                self._closed,
            )
            self._closed = 0


async def listen(
    make: Make,
    host: str,
    port: int,
    ssl: ContextOf | None = None,
    *,
    reserved: Make | None = None,
    room: Room | None = None,
    is_shared: bool = False,
    sockets: Sequence[socket.socket] = (),
) -> Listener:
    """On every address the host has. `is_shared`: other processes of this user listen there, too, and the system
    spreads connections over them. `sockets`: those of a listener that handed them on."""
    given = sockets or await bound_sockets(host, port, is_shared)
    return Listener(make, reserved or make, given, ssl, room or whole_room())


async def bound_sockets(host: str, port: int, is_shared: bool) -> list[socket.socket]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sockets.append(bound(socket.socket(family, kind, protocol), address, is_shared))
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


def bound(listening: socket.socket, address: object, is_shared: bool = False) -> socket.socket:
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if listening.family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)  # type: ignore[arg-type]
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
