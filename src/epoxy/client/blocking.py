"""The client that blocks. Threads may share one: each call borrows a connection of its own."""

import time
from collections.abc import Generator
from contextlib import closing
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from epoxy.client import backup_calls, calls, lease_calls, scrub_calls
from epoxy.client.actors import Actors
from epoxy.client.auth import Auth
from epoxy.client.calls import Call
from epoxy.client.feed import Feed
from epoxy.client.http1 import HttpResponse
from epoxy.client.lease_flow import LOCK_TTL_S
from epoxy.client.leases import Lock, Session
from epoxy.client.limits import SILENCE_S
from epoxy.client.methods import Pooled, blocking
from epoxy.client.pool import BlockingPool, reason_of
from epoxy.client.results import Change
from epoxy.client.routing import Attempt, Outcome, conduct

T = TypeVar("T")


class Client(Pooled[BlockingPool]):
    """Talks to the nodes at `urls`, nearest first. See docs/clients.md for what is retried and what never is.

    `timeout` is for a whole call, in seconds. `tls` is for https addresses; without it the system's authorities count.
    `token`: a token, or the path of its file. None: EPOXY_TOKEN, or the file that EPOXY_TOKEN_FILE names; "": none. It
    is sent to another machine over https only, unless `token_over_http`.
    """

    _pool = BlockingPool

    reserve = blocking(calls.reserve)
    put = blocking(calls.put)
    add = blocking(calls.add)
    renew = blocking(lease_calls.renew)
    delete = blocking(calls.delete)
    get = blocking(calls.get)
    read = blocking(calls.read)
    page = blocking(calls.page)
    txn = blocking(calls.txn)
    status = blocking(calls.status)
    members = blocking(calls.members)
    change_members = blocking(calls.change_members)
    probe_node = blocking(calls.probe_node)
    begin_backup = blocking(backup_calls.begin_backup)
    backup_state = blocking(backup_calls.backup_state)
    backup_block = blocking(backup_calls.backup_block)
    end_backup = blocking(backup_calls.end_backup)
    scrub = blocking(scrub_calls.scrub)
    begin_scrub = blocking(scrub_calls.begin_scrub)
    inspect = blocking(calls.inspect)
    begin_session = blocking(lease_calls.begin_session)
    renew_session = blocking(lease_calls.renew_session)
    show_session = blocking(lease_calls.show_session)
    end_session = blocking(lease_calls.end_session)

    @property
    def actors(self) -> Actors:
        """Actors, and the workers that host them."""
        return Actors(self)

    @property
    def auth(self) -> Auth:
        """Tokens and grants, for operators; and who this client is."""
        return Auth(self)

    def lock(self, name: bytes | str, ttl: float = LOCK_TTL_S, *, wait: float | None = None, owner: str = "") -> Lock:
        """A lock on a key, for `with`: taken when the block begins, renewed in a thread of its own, given back when it
        ends. `wait`: for how many seconds to wait for it; None: as long as it takes; 0: not at all. `owner`: shown to
        others, beside host and pid. `lock.token` is for the resource; `lock.check()` raises Lost in time."""
        return Lock(self._run, name, ttl, wait, owner)

    def session(self, ttl: float = LOCK_TTL_S) -> Session:
        """A session, for `with`: renewed in a thread of its own. Keys that are put with `session=session.id` end with
        it."""
        return Session(self._run, ttl)

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

    def _run(self, call: Call[T]) -> T:
        began = time.monotonic()
        deadline = self._deadline(call, began)
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
