"""Which datacenter is the home of a name, and under which lease.

A name is reserved once, by an immutable write whose value is the record of its first home: one round trip. Each later
change of home is a compare-and-set of another, mutable key, with an epoch that is higher by one. If that key is there,
it counts; else the reservation does.

What this replica holds is a hint, good for asking another datacenter. Whether a record may be changed is decided by
linearizable reads, and by the comparison of the write.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec import Struct

from epoxy.codec import home_records
from epoxy.codec.home_records import home_key, reservation_key
from epoxy.model.actors import ActorName
from epoxy.model.errors import CodecError
from epoxy.model.homes import HomeRecord
from epoxy.model.records import Proposal
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Refused,
    Unchanged,
    VersionMismatch,
    Write,
)
from epoxy.ports import KeyEngine

MAX_HINTS = 10_000
"""Homes that other datacenters named and that this replica has not learned of yet."""


class KnownHome(Struct, frozen=True, kw_only=True):
    """`version`: of the mutable key; 0: the record is that of the reservation. `mine`: the write that was asked for
    made it."""

    record: HomeRecord
    version: int = 0
    mine: bool = False


class NotReserved(Struct, frozen=True):
    pass


class Undecided(Struct, frozen=True, kw_only=True):
    """`definite`: nothing was changed by this try."""

    reason: str
    definite: bool


Settled = Callable[[KnownHome | NotReserved | Undecided], None]


class Homes:
    def __init__(self, keys: KeyEngine) -> None:
        self._keys = keys
        self._hints: dict[ActorName, tuple[int, int]] = {}
        self._finding: dict[ActorName, list[Settled]] = {}
        """By name, the questions that wait for the same read."""

    # What is known here

    def known(self, name: ActorName) -> KnownHome | None:
        """By what this replica holds, without traffic."""
        if (moved := self._peek(home_key(name))) is not None:
            return moved
        return self._peek(reservation_key(name), first=True)

    def _peek(self, key: bytes, *, first: bool = False) -> KnownHome | None:
        here = self._keys.peek(key)
        return home_in(here.committed, first=first) if here is not None else None

    def hint(self, name: ActorName, above: int) -> int | None:
        """The datacenter that another one named, by a record of an epoch above this."""
        label, epoch = self._hints.get(name, (0, -1))
        return label if epoch > above else None

    def note(self, name: ActorName, label: int, epoch: int) -> None:
        """Another datacenter says so. Forgotten when it is wrong: see `forget`."""
        if len(self._hints) >= MAX_HINTS:
            self._hints.pop(next(iter(self._hints)))
        self._hints[name] = (label, epoch)

    def forget(self, name: ActorName) -> None:
        self._hints.pop(name, None)

    def find(self, name: ActorName, settled: Settled) -> None:
        """Asks other replicas only for what is not known here, and then a majority: a replica may not have learned yet
        of a name that a client was told of. One read at a time for a name: each would finish a write that is under way,
        and they would hold up each other."""
        if (known := self.known(name)) is not None:
            settled(known)
        elif (waiting := self._finding.get(name)) is not None:
            waiting.append(settled)
        else:
            self._finding[name] = [settled]
            self._keys.read(
                reservation_key(name), Consistency.LINEARIZABLE, lambda answer: self._found(name, found(answer))
            )

    def _found(self, name: ActorName, home: KnownHome | NotReserved | Undecided) -> None:
        for settled in self._finding.pop(name):
            settled(home)

    # What is decided

    def newest(self, name: ActorName, settled: Settled) -> None:
        """The record in force, by linearizable reads."""

        def moved(answer: ReadAnswer) -> None:
            home = found(answer, first=False)
            if isinstance(home, NotReserved):
                self._keys.read(reservation_key(name), Consistency.LINEARIZABLE, lambda each: settled(found(each)))
            else:
                settled(home)

        self._keys.read(home_key(name), Consistency.LINEARIZABLE, moved)

    def reserve(self, name: ActorName, record: HomeRecord, settled: Settled) -> None:
        """For a name that has no record: one round trip. The answer is the record of whichever came first."""
        write = Write(key=reservation_key(name), value=home_records.encode(record))
        self._keys.write(write, lambda outcome: settled(home_of(outcome, first=True)))

    def change(self, name: ActorName, before: KnownHome, record: HomeRecord, settled: Settled) -> None:
        """Compare-and-set. The answer is the record in force: this one, `mine`, or the one that came first."""
        assert record.epoch == before.record.epoch + 1, (before, record)
        write = Write(key=home_key(name), value=home_records.encode(record), mutable=True, if_version=before.version)
        self._keys.write(write, lambda outcome: settled(home_of(outcome, first=False)))


def home_in(committed: Proposal | None, *, first: bool) -> KnownHome | None:
    """None: absent, or nothing that this version of the program can read."""
    if committed is None or committed.value is None:
        return None
    try:
        record = home_records.decode_home(committed.value)
    except CodecError:
        return None
    return KnownHome(record=record, version=0 if first else committed.version)


def found(answer: ReadAnswer, *, first: bool = True) -> KnownHome | NotReserved | Undecided:
    match answer:
        case ReadResult(committed=committed):
            return home_in(committed, first=first) or NotReserved()
        case ReadFailed(reason=reason) | Refused(reason=reason):
            return Undecided(reason=reason, definite=True)
        case _:
            assert_never(answer)


def home_of(outcome: Outcome, *, first: bool) -> KnownHome | NotReserved | Undecided:
    match outcome:
        case Committed(proposal=proposal, mine=mine):
            home = home_in(proposal, first=first)
            assert home is not None, outcome
            return KnownHome(record=home.record, version=home.version, mine=mine)
        case ExpectedValueDoesNotMatch(committed=proposal) | VersionMismatch(committed=proposal):
            return home_in(proposal, first=first) or NotReserved()
        case ConsensusFailed(reason=reason):
            return Undecided(reason=reason, definite=False)
        case Refused(reason=reason):
            return Undecided(reason=reason, definite=True)
        case ImmutableKey() | NothingToDelete() | NotAnInteger() | Unchanged():
            raise AssertionError(f"no answer to a change of home: {outcome}")
        case _:
            assert_never(outcome)
