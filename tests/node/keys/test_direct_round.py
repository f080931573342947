"""What follows from a configuration for the rounds without a flow, and when it is computed."""

from epoxy.model.ballot import fast_ballot
from epoxy.node.keys.direct_round import RoundPlan
from epoxy.protocol.effects import Context, Timing
from tests.node.bench import Node, with_learner
from tests.protocol.keys.harness import A, B, C, D, FixedDice, config_of


def plan(n: int = 5, *, near: tuple[int, ...] = ()) -> RoundPlan:
    return RoundPlan(Context(me=A, config=config_of(n), dice=FixedDice(), timing=Timing(near=near)))


def test_a_write_asks_all_others_for_a_fast_quorum() -> None:
    five = plan()
    assert five.votes
    assert five.others == (B, C, D, 5)
    assert five.need == config_of(5).quorums.fast
    assert five.ballot == fast_ballot(A)


def test_a_read_asks_the_nearest_quorum_and_the_rest_after_a_hedge() -> None:
    near = plan(near=(D, C))
    assert (near.asked, near.spare, near.asked_ms) == ((A, D, C), (B, 5), near.timing.read_hedge_ms)


def test_a_read_asks_all_voters_if_it_is_not_known_which_are_near() -> None:
    far = plan(near=(D,))
    assert (far.asked, far.spare, far.asked_ms) == ((A, B, C, D, 5), (), far.timing.round_timeout_ms)


def test_learners_are_told_of_decisions_and_have_no_vote() -> None:
    learning = RoundPlan(Context(me=A, config=with_learner(), dice=FixedDice(), timing=Timing()))
    assert not learning.votes
    voter = RoundPlan(Context(me=B, config=with_learner(), dice=FixedDice(), timing=Timing()))
    assert A in voter.listeners
    assert A not in voter.others


def test_a_plan_is_kept_until_the_configuration_or_the_timing_is_another() -> None:
    node = Node()
    first = node.driver.plan()
    assert node.driver.plan() is first
    node.driver.timing = Timing(hedge_ms=1.0)
    second = node.driver.plan()
    assert second.timing.hedge_ms == 1.0
    node.replica.config = config_of(epoch=2)
    assert node.driver.plan().epoch == 2
