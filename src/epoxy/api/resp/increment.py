"""INCR and its kin: read, add and write as one step."""

from epoxy.api.resp.command import Arguments, Handler, RespSession, checked_integer, checked_key
from epoxy.api.resp.keys import failure, unreadable, write
from epoxy.api.resp.session_access import LONGEST_NUMBER, charged, check_quota, writer_of
from epoxy.codec import resp
from epoxy.model.errors import InvalidRequest
from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, Consistency, Outcome, ReadAnswer, ReadResult, Refused, VersionMismatch, Write

MAX_INCREMENT_TRIES = 32
"""Bounds one client's wait. A try is lost only to a writer in another region, since the writers of one region queue,
and the next begins a round trip later: of nine regions that increment one key, each succeeds long before this."""


class Increment:
    """Add to the value this node holds when the write's turn has come, compare-and-set on its version, and try again if
    another region wrote in between. A version has one value only, so an outdated one costs a try and never gives a
    wrong sum. Before the client gets the error "not an integer", a linearizable read confirms it."""

    def __init__(self, session: RespSession, key: bytes, delta: int) -> None:
        self._node = session.node
        self._key = key
        self._delta = delta
        self._tries = 0
        self._sum = 0
        self._known: Proposal | None = None
        self._version = -1
        self._doubtful = False
        self._charged = charged(session, writer_of(session), key, self._written)
        self._answer = session.promise()

    def start(self) -> None:
        if self._node.peek(self._key) is None:
            self._read()
        else:
            self._write()

    def _read(self) -> None:
        self._node.read(self._key, Consistency.LINEARIZABLE, self._heard)

    def _heard(self, outcome: ReadAnswer) -> None:
        if not isinstance(outcome, ReadResult):
            self._answer(unreadable(self._key, outcome))
            return
        self._known = outcome.committed
        try:
            added(self._known, self._delta)
        except InvalidRequest as error:
            self._answer(resp.error(f"ERR {error}"))
        else:
            self._write()

    def _write(self) -> None:
        again, self._tries, self._doubtful = self._tries > 0, self._tries + 1, False
        self._node.update(self._key, self._change, self._charged, again=again)

    def _change(self, here: Proposal | None) -> Write | None:
        """A write to a reserved name goes to the engine, which refuses it as immutable."""
        committed = newer_of(here, self._known)
        self._version = committed.version if committed is not None else 0
        if committed is not None and not committed.mutable:
            return Write(key=self._key, value=b"", mutable=True)
        try:
            self._sum = added(committed, self._delta)
        except InvalidRequest:
            self._doubtful = True
            return None
        return Write(key=self._key, value=b"%d" % self._sum, mutable=True, if_version=self._version)

    def _written(self, outcome: Outcome) -> None:
        match outcome:
            case Committed():
                self._answer(resp.integer(self._sum))
            case VersionMismatch() if self._tries >= MAX_INCREMENT_TRIES:
                reason = f"other regions wrote first, {self._tries} times"
                self._answer(failure(self._key, Refused(reason=reason)))
            case VersionMismatch(committed=Proposal() as newer) if newer.version > self._version:
                self._known = newer
                self._write()
            case VersionMismatch():
                self._read()
            case Refused() if self._doubtful:
                self._read()
            case _:
                self._answer(failure(self._key, outcome))


def newer_of(one: Proposal | None, other: Proposal | None) -> Proposal | None:
    if one is None or other is None:
        return other if one is None else one
    return one if one.version >= other.version else other


def added(committed: Proposal | None, delta: int) -> int:
    value = committed.value if committed is not None else None
    total = (checked_integer(value) if value is not None else 0) + delta
    if not -(1 << 63) <= total < 1 << 63:
        raise InvalidRequest("increment or decrement would overflow")
    return total


def increment(sign: int) -> Handler:
    def run(session: RespSession, arguments: Arguments) -> None:
        delta = checked_integer(arguments[2]) if len(arguments) > 2 else 1
        key = checked_key(arguments[1])
        check_quota(session, len(key) + LONGEST_NUMBER)
        Increment(session, key, sign * delta).start()

    return run


COMMANDS = (
    write("incr", increment(1), 2, "Add 1 to a mutable integer."),
    write("incrby", increment(1), 3, "Add to a mutable integer."),
    write("decr", increment(-1), 2, "Subtract 1 from a mutable integer."),
    write("decrby", increment(-1), 3, "Subtract from a mutable integer."),
)
