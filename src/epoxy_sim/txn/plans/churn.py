"""Plans in which members change while clients go on."""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy_sim.keys.generate import draw_faults, draw_timing, draw_weather
from epoxy_sim.keys.plan import Fault, FaultKind
from epoxy_sim.txn.plan import TxnMembersChange, TxnPlan
from epoxy_sim.txn.workload import draw_clients

Members = tuple[int, ...]

THREE, FIVE = (1, 2, 3), (1, 2, 3, 4, 5)

CHANGES: tuple[tuple[Members, tuple[Members, ...]], ...] = (
    (THREE, (FIVE,)),
    ((1, 2, 3, 4), (FIVE,)),
    ((1,), (THREE,)),
    (THREE, ((3, 4, 5),)),
    (THREE, ((1, 2, 4),)),
    (FIVE, (THREE,)),
    (FIVE, ((1, 2, 3, 4, 6),)),
    (THREE, (FIVE, (2, 3, 4))),
    (THREE, (FIVE, THREE)),
    (THREE, ((1, 2), THREE)),
    (THREE, ((1, 4, 5), (1, 2, 3), (2, 3, 4))),
    (FIVE, ((1, 2, 3, 4), FIVE, (1, 2, 3, 5))),
)
"""The first members, and those asked for one after the other."""

EXILES = 64
"""In one of so many seeds a member is cut off, removed, and added again without a restart."""


def churn(seed: int) -> TxnPlan:
    return exile(seed) if seed % EXILES == EXILES - 20 else drawn(seed)


def exile(seed: int) -> TxnPlan:
    """The member has transactions under way when it is cut off, which the others decide without it."""
    dice = Random(f"ordered-exile/{seed}")
    plan = drawn(seed)
    lost = dice.choice(THREE)
    rest = tuple(i for i in THREE if i != lost)
    cut_us = dice.randrange(20_000, 200_000)
    faults = (
        Fault(at_us=cut_us, kind=FaultKind.PARTITION, machines=(lost,)),
        Fault(at_us=cut_us + 600_000, kind=FaultKind.HEAL, machines=()),
    )
    timing = draw_timing(dice, 20.0)
    clients = draw_clients(dice, len(THREE), cut_us, 20_000)
    return replace(
        plan,
        n=len(THREE),
        founders=THREE,
        timing=timing,
        places=(1.0, 1.0, 20.0),
        skew=(1.0,) * len(THREE),
        faults=faults,
        recover_ms=timing.round_timeout_ms,
        catchup_ms=timing.round_timeout_ms,
        clients=(*clients, *(replace(client, home=lost) for client in clients)),
        changes=(
            TxnMembersChange(at_us=cut_us + 100_000, members=rest),
            TxnMembersChange(at_us=cut_us + 500_000, members=THREE),
        ),
        hearing=1.0,
        deaf=(),
    )


def drawn(seed: int) -> TxnPlan:
    dice = Random(f"ordered-changing/{seed}")
    founders, wanted = dice.choice(CHANGES)
    n = max(max(members) for members in (founders, *wanted))
    until_us = dice.randrange(800_000, 3_000_000)
    slowest = dice.choice((2.0, 20.0, 50.0))
    timing = draw_timing(dice, slowest)
    return TxnPlan(
        seed=seed,
        n=n,
        founders=founders,
        policy=dice.choice(tuple(QuorumPolicy)),
        timing=timing,
        places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(n)),
        weather=draw_weather(dice),
        skew=tuple(dice.choice((1.0, 1.0, dice.uniform(0.8, 1.25))) for _ in range(n)),
        faults_end_us=until_us,
        faults=draw_absence(dice, founders, wanted, until_us) or draw_faults(dice, n, until_us),
        encoded=seed % 32 == 4,
        recover_ms=timing.round_timeout_ms * dice.choice((0.5, 1.0, 2.0)),
        catchup_ms=timing.round_timeout_ms * dice.choice((0.5, 5.0, 50.0)),
        clients=draw_clients(dice, n, until_us, int(slowest * 1000)),
        changes=draw_changes(dice, founders, wanted, until_us),
        hearing=dice.choice((1.0, 0.5, 0.1)),
        deaf=(dice.choice(founders),) if dice.random() < 0.3 else (),
    )


def draw_absence(dice: Random, founders: Members, wanted: tuple[Members, ...], until_us: int) -> tuple[Fault, ...]:
    """In some plans the only fault is this: one member that stays is down, from early on, until faults end."""
    stays = sorted(set(founders).intersection(*wanted))
    if len(founders) < len(THREE) or not stays or dice.random() < 0.6:
        return ()
    at_us = dice.randrange(until_us // 2)
    return (Fault(at_us=at_us, kind=FaultKind.CRASH, machines=(dice.choice(stays),), keep=dice.random()),)


def draw_changes(
    dice: Random, founders: Members, wanted: tuple[Members, ...], until_us: int
) -> tuple[TxnMembersChange, ...]:
    """A member that left and comes back may have lost its disk."""
    changes: list[TxnMembersChange] = []
    before, known = set(founders), set(founders)
    pace_us = until_us // (len(wanted) + 1)
    for place, members in enumerate(wanted):
        back = sorted((set(members) - before) & known)
        given_up = dice.random() < 0.25
        changes.append(
            TxnMembersChange(
                at_us=place * pace_us + dice.randrange(pace_us),
                members=members,
                given_up=given_up,
                wiped=tuple(i for i in back if dice.random() < 0.5),
            )
        )
        known |= set(members)
        before = before if given_up else set(members)
    return tuple(changes)
