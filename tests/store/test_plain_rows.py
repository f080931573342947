"""Rows of encoded records are those that `Keyspace` makes of states."""

import pytest

from epoxy.codec import wire
from epoxy.codec.tuple import pack
from epoxy.model.ballot import Ballot
from epoxy.model.records import FRESH, KeyState, Proposal, ProposalId, Vote
from epoxy.store.keyspace import KV, LEGACY_LAYOUT, Keyspace
from epoxy.store.memory import MemoryStore
from epoxy.store.plain_rows import PlainRows

KEY = b"a\x00b"
PROPOSAL = Proposal(value=b"v", version=1, mutable=True, proposal_id=ProposalId(2, 1))
VOTE = Vote(proposal=PROPOSAL, ballot=Ballot(1, 2), epoch=1)
VOTED, DECIDED = KeyState(vote=VOTE), KeyState(committed=PROPOSAL)
RECORD, LOGGED = wire.encode_decision(KEY, PROPOSAL, ())


class Rows:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.keyspace = Keyspace(1)
        self.plain = PlainRows(self.keyspace)

    def hold(self, state: KeyState) -> None:
        self.store.transact(lambda tx: self.keyspace.save(tx, KEY, FRESH, state))


def test_a_vote_and_its_decision() -> None:
    rows = Rows()
    view = rows.store.newest()
    assert (rows.plain.voted(KEY, wire.encode_vote(VOTE)), None) == rows.keyspace.changes(view, KEY, FRESH, VOTED)
    decided = rows.plain.decided(view, KEY, RECORD, LOGGED, voted=True)
    assert decided == rows.keyspace.changes(view, KEY, VOTED, DECIDED)
    unvoted = rows.plain.decided(view, KEY, RECORD, LOGGED, voted=False)
    assert unvoted == rows.keyspace.changes(view, KEY, FRESH, DECIDED)


def test_a_decision_deletes_what_was_cached() -> None:
    rows = Rows()
    rows.store.transact(lambda tx: rows.keyspace.cache(tx, KEY, PROPOSAL))
    decided = rows.plain.decided(rows.store.newest(), KEY, RECORD, LOGGED, voted=True)
    assert decided == rows.keyspace.changes(rows.store.newest(), KEY, VOTED, DECIDED)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (FRESH, (None, None)),
        (VOTED, (None, wire.encode_vote(VOTE))),
        (DECIDED, (RECORD, None)),
        (KeyState(promised=Ballot(2, 2)), None),
    ],
)
def test_what_is_read(state: KeyState, expected: object) -> None:
    rows = Rows()
    rows.hold(state)
    assert rows.plain.read(rows.store.newest(), KEY) == expected


def test_a_store_with_values_of_the_first_layout_has_no_fresh_keys() -> None:
    rows = Rows()
    rows.store = MemoryStore(contents={pack((LEGACY_LAYOUT, 1, KV, b"other", 0)): b"old"})
    assert rows.plain.read(rows.store.newest(), KEY) is None
