"""A holder is killed right after a renewal: how long after the end of its lease does a waiting client have the lock?

Counted from the kill, the time to live subtracted. A lock that is taken before the time to live has passed since the
renewal was *sent* had two holders: the run fails then.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from msgspec import Struct

from benchmarks.columns import Part
from benchmarks.contention.part import Setting, Sheet, say
from benchmarks.findings import Verdict
from benchmarks.leases.doors import DOORS
from benchmarks.leases.holder import LOCK
from benchmarks.machine import ROOT
from benchmarks.peers.epoxy import EpoxyCluster
from benchmarks.peers.wan import THREE
from benchmarks.plausible import Impossible
from benchmarks.stats import epoxy_floor, percentile
from benchmarks.suite.systems.epoxy import Epoxy
from benchmarks.suite.systems.etcd import Etcd
from epoxy.client import Client

TTLS_S = 2.0, 5.0
ALLOWED_MS = 1000.0
FLOORS = 2
"""That are added to what is allowed, between regions."""

POLL_S = 0.05
WAITER_TTL_S = 60
"""Of the lease of the client that waits: it outlives the wait."""

PATIENCE_S = 60.0
SERIAL = count(1)


class Place(Struct, frozen=True):
    """Where a client asks; `floor_ms` is the least that a write takes there."""

    name: str
    port: int
    floor_ms: float = 0.0


class Scene(Struct, frozen=True, kw_only=True):
    """A system that runs. `door`: how it is asked, by holders and those who wait."""

    system: str
    waits: str
    door: str
    places: tuple[Place, ...]


class Round(Struct, frozen=True, kw_only=True):
    """Seconds on one clock. `sent`: just before the last renewal was sent."""

    place: Place
    ttl_s: float
    sent_s: float
    killed_s: float
    acquired_s: float

    @property
    def beyond_ms(self) -> float:
        return (self.acquired_s - self.killed_s - self.ttl_s) * 1000

    def checked(self) -> "Round":
        """Impossible: it was taken before its time, or the clocks do not agree."""
        early_ms = (self.sent_s + self.ttl_s - self.acquired_s) * 1000
        if early_ms > 0:
            raise Impossible(f"a lease of {self.ttl_s:g} s was another's {early_ms:.1f} ms before its end")
        if self.killed_s < self.sent_s:
            raise Impossible("a holder was killed before it sent its last renewal")
        return self


def wait_by_polling(door_name: str, port: int, key: str) -> float:
    with closing(DOORS[door_name](port)) as door:
        deadline_s = time.monotonic() + PATIENCE_S
        while not door.take(key, WAITER_TTL_S):
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"{door_name}: a lock was not free {PATIENCE_S:.0f} s later")
            time.sleep(POLL_S)
        acquired_s = time.monotonic()
        door.give_back()
    return acquired_s


def wait_by_lock(port: int, key: str) -> float:
    with Client(f"http://127.0.0.1:{port}") as client, client.lock(key, ttl=WAITER_TTL_S, wait=PATIENCE_S):
        return time.monotonic()


def waiting(door: str, port: int, key: str) -> Callable[[], float]:
    if door == LOCK:
        return lambda: wait_by_lock(port, key)
    return lambda: wait_by_polling(door, port, key)


@contextmanager
def holding(door: str, port: int, key: str, ttl_s: float) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "benchmarks.leases.holder", door, str(port), key, str(ttl_s)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: "subprocess.Popen[str]", word: str) -> str:
    """What it says behind this word. RuntimeError: it says anything else, or ends."""
    assert process.stdout is not None
    assert process.stderr is not None
    said, _, rest = process.stdout.readline().strip().partition(" ")
    if said != word:
        process.kill()
        raise RuntimeError(f"a holder did not get to {word!r}:\n{process.stderr.read()[-2000:]}")
    return rest


def one_round(door: str, holder: Place, waiter: Place, ttl_s: float) -> Round:
    key = f"bench/lock/{next(SERIAL)}"
    with holding(door, holder.port, key, ttl_s) as process, ThreadPoolExecutor(1) as pool:
        told(process, "held")
        acquired = pool.submit(waiting(door, waiter.port, key))
        sent_s = float(told(process, "renewed"))
        killed_s = time.monotonic()
        process.kill()
        found = Round(place=waiter, ttl_s=ttl_s, sent_s=sent_s, killed_s=killed_s, acquired_s=acquired.result())
    return found.checked()


def rounds(scene: Scene, ttl_s: float, wanted: int) -> list[Round]:
    """At the same time, each with a lock of its own. Who waits asks at another node than the holder."""
    places = scene.places
    pairs = [(places[i % len(places)], places[(i + 1) % len(places)]) for i in range(wanted)]
    with ThreadPoolExecutor(wanted) as pool:
        begun = [pool.submit(one_round, scene.door, holder, waiter, ttl_s) for holder, waiter in pairs]
        return [each.result() for each in begun]


@contextmanager
def epoxy_here(folder: Path) -> Iterator[list[Scene]]:
    system = Epoxy(folder / "epoxy")
    try:
        system.start()
        resp = tuple(Place(node.datacenter, node.resp_port) for node in system.nodes)
        http = tuple(Place(node.datacenter, int(node.url.rpartition(":")[2])) for node in system.nodes)
        yield [
            Scene(system="Epoxy", waits="SET NX PX every 50 ms, RESP", door="resp", places=resp),
            Scene(system="Epoxy", waits="client.lock(wait=...), Python", door=LOCK, places=http),
        ]
    finally:
        system.stop()


@contextmanager
def etcd_here(folder: Path, binary: Path) -> Iterator[list[Scene]]:
    system = Etcd(folder / "etcd", binary)
    try:
        system.start()
        places = tuple(Place("loopback", port) for port in system.doors["gRPC"].ports)
        waits = "put if absent with a lease, every 50 ms"
        yield [Scene(system=f"etcd {system.version}", waits=waits, door="etcd", places=places)]
    finally:
        system.stop()


@contextmanager
def epoxy_apart(folder: Path) -> Iterator[list[Scene]]:
    (folder / "wan").mkdir(parents=True)
    cluster = EpoxyCluster(THREE, folder / "wan", emulated=True)
    try:
        cluster.start()
        for region in THREE:
            with cluster.nodes[region].client() as client:
                client.put(f"bench/warm/{region}", b"1")
        places = tuple(Place(region, cluster.ports[region], epoxy_floor(region, THREE)) for region in THREE)
        yield [Scene(system="Epoxy, 3 regions", waits="client.lock(wait=...), Python", door=LOCK, places=places)]
    finally:
        cluster.stop()


def take_over(setting: Setting, wanted: int, ttls_s: Sequence[float] = TTLS_S) -> Part:
    sheet = Sheet(setting)
    stages = [epoxy_here(setting.folder), epoxy_apart(setting.folder)]
    if setting.etcd is not None:
        stages.insert(1, etcd_here(setting.folder, setting.etcd))
    rows: list[list[str]] = []
    most: dict[str, dict[str, float]] = {}
    for stage in stages:
        with stage as scenes:
            for scene in scenes:
                for ttl_s in ttls_s:
                    say(f"    {scene.system}, {scene.waits}, ttl {ttl_s:g} s, {wanted} rounds")
                    found = rounds(scene, ttl_s, wanted)
                    rows += rows_of(scene, found)
                    beyond = max(0.0, *[each.beyond_ms for each in found])
                    most.setdefault(f"ttl {ttl_s:g} s", {})[f"{scene.system}, {scene.door}"] = beyond
                    if scene.door != "etcd":
                        sheet.must(verdict(scene, found))
    head = ["system", "who waits", "region (floor)", "ttl", "rounds", "p50 beyond the ttl, ms", "most"]
    sheet.show("From the kill of a holder to the next one, less the time to live", head, rows)
    sheet.draw("bench-leases.svg", "A lock whose holder was killed: most beyond its time to live", "ms", most)
    return sheet.part()


def rows_of(scene: Scene, found: Sequence[Round]) -> Iterator[list[str]]:
    """One for all places without a distance, else one for each."""
    apart = any(place.floor_ms for place in scene.places)
    groups = [[each for each in found if each.place == place] for place in scene.places] if apart else [list(found)]
    for group in groups:
        if group:
            place = group[0].place
            where = f"{place.name} ({place.floor_ms:.0f} ms)" if apart else "loopback"
            beyond = [each.beyond_ms for each in group]
            figures = [f"{percentile(beyond, 0.5):.0f}", f"{max(beyond):.0f}"]
            yield [scene.system, scene.waits, where, f"{group[0].ttl_s:g} s", str(len(group)), *figures]


def verdict(scene: Scene, found: Sequence[Round]) -> Verdict:
    """By the round that is worst against what its region is allowed."""
    allowed = {each: ALLOWED_MS + FLOORS * each.place.floor_ms for each in found}
    worst = max(found, key=lambda each: each.beyond_ms - allowed[each])
    apart = any(place.floor_ms for place in scene.places)
    return Verdict(
        claim=f"take-over beyond the ttl of {worst.ttl_s:g} s, {scene.system}, {scene.waits}: most",
        wanted=f"at most {ALLOWED_MS:.0f} ms" + (f" and {FLOORS} floors" if apart else ""),
        found=f"{worst.beyond_ms:.0f} ms" + (f" ({worst.place.name}: {allowed[worst]:.0f})" if apart else ""),
        held=worst.beyond_ms <= allowed[worst],
    )
