"""From a seed to a plan: swarms, crashes of coordinators, crowds, changes of members, disks that are not what they
were, and every other seed a walk without time."""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.keys.generate import draw_faults, draw_timing, draw_weather
from epoxy_sim.keys.plan import has_embedded_store
from epoxy_sim.txn.plan import AnyPlan, TxnPlan, WalkPlan
from epoxy_sim.txn.plans.churn import churn
from epoxy_sim.txn.plans.coordinator_crash import coordinator_crash
from epoxy_sim.txn.plans.crowd import crowd, has_crowd
from epoxy_sim.txn.plans.disk_copies import has_disk_copies, txn_disk_copies
from epoxy_sim.txn.workload import draw_clients

SIZES = (1, 2, 3, 3, 3, 4, 5, 5, 5, 6, 7)


def generate(seed: int, *, n: int | None = None) -> AnyPlan:
    """Members change in every eighth plan, unless `n` fixes their number."""
    if seed % 2:
        return WalkPlan(seed=seed, n=n)
    return replace(timed(seed, n), embedded=has_embedded_store(seed))


def timed(seed: int, n: int | None) -> TxnPlan:
    if has_disk_copies(seed) and (n is None or n > 2):
        return txn_disk_copies(seed, n)
    if has_crowd(seed):
        return crowd(seed, n)
    if seed % 4:
        return coordinator_crash(seed, n)
    return swarm(seed, n) if seed % 8 == 0 or n is not None else churn(seed)


def swarm(seed: int, n: int | None) -> TxnPlan:
    dice = Random(f"ordered/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    until_us = dice.randrange(500_000, 3_000_000)
    slowest = dice.choice((2.0, 20.0, 100.0))
    timing = draw_timing(dice, slowest)
    return TxnPlan(
        seed=seed,
        n=size,
        policy=dice.choice(tuple(QuorumPolicy)),
        timing=timing,
        places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(size)),
        weather=draw_weather(dice),
        skew=tuple(dice.choice((1.0, 1.0, dice.uniform(0.8, 1.25))) for _ in range(size)),
        faults_end_us=until_us,
        faults=draw_faults(dice, size, until_us),
        encoded=seed % 8 == 0,
        recover_ms=timing.round_timeout_ms * dice.choice((0.5, 1.0, 2.0)),
        catchup_ms=timing.round_timeout_ms * dice.choice((0.5, 5.0, 50.0)),
        clients=draw_clients(dice, size, until_us, int(slowest * 1000)),
    )
