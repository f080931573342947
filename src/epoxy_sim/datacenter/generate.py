"""From a seed to a plan: a few nodes on one database, with leases of a second or so, and faults that are longer.

Every third seed aims at nodes that wake up with an old memory: each is paused beyond its lease, the others write its
keys meanwhile, and the first that it hears when it wakes up is what it has in memory asked for. Some seeds aim at
configurations that are adopted while a node is paused for less than its lease: it goes on, and must learn of them. And
some restart all nodes one after the other, in order, without faults: no request may fail."""

from random import Random

from msgspec.structs import replace

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.datacenter.plan import DatabaseWeather, DatacenterPlan, DatacenterStep, NodeFault, NodeFaultKind
from epoxy_sim.keys.generate import draw_timing, with_near
from epoxy_sim.keys.plan import MACHINE_MS, Ask

SIZES = (1, 1, 3)
"""Datacenters. One alone decides by itself: whatever goes wrong in its database is seen by clients."""

NODES = (2, 2, 3, 4)
LEASES_MS = (400.0, 1_000.0, 2_000.0)
WAKING_SEEDS = 3
CONFIG_SEEDS = 7
CALM_SEEDS = 5
"""In one run of so many nothing breaks."""

RESTART_SEEDS = 10
"""In every second one of those, all nodes are restarted."""

FLUSHING_SEEDS = 7

RESTART_US = 12_000_000
"""From one restart to the next: a node with 128 shards has handed them over, and got them back."""

ASKS = (Ask.PUT, Ask.PUT, Ask.INCREMENT, Ask.INCREMENT, Ask.SWAP, Ask.DELETE, Ask.RESERVE, Ask.READ, Ask.READ, Ask.READ)
READS = (Consistency.LINEARIZABLE, Consistency.LINEARIZABLE, Consistency.LINEARIZABLE, Consistency.OPTIMISTIC)
KEYS = 24
"""Of which a run uses a few, so that they are in different shards from run to run."""

KINDS = (
    *(NodeFaultKind.PAUSE, NodeFaultKind.PAUSE, NodeFaultKind.PAUSE, NodeFaultKind.CRASH, NodeFaultKind.LEAVE),
    *(NodeFaultKind.CUT, NodeFaultKind.DATABASE_DOWN, NodeFaultKind.DATABASE_DOWN, NodeFaultKind.CONFIG),
)


def generate(seed: int, *, n: int | None = None, policy: QuorumPolicy | None = None) -> DatacenterPlan:
    dice = Random(f"datacenter/{seed}")
    size = n if n is not None else dice.choice(SIZES)
    nodes = dice.choice(NODES)
    is_calm = seed % CALM_SEEDS == CALM_SEEDS - 1
    lease_ms = dice.choice(LEASES_MS)
    until_us = int(lease_ms * 1000 * dice.choice((4, 6, 8)))
    distance_us = dice.choice((200, 2_000, 20_000))
    plan = DatacenterPlan(
        seed=seed,
        n=size,
        policy=policy if policy is not None else dice.choice(tuple(QuorumPolicy)),
        timing=draw_timing(dice, max(10.0, distance_us / 500)),
        nodes=nodes,
        first_nodes=dice.randint(1, nodes),
        lease_ms=lease_ms,
        rates=tuple(dice.choice((1.0, dice.uniform(0.5, 2.0))) for _ in range(nodes)),
        statement_us=dice.choice((500, 2_000, 10_000)),
        distance_us=distance_us,
        loss=0.0 if is_calm else dice.choice((0.0, 0.02, 0.1)),
        weather=DatabaseWeather() if is_calm else draw_database_weather(dice),
        clients=draw_datacenter_clients(dice, size, nodes, until_us),
        faults=(),
        faults_end_us=until_us,
        flushes_batches=seed % FLUSHING_SEEDS == FLUSHING_SEEDS - 1,
    )
    plan = replace(plan, timing=with_near(patient(plan), plan.n, seed))
    if seed % WAKING_SEEDS == 0 and not is_calm:
        return with_wakings(dice, plan)
    if seed % CONFIG_SEEDS == 0 and not is_calm:
        return with_configs(dice, plan)
    if seed % RESTART_SEEDS == RESTART_SEEDS - 1:
        return with_restarts(dice, plan)
    joins = [
        NodeFault(at_us=dice.randrange(until_us), kind=NodeFaultKind.JOIN, node=node)
        for node in range(plan.first_nodes + 1, nodes + 1)
    ]
    faults = [] if is_calm else draw_node_faults(dice, plan)
    return replace(plan, faults=tuple(sorted((*joins, *faults), key=lambda fault: fault.at_us)))


def patient(plan: DatacenterPlan) -> Timing:
    """An optimistic read of a key that is not held has one round: on the fastest clock, too, its timer must not ring
    before an answer can have come, or the last look fails although all is calm."""
    least_ms = (4 * plan.distance_us / 1000 + MACHINE_MS) * max(1.0, *plan.rates)
    return replace(plan.timing, round_timeout_ms=max(plan.timing.round_timeout_ms, least_ms))


def with_wakings(dice: Random, plan: DatacenterPlan) -> DatacenterPlan:
    lease_us, end_us = int(plan.lease_ms * 1000), 0
    keys = dice.sample(range(KEYS), k=4)
    faults: list[NodeFault] = []
    steps: list[list[DatacenterStep]] = [[] for _ in range(4)]
    for episode in range(3):
        at_us = end_us + dice.randrange(lease_us, 2 * lease_us)
        lasts_us = int(lease_us * dice.uniform(1.5, 3.0))
        end_us, node = at_us + lasts_us, dice.randint(1, plan.nodes)
        faults.append(NodeFault(at_us=at_us, kind=NodeFaultKind.PAUSE, node=node, lasts_us=lasts_us))
        for client, asked in enumerate(steps):
            others = [each for each in range(1, plan.nodes + 1) if each != node]
            for begin, end, ask, place in (
                (at_us - lease_us // 2, at_us, dice.choice((Ask.PUT, Ask.READ)), node),
                (
                    at_us + lasts_us // 2,
                    end_us - lasts_us // 8,
                    dice.choice((Ask.PUT, Ask.INCREMENT)),
                    dice.choice(others),
                ),
                (end_us - lasts_us // 8, end_us, dice.choice((Ask.READ, Ask.READ, Ask.PUT)), node),
            ):
                when, value = dice.randrange(begin, end), 100 * client + 10 * episode + len(asked)
                asked.append(DatacenterStep(at_us=when, ask=ask, key=keys[client], value=value, place=place))
    return replace(
        plan,
        first_nodes=plan.nodes,
        clients=tuple(tuple(asked) for asked in steps),
        faults=tuple(faults),
        faults_end_us=end_us + lease_us,
    )


def with_configs(dice: Random, plan: DatacenterPlan) -> DatacenterPlan:
    """The gateway waits half a second for all nodes to rest before it adopts a configuration."""
    lease_ms, end_us = max(LEASES_MS), 0
    keys = dice.sample(range(KEYS), k=4)
    faults: list[NodeFault] = []
    steps: list[list[DatacenterStep]] = [[] for _ in range(4)]
    for episode in range(4):
        at_us = end_us + dice.randrange(300_000, 1_000_000)
        lasts_us, node = dice.randrange(700_000, 1_500_000), dice.randint(1, plan.nodes)
        end_us = at_us + lasts_us
        faults += [
            NodeFault(at_us=at_us, kind=NodeFaultKind.PAUSE, node=node, lasts_us=lasts_us),
            NodeFault(at_us=at_us + dice.randrange(100_000), kind=NodeFaultKind.CONFIG),
        ]
        for client, asked in enumerate(steps):
            when, value = dice.randrange(at_us, end_us), 100 * client + 10 * episode
            asked.append(DatacenterStep(at_us=when, ask=Ask.PUT, key=keys[client], value=value, place=node))
    return replace(
        plan,
        first_nodes=plan.nodes,
        lease_ms=lease_ms,
        clients=tuple(tuple(asked) for asked in steps),
        faults=tuple(faults),
        faults_end_us=end_us + 500_000,
    )


def with_restarts(dice: Random, plan: DatacenterPlan) -> DatacenterPlan:
    """Each node is told to stop once, and starts again. Clients ask while the shards change hands."""
    keys = dice.sample(range(KEYS), k=8)
    order = dice.sample(range(1, plan.nodes + 1), k=plan.nodes)
    faults = [
        NodeFault(at_us=place * RESTART_US, kind=NodeFaultKind.LEAVE, node=node, lasts_us=dice.randrange(2_000_000))
        for place, node in enumerate(order, start=1)
    ]
    clients = tuple(
        tuple(
            DatacenterStep(
                at_us=at_us,
                ask=dice.choice((Ask.PUT, Ask.INCREMENT, Ask.READ)),
                key=dice.choice(keys),
                value=1000 * client + i,
                place=dice.randint(1, plan.nodes),
            )
            for i, at_us in enumerate(
                sorted(fault.at_us + dice.randrange(RESTART_US // 3) for fault in faults for _ in range(40))
            )
        )
        for client in range(1, 9)
    )
    return replace(
        plan,
        first_nodes=plan.nodes,
        lease_ms=max(LEASES_MS),
        rates=(1.0,) * plan.nodes,
        clients=clients,
        faults=tuple(faults),
        faults_end_us=(plan.nodes + 1) * RESTART_US,
        restarts_only=True,
    )


def draw_database_weather(dice: Random) -> DatabaseWeather:
    return DatabaseWeather(
        lost_before=dice.choice((0.0, 0.01, 0.05)),
        lost_after=dice.choice((0.0, 0.01, 0.05)),
        late=dice.choice((0.0, 0.01, 0.05)),
        slow=dice.choice((0.0, 0.01, 0.05)),
    )


def draw_node_faults(dice: Random, plan: DatacenterPlan) -> list[NodeFault]:
    """Pauses and cuts are from a part of a lease to several leases long."""
    kinds = dice.sample(KINDS, k=dice.randint(1, 4))
    lease_us = int(plan.lease_ms * 1000)
    return [
        NodeFault(
            at_us=dice.randrange(plan.faults_end_us),
            kind=dice.choice(kinds),
            node=dice.randint(1, plan.nodes),
            lasts_us=int(lease_us * dice.choice((0.1, 0.6, 1.2, 2.0, 3.0))),
        )
        for _ in range(dice.randint(1, 8))
    ]


def draw_datacenter_clients(dice: Random, n: int, nodes: int, until_us: int) -> tuple[tuple[DatacenterStep, ...], ...]:
    keys = dice.sample(range(KEYS), k=dice.choice((1, 1, 2, 4)))
    asks = dice.sample(ASKS, k=dice.randint(3, len(ASKS)))
    places = nodes + (n > 1)
    return tuple(
        tuple(
            DatacenterStep(
                at_us=at_us,
                ask=dice.choice(asks),
                key=dice.choice(keys),
                value=client * 100 + i,
                place=dice.randint(1, places),
                consistency=dice.choice(READS),
            )
            for i, at_us in enumerate(sorted(dice.randrange(until_us) for _ in range(dice.randint(4, 14))))
        )
        for client in range(1, dice.randint(3, 6))
    )
