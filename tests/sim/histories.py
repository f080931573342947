"""Histories in a few words, and an oracle for short ones."""

import itertools
import random
import re
from collections.abc import Sequence

import msgspec

from epoxy_sim.history import (
    Absent,
    Add,
    Delete,
    Failed,
    Found,
    Immutable,
    Kind,
    Lost,
    Mismatch,
    Missing,
    NotAnInteger,
    Operation,
    Outcome,
    Put,
    Read,
    Reserve,
    Same,
    Unknown,
    Won,
)
from epoxy_sim.linearizability import Verdict, check

A, B, C = b"a", b"b", b"c"


Row = tuple[Kind, int, int | None, Outcome]


def history(*rows: Row) -> list[Operation]:
    return [
        Operation(id=i, client=f"c{i}", key=b"k", kind=kind, invoked=invoked, returned=returned, outcome=outcome)
        for i, (kind, invoked, returned, outcome) in enumerate(rows, start=1)
    ]


def judge(operations: Sequence[Operation]) -> Verdict:
    verdicts = check(operations)
    assert len(verdicts) == 1
    return verdicts[0]


def won(kind: Kind, invoked: int, returned: int, version: int) -> Row:
    return kind, invoked, returned, Won(version=version)


def read(invoked: int, returned: int, value: bytes | None, version: int, *, mutable: bool = True) -> Row:
    found = Absent(version=version) if value is None else Found(value=value, version=version, mutable=mutable)
    return Read(), invoked, returned, found


def added(kind: Add, invoked: int, returned: int, version: int, number: int) -> Row:
    return kind, invoked, returned, Won(version=version, value=b"%d" % number)


def told(kind: Kind, invoked: int, returned: int | None, outcome: Outcome) -> Row:
    return kind, invoked, returned, outcome


def lost(value: bytes | None, version: int, *, mutable: bool = False) -> Lost:
    return Lost(value=value, version=version, mutable=mutable)


# The oracle: the register's rules written a second time, and every order tried. Slow and plain on purpose.


State = tuple[int, bytes | None, bool]


def rule(state: State, kind: Kind) -> tuple[State, Outcome]:
    version, value, mutable = state
    there = Absent(version=version) if value is None else Found(value=value, version=version, mutable=mutable)
    if isinstance(kind, Read):
        return state, there
    if isinstance(kind, Reserve):
        if value is None:
            return (version + 1, kind.value, False), Won(version=version + 1)
        same = value == kind.value
        return state, Same(version=version) if same else Lost(value=value, version=version, mutable=mutable)
    if not mutable:
        return state, Immutable(version=version)
    if kind.if_version not in (None, version):
        return state, Mismatch(version=version)
    written, number = None, None
    if isinstance(kind, Delete) and value is None:
        return state, Missing(version=version)
    if isinstance(kind, Add):
        is_number = value is None or re.fullmatch(rb"0|-?[1-9][0-9]*", value)
        total = int(value or b"0") + kind.amount if is_number else 1 << 63
        if not -(1 << 63) <= total < 1 << 63:
            return state, NotAnInteger(version=version)
        written = number = b"%d" % total
    if isinstance(kind, Put):
        written = kind.value
    told = Won(version=version + 1, value=number, previous=there if kind.returning else None)
    return (version + 1, written, True), told


def explains(operations: Sequence[Operation], order: Sequence[Operation]) -> bool:
    """Whether `order` holds every answered operation, none twice, in real time, each with a true answer."""
    placed = [operation.id for operation in order]
    binding = {operation.id for operation in operations if is_answered(operation)}
    return len(placed) == len(set(placed)) and binding <= set(placed) and is_true(order) and in_real_time(order)


def is_true(order: Sequence[Operation]) -> bool:
    state: State = (0, None, True)
    for operation in order:
        expected = getattr(operation.kind, "if_version", None)
        true_mismatch = isinstance(operation.outcome, Mismatch) and expected not in (None, state[0])
        state, truth = rule(state, operation.kind)
        if operation.outcome not in (truth, Unknown()) and not true_mismatch:
            return False
    return True


def in_real_time(order: Sequence[Operation]) -> bool:
    return not any(precedes(later, earlier) for earlier, later in itertools.combinations(order, 2))


def precedes(first: Operation, second: Operation) -> bool:
    return is_answered(first) and first.returned is not None and first.returned < second.invoked


def is_answered(operation: Operation) -> bool:
    optimistic = isinstance(operation.kind, Read) and not operation.kind.linearizable
    return not isinstance(operation.outcome, Failed | Unknown) and not optimistic


def oracle(operations: Sequence[Operation]) -> bool:
    answered = [operation for operation in operations if is_answered(operation)]
    unknown = [operation for operation in operations if isinstance(operation.outcome, Unknown)]
    return any(
        is_true(order) and in_real_time(order)
        for size in range(len(unknown) + 1)
        for used in itertools.combinations(unknown, size)
        for order in itertools.permutations([*answered, *used])
    )


def draw_kind(dice: random.Random, value: bytes, version: int) -> Kind:
    expected, returning = dice.choice([None, None, version]), dice.random() < 0.2
    choices: list[Kind] = [
        Put(value=value, if_version=expected, returning=returning),
        Delete(if_version=expected, returning=returning),
        Add(amount=dice.choice([1, -2]), if_version=expected, returning=returning),
        Read(),
        Read(),
    ]
    return dice.choice(choices)


def retold(operation: Operation, outcome: Outcome) -> Operation:
    return msgspec.structs.replace(operation, outcome=outcome, returned=operation.returned or 10_000)
