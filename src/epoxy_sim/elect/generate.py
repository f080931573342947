"""A plan from a seed. Each has its own cluster, clocks, network and a few kinds of faults."""

from random import Random

from msgspec.structs import replace

from epoxy.protocol.elect.config import ElectTiming
from epoxy_sim.elect.plan import ElectFault, ElectPlan, ElectWeather, Kind
from epoxy_sim.elect.plans.fault_pairs import ambush
from epoxy_sim.elect.plans.rolling_restart import changed

SIZES = (1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 7)
"""Most clusters have three or five nodes."""

BABBLED = 0.3
"""Share of the seeds with encoded messages, which alone limit epochs to 64 bits."""

TAMPERED = 0.5
"""Share of the seeds with encoded messages and without a change of nodes in which a man in the middle touches some."""

AWAY = 0.5
"""Share of the seeds with three or more nodes and a past in which one of them was away for most of it."""

EPOCHS_AHEAD = (1_000, (1 << 32) - 5, 1 << 40, 1 << 62)
"""Two that one other node is believed, two that only a majority is."""

ROLLED = 5
"""One seed in this many has a change of nodes."""

KINDS = tuple(kind for kind in Kind if kind is not Kind.WIPE)


def generate(seed: int, *, n: int | None = None) -> ElectPlan:
    """Every other seed combines faults deliberately (`plans/fault_pairs.py`) instead of at random."""
    dice = Random(f"elect/plan/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    timing = draw_timing(dice)
    faults_end_ms = timing.down_after_ms * dice.randint(4, 12)
    ambushed = seed % 2 == 1 and size >= 3
    begun = dice.random() < 0.3
    plan = ElectPlan(
        seed=seed,
        n=size,
        timing=timing,
        min_replicas=dice.choice((0, size - size // 2 - 1, size - size // 2 - 1)),
        priorities=tuple(dice.choice((100, 100, 100, 50)) for _ in range(size)),
        weather=draw_weather(dice),
        skew=tuple(dice.choice((1.0, 0.99, 1.01, dice.uniform(0.99, 1.01))) for _ in range(size)),
        begun=begun,
        stranger=dice.random() < 0.1,
        odd=dice.choice((1, 2, 3)) if size >= 5 and begun and dice.random() < 0.5 else 0,
        sync_ms=dice.choice((1, 20, 500)),
        pace_ms=dice.choice((20, 50, 2 * timing.down_after_ms)),
        faults_end_ms=faults_end_ms,
        faults=(ambush if ambushed else draw_faults)(dice, size, timing, faults_end_ms),
        encoded=seed % 8 in (0, 1),
    )
    babble = Random(f"elect/babble/{seed}")
    if plan.encoded and babble.random() < BABBLED:
        plan = replace(plan, babble_ms=babble.randrange(1, faults_end_ms))
    away = Random(f"elect/away/{seed}")
    if plan.begun and not plan.odd and size >= 3 and away.random() < AWAY:
        plan = replace(plan, ahead=away.choice(EPOCHS_AHEAD))
    tap = Random(f"elect/tampering/{seed}")
    if plan.encoded and seed % ROLLED != ROLLED - 1 and tap.random() < TAMPERED:
        plan = replace(plan, weather=replace(plan.weather, tampering=tap.choice((0.01, 0.1))))
    return changed(Random(f"elect/rolls/{seed}"), plan) if seed % ROLLED == ROLLED - 1 and n is None else plan


def draw_timing(dice: Random) -> ElectTiming:
    """Short times: only their proportions matter, and a run should have many elections."""
    beat_ms = dice.choice((20, 40, 100))
    down_ms = beat_ms * dice.choice((5, 8, 25))
    lease_ms = max(2 * beat_ms + 1, down_ms * dice.choice((60, 75, 94)) // 100)
    return ElectTiming(
        hb_interval_ms=beat_ms,
        down_after_ms=down_ms,
        lease_ms=lease_ms,
        election_timeout_ms=max(beat_ms + 1, down_ms * dice.choice((30, 60)) // 100),
        election_backoff_min_ms=down_ms // 5,
        election_backoff_max_ms=down_ms,
    )


def draw_weather(dice: Random) -> ElectWeather:
    return ElectWeather(
        delay_us=dice.choice((100, 500, 5_000)),
        jitter=dice.choice((0.1, 1.0, 5.0)),
        loss=dice.choice((0.0, 0.0, 0.02, 0.1, 0.3)),
        slow_order=dice.choice((0.0, 0.1)),
    )


def draw_faults(dice: Random, n: int, timing: ElectTiming, until_ms: int) -> tuple[ElectFault, ...]:
    """At most one disk is lost in a run, as a cluster must survive. Faults come alone or in quick succession, and last
    a moment, about as long as the timeouts, or long."""
    kinds = dice.sample(KINDS, k=dice.randint(1, 4))
    faults = [draw_fault(dice, dice.choice(kinds), n, timing, until_ms) for _ in range(dice.randint(0, 6))]
    if dice.random() < 0.2:
        faults.append(draw_fault(dice, Kind.WIPE, n, timing, until_ms))
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


def draw_fault(dice: Random, kind: Kind, n: int, timing: ElectTiming, until_ms: int) -> ElectFault:
    lasts = dice.choice((0.1, 0.5, 0.9, 1.2, 2.0, 4.0)) * dice.uniform(0.8, 1.2)
    return ElectFault(
        at_ms=dice.randrange(timing.down_after_ms // 2, until_ms),
        kind=kind,
        target=draw_target(dice, kind, n),
        for_ms=int(timing.down_after_ms * lasts),
    )


def draw_target(dice: Random, kind: Kind, n: int) -> tuple[int, ...]:
    """Half of the time it is the primary, alone or with others."""
    first = 0 if dice.random() < 0.5 and kind is not Kind.HANDOVER else dice.randint(1, n)
    single = kind in (Kind.WIPE, Kind.HANDOVER) or dice.random() < 0.6
    if kind in (Kind.APART, Kind.SILENT):
        return first, *dice.sample(range(1, n + 1), k=dice.randint(1, max(1, n // 2)))
    others = [] if single else dice.sample(range(1, n + 1), k=dice.randint(1, max(1, n // 2)))
    return tuple(dict.fromkeys([first, *others]))
