"""Owner hints follow the traffic, end by themselves, and are bounded."""

from epoxy.model.records import Proposal
from epoxy.node.keys.owners import HINT_MS, MAX_KEYS, SHARE_WRITES, TWICE_MS, Owners
from tests.protocol.keys.harness import KEY, A, B, C, prop


def by(home: int, version: int = 2) -> Proposal:
    return prop(b"x", version, by=home, mutable=True)


def test_two_wins_within_a_second_make_an_owner() -> None:
    owners = Owners(A)
    owners.won(KEY, B, 0.0)
    assert owners.of(KEY, 0.0) is None
    owners.won(KEY, B, TWICE_MS)
    assert owners.of(KEY, TWICE_MS) == B


def test_wins_far_apart_or_of_different_replicas_do_not() -> None:
    owners = Owners(A)
    owners.won(KEY, B, 0.0)
    owners.won(KEY, B, TWICE_MS + 1)
    assert owners.of(KEY, TWICE_MS + 1) is None
    owners.won(KEY, C, TWICE_MS + 2)
    assert owners.of(KEY, TWICE_MS + 2) is None


def test_a_win_of_this_replica_between_two_of_another_does_not_count_for_it() -> None:
    owners = Owners(A)
    for home in (B, A, B):
        owners.won(KEY, home, 0.0)
    assert owners.of(KEY, 0.0) is None


def test_the_replica_that_folded_counts_and_not_the_home_of_its_last_write() -> None:
    owners = Owners(A)
    carried = Proposal(value=b"x", version=2, mutable=True, proposal_id=by(A).proposal_id, proposer=B)
    owners.won(KEY, carried.home, 0.0)
    owners.won(KEY, carried.home, 1.0)
    assert owners.of(KEY, 1.0) == B


def test_a_hint_ends_by_itself_and_is_renewed_by_each_answer() -> None:
    owners = Owners(A)
    owners.believe(KEY, B, 0.0)
    owners.believe(KEY, B, HINT_MS - 1)
    assert owners.of(KEY, HINT_MS) == B
    assert owners.of(KEY, 2 * HINT_MS - 1) is None
    assert len(owners) == 0


def test_this_replica_is_no_hint() -> None:
    owners = Owners(A)
    owners.believe(KEY, B, 0.0)
    owners.believe(KEY, A, 0.0)
    assert owners.of(KEY, 0.0) is None


def test_the_oldest_hints_make_room() -> None:
    owners = Owners(A)
    for number in range(MAX_KEYS + 1):
        owners.believe(b"%d" % number, B, 0.0)
    assert len(owners) == MAX_KEYS
    assert [owners.of(key, 0.0) for key in (b"0", b"1")] == [None, B]


def test_a_key_moves_to_the_replica_that_most_writes_come_from() -> None:
    owners = Owners(A)
    assert owners.folded(KEY, [A, B] * (SHARE_WRITES // 2)) == A, "half of them are not most"
    assert owners.folded(KEY, [C] * (SHARE_WRITES - 1)) == A, "too few to tell"
    assert owners.folded(KEY, [C]) == C
    assert owners.folded(KEY, [A]) == A, "counted anew"
    assert owners.counts(KEY)


def test_even_shares_of_two_homes_do_not_move_a_key_by_chance() -> None:
    owners = Owners(A)
    assert not owners.counts(KEY)
    most = SHARE_WRITES * 2 // 3
    assert owners.folded(KEY, [B] * most + [A] * (SHARE_WRITES - most)) == A, "a little more than half"
    assert owners.counts(KEY)
    assert owners.folded(KEY, [B] * (most + 1) + [A] * (SHARE_WRITES - most - 1)) == B
