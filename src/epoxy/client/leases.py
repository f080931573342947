"""Locks and sessions that block: renewed by a thread of their own while they are held."""

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self

from epoxy.client.calls import Call
from epoxy.client.lease_flow import Delay, Keeping, LeaseFlow, LockFlow, SessionFlow, advanced
from epoxy.model.errors import EpoxyError, InvalidRequest, Lost

Run = Callable[[Call[Any]], Any]


class BlockingLease:
    """Belief from the beginning of a `with` block to its end. It belongs to the process that took it."""

    def __init__(self, run: Run, flow: Keeping) -> None:
        self._run = run
        self._flow = flow
        self._stop = threading.Event()
        self._taking = threading.Lock()
        self._keeper: threading.Thread | None = None
        self._pid = os.getpid()
        self.on_lost: Callable[[], None] | None = None
        """Called once, in the thread that renews, when it is lost."""

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
            raise InvalidRequest(f"{self._flow.described} is not held: use `with`, or acquire()")
        if not self.is_held:
            raise Lost(self._flow.held.lost or f"{self._flow.described} was not renewed in time")

    @property
    def why_lost(self) -> str:
        """Empty: it is not lost, as far as is known."""
        return self._flow.held.lost

    def acquire(self) -> Self:
        if not self._taking.acquire(blocking=False):
            raise InvalidRequest(f"{self._flow.described} is being taken by another thread: make an object for each")
        try:
            if self._keeper is not None:
                raise InvalidRequest(
                    f"{self._flow.described} is held already by this object: make another for another use"
                )
            self._pid = os.getpid()
            self._drive(self._flow.acquire())
            self._stop.clear()
            self._keeper = threading.Thread(target=self._keep, name=f"epoxy: {self._flow.described}", daemon=True)
            self._keeper.start()
        finally:
            self._taking.release()
        return self

    def release(self) -> None:
        """Nothing is done about a lease that is lost, or of another process."""
        keeper = self._keeper
        if keeper is None or os.getpid() != self._pid:
            return
        self._stop.set()
        if keeper is not threading.current_thread():  # That is where `on_lost` is called.
            keeper.join()
        self._keeper = None
        if not self._flow.held.lost:
            self._drive(self._flow.release())

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """A block that ends well after its lease was lost raises Lost: what it did may not have been alone."""
        was_held = self.is_held
        self.release()
        if not was_held and kind is None and os.getpid() == self._pid:
            raise Lost(self._flow.held.lost or f"{self._flow.described} was not renewed in time")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a lease belongs to one process and is not pickled: send its token, or make another there")

    def _keep(self) -> None:
        try:
            while not self._stop.wait(self._flow.held.due_s):
                self._drive(self._flow.keep())
        except EpoxyError as error:
            self._flow.held.ended(str(error))
            if self.on_lost is not None:
                self.on_lost()

    def _drive(self, flow: LeaseFlow) -> None:
        step = advanced(flow.send, None)
        while step is not None:
            if isinstance(step, Delay):
                if self._is_ended_in(step.seconds):
                    return
                step = advanced(flow.send, None)
                continue
            try:
                result = self._run(step)
            except EpoxyError as error:
                step = advanced(flow.throw, error)
            else:
                step = advanced(flow.send, result)

    def _is_ended_in(self, seconds: float) -> bool:
        """A renewal that is tried again and again is given up as soon as the lease is given back."""
        if self._keeper is threading.current_thread():
            return self._stop.wait(seconds)
        time.sleep(seconds)
        return False


class Lock(BlockingLease):
    """`token` rises with each holder: pass it to the resource, which refuses a lower one than it has seen."""

    _flow: LockFlow

    def __init__(self, run: Run, name: bytes | str, ttl: float, wait: float | None, owner: str) -> None:
        super().__init__(run, LockFlow(name, ttl, wait, owner))

    @property
    def name(self) -> bytes:
        return self._flow.name

    @property
    def last_token(self) -> int:
        """Of the last time it was held, for reports; 0: it never was."""
        return self._flow.token

    @property
    def token(self) -> int:
        """The version at which it was taken. Raises Lost if it is not held any more."""
        self.check()
        return self._flow.token


class Session(BlockingLease):
    """Keys that are put with `session=session.id` end with it."""

    _flow: SessionFlow

    def __init__(self, run: Run, ttl: float) -> None:
        super().__init__(run, SessionFlow(ttl))

    @property
    def id(self) -> str:
        self.check()
        return self._flow.id
