"""Sessions: many keys, one heartbeat. A session is a key of the cluster's own with a time to live; keys that name it
end after its tombstone."""

from collections.abc import Callable
from typing import Protocol

from epoxy.model.sessions import session_key
from epoxy.model.writes import (
    Consistency,
    NothingToDelete,
    Outcome,
    Path,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Refused,
    Write,
)
from epoxy.node.keys.replica import Replica
from epoxy.ports import Dice
from epoxy.runtime.admission import Caller

NO_SESSION = Refused(reason="the session is over, or never was", no_session=True)

ReadKey = Callable[[bytes, Consistency, Callable[[ReadAnswer], None]], None]


class WriteKey(Protocol):
    def __call__(self, write: Write, answered: Callable[[Outcome], None], caller: Caller | None = None) -> None: ...


class Sessions:
    """`write` and `read` are those of the node: a session counts in its limits as any key does."""

    def __init__(self, replica: Replica, dice: Dice, write: WriteKey, read: ReadKey) -> None:
        self._replica = replica
        self._dice = dice
        self._write = write
        self._read = read

    def begin(self, ttl_ms: int, answered: Callable[[Outcome], None]) -> bytes:
        """The id of the new session, which lasts once that is answered `Committed`."""
        session = b"".join([self._dice.nonce().to_bytes(8, "big") for _ in range(2)])
        write = Write(key=session_key(session), value=b"", mutable=True, if_version=0, ttl_ms=ttl_ms)
        self._write(write, answered)
        return session

    def renew(self, session: bytes, answered: Callable[[Outcome], None]) -> None:
        """For as long again as it was made for. NothingToDelete: it is over."""
        key = session_key(session)

        def found(outcome: ReadAnswer) -> None:
            if isinstance(outcome, ReadResult):
                self._renew_known(key, outcome, answered)
            else:
                answered(Refused(reason=outcome.reason))

        self._find(key, found)

    def end(self, session: bytes, answered: Callable[[Outcome], None]) -> None:
        """And with it all keys that name it, one after the other."""
        self._write(Write(key=session_key(session), value=None, mutable=True), answered)

    def attach(self, write: Write, answered: Callable[[Outcome], None], caller: Caller | None = None) -> None:
        """A write that names a session: it is done if that lasts, as far as this can be known now. If the session ends
        meanwhile, the key ends after it."""

        def found(outcome: ReadAnswer) -> None:
            if isinstance(outcome, ReadFailed):
                answered(Refused(reason=f"whether its session lasts is not known: {outcome.reason}"))
            elif isinstance(outcome, Refused):
                answered(outcome)
            elif outcome.value is None:
                answered(NO_SESSION)
            else:
                self._write(write, answered, caller)

        self._find(session_key(write.session), found)

    def _find(self, key: bytes, found: Callable[[ReadAnswer], None]) -> None:
        """One that is known here as absent, or not at all, may be newer elsewhere."""

        def seen(outcome: ReadAnswer) -> None:
            if isinstance(outcome, ReadResult) and outcome.value is not None:
                found(outcome)
            else:
                self._read(key, Consistency.LINEARIZABLE, found)

        self._read(key, Consistency.SKIP_CACHE, seen)

    def _renew_known(self, key: bytes, here: ReadResult, answered: Callable[[Outcome], None]) -> None:
        committed = here.committed
        if committed is None or committed.expiry is None:
            answered(NothingToDelete(committed=committed, path=Path.LOCAL))
        else:
            self._write(Write(key=key, value=None, mutable=True, touch=True, ttl_ms=committed.expiry.ttl_ms), answered)
