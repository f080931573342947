"""The client that blocks. Threads may share one: each call borrows a connection of its own."""

import ssl
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from epoxy.client import calls
from epoxy.client import members as member_calls
from epoxy.client.actors import Actors
from epoxy.client.calls import Call
from epoxy.client.feed import Feed
from epoxy.client.http1 import HttpResponse
from epoxy.client.limits import CONNECT_TIMEOUT_S, MAX_CONNECTIONS, SILENCE_S, TIMEOUT_S, checked_timeout
from epoxy.client.pool import BlockingPool, reason_of
from epoxy.client.results import Change, Deletion, Page, Reading, Reservation, Status, TxnResult, Value, Written
from epoxy.client.routing import Attempt, Outcome, conduct, fleet_of
from epoxy.model.api import Inspection, Members, Newcomer, Ordered
from epoxy.model.transactions import Compare, Operation
from epoxy.model.writes import Consistency

T = TypeVar("T")


class Client:
    """Talks to the nodes at `urls`, nearest first. See docs/clients.md for what is retried and what never is.

    `timeout` is for a whole call, in seconds. `tls` is for https addresses; without it the system's authorities count.
    """

    def __init__(
        self,
        *urls: str | Iterable[str],
        timeout: float = TIMEOUT_S,
        connect_timeout: float = CONNECT_TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._fleet = fleet_of(urls)
        self._timeout = checked_timeout(timeout)
        wait = checked_timeout(connect_timeout)
        self._pools = {node: BlockingPool(node, wait, max_connections, tls) for node in self._fleet.nodes}

    def reserve(self, key: bytes | str, value: bytes | str, *, timeout: float | None = None) -> Reservation:
        """Take a name for ever, if it is free. Having lost is a result, not an error."""
        return self._run(calls.reserve(key, value), timeout)

    def put(
        self, key: bytes | str, value: bytes | str, *, if_version: int | None = None, timeout: float | None = None
    ) -> Written:
        """Write the next version. Raises VersionMismatch, or ImmutableKey over a reserved name."""
        return self._run(calls.put(key, value, if_version), timeout)

    def delete(self, key: bytes | str, *, if_version: int | None = None, timeout: float | None = None) -> Deletion:
        return self._run(calls.delete(key, if_version), timeout)

    def get(
        self, key: bytes | str, *, read: str | Consistency = Consistency.OPTIMISTIC, timeout: float | None = None
    ) -> Value | None:
        """The value, or None. Bytes that carry their version: see `read` for the whole answer."""
        return self.read(key, read=read, timeout=timeout).as_value()

    def read(
        self, key: bytes | str, *, read: str | Consistency = Consistency.OPTIMISTIC, timeout: float | None = None
    ) -> Reading:
        return self._run(calls.get(key, read), timeout)

    def page(
        self,
        prefix: bytes | str = b"",
        *,
        after: bytes | str | None = None,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> Page:
        """Keys in order, as one node knows them: no promise that it has heard of all."""
        return self._run(calls.page(prefix, after, limit), timeout)

    def txn(
        self,
        *,
        compares: Iterable[Compare] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        reads: Iterable[bytes | str] = (),
        timeout: float | None = None,
    ) -> TxnResult:
        """All of it at one moment: if every compare holds `then` is done, else `otherwise`. Compares that do not hold
        are a result, not an error. `reads` are looked up before anything is done."""
        return self._run(calls.txn(compares, then, otherwise, reads), timeout)

    def status(self, *, timeout: float | None = None) -> Status:
        return self._run(calls.status(), timeout)

    def members(self, *, progress: bool = False, timeout: float | None = None) -> Members:
        """Who belongs to the cluster. `progress`: every member is asked how far it is."""
        return self._run(member_calls.members(progress=progress), timeout)

    def change_members(
        self,
        *,
        add: Sequence[Newcomer] = (),
        remove: Sequence[int] = (),
        force: bool = False,
        timeout: float | None = None,
    ) -> Ordered:
        """Add and remove members in one change. Returns when the order is committed; `members` tells when it is done.
        `force`: even if too few of the members that stay can be reached now."""
        return self._run(member_calls.change(add, remove, force=force), timeout)

    @property
    def actors(self) -> Actors:
        """Actors, and the workers that host them."""
        return Actors(self)

    def inspect(self, key: bytes | str, *, timeout: float | None = None) -> Inspection:
        """What every replica holds for the key."""
        return self._run(calls.inspect(key), timeout)

    def changes(
        self, prefix: bytes | str = b"", *, after: str | None = None, follow: bool = True
    ) -> Generator[Change, None, None]:
        """Commits as one node learns of them: all it knows, or those after a cursor, or from "now" on; and then, if
        `follow`, those to come. Stays with the node that answers first, and continues there after a lost connection."""
        feed = Feed(self._fleet, prefix, after, follow=follow)
        while not feed.done:
            time.sleep(feed.pause_s)
            yield from self._follow(feed)

    def _follow(self, feed: Feed) -> Generator[Change, None, None]:
        try:
            connection = self._pools[feed.node].connect(time.monotonic() + SILENCE_S)
        except OSError as error:
            feed.ended(reason_of(error))
            return
        with closing(connection):
            for data in connection.stream(feed.request(), SILENCE_S):
                yield from feed.feed(data)
                if feed.over:
                    break
        feed.ended("the connection ended")

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, call: Call[T], timeout: float | None) -> T:
        began = time.monotonic()
        deadline = began + (self._timeout if timeout is None else checked_timeout(timeout))
        flow = conduct(call, self._fleet, began)
        try:
            attempt = next(flow)
            while True:
                attempt = flow.send(self._try(call, attempt, began, deadline))
        except StopIteration as done:
            result: T = done.value
            return result

    def _try(self, call: Call[T], attempt: Attempt, began: float, deadline: float) -> Outcome:
        now = time.monotonic()
        outcome = self._pools[attempt.node].ask(call, now + (deadline - now) * attempt.share)
        if not isinstance(outcome, HttpResponse):
            return outcome
        return msgspec.structs.replace(outcome, latency_ms=(time.monotonic() - began) * 1000)
