"""Back-off, patience and addresses, as all flows have them."""

import pytest

from epoxy.model.cluster import first_epoch
from epoxy.protocol.effects import DOUBLINGS, Context, Timing
from epoxy.protocol.txn.effects import TxnTiming
from tests.protocol.keys.harness import FixedDice


def context(me: int = 1, *, timing: Timing = Timing(), uniform: float = 0.0) -> Context:  # noqa: B008
    return Context(me=me, config=first_epoch((1, 2, 3)), dice=FixedDice(uniform), timing=timing)


@pytest.mark.parametrize(
    ("attempt", "uniform", "expected"), [(0, 0.0, 5.0), (0, 1.0, 10.0), (3, 1.0, 80.0), (30, 1.0, 1000.0)]
)
def test_the_back_off_doubles_up_to_its_cap_and_is_at_least_half_of_that(
    attempt: int, uniform: float, expected: float
) -> None:
    assert context(uniform=uniform).backoff_ms(attempt) == expected


def test_a_round_has_more_time_after_each_failure_up_to_a_limit() -> None:
    times = [context().patient(failures).timing.round_timeout_ms for failures in range(4)]
    assert times == [1000.0, 2000.0, 4000.0, 4000.0]
    assert times[-1] == 1000.0 * 2**DOUBLINGS


def test_patience_changes_nothing_else_and_keeps_the_kind_of_timing() -> None:
    timing = TxnTiming(recover_ms=7.0, hedge_ms=3.0)
    assert context(timing=timing).patient(1).timing == TxnTiming(recover_ms=7.0, hedge_ms=3.0, round_timeout_ms=2000.0)
    assert TxnTiming().backoff_ms == 2 * Timing().backoff_ms


def test_addresses_leave_out_this_replica_and_those_that_have_answered() -> None:
    assert context(2).to_others("x") == {1: "x", 3: "x"}
    assert context(2).to_rest("x", {3}) == {1: "x"}


def test_a_replica_that_is_no_voter_has_no_vote() -> None:
    assert context(3).votes
    assert not context(4).votes
