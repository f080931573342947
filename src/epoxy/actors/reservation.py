"""Which datacenter owns a name. One write of the per-key engine decides it for ever; after that a local read is enough.
The value is the id of the name's first actor, which ends with the label of its datacenter."""

from collections.abc import Callable
from typing import Protocol, assert_never

from msgspec import Struct

from epoxy.codec.tuple import pack
from epoxy.model.actors import ID_BYTES, RESERVATION_KEYS, ActorName, make_id
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
    VersionMismatch,
    Write,
)
from epoxy.ports import Dice


class KeyEngine(Protocol):
    """The per-key engine, as a node shows it."""

    def peek(self, key: bytes) -> ReadResult | None: ...

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None: ...

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None: ...


class NameReservation(Struct, frozen=True):
    """The id of the first actor, which contains the label of the datacenter that owns the name."""

    actor_id: bytes


class NotReserved(Struct, frozen=True):
    pass


class Undecided(Struct, frozen=True, kw_only=True):
    """`definite`: nothing was reserved by this try."""

    reason: str
    definite: bool


Reservation = NameReservation | NotReserved | Undecided
Settled = Callable[[Reservation], None]


class Reservations:
    """`label` is this datacenter's."""

    def __init__(self, keys: KeyEngine, dice: Dice, label: int) -> None:
        self._keys = keys
        self._dice = dice
        self._label = label
        self._taking: dict[ActorName, list[Settled]] = {}

    def known(self, name: ActorName) -> NameReservation | None:
        """By what this replica knows, without traffic. A reservation is never undone."""
        here = self._keys.peek(key_of(name))
        return reserved_by(here.value) if here is not None else None

    def find(self, name: ActorName, settled: Settled) -> None:
        """Asks other replicas only for what is not known here."""
        if (known := self.known(name)) is not None:
            settled(known)
            return

        def found(answer: ReadAnswer) -> None:
            match answer:
                case ReadResult():
                    settled(reserved_by(answer.value) or NotReserved())
                case ReadFailed() | Refused():
                    settled(Undecided(reason=answer.reason, definite=True))
                case _:
                    assert_never(answer)

        self._keys.read(key_of(name), Consistency.OPTIMISTIC, found)

    def take(self, name: ActorName, settled: Settled) -> None:
        """Reserve it for this datacenter, unless it is taken. Requests for the same name share one write."""
        if (known := self.known(name)) is not None:
            settled(known)
        elif (others := self._taking.get(name)) is not None:
            others.append(settled)
        else:
            self._taking[name] = [settled]
            actor_id = make_id(self._dice.nonce(), self._dice.nonce(), self._label)
            write = Write(key=key_of(name), value=actor_id)
            self._keys.write(write, lambda outcome: self._taken(name, outcome))

    def _taken(self, name: ActorName, outcome: Outcome) -> None:
        verdict = verdict_of(outcome)
        for settled in self._taking.pop(name):
            settled(verdict)


def key_of(name: ActorName) -> bytes:
    return RESERVATION_KEYS + pack((name.namespace, name.name, name.key))


def reserved_by(value: bytes | None) -> NameReservation | None:
    return NameReservation(value) if value is not None and len(value) == ID_BYTES else None


def verdict_of(outcome: Outcome) -> Reservation:
    match outcome:
        case Committed(proposal=proposal) | ExpectedValueDoesNotMatch(committed=proposal):
            assert proposal.value is not None, outcome
            return NameReservation(proposal.value)
        case ConsensusFailed():
            return Undecided(reason=outcome.reason, definite=False)
        case Refused():
            return Undecided(reason=outcome.reason, definite=True)
        case VersionMismatch() | ImmutableKey() | NothingToDelete() | NotAnInteger():
            raise AssertionError(f"no answer to a reservation: {outcome}")
        case _:
            assert_never(outcome)
