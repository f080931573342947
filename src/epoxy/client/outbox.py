"""What a worker has to send: messages that wait for the connection, encoded.

A frame takes all that a turn of the event loop produced, up to `FRAME_BYTES`; of turns that follow each other and all
produce something, as those of one busy actor do, up to `TURNS`. Pings go in front: behind megabytes of
answers on a slow line they would come too late, and all actors of the worker would lose their lease.
"""

import asyncio
from collections import deque
from time import perf_counter

from epoxy.codec.envoy_frames import FRAME_BYTES, join, pack
from epoxy.model.envoy_messages import FromEnvoy, Goodbye, Ping

ENOUGH_BYTES = 4 << 20
"""More is not asked of actors: they get their next request when less waits (`room`)."""

MAX_BYTES = 64 << 20
"""Of code that sends and never waits. The connection is given up, which both sides notice, unlike a message that is
left out."""


TURNS, GATHER_S = 16, 0.001
"""A frame for each answer of one busy actor would cost its node more than the answer."""


class OutboxFull(Exception):
    """The node does not read as fast as this worker sends."""


class Outbox:
    """Of one connection."""

    def __init__(self) -> None:
        self.bytes = 0
        self._pings: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._filled = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._over = False

    def put(self, message: FromEnvoy) -> None:
        """Raises OutboxFull. After a goodbye nothing is taken."""
        if self._over:
            return
        piece = pack(message)
        if self.bytes + len(piece) > MAX_BYTES:
            raise OutboxFull(f"{MAX_BYTES >> 20} MiB wait for the node already, which reads too slowly")
        self.bytes += len(piece)
        (self._pings if isinstance(message, Ping) else self._waiting).append(piece)
        self._over = isinstance(message, Goodbye)
        if self.bytes > ENOUGH_BYTES:
            self._has_room.clear()
        self._filled.set()

    async def frame(self) -> bytes | None:
        """The next one, as soon as there is something to send. None: the goodbye was in the last one."""
        if not (self._pings or self._waiting):
            if self._over:
                return None
            self._filled.clear()
            await self._filled.wait()
            await self._gather()
        pieces: list[bytes] = []
        size = 0
        for queue in (self._pings, self._waiting):
            while queue and (not pieces or size + len(queue[0]) <= FRAME_BYTES):
                size += len(queue[0])
                pieces.append(queue.popleft())
        self.bytes -= size
        if self.bytes <= ENOUGH_BYTES:
            self._has_room.set()
        return join(pieces)

    async def _gather(self) -> None:
        """Until a turn of the event loop has produced nothing."""
        ends = perf_counter() + GATHER_S
        for _ in range(TURNS):
            before = self.bytes
            await asyncio.sleep(0)
            if self.bytes == before or self.bytes >= FRAME_BYTES or perf_counter() > ends:
                return

    async def room(self) -> None:
        """Until there is some."""
        await self._has_room.wait()

    def close(self) -> None:
        """What waits for room waits no more: the next connection has an outbox of its own."""
        self._over = True
        self._has_room.set()
