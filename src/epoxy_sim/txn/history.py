"""Transactions as their clients saw them, and whether one order explains all answers.

The replicas report in which order they executed what interferes. The checker does not trust them: the order must be the
same everywhere, it must not contradict the order in time, and when everything is executed again in such an order, on a
state of its own, every client must have got the same result.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from epoxy.model.transactions import NO_ROW, Executed, Txn
from epoxy.protocol.txn.execution import ExecutionState, execute


class Asked(Struct, kw_only=True):
    """One transaction. `returned` and `result` stay None if its client got no answer, or no definite one. `refused`:
    the answer was that it is never executed."""

    number: int
    client: str
    txn: Txn
    invoked: int
    returned: int | None = None
    result: Executed | None = None
    refused: bool = False


def interfere(one: Txn, other: Txn) -> bool:
    theirs = other.footprint
    return any(key in theirs and (writes or theirs[key]) for key, writes in one.footprint.items())


def explain(asked: Mapping[int, Asked], executed: Sequence[int]) -> str | None:
    """What is wrong, if anything. `executed` are the numbers in the order of one replica; interfering ones were
    executed in this order by all."""
    told = [each for each in asked.values() if each.result is not None]
    done = set(executed)
    if len(done) != len(executed):
        twice = next(number for number in executed if executed.count(number) > 1)
        return f"transaction {twice} was executed twice"
    for each in told:
        if each.number not in done:
            return f"transaction {each.number} was answered and never executed"
    order = arrange(asked, executed)
    if order is None:
        return "the order of execution contradicts the order in time"
    state = ExecutionState(lambda _: NO_ROW)
    for number in order:
        result = execute(asked[number].txn, state)
        expected = asked[number].result
        if expected is not None and expected != result:
            return f"transaction {number} was told {expected}, but in the order of execution it is {result}"
    return None


def arrange(asked: Mapping[int, Asked], executed: Sequence[int]) -> list[int] | None:
    """An order that agrees with execution where two interfere, and with time: a transaction that was answered before
    another was asked comes before it. None: there is none."""
    left = list(executed)
    placed: list[int] = []
    while left:
        first = next((number for number in left if may_be_next(asked, number, left)), None)
        if first is None:
            return None
        left.remove(first)
        placed.append(first)
    return placed


def may_be_next(asked: Mapping[int, Asked], number: int, left: Sequence[int]) -> bool:
    """Whether none of those left must come before it."""
    here = asked[number]
    for other in left:
        if other == number:
            break
        if interfere(asked[other].txn, here.txn):
            return False
    return all(answered_before(asked[other], here) is False for other in left if other != number)


def answered_before(one: Asked, other: Asked) -> bool:
    return one.result is not None and one.returned is not None and one.returned < other.invoked
