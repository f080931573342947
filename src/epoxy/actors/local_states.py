"""States that stay in this datacenter: rows of its store, under versions as keys of the cluster have them.

(4, STATE, id)   the version in eight bytes, and the record
"""

from collections.abc import Callable

from epoxy.codec.tuple import pack
from epoxy.model.actors import ACTOR_ROWS
from epoxy.model.homes import STATE_KEYS
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import (
    Committed,
    ExpectedValueDoesNotMatch,
    NothingToDelete,
    Outcome,
    Path,
    ReadResult,
    Source,
    VersionMismatch,
    Write,
)
from epoxy.ports import Snapshot, Store, Transaction

STATE = pack((ACTOR_ROWS, 5))
VERSION_BYTES = 8


class LocalStates:
    """Takes the writes that states need: saves, raises, the first one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def peek(self, key: bytes) -> ReadResult | None:
        here = read(self._store.durable(), key)
        return None if here is None else ReadResult(committed=here, source=Source.LOCAL)

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        outcome = self._store.transact(lambda tx: evaluate(tx, write))
        self._store.when_durable(lambda: answered(outcome))


def evaluate(tx: Transaction, write: Write) -> Outcome:
    here = read(tx, write.key)
    if write.if_version is not None and write.if_version != (here.version if here is not None else 0):
        return VersionMismatch(committed=here, path=Path.LOCAL)
    if write.if_absent and here is not None:
        return ExpectedValueDoesNotMatch(committed=here, path=Path.LOCAL)
    value = here.value if write.touch and here is not None else write.value
    if value is None:
        return NothingToDelete(committed=here, path=Path.LOCAL)
    after = proposal((here.version if here is not None else 0) + 1, value)
    tx.set(row(write.key), after.version.to_bytes(VERSION_BYTES, "big") + value)
    return Committed(proposal=after, mine=True, path=Path.LOCAL, previous=here)


def read(view: Snapshot, key: bytes) -> Proposal | None:
    found = view.get(row(key))
    if found is None:
        return None
    return proposal(int.from_bytes(found[:VERSION_BYTES], "big"), found[VERSION_BYTES:])


def proposal(version: int, value: bytes) -> Proposal:
    return Proposal(value=value, version=version, mutable=True, proposal_id=ProposalId(0, version))


def row(key: bytes) -> bytes:
    return row_of(key[len(STATE_KEYS) :])


def row_of(actor_id: bytes) -> bytes:
    return STATE + pack((actor_id,))
