"""Commands that count: read, add and write as one step."""

from collections.abc import Callable

from epoxy.api.resp.command import Arguments, RespSession, checked_integer, checked_key
from epoxy.api.resp.keys import failure, unreadable, write
from epoxy.codec import resp
from epoxy.model.errors import InvalidRequest
from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, Consistency, Outcome, ReadAnswer, ReadResult, Refused, VersionMismatch, Write

MAX_INCREMENT_TRIES = 32
"""Each lost try is another region's success, so this bounds one client's wait; writers of one region queue, and lose
nothing to each other. A loser tries again one round trip later, and of nine regions that count on one key, each gets
its turn long before this."""


class Increment:
    """Add to what this node holds when it is this write's turn, compare-and-set on its version, and again if another
    region came between. A version names one value only, so an old one costs a try and never a wrong sum. What this node
    holds is not enough to tell a client "no integer", though; that takes a consistent read."""

    def __init__(self, session: RespSession, key: bytes, delta: int) -> None:
        self._node = session.node
        self._key = key
        self._delta = delta
        self._tries = 0
        self._sum = 0
        self._known: Proposal | None = None
        self._version = -1
        self._doubtful = False
        self._answer = session.promise()

    def start(self) -> None:
        here = self._node.peek(self._key)
        if here is None:
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
        self._node.update(self._key, self._change, self._written, again=again)

    def _change(self, here: Proposal | None) -> Write | None:
        """A reserved name is left to the engine, which says what it is."""
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
                reason = f"{self._tries} tries were overtaken by other writers"
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


def increment(sign: int) -> Callable[[RespSession, Arguments], None]:
    def run(session: RespSession, arguments: Arguments) -> None:
        delta = checked_integer(arguments[2]) if len(arguments) > 2 else 1
        Increment(session, checked_key(arguments[1]), sign * delta).start()

    return run


COMMANDS = (
    write("incr", increment(1), 2, "Add 1 to a mutable integer."),
    write("incrby", increment(1), 3, "Add to a mutable integer."),
    write("decr", increment(-1), 2, "Subtract 1 from a mutable integer."),
    write("decrby", increment(-1), 3, "Subtract from a mutable integer."),
)
