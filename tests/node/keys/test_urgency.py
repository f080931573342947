"""Which commits begin a sync of their own, and which share one."""

import pytest

from epoxy.model.ballot import fast_ballot
from epoxy.model.cluster import CONFIG_KEY
from epoxy.node.keys.urgency import ends, is_news, rides
from epoxy.protocol.keys.operations import Concluded, FastVote, Fold, Occupied, Select
from tests.protocol.keys.harness import KEY, A, accept, commit, prop

VOTED = FastVote(fold=Fold(proposal=prop(b"v"), answers=(), base=None))


def select(key: bytes = KEY, *, decides: bool = False) -> Select:
    return Select(key=key, writes=(), me=A, epoch=1, decides=decides)


def test_decisions_of_clients_keys_that_peers_tell_are_news() -> None:
    assert is_news(commit(prop(b"v")))
    assert not is_news(commit(prop(None, mutable=True)))
    assert not is_news(accept(prop(b"v"), fast_ballot(A)))


def test_a_value_without_an_expiry_does_not_end() -> None:
    assert not ends(prop(b"v"))
    assert not ends(None)


@pytest.mark.parametrize(
    ("op", "result", "early", "expected"),
    [
        (select(), VOTED, False, False),
        (select(), VOTED, True, True),
        (select(CONFIG_KEY), VOTED, True, False),
        (select(decides=True), VOTED, False, True),
        (select(), Occupied(0), True, False),
        (commit(prop(b"v")), Concluded(), True, False),
    ],
)
def test_the_own_vote_rides_if_accepts_leave_early_or_it_decides(
    op: Select, result: object, early: bool, expected: bool
) -> None:
    assert rides(op, result, early=early) is expected
