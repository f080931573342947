"""How long a node waits, and whom it asks first: that follows the links."""

import msgspec

from epoxy.model.writes import Path as Way
from epoxy.node.service import MEASURE_AGAIN_MS, RETIME_EVERY_MS
from epoxy.node.timing import (
    LONGEST_BACKOFF_MS,
    LONGEST_HEDGE_MS,
    LONGEST_TURN_MS,
    RANKS,
    READ_HEDGE_MS,
    SHORTEST_BACKOFF_MS,
    SHORTEST_HEDGE_MS,
    SHORTEST_ROUND_MS,
    UNKNOWN_RTT_MS,
    USUAL_LAG_MS,
    rank,
)
from epoxy.protocol.effects import Timing
from tests.node.service_bench import World
from tests.protocol.keys.harness import A, B, C, D, E


def retimed(world: World, **rtts: float) -> Timing:
    world.links.rtts = {int(name[1:]): rtt for name, rtt in rtts.items()}
    world.clock.advance(RETIME_EVERY_MS)
    return world.node.driver.timing


def test_timers_follow_the_round_trips() -> None:
    world = World()
    timing = retimed(world, _2=70.0, _3=150.0)
    assert timing.hedge_ms == 1.5 * 150.0 + SHORTEST_HEDGE_MS
    assert timing.round_timeout_ms == max(SHORTEST_ROUND_MS, 2 * 150.0 + 4 * SHORTEST_HEDGE_MS)
    timing = retimed(world, _2=280.0, _3=300.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (475.0, 700.0)
    assert retimed(world, _2=70.0, _3=90.0).backoff_ms == 45.0


def test_timers_stay_within_bounds() -> None:
    world = World()
    timing = retimed(world, _2=0.0, _3=0.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (SHORTEST_HEDGE_MS, SHORTEST_ROUND_MS)
    assert timing.backoff_ms == SHORTEST_BACKOFF_MS
    timing = retimed(world, _2=5000.0, _3=5000.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (LONGEST_HEDGE_MS, 10_100.0)


def test_only_near_members_take_turns_with_transactions() -> None:
    world = World()
    for farthest, turn_ms in ((0.5, LONGEST_TURN_MS), (20.0, LONGEST_TURN_MS), (21.0, 0.0), (150.0, 0.0)):
        retimed(world, _2=0.3, _3=farthest)
        assert world.node.ordered.timing.turn_ms == turn_ms


def test_a_busy_cluster_is_not_taken_for_a_silent_one() -> None:
    world = World()
    for _ in range(10):
        world.node.latency.proposal_done("Committed", Way.FAST, 0.25)
    timing = retimed(world, _2=1.0, _3=1.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (750.0, 1500.0)
    timing = retimed(world, _2=1.0, _3=1.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (1.5 + SHORTEST_HEDGE_MS, SHORTEST_ROUND_MS)
    world.node.latency.proposal_done("Committed", Way.FAST, 60.0)
    timing = retimed(world, _2=1.0, _3=1.0)
    assert (timing.hedge_ms, timing.round_timeout_ms) == (LONGEST_HEDGE_MS, 2 * LONGEST_HEDGE_MS)


def test_whom_nobody_has_measured_may_be_far_away() -> None:
    world = World()
    unknown = Timing(
        hedge_ms=1.5 * UNKNOWN_RTT_MS + SHORTEST_HEDGE_MS,
        read_hedge_ms=READ_HEDGE_MS,
        round_timeout_ms=2 * UNKNOWN_RTT_MS + 100,
        backoff_ms=LONGEST_BACKOFF_MS,
    )
    assert world.node.driver.timing == unknown
    assert retimed(world, _2=1.0) == msgspec.structs.replace(
        unknown, near=(B,), read_hedge_ms=1.2 + READ_HEDGE_MS, rank=rank(1.0)
    )


def test_the_nearest_are_asked_first_and_only_those_who_are_there() -> None:
    world = World(5)
    assert retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=71.0).near == (D, B, E, C)
    world.links.silent = {D}
    assert retimed(world, _2=70.0, _3=150.0, _4=30.0).near == (B, C)


def test_the_hedge_of_a_read_follows_what_the_nearest_quorum_took_of_late() -> None:
    world = World(5)
    world.links.lags = {B: 10.0, C: 500.0}
    timing = retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=71.0)
    assert timing.near == (D, B, E, C)
    assert timing.read_hedge_ms == 1.2 * (70.0 + 10.0) + READ_HEDGE_MS
    world.links.lags = dict.fromkeys((B, C, D, E), 5000.0)
    timing = retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=71.0)
    assert timing.read_hedge_ms == timing.hedge_ms == LONGEST_HEDGE_MS


def test_a_slow_disk_makes_a_near_replica_a_far_one() -> None:
    world = World(5)
    world.links.lags = {D: USUAL_LAG_MS + 60.0}
    timing = retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=73.0)
    assert timing.near == (B, E, D, C)
    world.links.lags = {D: USUAL_LAG_MS + 300.0}
    timing = retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=73.0)
    assert timing.near == (B, E, C, D)
    assert timing.hedge_ms == 1.5 * 330.0 + SHORTEST_HEDGE_MS
    world.links.lags = {D: USUAL_LAG_MS}
    assert retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=73.0).near == (D, B, E, C)


def test_a_replica_with_a_slow_disk_is_not_its_own_nearest() -> None:
    world = World(5)
    world.node.longest_sync_ms = lambda: USUAL_LAG_MS
    assert A not in retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=73.0).near
    world.node.longest_sync_ms = lambda: 300.0
    assert retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=73.0).near == (D, B, E, C, A)
    assert world.node.driver.plan().asked == (D, B, E)


def test_a_replica_that_owes_an_answer_for_too_long_is_asked_last() -> None:
    world = World(5)
    hedge = retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=73.0).read_hedge_ms
    world.links.waits = {B: hedge}
    world.node.driver.silence()
    assert world.node.driver.timing.near == (D, B, E, C), "it was looked at a moment ago"
    world.clock.advance(MEASURE_AGAIN_MS)
    world.node.driver.silence()
    assert world.node.driver.timing.near == (D, E, C, B)
    assert world.node.read_hedges == 2
    world.links.waits = {B: 80.0}
    assert retimed(world, _2=70.0, _3=150.0, _4=30.0, _5=73.0).near == (D, B, E, C)


def test_neighbours_of_one_distance_take_turns() -> None:
    world = World(3)
    world.node.me = B
    assert retimed(world, _1=0.3, _3=0.4).near == (C, A)


def test_the_flow_under_way_keeps_its_timers_and_the_next_has_the_new() -> None:
    world = World()
    world.write(b"a")
    world.disk.sync()
    hedge = world.clock.now + world.node.driver.timing.hedge_ms
    assert hedge in world.clock.pending
    retimed(world, _2=1.0, _3=1.0)
    world.write(b"b")
    world.disk.sync()
    assert world.clock.now + 1.5 + SHORTEST_HEDGE_MS in world.clock.pending


def test_the_nearer_a_quorum_is_the_higher_is_the_rank() -> None:
    ranks = [rank(floor) for floor in (0.0, 2.0, 72.5, 100.9, 127.3, 152.4, 180.3)]
    assert ranks == sorted(set(ranks), reverse=True), "each of five regions has its own"
    assert ranks[0] == RANKS
    assert (rank(5_000.0), rank(None)) == (0, 0), "far, or not known"
    assert retimed(World(3), _2=72.5, _3=100.9).rank == rank(72.5)
