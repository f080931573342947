"""A whole run, part after part."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.machine import commit, fsync_ms, machine
from benchmarks.suite import growth
from benchmarks.suite.growth import running
from benchmarks.suite.makers import Makers
from benchmarks.suite.measure import Plan, compare, say
from benchmarks.suite.results import Figures, Growth, Loaded, Results
from benchmarks.suite.stored import beside_empty, every_system
from benchmarks.suite.workloads import EPOXY, ETCD, Workload

COMPARE, GROW, LOAD = "compare", "growth", "loaded"
PARTS = (COMPARE, LOAD, GROW)


class Scale(Struct, frozen=True, kw_only=True):
    """How far things grow. `loaded`: keys that every system holds; `keys`: those that we hold, beside an empty one."""

    clients: tuple[int, ...] = growth.CLIENTS
    sizes: tuple[int, ...] = growth.SIZES
    replicas: tuple[int, ...] = growth.REPLICAS
    keys: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    loaded: int = 1_000_000


FULL, FULL_SCALE = Plan(), Scale()
QUICK = Plan(rounds=1, warm_s=0.3, seconds=1.0)
QUICK_SCALE = Scale(
    clients=(1, 64, 1000), sizes=(16, 4096, 65536), replicas=(1, 3, 5), keys=(10_000, 1_000_000), loaded=100_000
)


class Session(Struct, frozen=True, kw_only=True):
    makers: Makers
    names: Sequence[str]
    workloads: Sequence[Workload]
    parts: Sequence[str]
    plan: Plan
    scale: Scale
    folder: Path
    quick: bool

    def run(self) -> Iterator[Results]:
        """What is found so far, after each part: an hour's work should not be lost to its last minute."""
        results = self.begun()
        if COMPARE in self.parts:
            results = replace(results, workloads=self.compared())
            yield self.until_now(results)
        if LOAD in self.parts:
            results = replace(results, loaded=self.loaded())
            yield self.until_now(results)
        if GROW in self.parts:
            results = replace(results, growth=self.grown())
            yield self.until_now(results)

    def begun(self) -> Results:
        systems = self.makers.several(self.names, self.folder / "asked")
        now = fsync_ms(self.folder)
        return Results(
            when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            commit=commit(),
            machine=machine(),
            versions={name: system.version for name, system in systems.items()},
            rounds=self.plan.rounds,
            seconds=self.plan.seconds,
            quick=self.quick,
            fsync_ms=(now, now),
            workloads={},
        )

    def until_now(self, results: Results) -> Results:
        return replace(results, fsync_ms=(results.fsync_ms[0], fsync_ms(self.folder)))

    def compared(self) -> dict[str, dict[str, Figures]]:
        with running(self.makers.several(self.names, self.folder / COMPARE)) as field:
            say("storing the keys that are read and overwritten")
            field.store()
            return compare(field, self.workloads, self.plan)

    def loaded(self) -> Loaded:
        with running(self.makers.several(self.names, self.folder / LOAD)) as field:
            return every_system(field, self.scale.loaded, self.plan)

    def grown(self) -> Growth:
        folder, scale, plan = self.folder / GROW, self.scale, self.plan
        with running(self.makers.several([name for name in self.names if name in (EPOXY, ETCD)], folder)) as field:
            clients = growth.by_clients(field, scale.clients, plan)
            sizes = growth.by_size(field, scale.sizes, plan)
            overload = growth.overloaded(field, plan)
        with running(self.makers.several(self.names, folder / "lines")) as field:
            lines = growth.lines(field)
        return Growth(
            clients=clients,
            sizes=sizes,
            replicas=growth.by_replicas(self.makers.system, self.names, folder, scale.replicas, plan),
            keys=beside_empty(self.makers.epoxy, folder, scale.keys, plan),
            lines=lines,
            overload=overload,
        )
