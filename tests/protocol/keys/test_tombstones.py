"""Why a tombstone stays (decision 0040): what the rules do at a replica that has it, and at one that forgot it."""

from epoxy.model.ballot import fast_ballot
from epoxy.model.messages import AcceptOk, AlreadyCommitted, CommitOk, StaleCommit
from epoxy.model.records import FRESH, KeyState, Settled
from epoxy.protocol.keys.acceptor import step
from tests.protocol.keys.harness import A, B, accept, commit, config_of, prop

CONFIG = config_of()
VALUE, TOMBSTONE = prop(b"x", 1, by=A, mutable=True), prop(None, 2, by=B, mutable=True)
DELETED = KeyState(committed=TOMBSTONE, lineage=(Settled(1, VALUE.proposal_id),))


def test_a_late_commit_is_stale_as_long_as_the_tombstone_is_there() -> None:
    assert step(DELETED, commit(VALUE), CONFIG) == (DELETED, StaleCommit(version=TOMBSTONE.version))
    state, reply = step(FRESH, commit(VALUE), CONFIG)
    assert isinstance(reply, CommitOk)
    assert state.committed == VALUE, "the deleted value is back"


def test_a_late_vote_is_refused_as_long_as_the_tombstone_is_there() -> None:
    """The versions of a key rise, so that a compare-and-set never meets a version twice."""
    late = accept(prop(b"y", 1, by=B, mutable=True), fast_ballot(B))
    _, reply = step(DELETED, late, CONFIG)
    assert isinstance(reply, AlreadyCommitted)
    _, reply = step(FRESH, late, CONFIG)
    assert isinstance(reply, AcceptOk), "version 1 is decided a second time"
