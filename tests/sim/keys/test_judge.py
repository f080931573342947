"""Each rule of the judge fires on a literal bad sequence, and stays quiet on a good one."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from epoxy.model.ballot import Ballot
from epoxy.model.records import FRESH, Expiry, KeyState, Proposal, ProposalId, Vote
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Path,
    ReadFailed,
    ReadResult,
    Refused,
    Source,
    VersionMismatch,
)
from epoxy_sim.keys.judge import Judge
from epoxy_sim.simulation import Violation

A, B = 1, 2
K = b"k"


def prop(value: bytes | None, version: int = 1, *, by: int = A, mutable: bool = False) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(by, version))


def voted(value: bytes, ballot: Ballot, *, promised: Ballot | None = None, base: Proposal | None = None) -> KeyState:
    version = base.version + 1 if base is not None else 1
    vote = Vote(proposal=prop(value, version, mutable=base is not None), ballot=ballot, epoch=1)
    return KeyState(committed=base, vote=vote, promised=promised or (ballot if ballot.is_classic else Ballot(0, 0)))


def promised(counter: int, by: int = A, *, base: Proposal | None = None) -> KeyState:
    return KeyState(committed=base, promised=Ballot(counter, by))


def holding(proposal: Proposal) -> KeyState:
    return KeyState(committed=proposal)


FAST, SLOW2, SLOW3 = Ballot(1, A), Ballot(2, A), Ballot(3, B)
ONE, TWO = prop(b"1", 1, mutable=True), prop(b"2", 2, mutable=True)
NAME = prop(b"n")


def rule_of(accuse: Callable[[], None]) -> str:
    with pytest.raises(Violation) as caught:
        accuse()
    assert str(caught.value) == f"{caught.value.rule}: {caught.value.detail}"
    return caught.value.rule


GOOD_STEPS = [
    (FRESH, promised(2)),
    (promised(2), promised(3, B)),
    (promised(2), promised(2, B)),
    (FRESH, voted(b"x", FAST)),
    (voted(b"x", FAST), voted(b"x", FAST, promised=SLOW2)),
    (voted(b"x", FAST, promised=SLOW2), voted(b"y", SLOW2)),
    (voted(b"x", SLOW2), voted(b"y", SLOW3)),
    (voted(b"x", SLOW2), holding(NAME)),
    (promised(9), holding(ONE)),
    (holding(ONE), holding(TWO)),
    (promised(9, base=ONE), promised(2, base=TWO)),
    (holding(ONE), holding(prop(b"5", 5))),
]

BAD_STEPS = [
    ("promise falls", promised(3), promised(2)),
    ("promise falls", promised(2, B), promised(2, A)),
    ("promise falls", promised(2), FRESH),
    ("promise falls", voted(b"x", SLOW3), voted(b"x", SLOW2)),
    ("second vote", voted(b"x", FAST), voted(b"y", FAST)),
    ("second vote", voted(b"x", FAST), voted(b"x", Ballot(1, B))),
    ("second vote", voted(b"x", FAST), FRESH),
    ("second vote", voted(b"x", FAST), promised(2)),
    ("second vote", voted(b"x", SLOW2), voted(b"y", SLOW2)),
    ("second vote", voted(b"x", SLOW2, promised=SLOW3), voted(b"x", FAST, promised=SLOW3)),
    ("committed goes back", holding(TWO), holding(ONE)),
    ("committed goes back", holding(ONE), FRESH),
    ("committed goes back", holding(NAME), holding(TWO)),
    ("committed goes back", holding(NAME), holding(prop(b"other"))),
]


@pytest.mark.parametrize(("before", "after"), GOOD_STEPS)
def test_good_steps_pass(before: KeyState, after: KeyState) -> None:
    Judge().stepped(A, K, before, after)
    Judge().stepped(A, K, after, after)


@pytest.mark.parametrize(("rule", "before", "after"), BAD_STEPS)
def test_bad_steps_are_named(rule: str, before: KeyState, after: KeyState) -> None:
    assert rule_of(lambda: Judge().stepped(A, K, before, after)) == rule


def test_a_violation_says_where_and_what() -> None:
    with pytest.raises(Violation, match=r"promise falls: B, b'k': promised \(3,A\) became promised \(2,A\)"):
        Judge().stepped(B, K, promised(3), promised(2))


# Agreement


def test_one_instance_one_value_across_replicas() -> None:
    judge = Judge()
    judge.durable(A, K, holding(NAME))
    judge.durable(B, K, holding(NAME))
    judge.durable(B, b"another key", holding(prop(b"other")))
    assert rule_of(lambda: judge.durable(B, K, holding(prop(b"other")))) == "agreement"


def test_an_equal_value_of_another_write_is_another_value() -> None:
    judge = Judge()
    judge.durable(A, K, holding(NAME))
    assert rule_of(lambda: judge.durable(B, K, holding(prop(b"n", by=B)))) == "agreement"


def test_versions_are_judged_one_by_one() -> None:
    judge = Judge()
    for state in (holding(ONE), holding(TWO), promised(7, base=TWO)):
        judge.durable(A, K, state)
    judge.durable(B, K, holding(ONE))
    assert rule_of(lambda: judge.durable(B, K, holding(prop(b"x", 1, mutable=True)))) == "agreement"


def test_votes_and_promises_are_no_facts() -> None:
    judge = Judge()
    for replica, value in ((A, b"x"), (B, b"y")):
        judge.durable(replica, K, voted(value, FAST))
    judge.durable(A, K, holding(NAME))


OTHER = prop(b"other")
TOLD: list[Outcome] = [
    Committed(proposal=OTHER, mine=True, path=Path.FAST),
    Committed(proposal=OTHER, mine=False, path=Path.LOCAL),
    ExpectedValueDoesNotMatch(committed=OTHER, path=Path.SLOW),
    ImmutableKey(committed=OTHER, path=Path.LOCAL),
    VersionMismatch(committed=OTHER, path=Path.LOCAL),
    NothingToDelete(committed=prop(None, mutable=True), path=Path.SLOW),
    NotAnInteger(committed=OTHER, path=Path.SLOW, reason="a word"),
]


@pytest.mark.parametrize("outcome", TOLD, ids=lambda outcome: type(outcome).__name__)
def test_what_clients_are_told_is_evidence_too(outcome: Outcome) -> None:
    Judge().write_answered(K, "c1", outcome)
    judge = Judge()
    judge.durable(A, K, holding(NAME))
    assert rule_of(lambda: judge.write_answered(K, "c1", outcome)) == "agreement"


def test_what_readers_are_told_is_evidence_too() -> None:
    judge = Judge()
    judge.read_answered(K, "c1", ReadResult(committed=NAME, source=Source.CACHE))
    judge.read_answered(K, "c2", ReadResult(committed=None, source=Source.REMOTE))
    judge.read_answered(K, "c2", ReadFailed(reason="no quorum"))
    other = ReadResult(committed=OTHER, source=Source.QUORUM)
    assert rule_of(lambda: judge.read_answered(K, "c2", other)) == "agreement"


def test_a_value_that_ends_may_be_hidden_at_its_own_version() -> None:
    """Its tombstone is known to that replica, and not durable yet (found by `epoxy sim hot`, seed 8190)."""
    lent = replace(ONE, expiry=Expiry(ttl_ms=1_000, since=1))
    hidden = replace(ONE, value=None)
    of_another = replace(hidden, proposal_id=ProposalId(B, 9))
    judge = Judge()
    judge.durable(A, K, holding(lent))
    judge.read_answered(K, "c1", ReadResult(committed=hidden, source=Source.LOCAL))
    wrong = ReadResult(committed=of_another, source=Source.LOCAL)
    assert rule_of(lambda: judge.read_answered(K, "c1", wrong)) == "agreement"
    lasting = Judge()
    lasting.durable(A, K, holding(ONE))
    hides = ReadResult(committed=hidden, source=Source.LOCAL)
    assert rule_of(lambda: lasting.read_answered(K, "c1", hides)) == "agreement"


def test_failures_and_nothing_at_all_are_no_evidence() -> None:
    judge = Judge()
    judge.durable(A, K, holding(NAME))
    for outcome in (
        ConsensusFailed(reason="?"),
        Refused(reason="full"),
        VersionMismatch(committed=None, path=Path.SLOW),
        NothingToDelete(committed=None, path=Path.SLOW),
    ):
        judge.write_answered(K, "c1", outcome)


# Folds


def fold(last: int, *nonces: int, by: int = A) -> Proposal:
    """The writes with these nonces, the last of which has version `last`."""
    *folded, newest = [ProposalId(by, nonce) for nonce in nonces]
    return Proposal(value=b"v", version=last, mutable=True, proposal_id=newest, folded=tuple(folded))


def test_folds_on_one_another_are_good_and_counted() -> None:
    judge = Judge()
    for replica in (A, B):
        for decided in (fold(3, 1, 2, 3), fold(4, 4), fold(6, 5, 6)):
            judge.durable(replica, K, holding(decided))
    judge.durable(A, b"another key", holding(fold(1, 3)))
    assert judge.folds == {"folds": 2, "writes in folds": 5}


TWO_DECISIONS = {
    "agreement": [
        (fold(3, 1, 2, 3), fold(3, 1, 9, 3)),
        (fold(3, 1, 2, 3), fold(2, 1, 2)),
        (fold(3, 1, 2, 3), fold(1, 1)),
    ],
    "decisions overlap": [
        (fold(3, 1, 2, 3), fold(4, 3, 4)),
        (fold(4, 3, 4), fold(3, 1, 2, 3)),
        (fold(2, 1, 2), fold(2, 2)),
    ],
    "took effect twice": [
        (fold(1, 1), fold(2, 1)),
        (fold(3, 1, 2, 3), fold(5, 4, 2)),
        (fold(9, 8, 1), fold(1, 1)),
        (fold(2, 7, 7), fold(1, 7)),
    ],
}


@pytest.mark.parametrize(
    ("rule", "first", "second"), [(rule, *both) for rule, pairs in TWO_DECISIONS.items() for both in pairs]
)
def test_two_decisions_that_cannot_both_be(rule: str, first: Proposal, second: Proposal) -> None:
    def accuse() -> None:
        judge = Judge()
        judge.durable(A, K, holding(first))
        judge.durable(B, K, holding(second))

    assert rule_of(accuse) == rule


def test_the_winner_of_a_version_is_the_write_that_replicas_hold_there() -> None:
    judge = Judge()
    judge.durable(A, K, holding(fold(3, 1, 2, 3)))
    mine = Proposal(value=b"v2", version=2, mutable=True, proposal_id=ProposalId(A, 2))
    judge.write_answered(K, "c1", Committed(proposal=mine, mine=True, path=Path.FAST))
    other = Proposal(value=b"v1", version=1, mutable=True, proposal_id=ProposalId(A, 9))
    told = Committed(proposal=other, mine=True, path=Path.FAST)
    assert rule_of(lambda: judge.write_answered(K, "c2", told)) == "agreement"


def test_a_winner_that_replicas_hold_at_another_version_took_effect_twice() -> None:
    judge = Judge()
    mine = Proposal(value=b"v1", version=5, mutable=True, proposal_id=ProposalId(A, 2))
    judge.write_answered(K, "c1", Committed(proposal=mine, mine=True, path=Path.FAST))
    assert rule_of(lambda: judge.durable(A, K, holding(fold(3, 1, 2, 3)))) == "took effect twice"


def test_what_was_there_before_is_evidence_too() -> None:
    judge = Judge()
    judge.durable(A, K, holding(ONE))
    lie = prop(b"x", 1, mutable=True)
    told = Committed(proposal=TWO, mine=True, path=Path.FAST, previous=lie)
    assert rule_of(lambda: judge.write_answered(K, "c1", told)) == "agreement"


# Winners


def test_one_winner_for_each_version() -> None:
    judge = Judge()
    mine = Committed(proposal=ONE, mine=True, path=Path.FAST)
    judge.write_answered(K, "c1", mine)
    judge.write_answered(K, "c2", Committed(proposal=ONE, mine=False, path=Path.SLOW))
    judge.write_answered(K, "c2", Committed(proposal=TWO, mine=True, path=Path.SLOW))
    judge.write_answered(b"another key", "c2", mine)
    assert rule_of(lambda: judge.write_answered(K, "c2", mine)) == "two winners"


# Restarts


RESTARTS = [
    (promised(3), promised(3), None),
    (promised(3), promised(4), None),
    (promised(3), voted(b"x", SLOW3), None),
    (promised(3), holding(NAME), None),
    (voted(b"x", FAST), voted(b"x", FAST, promised=SLOW2), None),
    (voted(b"x", FAST), voted(b"y", SLOW2), None),
    (holding(ONE), holding(TWO), None),
    (holding(ONE), promised(2, base=ONE), None),
    (promised(3), promised(2), "durable state lost"),
    (promised(3), FRESH, "durable state lost"),
    (voted(b"x", FAST), FRESH, "durable state lost"),
    (voted(b"x", FAST), voted(b"y", FAST), "durable state lost"),
    (voted(b"x", FAST, promised=SLOW2), voted(b"x", FAST), "durable state lost"),
    (holding(TWO), holding(ONE), "durable state lost"),
    (holding(NAME), FRESH, "durable state lost"),
    (holding(NAME), holding(OTHER), "durable state lost"),
    (promised(9, base=TWO), holding(TWO), "durable state lost"),
]


@pytest.mark.parametrize(("known", "found", "rule"), RESTARTS)
def test_a_restarted_replica_knows_no_less(known: KeyState, found: KeyState, rule: str | None) -> None:
    judge = Judge()
    judge.durable(A, K, known)
    if rule is None:
        judge.started(A, lambda _: found)
    else:
        assert rule_of(lambda: judge.started(A, lambda _: found)) == rule


def test_what_was_never_durable_may_be_gone() -> None:
    judge = Judge()
    judge.stepped(A, K, FRESH, voted(b"x", FAST))
    judge.started(A, lambda _: FRESH)
    judge.durable(A, K, promised(2))
    judge.stepped(A, K, promised(2), promised(5))
    judge.started(A, lambda _: promised(2))


def test_everybody_is_compared_with_its_own_disk() -> None:
    judge = Judge()
    judge.durable(A, K, promised(5))
    judge.started(B, lambda _: FRESH)
    assert rule_of(lambda: judge.started(A, lambda _: FRESH)) == "durable state lost"


def test_what_a_restart_found_is_durable_from_then_on() -> None:
    judge = Judge()
    judge.durable(A, K, promised(2))
    judge.started(A, lambda _: promised(5))
    assert rule_of(lambda: judge.started(A, lambda _: promised(2))) == "durable state lost"


def test_a_commit_that_a_crash_left_on_the_disk_is_a_fact_too() -> None:
    judge = Judge()
    judge.durable(A, K, promised(2))
    judge.durable(B, K, holding(NAME))
    assert rule_of(lambda: judge.started(A, lambda _: holding(OTHER))) == "agreement"


def test_every_key_is_looked_at() -> None:
    judge = Judge()
    states = {b"1": promised(2), b"2": holding(NAME), b"3": voted(b"x", FAST)}
    for key, state in states.items():
        judge.durable(A, key, state)
    judge.started(A, states.__getitem__)
    for key in states:
        assert rule_of(lambda: judge.started(A, ({**states, key: FRESH}).__getitem__)) == "durable state lost"  # noqa: B023


def test_an_alarm_is_a_violation() -> None:
    assert rule_of(lambda: Judge().alarm("two values for one instance")) == "alarm"
