"""Rows of states that stay in their datacenter, as durable as every row."""

from epoxy.actors.local_states import LocalStates, row_of
from epoxy.actors.states import first_write, raise_of
from epoxy.model.homes import state_key
from epoxy.model.writes import (
    Committed,
    ExpectedValueDoesNotMatch,
    NothingToDelete,
    Outcome,
    VersionMismatch,
    Write,
)
from epoxy.store.memory import MemoryStore
from tests.actors.test_states import ID, actor

KEY = state_key(ID)


def test_versions_rise_as_those_of_keys_do() -> None:
    store = MemoryStore()
    local = LocalStates(store)
    told: list[Outcome] = []
    for write in (
        raise_of(actor()),
        Write(key=KEY, value=b"a", mutable=True, if_version=0),
        Write(key=KEY, value=b"b", mutable=True, if_version=0),
        raise_of(actor()),
        Write(key=KEY, value=b"b", mutable=True, if_version=1),
        Write(key=KEY, value=b"c", mutable=True, if_version=2),
        first_write(actor()),
    ):
        local.write(write, told.append)
    assert [type(outcome) for outcome in told] == [
        NothingToDelete,
        Committed,
        VersionMismatch,
        Committed,
        VersionMismatch,
        Committed,
        ExpectedValueDoesNotMatch,
    ]
    here = local.peek(KEY)
    assert here is not None
    assert here.committed is not None
    assert (here.committed.version, here.value) == (3, b"c")
    store.transact(lambda tx: tx.clear(row_of(ID)))
    assert local.peek(KEY) is None


def test_nothing_is_said_before_it_is_durable() -> None:
    class Slow(MemoryStore):
        def when_durable(self, done: object, *, urgent: bool = True) -> None:  # noqa: ARG002
            waiting.append(done)

    waiting: list[object] = []
    told: list[Outcome] = []
    LocalStates(Slow()).write(first_write(actor()), told.append)
    assert (len(waiting), told) == (1, [])
