"""Executing commands on a state. Deterministic: the same state and command give the same results."""

from collections.abc import Callable
from typing import assert_never

from epoxy.model.instances import Command
from epoxy.model.integers import integer_of
from epoxy.model.records import Expiry
from epoxy.model.transactions import (
    LEAST,
    MOST,
    NO_ROW,
    Add,
    Delete,
    Done,
    Executed,
    Expire,
    Get,
    Import,
    Operation,
    OrderedValue,
    Put,
    Txn,
    Wrong,
)

Read = Callable[[bytes], OrderedValue]
Values = dict[bytes, OrderedValue]


class ExecutionState:
    """Stored values, and over them the values written since."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.written: Values = {}
        self.versioned = True
        """Whether the command that is executed counts versions."""

    def get(self, key: bytes) -> OrderedValue:
        return self.written[key] if key in self.written else self._read(key)

    def set(self, key: bytes, value: bytes | None, ttl_ms: int = 0, session: bytes = b"") -> OrderedValue:
        """A new version, unless the value belongs to the time before versions."""
        before = self.get(key)
        if not self.versioned and before.version == 0:
            return self.replace(key, OrderedValue(value=value))
        version = before.at + 1
        expires = ttl_ms > 0 or session != b""
        expiry = Expiry(ttl_ms=ttl_ms, since=version, session=session) if expires else None
        return self.replace(key, OrderedValue(value=value, version=version, expiry=expiry))

    def keep(self, key: bytes, value: bytes) -> OrderedValue:
        """A new version with the expiry of the one before it."""
        expiry = self.get(key).expiry
        after = self.set(key, value)
        if expiry is None:
            return after
        return self.replace(key, OrderedValue(value=value, version=after.version, expiry=expiry))

    def replace(self, key: bytes, held: OrderedValue) -> OrderedValue:
        self.written[key] = held
        return held


def execute_command(command: Command, state: ExecutionState) -> list[Executed]:
    """Its transactions in their order: each sees the effects of those before it, and has a result of its own."""
    state.versioned = command.versioned
    return [execute(txn, state) for txn in command.txns]


def execute(txn: Txn, state: ExecutionState) -> Executed:
    for each in txn.imports:
        import_value(each, state)
    compared = tuple([state.get(compare.key) for compare in txn.compares])
    reads = tuple([state.get(key) for key in txn.reads])
    succeeded = all(compare.holds(held) for compare, held in zip(txn.compares, compared, strict=True))
    operations = txn.then if succeeded else txn.otherwise
    done = tuple([perform(operation, state) for operation in operations])
    return Executed(succeeded=succeeded, compared=compared, done=done, reads=reads)


def import_value(each: Import, state: ExecutionState) -> None:
    """A row, also that of a deleted value, is newer than the hand-over."""
    if state.get(each.key) == NO_ROW:
        state.replace(each.key, each.held)


def perform(operation: Operation, state: ExecutionState) -> Done:
    before = state.get(operation.key)
    if before.immutable and not isinstance(operation, Get):
        return Done(value=before.value, version=before.at, wrong=Wrong.IMMUTABLE)
    after = before
    match operation:
        case Get():
            pass
        case Put(keep_expiry=True):
            after = state.keep(operation.key, operation.value)
        case Put():
            after = state.set(operation.key, operation.value, operation.ttl_ms, operation.session)
        case Delete():
            after = delete(operation.key, before, state)
        case Expire():
            after = delete(operation.key, before, state) if before.at == operation.version else before
        case Add():
            return add(operation, before, state)
        case _:
            assert_never(operation)
    return Done(value=before.value, version=after.at)


def delete(key: bytes, before: OrderedValue, state: ExecutionState) -> OrderedValue:
    return before if before.value is None else state.set(key, None)


def add(operation: Add, before: OrderedValue, state: ExecutionState) -> Done:
    number = integer_of(before.value)
    if number is None:
        return Done(value=before.value, version=before.at, wrong=Wrong.NOT_A_NUMBER)
    result = number - operation.amount if operation.negative else number + operation.amount
    if not LEAST <= result <= MOST:
        return Done(value=before.value, version=before.at, wrong=Wrong.OVERFLOW)
    value = b"%d" % result
    if before.value is None:
        after = state.set(operation.key, value, operation.ttl_ms)
    else:
        after = state.keep(operation.key, value)
    return Done(value=value, version=after.at)
