"""Takes a replica of the ordered engine from one term to the next: finds the end of the term, and hands its state to
new members."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from epoxy.codec import wire
from epoxy.model.cluster import ClusterConfig
from epoxy.model.errors import InvariantViolation
from epoxy.model.instances import Ended, InstanceId, Sealed, TermEnd
from epoxy.model.members import Frontier, Kept, KeptId
from epoxy.node.txn.replica import OrderedReplica
from epoxy.ports import Store
from epoxy.protocol.txn.execution import Values
from epoxy.protocol.txn.terms import Part, last_slots

if TYPE_CHECKING:
    from epoxy.node.txn.engine import OrderedEngine


class Terms:
    def __init__(self, replica: OrderedReplica, store: Store, engine: "OrderedEngine") -> None:
        self.decided_end: Callable[[int], bytes | None] = lambda _: None
        """The value of the register of a term's end, if it is known here."""
        self.decide_end: Callable[[int, bytes, Callable[[bytes | None], None]], None] = lambda _, __, done: done(None)
        """Write it if it has no value; the callback gets its value then, or None if that is not known."""
        self._replica = replica
        self._store = store
        self._engine = engine
        self._asking = False

    def adopt(self, config: ClusterConfig) -> None:
        before = self._replica.part
        self._replica.adopt(config)
        if self._replica.part is not before:
            self._turned()

    def _turned(self) -> None:
        self._asking = False
        self._engine.turned()

    # The end of a term

    def look(self) -> None:
        """One step towards the next term, if the term ends."""
        replica = self._replica
        if replica.part is Part.OUT or replica.term is None or not replica.term.ending:
            return
        if replica.ends is None:
            self._find_end()
        elif replica.advance():
            self._turned()

    def _find_end(self) -> None:
        number = self._replica.number
        known = self.decided_end(number)
        if known is not None:
            self._decided(number, known)
        elif not self._asking:
            self._asking = True
            self._engine.run_close(partial(self._heard, number))

    def _heard(self, number: int, answer: Ended | Sealed | None) -> None:
        match answer:
            case Ended(ends=ends):
                self._ended(number, ends)
            case Sealed(ends=ends):
                value = wire.encode_term_end(TermEnd(ends=ends))
                self.decide_end(number, value, partial(self._decided, number))
            case None:
                self._asking = False

    def _decided(self, number: int, value: bytes | None) -> None:
        if value is None:
            self._asking = False
        else:
            self._ended(number, wire.decode_term_end(value).ends)

    def _ended(self, number: int, ends: tuple[InstanceId, ...]) -> None:
        replica = self._replica
        if number == replica.number and replica.ends is None and replica.part is not Part.OUT:
            try:
                replica.learn_end(ends)
            except InvariantViolation as violation:
                self._engine.alarm(str(violation))
                return
            self._turned()

    def end_of(self, term: int) -> Ended | None:
        """The end of a term that this replica is not in, if it is known here."""
        value = self.decided_end(term)
        return Ended(ends=wire.decode_term_end(value).ends) if value is not None else None

    # For backups

    def frontier(self) -> Frontier:
        return Frontier(term=self._replica.number, slots=last_slots(self._replica.log))

    def has_executed(self, frontier: Frontier) -> bool:
        replica = self._replica
        if replica.number != frontier.term:
            return replica.number > frontier.term
        return all(replica.log.executed.get(end.replica_id, 0) >= end.slot for end in frontier.slots)

    def note(self, frontier: Frontier) -> None:
        """Slots that are known, and not decided, are recovered."""
        if self._replica.number == frontier.term and not self.has_executed(frontier):
            for end in frontier.slots:
                self._replica.log.note_slot(end)
            self._engine.wake()

    # For new members

    def is_complete(self, term: int) -> bool:
        """Whether everything of this term, and of those before, was executed here, durably."""
        found = self._replica.space.term(self._store.durable())
        return found is not None and found.number > term

    def needs_copy(self, term: int) -> bool:
        """Whether it was not, and will not be: this replica takes no part in the term."""
        replica = self._replica
        return replica.part is Part.OUT and (replica.term is None or replica.number <= term)

    def kept(self, after: KeptId | None, limit: int) -> list[Kept]:
        """Decisions of terms that are over here and that another replica may still need."""
        return self._replica.space.kept(self._store.newest(), after, self._replica.number, limit)

    def keep(self, kept: tuple[Kept, ...]) -> None:
        self._store.transact(lambda tx: self._replica.space.keep(tx, kept))

    def copied(self, values: Values) -> None:
        """A newcomer counts the expiries of what it holds, as the replica does that it was copied from."""
        self._replica.on_written(values)

    def install(self, term: int) -> None:
        """The values were copied from a replica that has executed everything of this term."""
        if self.needs_copy(term):
            self._replica.arrive(term + 1)
            self._turned()
