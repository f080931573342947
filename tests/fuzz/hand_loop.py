"""An event loop without sockets whose time stands still unless it is told to pass, and a transport that records."""

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any

MOST_CALLS = 100_000
"""For the callbacks that one input causes. With more they cause each other for ever."""


class NeverAtRest(Exception):
    """Callbacks cause each other without end."""


class HandLoop(asyncio.AbstractEventLoop):
    """As much of a loop as protocol objects use. `unheard`: what reached the exception handler."""

    def __init__(self) -> None:
        self.unheard: list[dict[str, Any]] = []
        self._now = 1000.0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = 0

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, handle))
        return handle

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.unheard.append(context)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **_: Any) -> "asyncio.Task[Any]":
        return asyncio.Task(coro, loop=self)

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None: ...

    def settle(self) -> None:
        """Run callbacks until none is left."""
        for _ in range(MOST_CALLS):
            if not self._ready:
                return
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()
        raise NeverAtRest

    def wait(self, seconds: float) -> None:
        """Let time pass, and run the timers that end meanwhile."""
        until = self._now + seconds
        self.settle()
        while self._timers and self._timers[0][0] <= until:
            when, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                self._now = max(self._now, when)
                handle._run()
                self.settle()
        self._now = until


@contextmanager
def hand_loop() -> Iterator[HandLoop]:
    """As the running loop. What is logged of refusals is not wanted, and takes longer than refusing."""
    logger = logging.getLogger("epoxy")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    loop = HandLoop()  # type: ignore[abstract]  # The rest of a loop is about sockets, threads and processes.
    asyncio._set_running_loop(loop)
    try:
        yield loop
    finally:
        asyncio._set_running_loop(None)
        logger.setLevel(level)


class RecordingTransport(asyncio.Transport):
    """The server's end of a connection. A slow client reads nothing until `drain`: then writing is paused as
    asyncio's transports do it."""

    def __init__(self, loop: HandLoop, protocol: asyncio.Protocol, *, slow: bool = False) -> None:
        super().__init__()
        self.written = bytearray()
        self.protocol = protocol
        self.read_paused = self.ended = self.lost = False
        self.most_unread = 0
        self._loop = loop
        self._slow = slow
        self._unread = 0
        self._high = 64 << 10
        self._write_paused = False
        self._pending: deque[bytes] = deque()

    # What the client does.

    def open(self) -> None:
        self.protocol.connection_made(self)
        self._loop.settle()

    def receive(self, chunk: bytes) -> None:
        """Bytes of the client; they wait while the server does not read."""
        if not self.lost and chunk:
            self._pending.append(chunk)
            self.deliver()

    def deliver(self) -> None:
        self._loop.settle()
        while self._pending and not (self.read_paused or self.lost):
            self.protocol.data_received(self._pending.popleft())
            self._loop.settle()

    def drain(self) -> None:
        """The client reads all that was sent."""
        while self._write_paused and not self.lost:
            self._write_paused, self._unread = False, 0
            self.protocol.resume_writing()
            self.deliver()
        self._unread = 0
        self.deliver()

    def hang_up(self) -> None:
        """The client sends the end of its stream, reads on, and is gone."""
        if not self.lost and not self.protocol.eof_received():
            self.close()
        self._loop.settle()
        self.abort()
        self._loop.settle()

    # What the server does.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        if self._slow and not self.lost:
            self._unread += len(data)
            self.most_unread = max(self.most_unread, self._unread)
            if self._unread > self._high and not self._write_paused:
                self._write_paused = True
                self.protocol.pause_writing()

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self._unread

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del low
        self._high = high or 0

    def pause_reading(self) -> None:
        self.read_paused = True

    def resume_reading(self) -> None:
        self.read_paused = False
        self._loop.call_soon(self.deliver)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def is_closing(self) -> bool:
        return self.lost

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self.lost:
            self.lost = True
            self._pending.clear()
            self._loop.call_soon(self.protocol.connection_lost, None)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else ("127.0.0.1", 9) if name in ("peername", "sockname") else default

    def setsockopt(self, *_: object) -> None: ...
