"""Which values may still change, by what this replica holds; and those that are decided once and for all."""

from collections.abc import Callable

from epoxy.model.errors import RottenRow
from epoxy.model.instances import end_key
from epoxy.model.marks import is_owned
from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, ExpectedValueDoesNotMatch, Outcome, ReadResult, Write
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica


def may_change(newest: Proposal | None) -> bool:
    """Whether other replicas must be asked. The newest version may not be durable yet; if it is not final, none before
    it was."""
    return newest is not None and newest.mutable and not is_owned(newest)


def is_final(here: ReadResult) -> bool:
    """Committed and immutable: no other replica can have a newer version."""
    return here.committed is not None and not here.committed.mutable


def decided_end(replica: Replica, term: int) -> bytes | None:
    """How a term of the ordered engine ended, as far as this replica knows."""
    try:
        found = replica.newest(end_key(term))
    except RottenRow:
        return None
    return found.value if found is not None else None


def decide_end(driver: Driver, term: int, value: bytes, done: Callable[[bytes | None], None]) -> None:
    """The end of a term is a reserved name: the first write decides it, and all others learn its value."""
    driver.write(Write(key=end_key(term), value=value), lambda outcome: done(held_after(outcome)))


def held_after(outcome: Outcome) -> bytes | None:
    """The value of a name after an attempt to reserve it; None: not known."""
    if isinstance(outcome, Committed):
        return outcome.proposal.value
    return outcome.committed.value if isinstance(outcome, ExpectedValueDoesNotMatch) else None
