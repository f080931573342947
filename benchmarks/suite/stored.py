"""Systems that hold many keys: what it costs to hold them, and whether it slows them down."""

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchmarks.suite.measure import Field, Plan, compare, say
from benchmarks.suite.processes import Memory
from benchmarks.suite.results import Held, Holding, Loaded
from benchmarks.suite.systems.base import System
from benchmarks.suite.systems.epoxy import Epoxy
from benchmarks.suite.workloads import ALL, EMPTY, EPOXY, Workload, fresh, loaded_reads

BYTES_PER_KEY = 1500
"""Of disk, for all nodes of ours together, with room to spare: what must be free before the start."""

SETTLE_S = 3.0
"""For what is on its way to the disk."""


def settled(system: System) -> Memory:
    time.sleep(SETTLE_S)
    return system.memory()


def hold(field: Field, name: str, keys: int) -> Held:
    """Load it, and see what that took."""
    system = field.systems[name]
    before, disk = settled(system), system.disk_bytes()
    began = time.monotonic()
    how = field.load(name, keys)
    took = time.monotonic() - began
    say(f"  {name} holds {keys:,} keys after {took:.0f} s: {how}")
    return Held(
        keys=keys,
        how=how,
        took_s=took,
        nodes=len(system.roots),
        before=before,
        after=settled(system),
        disk_before=disk,
        disk_after=system.disk_bytes(),
    )


def every_system(field: Field, keys: int, plan: Plan) -> Loaded:
    """All systems with the same keys. They have just been started."""
    contenders = tuple(name for name in ALL if name in field)
    held = {name: hold(field, name, keys) for name in contenders}
    chosen = [among(fresh(64), contenders), loaded_reads(contenders)]
    return Loaded(held=held, workloads=compare(field, chosen, plan))


def among(workload: Workload, contenders: tuple[str, ...]) -> Workload:
    return msgspec.structs.replace(workload, contenders=contenders)


def beside_empty(make: Callable[[Path], Epoxy], folder: Path, keys: Sequence[int], plan: Plan) -> list[Holding]:
    """Ours with so many keys, in turns with one that has none: only so is a difference told from the noise."""
    found: list[Holding] = []
    empty = make(folder / "empty")
    try:
        empty.start()
        for count in keys:
            check_room(folder, count)
            home = folder / f"holds-{count}"
            found.append(holding(make(home), empty, count, plan))
            shutil.rmtree(home)
    finally:
        empty.stop()
    return found


def check_room(folder: Path, keys: int) -> None:
    """RuntimeError: there is too little."""
    free, needed = shutil.disk_usage(folder).free, keys * BYTES_PER_KEY
    if free < needed:
        raise RuntimeError(
            f"{keys:,} keys want {needed >> 30} GiB of disk, and {folder} has {free >> 30} GiB left: "
            "choose another disk with --folder, or fewer keys with --keys"
        )


def holding(system: Epoxy, empty: Epoxy, keys: int, plan: Plan) -> Holding:
    field = Field({EPOXY: system, EMPTY: empty})
    alone, busy = (among(fresh(clients), (EPOXY, EMPTY)) for clients in (1, 64))
    reads = loaded_reads((EPOXY,))
    try:
        system.start()
        held = hold(field, EPOXY, keys)
        compared = compare(field, [alone, busy, reads], plan)
        return Holding(
            held=held,
            alone=compared[alone.name],
            busy=compared[busy.name],
            reads=compared[reads.name][EPOXY],
            memory=settled(system),
            memory_empty=settled(empty),
            start_s=start_s(system, kill=False),
            start_after_kill_s=start_s(system, kill=True),
        )
    finally:
        system.stop()


def start_s(system: Epoxy, *, kill: bool) -> float:
    """One node, from nothing to ready, the others being there. After a kill its log has to be read again."""
    node = system.nodes[0]
    if kill:
        node.kill()
    else:
        node.stop()
    began = time.monotonic()
    node.start()
    return time.monotonic() - began
