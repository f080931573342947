"""From a seed to a plan.

Swarm testing: each seed draws its own cluster, its own workload and its own few kinds of fault, so that rare
combinations come up and common ones do not hide them. Every fourth seed aims at crash points instead
(`plans/crash_points.py`), and every fourteenth at disks that are not what they were (`plans/disk_copies.py`). The
workload with many clients on few keys has plans of its own (`plans/hot.py`).
"""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Ask, ClientPlan, Fault, FaultKind, Plan, Step, Weather, has_embedded_store, sends_early
from epoxy_sim.keys.plans.crash_points import crash_points
from epoxy_sim.keys.plans.disk_copies import disk_copies, has_disk_copies
from epoxy_sim.keys.plans.early_accepts import early_accepts, has_early_accepts
from epoxy_sim.keys.plans.hot import HOT_ASKS, hot

POLLS = 20
SIZES = (1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 6, 7, 8, 9)
"""Three and five are what people run; every size must work."""

IMMUTABLE_ASKS = (Ask.RESERVE, Ask.RESERVE, Ask.RESERVE, Ask.READ, Ask.READ)
MUTABLE_ASKS = (Ask.PUT, Ask.EXCHANGE, Ask.SWAP, Ask.INCREMENT, Ask.COUNT, Ask.DELETE, Ask.READ, Ask.READ, Ask.RESERVE)
HOT = "hot"
WORKLOADS = {"per-key": IMMUTABLE_ASKS, "mutable": MUTABLE_ASKS, HOT: HOT_ASKS}

LENT_EVERY, LENT = 7, {"mutable": 2, HOT: 0}
"""In one plan of so many some values have an expiry: which seeds those are."""

LENT_ASKS = {
    Ask.PUT: (Ask.PUT, Ask.LEND, Ask.CREATE, Ask.KEEP),
    Ask.EXCHANGE: (Ask.EXCHANGE, Ask.TOUCH, Ask.TOUCH),
    Ask.COUNT: (Ask.CREATE, Ask.LEND),
    Ask.RESERVE: (Ask.CREATE,),
}

READS = (Consistency.LINEARIZABLE, Consistency.LINEARIZABLE, Consistency.OPTIMISTIC, Consistency.SKIP_CACHE)


def generate(seed: int, workload: str, *, n: int | None = None, policy: QuorumPolicy | None = None) -> Plan:
    if workload == HOT:
        plan = hot(seed, n, policy)
    elif has_disk_copies(seed) and (n is None or n > 2):
        plan = disk_copies(seed, workload, n, policy)
    elif has_early_accepts(seed) and (n is None or n > 2):
        plan = early_accepts(seed, workload, n, policy)
    else:
        plan = (crash_points if seed % 4 == 3 else swarm)(seed, workload, n, policy)
    if seed % LENT_EVERY == LENT.get(workload):
        plan = with_expiries(plan)
    timing = with_near(plan.timing, plan.n, seed)
    return replace(plan, embedded=has_embedded_store(seed), timing=timing, early=plan.early or sends_early(seed))


def with_expiries(plan: Plan) -> Plan:
    """Some writes create, give an expiry, keep one or touch a value instead."""
    dice = Random(f"lent/{plan.seed}")

    def changed(step: Step) -> Step:
        return replace(step, ask=dice.choice(LENT_ASKS[step.ask])) if step.ask in LENT_ASKS else step

    clients = (replace(client, steps=tuple(map(changed, client.steps))) for client in plan.clients)
    return replace(plan, clients=tuple(clients))


def swarm(seed: int, workload: str, n: int | None, policy: QuorumPolicy | None) -> Plan:
    dice = Random(f"plan/{workload}/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    faults_end_us = dice.randrange(1_000_000, 6_000_000)
    slowest = dice.choice((2.0, 20.0, 100.0))
    return Plan(
        seed=seed,
        n=size,
        policy=policy if policy is not None else dice.choice(tuple(QuorumPolicy)),
        timing=draw_timing(dice, slowest),
        places=tuple(slowest * dice.choice((0.0, dice.random(), 1.0)) for _ in range(size)),
        weather=draw_weather(dice),
        skew=tuple(dice.choice((1.0, 1.0, dice.uniform(0.8, 1.25))) for _ in range(size)),
        faults_end_us=faults_end_us,
        clients=draw_clients(dice, workload, size, faults_end_us, int(slowest * 1000)),
        faults=draw_faults(dice, size, faults_end_us),
        encoded=seed % 8 == 0,
    )


def draw_timing(dice: Random, slowest_ms: float) -> Timing:
    """Timers range from much too short to long: safety must not depend on them."""
    return Timing(
        hedge_ms=slowest_ms * dice.choice((0.5, 1, 2, 4, 8)), round_timeout_ms=slowest_ms * dice.choice((3, 6, 10))
    )


def with_near(timing: Timing, n: int, seed: int) -> Timing:
    """In half of the runs reads ask some quorum first, near or not, and the others after a hedge."""
    dice = Random(f"near/{seed}")
    near = tuple(dice.sample(range(1, n + 1), k=n)) if dice.random() < 0.5 else ()
    return replace(timing, near=near, read_hedge_ms=timing.hedge_ms * dice.choice((0.1, 0.5, 1)))


def draw_weather(dice: Random) -> Weather:
    return Weather(
        loss=dice.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
        commit_loss=dice.choice((0.0, 0.0, 0.3, 0.8, 1.0)),
        duplicate=dice.choice((0.0, 0.05, 0.2)),
        long_delay=dice.choice((0.0, 0.02, 0.1)),
        jitter=dice.choice((0.05, 0.5, 3.0)),
    )


def draw_clients(dice: Random, workload: str, n: int, until_us: int, slowest_us: int) -> tuple[ClientPlan, ...]:
    """A client in every datacenter, or only two to four: few rivals make clear collisions. They ask at about the same
    time, each time for a fresh key, or for the same few keys."""
    asks = dice.sample(WORKLOADS[workload], k=dice.randint(2, len(WORKLOADS[workload])))
    steps = dice.randint(2, 6)
    keys = dice.choice((1, 2, 4, steps))
    fresh = dice.random() < 0.5
    pace_us = until_us // (steps + 1)
    apart_us = dice.choice((100, slowest_us, 3 * slowest_us, pace_us))
    homes = dice.choice((list(range(1, n + 1)), [dice.randint(1, n) for _ in range(dice.randint(2, 4))]))
    clients = [
        ClientPlan(
            home=home,
            steps=tuple(
                draw_step(
                    dice,
                    asks,
                    at_us=i * pace_us + dice.randrange(apart_us),
                    key=i % keys if fresh else dice.randrange(keys),
                    value=client * 100 + i,
                )
                for i in range(steps)
            ),
        )
        for client, home in enumerate(homes, start=1)
    ]
    if dice.random() < 0.2:
        clients.append(draw_poller(dice, n, keys, slowest_us))
    return tuple(clients)


def draw_step(dice: Random, asks: list[Ask], *, at_us: int, key: int, value: int) -> Step:
    """Sometimes two clients write the same value: an equal value is not the same write."""
    return Step(
        at_us=at_us,
        ask=dice.choice(asks),
        key=key,
        value=7 if dice.random() < 0.1 else value,
        consistency=dice.choice(READS),
    )


def draw_poller(dice: Random, n: int, keys: int, slowest_us: int) -> ClientPlan:
    """A reader that asks its own datacenter often enough to read between any two events."""
    key, every_us = dice.randrange(keys), slowest_us // dice.choice((5, 20))
    steps = (Step(at_us=i * every_us, ask=Ask.READ, key=key, value=0) for i in range(POLLS))
    return ClientPlan(home=dice.randint(1, n), steps=tuple(steps))


def draw_faults(dice: Random, n: int, until_us: int) -> tuple[Fault, ...]:
    kinds = dice.sample(sorted(EPISODES), k=dice.randint(0, 3))
    faults: list[Fault] = []
    for kind in kinds:
        for _ in range(dice.randint(1, 3)):
            faults.extend(draw_episode(dice, kind, n, until_us))
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


EPISODES = {
    "crash": (FaultKind.CRASH, FaultKind.RESTART),
    "partition": (FaultKind.PARTITION, FaultKind.HEAL),
    "one-way": (FaultKind.ONE_WAY, FaultKind.HEAL),
    "pause": (FaultKind.PAUSE, FaultKind.RESUME),
    "slow-disk": (FaultKind.SLOW_DISK, FaultKind.FAST_DISK),
    "disk-full": (FaultKind.DISK_FULL, FaultKind.RESTART),
    "fsync-fails": (FaultKind.FSYNC_FAILS, FaultKind.RESTART),
    "crash-on-answer": (FaultKind.CRASH_ON_ANSWER, FaultKind.RESTART),
    "crash-on-send": (FaultKind.CRASH_ON_SEND, FaultKind.RESTART),
}


def draw_episode(dice: Random, kind: str, n: int, until_us: int) -> tuple[Fault, Fault]:
    """A fault and its end, which may come very soon: many bugs hide in the first milliseconds after a restart."""
    begins, ends = EPISODES[kind]
    at_us = dice.choice((0, dice.randrange(until_us), dice.randrange(until_us)))
    lasts_us = dice.choice((dice.randrange(20_000), dice.randrange(until_us)))
    many = dice.randint(1, n // 2 + 1) if dice.random() < 0.3 else 1
    machines = tuple(sorted(dice.sample(range(1, n + 1), k=min(n, many))))
    keep = dice.choice((0.0, 0.0, dice.random(), 1.0))
    return (
        Fault(at_us=at_us, kind=begins, machines=machines, keep=keep, count=dice.choice((1, 1, 2, 3, 5, 9))),
        Fault(at_us=min(until_us, at_us + lasts_us), kind=ends, machines=machines),
    )
