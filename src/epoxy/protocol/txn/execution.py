"""Executing commands on a state. Deterministic: the same state and command give the same results."""

from collections.abc import Callable
from typing import assert_never

from epoxy.model.instances import Command
from epoxy.model.integers import integer_of
from epoxy.model.transactions import LEAST, MOST, Add, Delete, Done, Executed, Get, Operation, Put, Txn, Wrong

Read = Callable[[bytes], bytes | None]
Values = dict[bytes, bytes | None]


class ExecutionState:
    """Stored values, and over them the values written since."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.written: Values = {}

    def get(self, key: bytes) -> bytes | None:
        return self.written[key] if key in self.written else self._read(key)

    def set(self, key: bytes, value: bytes | None) -> None:
        self.written[key] = value


def execute_command(command: Command, state: ExecutionState) -> list[Executed]:
    """Its transactions in their order: each sees the effects of those before it, and has a result of its own."""
    return [execute(txn, state) for txn in command.txns]


def execute(txn: Txn, state: ExecutionState) -> Executed:
    seen = tuple([state.get(compare.key) for compare in txn.compares])
    found = tuple([state.get(key) for key in txn.reads])
    succeeded = all(compare.holds(value) for compare, value in zip(txn.compares, seen, strict=True))
    operations = txn.then if succeeded else txn.otherwise
    done = tuple([perform(operation, state) for operation in operations])
    return Executed(succeeded=succeeded, seen=seen, done=done, found=found)


def perform(operation: Operation, state: ExecutionState) -> Done:
    before = state.get(operation.key)
    match operation:
        case Get():
            pass
        case Put():
            state.set(operation.key, operation.value)
        case Delete():
            state.set(operation.key, None)
        case Add():
            return add(operation, before, state)
        case _:
            assert_never(operation)
    return Done(value=before)


def add(operation: Add, before: bytes | None, state: ExecutionState) -> Done:
    number = integer_of(before)
    if number is None:
        return Done(value=before, wrong=Wrong.NOT_A_NUMBER)
    result = number - operation.amount if operation.negative else number + operation.amount
    if not LEAST <= result <= MOST:
        return Done(value=before, wrong=Wrong.OVERFLOW)
    after = b"%d" % result
    state.set(operation.key, after)
    return Done(value=after)
