"""Plans in which a disk is not what it was: an older copy of it is restored, a copy of it is started beside it, the
snapshot of a running machine is resumed, or syncs that were reported are lost.

Names are taken with the vote of that machine, then its disk goes back to before they were, and rivals ask for the same
names. In most plans the rest is cut off meanwhile, from all or from their home alone, and that home falls silent behind
its last acknowledgement: then the machine that went back decides.
"""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, Plan, Step, Weather

IMAGE_US, LAST_US, END_US = 300_000, 1_500_000, 4_000_000
"""When the image is taken, when the last name is taken, and when faults end. The image is older than a second when it
comes back, and each position was reported for longer than it takes to be remembered."""

TAKEN_US = (500_000, 900_000, LAST_US)
KINDS = (FaultKind.OLD_COPY, FaultKind.OLD_COPY, FaultKind.SNAPSHOT_RESUMED, FaultKind.LYING_SYNC, FaultKind.CLONE)


EVERY, WHICH = 14, 13
"""So many seeds have one such plan: those that no other kind of plan, and no known fault, depends on."""


def has_disk_copies(seed: int) -> bool:
    return seed % EVERY == WHICH


def disk_copies(seed: int, workload: str, n: int | None, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"copies/{workload}/{seed}")
    size = n if n is not None else dice.choice((3, 3, 3, 3, 5))
    home, struck, *rest = dice.sample(range(1, size + 1), k=size)
    kind = dice.choice(KINDS)
    back_us = dice.randrange(LAST_US + 50_000, LAST_US + 600_000)
    strict = kind is FaultKind.CLONE or dice.random() < 0.7
    rivals = draw_rivals(dice, kind, struck, tuple(rest), back_us)
    faults = copy_faults(dice, kind, home, struck, tuple(rest), back_us, strict=strict)
    return Plan(
        seed=seed,
        n=size,
        policy=policy if policy is not None else dice.choice((QuorumPolicy.OPTIMAL, *QuorumPolicy)),
        timing=Timing(hedge_ms=5.0, round_timeout_ms=20.0),
        places=tuple(dice.choice((0.0, 1.0, 3.0)) for _ in range(size)),
        weather=Weather(commit_loss=dice.choice((0.0, 1.0)), jitter=dice.choice((0.1, 1.0))),
        skew=(1.0,) * size,
        faults_end_us=END_US,
        clients=(taker(dice, workload, home), *rivals),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_us)),
        strict_start=strict,
        probes=True,
    )


def taker(dice: Random, workload: str, home: int) -> ClientPlan:
    asks = [Ask.RESERVE] if workload == "per-key" else [Ask.RESERVE, Ask.PUT]
    steps = (Step(at_us=at_us, ask=dice.choice(asks), key=key, value=1) for key, at_us in enumerate(TAKEN_US))
    return ClientPlan(home=home, steps=tuple(steps))


def draw_rivals(
    dice: Random, kind: FaultKind, struck: int, rest: tuple[int, ...], back_us: int
) -> tuple[ClientPlan, ...]:
    """At machines that may not know the names, and at the struck one; two of them there for a clone: one asks it, the
    other the original."""
    homes = (struck, struck, *rest[:1]) if kind is FaultKind.CLONE else (struck, *rest[:2])
    clients: list[ClientPlan] = []
    for number, home in enumerate(homes, start=2):
        at_us = back_us + dice.choice((10_000, 60_000, 150_000, 400_000)) + dice.randrange(3_000)
        read = Step(at_us=at_us, ask=Ask.READ, key=2, value=0, consistency=Consistency.LINEARIZABLE)
        names = [Step(at_us=at_us, ask=Ask.RESERVE, key=key, value=number) for key in (2, 1, 3, 4)]
        copy = kind is FaultKind.CLONE and number == 3
        clients.append(ClientPlan(home=home, copy=copy, steps=(*((read,) if dice.random() < 0.3 else ()), *names)))
    return tuple(clients)


def copy_faults(
    dice: Random, kind: FaultKind, home: int, struck: int, rest: tuple[int, ...], back_us: int, *, strict: bool
) -> tuple[Fault, ...]:
    """With strict starts, machines that do not know how far the struck one came may be the first it reaches."""
    if kind is FaultKind.CLONE:
        return clone_faults(dice, struck, (home, *rest), back_us)
    kept = FaultKind.LIE if kind is FaultKind.LYING_SYNC else FaultKind.IMAGE
    faults = [Fault(at_us=IMAGE_US, kind=kept, machines=(struck,))]
    if kept is FaultKind.IMAGE:
        for _, at_us in zip(range(dice.choice((0, 0, 1, 2))), (600_000, 1_000_000), strict=False):
            faults += restart(at_us, (struck,))
    if kind is FaultKind.OLD_COPY and not strict and dice.random() < 0.5:
        return (*faults, *refused_again(home, struck, rest, back_us))
    faults.append(Fault(at_us=back_us, kind=kind, machines=(struck,)))
    if dice.random() < 0.9:
        alone = strict and kind is not FaultKind.SNAPSHOT_RESUMED and dice.random() < 0.7
        cut = FaultKind.PARTITION if alone else FaultKind.CUT
        heal_us = back_us + dice.randrange(-3_000, 50_000)
        faults.append(Fault(at_us=100_000, kind=cut, machines=rest if alone else (home, *rest)))
        faults.append(Fault(at_us=heal_us, kind=FaultKind.HEAL, machines=rest))
    if dice.random() < 0.7:
        faults.append(Fault(at_us=LAST_US - 100_000, kind=FaultKind.CRASH_ON_ANSWER, machines=(home,)))
        faults.append(Fault(at_us=dice.randrange(back_us + 200_000, END_US), kind=FaultKind.RESTART, machines=(home,)))
    return tuple(faults)


def clone_faults(dice: Random, struck: int, others: tuple[int, ...], back_us: int) -> tuple[Fault, ...]:
    """A clone is told from a restart while the original is heard, so nothing else breaks then. Two copies of a machine
    that was down start at the same time; or the second later, after the others have restarted, and it greets them
    first: they must not have forgotten the first."""
    clone = Fault(at_us=back_us, kind=FaultKind.CLONE, machines=(struck,))
    if dice.random() < 0.4:
        return (clone,)
    stopped = Fault(at_us=back_us - 30_000, kind=FaultKind.CRASH, machines=(struck,))
    if dice.random() < 0.3:
        return stopped, clone
    again_us = back_us + dice.randrange(10_000, 200_000)
    return (
        stopped,
        Fault(at_us=back_us - 20_000, kind=FaultKind.IMAGE, machines=(struck,)),
        Fault(at_us=back_us, kind=FaultKind.RESTART, machines=(struck,)),
        Fault(at_us=again_us - 1_000, kind=FaultKind.PAUSE, machines=(struck,)),
        *restart(again_us, others),
        replace(clone, at_us=again_us + 25_000),
        Fault(at_us=again_us + 200_000, kind=FaultKind.RESUME, machines=(struck,)),
    )


def restart(at_us: int, machines: tuple[int, ...]) -> tuple[Fault, Fault]:
    down = Fault(at_us=at_us, kind=FaultKind.CRASH, machines=machines)
    return down, Fault(at_us=at_us + 20_000, kind=FaultKind.RESTART, machines=machines)


def refused_again(home: int, struck: int, rest: tuple[int, ...], back_us: int) -> tuple[Fault, ...]:
    """The machine that went back meets its witness, and is refused. Then it restarts, and meets only the others."""
    alone_us = back_us + 300_000
    return (
        Fault(at_us=100_000, kind=FaultKind.PARTITION, machines=rest),
        Fault(at_us=back_us, kind=FaultKind.OLD_COPY, machines=(struck,), sure=True),
        Fault(at_us=alone_us, kind=FaultKind.CRASH, machines=(home,)),
        *restart(alone_us, (struck,)),
        Fault(at_us=alone_us + 40_000, kind=FaultKind.HEAL, machines=rest),
    )
