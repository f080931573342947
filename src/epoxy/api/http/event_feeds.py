"""Server-sent events: how many readers a node has, what each may read, its heartbeat and its end."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from epoxy.api.http.backend import AccessInForce
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall

HEARTBEAT_S = 15.0
"""Half of the shortest idle limit among common proxies, 30 s."""

EVENTS = b"text/event-stream"
HEADERS = ((b"Cache-Control", b"no-store"), (b"X-Accel-Buffering", b"no"))
"""Proxies must pass events on as they come."""


class EventFeed:
    """One reader. A subclass writes its events; the last thing it does to be made is `follow`."""

    def __init__(self, call: ApiCall) -> None:
        self.stream = call.stream(EVENTS, HEADERS)
        self.principal = call.principal
        self.over = False
        self.loop = asyncio.get_running_loop()
        self._call = call

    def follow(self, unsubscribe: Callable[[], None]) -> None:
        """Until the stream ends, and it may have ended already; then `unsubscribe` is called."""
        self._unsubscribe = unsubscribe
        self._heartbeat = self.loop.call_later(HEARTBEAT_S, self._beat)
        self.stream.on_close(self._closed)

    def alive(self) -> bytes:
        """A comment, which readers do not show: the connection is not idle."""
        return b": alive\n\n"

    def look_again(self) -> None:
        """Whether the reader may still read, and what."""
        principal = self._call.principal_now()
        if principal is None or not principal.reads:
            self.close()
        else:
            self.principal = principal

    def close(self) -> None:
        if not self.over:
            self._closed()
            self.stream.close()

    def _closed(self) -> None:
        if not self.over:
            self.over = True
            self._heartbeat.cancel()
            self._unsubscribe()

    def _beat(self) -> None:
        self._heartbeat = self.loop.call_later(HEARTBEAT_S, self._beat)
        if self.stream.writable:
            self.stream.write(self.alive())


Feed = TypeVar("Feed", bound=EventFeed)


class EventFeeds(Generic[Feed]):
    """All readers of one kind at a node, `most` at a time. `what` they read, for those who are too many."""

    def __init__(self, access: AccessInForce, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._open: set[Feed] = set()
        access.watchers.append(self._look_again)

    def has_room(self, call: ApiCall) -> bool:
        """False: it is refused, and answered so."""
        if len(self._open) < self._most:
            return True
        message = f"{self._most} streams of {self._what} are open already"
        call.fail(429, "too_many_streams", message, retry_after_ms=RETRY_AFTER_MS)
        return False

    def add(self, feed: Feed) -> None:
        self._open.add(feed)
        feed.stream.on_close(lambda: self._open.discard(feed))

    def close(self) -> None:
        """The node stops. Readers come back, with the last id they saw."""
        for feed in tuple(self._open):
            feed.close()

    def _look_again(self) -> None:
        """The grants in force have changed."""
        for feed in tuple(self._open):
            feed.look_again()
