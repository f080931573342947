"""Changes of the list of nodes: at random under any faults, and three plans with faults at the worst moments."""

from random import Random

from msgspec.structs import replace

from epoxy_sim.elect.plan import ElectFault, ElectPlan, Kind, Roll

OVERTAKEN = 0.1
"""Share of the changes in which a primary without a lease meets later votes. Drawn apart from the other plans, so that
their seeds kept their meaning when it was added."""


def changed(dice: Random, plan: ElectPlan) -> ElectPlan:
    """Of the others one in three is one of two special ones."""
    if Random(f"elect/overtaken/{plan.seed}").random() < OVERTAKEN:
        return overtaken(dice, plan)
    return dice.choice((with_rolls, with_rolls, with_rolls, with_rolls, left_behind, last_copy))(dice, plan)


def with_rolls(dice: Random, plan: ElectPlan) -> ElectPlan:
    """One or two changes of nodes, with the faults of the plan. A list of two survives no lost disk."""
    nodes, rolls = tuple(range(1, plan.n + 1)), []
    at_ms = plan.timing.down_after_ms
    for _ in range(dice.choice((1, 1, 2))):
        roll = draw_roll(dice, nodes, at_ms, plan)
        rolls.append(roll)
        nodes, at_ms = roll.nodes, roll.at_ms + plan.timing.down_after_ms
    small = min(plan.n, *(len(roll.nodes) for roll in rolls)) < 3
    more = max(plan.n, *(max(roll.nodes) for roll in rolls)) - plan.n
    return replace(
        plan,
        rolls=tuple(rolls),
        odd=0,
        faults=tuple(fault for fault in plan.faults if not (small and fault.kind is Kind.WIPE)),
        priorities=(*plan.priorities, *(100,) * more),
        skew=(*plan.skew, *(dice.uniform(0.99, 1.01) for _ in range(more))),
    )


def draw_roll(dice: Random, before: tuple[int, ...], at_ms: int, plan: ElectPlan) -> Roll:
    """Nodes join, leave, or both. A majority of the old list stays, or all of it but one. A node whose vote is still
    needed is not stopped before the change is over; a lost disk is loss enough."""
    wiped = any(fault.kind is Kind.WIPE for fault in plan.faults)
    most = max(1, len(before) - (len(before) // 2 + 1))
    leave = dice.sample(before, k=min(dice.choice((0, 1, 1, 2)), most, len(before) - 1))
    staying = [i for i in before if i not in leave]
    joining = dice.choice((0, 1, 1, 2)) if leave else dice.choice((1, 2))
    join = [i for i in range(1, 10) if i not in before][:joining]
    nodes = tuple(sorted([*staying, *join]))
    return Roll(
        at_ms=at_ms + dice.randrange(2 * plan.timing.down_after_ms),
        nodes=nodes,
        order=tuple(dice.sample(staying, k=len(staying))),
        gap_ms=int(plan.timing.down_after_ms * dice.choice((0.1, 0.3, 1.0, 1.5))),
        min_replicas=dice.choice((0, len(nodes) - len(nodes) // 2 - 1, len(nodes) - len(nodes) // 2 - 1)),
        stay=len(staying) <= len(before) // 2 or wiped or dice.random() < 0.3,
    )


def sized(plan: ElectPlan, n: int, machines: int) -> ElectPlan:
    """The same plan with `n` equal nodes on its first list, and this many machines."""
    fitting = (*plan.skew, *(1.0,) * machines)[:machines]
    return replace(plan, n=n, priorities=(100,) * machines, skew=fitting, odd=0, begun=False)


def left_behind(dice: Random, plan: ElectPlan) -> ElectPlan:
    """Five become three, and one of the three hears only the two that leave. With it these are a majority of the old
    list; without it the others are a majority of the new one."""
    down_ms = plan.timing.down_after_ms
    at_ms = 2 * down_ms + dice.randrange(down_ms)
    stays, apart = dice.sample((2, 3), k=2)
    gap_ms = int(dice.uniform(0.4, 1.2) * down_ms)
    roll = Roll(at_ms=at_ms, nodes=(1, 2, 3), order=(apart, stays, 1), gap_ms=gap_ms, min_replicas=0, stay=True)
    faults = (ElectFault(at_ms=at_ms + gap_ms - 1, kind=Kind.APART, target=(apart, 1, stays), for_ms=9 * down_ms),)
    return replace(
        sized(plan, 5, 5), rolls=(roll,), min_replicas=0, faults=faults, faults_end_ms=at_ms + gap_ms + 9 * down_ms
    )


def last_copy(dice: Random, plan: ElectPlan) -> ElectPlan:
    """One of three is replaced. The servers that stay lose their primary for a moment, the one that leaves does not;
    then the primary is lost."""
    down_ms = plan.timing.down_after_ms
    at_ms = 2 * down_ms
    gap_ms = int(dice.uniform(0.5, 1.5) * down_ms)
    roll = Roll(at_ms=at_ms, nodes=(1, 2, 4), order=(2, 1), gap_ms=gap_ms, min_replicas=1, stay=True)
    lonely_ms = at_ms + gap_ms + int(dice.uniform(0.0, 2.0) * down_ms)
    gone_ms = lonely_ms + int(dice.uniform(0.2, 0.6) * down_ms)
    faults = (
        ElectFault(at_ms=lonely_ms, kind=Kind.SERVER_CRASH, target=(1, 4), for_ms=down_ms),
        ElectFault(at_ms=gone_ms, kind=Kind.CRASH, target=(0,), for_ms=4 * down_ms),
    )
    return replace(
        sized(plan, 3, 4), rolls=(roll,), min_replicas=1, pace_ms=20, faults=faults, faults_end_ms=gone_ms + 5 * down_ms
    )


def overtaken(dice: Random, plan: ElectPlan) -> ElectPlan:
    """Four become six, and two of the six have no server yet, so the change is not over. The primary is cut off until
    a half of the nodes, which hears the others and is not heard, has voted in a later epoch. When the primary is back,
    with the other half it is a majority of the old list only; with the later voters, of the new one only."""
    down_ms = plan.timing.down_after_ms
    at_ms, gap_ms = 2 * down_ms, int(dice.uniform(0.2, 0.5) * down_ms)
    roll = Roll(at_ms=at_ms, nodes=(1, 2, 3, 4, 5, 6), order=(1, 2, 3, 4), gap_ms=gap_ms, min_replicas=1, stay=True)
    cut_ms = at_ms + 4 * gap_ms + int(dice.uniform(3.0, 5.0) * down_ms)
    away_ms = int(dice.uniform(1.3, 2.0) * down_ms)
    faults = (
        ElectFault(at_ms=at_ms + 1, kind=Kind.SERVER_CRASH, target=(5, 6), for_ms=cut_ms - at_ms),
        ElectFault(at_ms=cut_ms, kind=Kind.PARTITION, target=(0,), for_ms=away_ms),
        ElectFault(at_ms=cut_ms, kind=Kind.ONE_WAY, target=(4, 5, 6), for_ms=away_ms + down_ms // 2),
    )
    return replace(
        sized(plan, 4, 6),
        rolls=(roll,),
        priorities=(100, 0, 0, 100, 100, 100),
        min_replicas=1,
        faults=faults,
        faults_end_ms=cut_ms + away_ms + down_ms,
    )
