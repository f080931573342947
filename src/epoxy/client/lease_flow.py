"""Leases of a client: taken, kept and given back, as generators without IO that both clients drive. They yield calls
and pauses, and are sent results.

A holder counts from BEFORE it sent the write that was granted, on a clock that goes on in suspend; replicas count from
when that write was durable, and wait longer. So a holder that asks `is_held` stops believing in its lease before it can
be another's, as long as clocks run within one percent of each other. A holder that is paused between the question and
its act is what the token is for: it rises with each holder, and the resource refuses a lower one.

An unknown outcome is never taken for "no". The value of a lock is unique to one acquisition, so reading it tells
whether the write was done.
"""

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Generator
from random import Random
from typing import Any, Protocol

from msgspec import Struct

from epoxy.client.calls import Call, checked_key, checked_ttl, delete, put, read
from epoxy.client.lease_calls import begin_session, checked_session_ttl, end_session, renew, renew_session
from epoxy.client.results import Reading
from epoxy.model.errors import (
    ClientError,
    InvalidRequest,
    KeyExists,
    Lost,
    NoSession,
    NotObtained,
    OutcomeUnknown,
    Unavailable,
    VersionMismatch,
)

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has one that goes on in suspend."""

LOCK_TTL_S = 30.0
"""As long as others wait after a holder's death, unless told otherwise."""

LEAST_TTL_S = 0.5
"""A lease is renewed after a third of it, which must be enough for a write across the world."""

MARGIN, MOST_MARGIN_S = 0.1, 1.0
"""How much before its end a holder stops believing in a lease: a tenth of it, a second at most."""

RENEWALS = 3
"""In the time of a lease, if all goes well."""

LEAST_PAUSE_S, MOST_PAUSE_S = 0.05, 0.5
"""Between two tries for a lock that is another's."""

LEAST_TIMEOUT_S = 0.05


class Delay(Struct, frozen=True):
    """Nothing to do for so many seconds."""

    seconds: float


Step = Call[Any] | Delay
LeaseFlow = Generator[Step, Any, None]


def advanced(resume: Callable[[Any], Step], given: object) -> Step | None:
    """The next step of a flow that is resumed with this. None: it has ended."""
    try:
        return resume(given)
    except StopIteration:
        return None


def uptime_s() -> float:
    return time.clock_gettime(CLOCK)


class Belief:
    """Until when a lease is believed in. `sent_s`: the clock before the write was sent that gave it last."""

    def __init__(self, ttl_s: float) -> None:
        self.ttl_s = ttl_s
        self.sent_s: float | None = None
        self.lost = ""
        """Why it is lost for good."""

    def granted(self, sent_s: float) -> None:
        self.sent_s, self.lost = sent_s, ""

    def ended(self, why: str = "") -> None:
        self.lost = why
        if not why:
            self.sent_s = None

    @property
    def until_s(self) -> float:
        assert self.sent_s is not None, "held"
        return self.sent_s + self.ttl_s - min(self.ttl_s * MARGIN, MOST_MARGIN_S)

    @property
    def remaining_s(self) -> float:
        """Of the time for which it is believed in."""
        return max(0.0, self.until_s - uptime_s()) if self.sent_s is not None and not self.lost else 0.0

    @property
    def due_s(self) -> float:
        """Until the next renewal."""
        assert self.sent_s is not None, "held"
        return max(0.0, self.sent_s + self.ttl_s / RENEWALS - uptime_s())

    @property
    def patience_s(self) -> float:
        """For one try to renew: half of the time between two, so that another node can be asked."""
        return max(LEAST_TIMEOUT_S, min(self.remaining_s, self.ttl_s / RENEWALS / 2))

    @property
    def release_s(self) -> float:
        """For one try to give it back."""
        return max(1.0, self.ttl_s / RENEWALS / 2)


class Keeping(Protocol):
    """What a lock and a session have in common."""

    held: Belief

    @property
    def described(self) -> str: ...

    def acquire(self) -> LeaseFlow: ...

    def keep(self) -> LeaseFlow:
        """One renewal, tried until it is done, or the lease is lost, which raises."""

    def release(self) -> LeaseFlow: ...


class LockFlow:
    """`version` is the newest, for conditions: a renewal is a version of its own. `token` is the one at which the lock
    was taken, and stays."""

    def __init__(self, name: bytes | str, ttl: float, wait: float | None, owner: str) -> None:
        self.name = checked_key(name)
        self.held = Belief(checked_lease(ttl))
        self._wait_s = checked_wait(wait)
        self._owner = checked_owner(owner)
        self._dice = Random()
        self.value = b""
        self.version = 0
        self.token = 0

    @property
    def described(self) -> str:
        return f"the lock {self.name.decode('utf-8', 'backslashreplace')}"

    def acquire(self) -> LeaseFlow:
        """Tries, and waits while it is another's. There is no queue: of those who wait any may be next."""
        self.value = holder_value(self._owner)
        began_s, refused, unknown = uptime_s(), False, False
        while True:
            sent_s, left_s = uptime_s(), None
            try:
                written = yield put(self.name, self.value, if_absent=True, ttl=self.held.ttl_s)
                self._taken(written.version, sent_s)
                return
            except KeyExists as error:
                refused, holder, left_s = True, error.value, error.ttl
                if unknown and holder == self.value and (yield from self._adopt(error.version)):
                    return
            except OutcomeUnknown:
                unknown, found = True, (yield from self._look())
                holder, left_s = (found.value, found.ttl) if found is not None else (None, None)
                if found is not None and holder == self.value and (yield from self._adopt(found.version)):
                    return
            except Unavailable:
                if not (refused or unknown):
                    raise
                holder = None
            left_of_wait = None if self._wait_s is None else self._wait_s - (uptime_s() - began_s)
            if left_of_wait is not None and left_of_wait <= 0:
                raise self._not_obtained(holder, left_s, unknown=unknown)
            yield Delay(self._pause(left_s, left_of_wait))

    def _pause(self, left_s: float | None, left_of_wait: float | None) -> float:
        """Until the lease that is in the way is over, if that is soon; with jitter, so that those who wait do not ask
        all at once."""
        soon_s = MOST_PAUSE_S if left_s is None else min(max(left_s, LEAST_PAUSE_S), MOST_PAUSE_S)
        pause_s = soon_s * self._dice.uniform(0.5, 1.0)
        return pause_s if left_of_wait is None else min(pause_s, left_of_wait)

    def _not_obtained(self, holder: bytes | None, left_s: float | None, *, unknown: bool) -> NotObtained:
        ends = f"; it is held for another {left_s:.1f} s unless it is renewed" if left_s is not None else ""
        later = f". A try had no known outcome: it may be taken for {self.held.ttl_s:g} s" if unknown else ""
        words = f"{self.described} was not obtained{ends}{later}"
        return NotObtained(words, holder=holder, ttl=left_s)

    def _look(self) -> Generator[Step, Any, Reading | None]:
        """What is there, by a majority. None: not known."""
        try:
            found: Reading = yield read(self.name, read="linearizable")
        except ClientError:
            return None
        return found

    def _adopt(self, version: int) -> Generator[Step, Any, bool]:
        """A try whose outcome was not known has taken the lock. When is not known either, so it is renewed first."""
        sent_s = uptime_s()
        try:
            renewed = yield renew(self.name, self.held.ttl_s, if_version=version)
        except (VersionMismatch, OutcomeUnknown, Unavailable):
            return False
        if renewed.renewed:
            self._taken(renewed.version, sent_s)
        return bool(renewed.renewed)

    def _taken(self, version: int, sent_s: float) -> None:
        self.version = self.token = version
        self.held.granted(sent_s)

    def keep(self) -> LeaseFlow:
        while self.held.remaining_s > 0:
            sent_s = uptime_s()
            try:
                renewed = yield renew(self.name, self.held.ttl_s, if_version=self.version, timeout=self.held.patience_s)
                if not renewed.renewed:
                    break
                self.version = renewed.version
                self.held.granted(sent_s)
                return
            except VersionMismatch as error:
                if error.value != self.value:
                    break
                self.version = error.version  # A renewal with unknown outcome was done.
            except (OutcomeUnknown, Unavailable):
                yield Delay(min(self.held.remaining_s, self.held.ttl_s / RENEWALS / 10))
        else:
            self.held.ended(f"{self.described} could not be renewed in time")
            raise Lost(self.held.lost)
        self.held.ended(f"{self.described} is over, or another's: it was not renewed in time, or was deleted")
        raise Lost(self.held.lost)

    def release(self) -> LeaseFlow:
        """Deletes its own version and no other's. What cannot be deleted ends by itself. It is not believed in from
        before the deletion is sent: it may be another's before the answer is here."""
        self.held.ended()
        for _ in range(2):
            try:
                yield delete(self.name, if_version=self.version, timeout=self.held.release_s)
                return
            except VersionMismatch as error:
                if error.value != self.value:
                    return
                self.version = error.version
            except ClientError:
                return


class SessionFlow:
    def __init__(self, ttl: float) -> None:
        self.held = Belief(checked_session_ttl(ttl) / 1000)
        self.id = ""

    @property
    def described(self) -> str:
        return f"the session {self.id}"

    def acquire(self) -> LeaseFlow:
        """One whose outcome is not known ends by itself: it is not tried again here."""
        sent_s = uptime_s()
        begun = yield begin_session(self.held.ttl_s)
        self.id = begun.id
        self.held.granted(sent_s)

    def keep(self) -> LeaseFlow:
        while self.held.remaining_s > 0:
            sent_s = uptime_s()
            try:
                yield renew_session(self.id, timeout=self.held.patience_s)
                self.held.granted(sent_s)
                return
            except NoSession:
                self.held.ended(f"{self.described} is over")
                raise Lost(self.held.lost) from None
            except (OutcomeUnknown, Unavailable):
                yield Delay(min(self.held.remaining_s, self.held.ttl_s / RENEWALS / 10))
        self.held.ended(f"{self.described} could not be renewed in time")
        raise Lost(self.held.lost)

    def release(self) -> LeaseFlow:
        self.held.ended()
        try:
            yield end_session(self.id, timeout=self.held.release_s)
        except ClientError:
            return


def checked_lease(ttl: object) -> float:
    if not isinstance(ttl, int | float) or ttl < LEAST_TTL_S:
        raise InvalidRequest(f"a lock is held for {LEAST_TTL_S} seconds at least, not {ttl!r}")
    return checked_ttl(ttl) / 1000


def checked_wait(wait: object) -> float | None:
    if wait is None or (isinstance(wait, int | float) and wait >= 0):
        return wait
    raise InvalidRequest(f"wait is a number of seconds from 0 on, or None, not {wait!r}")


def checked_owner(owner: object) -> str:
    if isinstance(owner, str):
        return owner
    raise InvalidRequest(f"an owner is text, not {type(owner).__name__}")


def holder_value(owner: str) -> bytes:
    """Who holds it, for people; and an id of this acquisition alone."""
    told = {"owner": owner} if owner else {}
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return json.dumps(
        told | {"host": socket.gethostname(), "pid": os.getpid(), "since": since, "id": secrets.token_hex(8)}
    ).encode()
