"""The client for asyncio. It belongs to one event loop; its calls may run at the same time."""

import asyncio
import time
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from epoxy.client import backup_calls, calls, lease_calls, scrub_calls
from epoxy.client.actors import AsyncActors
from epoxy.client.async_leases import AsyncLock, AsyncSession
from epoxy.client.async_pool import AsyncPool, pieces
from epoxy.client.auth import AsyncAuth
from epoxy.client.calls import Call
from epoxy.client.feed import Feed
from epoxy.client.http1 import HttpResponse
from epoxy.client.lease_flow import LOCK_TTL_S
from epoxy.client.limits import SILENCE_S
from epoxy.client.methods import Pooled, awaited
from epoxy.client.pool import reason_of
from epoxy.client.results import Change
from epoxy.client.routing import Attempt, Outcome, conduct

T = TypeVar("T")


class AsyncClient(Pooled[AsyncPool]):
    """As `Client`, with `await`. A call that is cancelled after its write was sent is as indefinite as one that timed
    out."""

    _pool = AsyncPool

    reserve = awaited(calls.reserve)
    put = awaited(calls.put)
    add = awaited(calls.add)
    renew = awaited(lease_calls.renew)
    delete = awaited(calls.delete)
    get = awaited(calls.get)
    read = awaited(calls.read)
    page = awaited(calls.page)
    txn = awaited(calls.txn)
    status = awaited(calls.status)
    members = awaited(calls.members)
    change_members = awaited(calls.change_members)
    probe_node = awaited(calls.probe_node)
    begin_backup = awaited(backup_calls.begin_backup)
    backup_state = awaited(backup_calls.backup_state)
    backup_block = awaited(backup_calls.backup_block)
    end_backup = awaited(backup_calls.end_backup)
    scrub = awaited(scrub_calls.scrub)
    begin_scrub = awaited(scrub_calls.begin_scrub)
    inspect = awaited(calls.inspect)
    begin_session = awaited(lease_calls.begin_session)
    renew_session = awaited(lease_calls.renew_session)
    show_session = awaited(lease_calls.show_session)
    end_session = awaited(lease_calls.end_session)

    @property
    def actors(self) -> AsyncActors:
        """Actors, and the workers that host them."""
        return AsyncActors(self)

    @property
    def auth(self) -> AsyncAuth:
        """Tokens and grants, for operators; and who this client is."""
        return AsyncAuth(self)

    def lock(
        self, name: bytes | str, ttl: float = LOCK_TTL_S, *, wait: float | None = None, owner: str = ""
    ) -> AsyncLock:
        """As `Client.lock`, for `async with`. If the lock is lost, the task that holds it is cancelled, and the block
        raises Lost."""
        return AsyncLock(self._run, name, ttl, wait, owner)

    def session(self, ttl: float = LOCK_TTL_S) -> AsyncSession:
        """As `Client.session`, for `async with`."""
        return AsyncSession(self._run, ttl)

    async def changes(
        self, prefix: bytes | str = b"", *, after: str | None = None, follow: bool = True
    ) -> AsyncGenerator[Change, None]:
        """Commits as one node learns of them: all it knows, or those after a cursor, or from "now" on; and then, if
        `follow`, those to come. Stays with the node that answers first, and continues there after a lost connection."""
        feed = Feed(self._fleet, prefix, after, follow=follow)
        while not feed.done:
            await asyncio.sleep(feed.pause_s)
            try:
                reader, writer = await self._pools[feed.node].open()
            except OSError as error:
                feed.ended(reason_of(error))
                continue
            try:
                writer.write(feed.request())
                async for data in pieces(reader, SILENCE_S):
                    for change in feed.feed(data):
                        yield change
                    if feed.over:
                        break
            finally:
                writer.close()
            feed.ended("the connection ended")

    async def aclose(self) -> None:
        for pool in self._pools.values():
            pool.close()
        await asyncio.sleep(0)  # the transports close in the next turn of the loop

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _run(self, call: Call[T]) -> T:
        began = time.monotonic()  # the loop's own clock may tick in milliseconds
        deadline = self._deadline(call, began)
        flow = conduct(call, self._fleet, began)
        try:
            attempt = next(flow)
            while True:
                attempt = flow.send(await self._try(call, attempt, began, deadline))
        except StopIteration as done:
            result: T = done.value
            return result

    async def _try(self, call: Call[T], attempt: Attempt, began: float, deadline: float) -> Outcome:
        outcome = await self._pools[attempt.node].ask(call, (deadline - time.monotonic()) * attempt.share)
        if not isinstance(outcome, HttpResponse):
            return outcome
        return msgspec.structs.replace(outcome, latency_ms=(time.monotonic() - began) * 1000)
