"""Locks and sessions for asyncio: renewed by a task of their own while they are held. If one is lost, the task that
holds it is cancelled, and its block raises Lost."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, NoReturn, Self

from epoxy.client.calls import Call
from epoxy.client.lease_flow import Delay, Keeping, LeaseFlow, LockFlow, SessionFlow, advanced
from epoxy.model.errors import EpoxyError, InvalidRequest, Lost

AsyncRun = Callable[[Call[Any]], Awaitable[Any]]


class AsyncLease:
    """Belief from the beginning of an `async with` block to its end."""

    def __init__(self, run: AsyncRun, flow: Keeping) -> None:
        self._run = run
        self._flow = flow
        self._keeper: asyncio.Task[None] | None = None
        self._holder: asyncio.Task[Any] | None = None
        self._cancelled = False
        self._is_being_taken = False
        self._pid = os.getpid()

    @property
    def is_held(self) -> bool:
        return os.getpid() == self._pid and self._flow.held.remaining_s > 0

    @property
    def remaining(self) -> float:
        """Seconds for which it is held for certain, if it is not renewed."""
        return self._flow.held.remaining_s if os.getpid() == self._pid else 0.0

    def check(self) -> None:
        """Raises Lost if it is not held any more, in time: before it can be another's."""
        if os.getpid() != self._pid:
            raise InvalidRequest(
                f"{self._flow.described} belongs to process {self._pid}: it is not inherited by a fork"
            )
        if self._keeper is None:
            raise InvalidRequest(f"{self._flow.described} is not held: use `async with`, or acquire()")
        if not self.is_held:
            raise Lost(self._flow.held.lost or f"{self._flow.described} was not renewed in time")

    async def acquire(self) -> Self:
        """Taken without a block, a loss cancels nothing: call `check`."""
        if self._is_being_taken:
            raise InvalidRequest(f"{self._flow.described} is being taken by another task: make an object for each")
        if self._keeper is not None:
            raise InvalidRequest(f"{self._flow.described} is held already by this object: make another for another use")
        self._pid, self._cancelled, self._is_being_taken = os.getpid(), False, True
        try:
            await self._drive(self._flow.acquire())
        finally:
            self._is_being_taken = False
        self._keeper = asyncio.create_task(self._keep(), name=f"epoxy: {self._flow.described}")
        return self

    async def release(self) -> None:
        """Nothing is done about a lease that is lost, or of another process."""
        keeper, self._keeper = self._keeper, None
        if keeper is None or os.getpid() != self._pid:
            return
        keeper.cancel()
        await asyncio.wait([keeper])
        if not self._flow.held.lost:
            await self._drive(self._flow.release())

    async def __aenter__(self) -> Self:
        await self.acquire()
        self._holder = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        holder, self._holder = self._holder, None
        was_held = self.is_held
        if self._cancelled and holder is not None:
            holder.uncancel()
        await self.release()
        if not was_held and (kind is None or (self._cancelled and issubclass(kind, asyncio.CancelledError))):
            raise Lost(self._flow.held.lost or f"{self._flow.described} was not renewed in time") from None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a lease belongs to one process and is not pickled: send its token, or make another there")

    async def _keep(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._flow.held.due_s)
                await self._drive(self._flow.keep())
        except EpoxyError as error:
            self._flow.held.ended(str(error))
            if self._holder is not None:
                self._cancelled = True
                self._holder.cancel()

    async def _drive(self, flow: LeaseFlow) -> None:
        step = advanced(flow.send, None)
        while step is not None:
            if isinstance(step, Delay):
                await asyncio.sleep(step.seconds)
                step = advanced(flow.send, None)
                continue
            try:
                result = await self._run(step)
            except EpoxyError as error:
                step = advanced(flow.throw, error)
            else:
                step = advanced(flow.send, result)


class AsyncLock(AsyncLease):
    """As `Lock`."""

    _flow: LockFlow

    def __init__(self, run: AsyncRun, name: bytes | str, ttl: float, wait: float | None, owner: str) -> None:
        super().__init__(run, LockFlow(name, ttl, wait, owner))

    @property
    def name(self) -> bytes:
        return self._flow.name

    @property
    def token(self) -> int:
        """The version at which it was taken. Raises Lost if it is not held any more."""
        self.check()
        return self._flow.token


class AsyncSession(AsyncLease):
    """As `Session`."""

    _flow: SessionFlow

    def __init__(self, run: AsyncRun, ttl: float) -> None:
        super().__init__(run, SessionFlow(ttl))

    @property
    def id(self) -> str:
        self.check()
        return self._flow.id
