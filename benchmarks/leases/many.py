"""Very many leases at a node: making them, their memory, a restart with them, and the second in which they all end.

They are made with an hour to live. Then each is overwritten with what is left until one moment, so that all counts run
out within a second, while another client writes. A node that has fewer before that moment ended one too early: the run
fails then.
"""

import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from msgspec import Struct

from benchmarks.columns import Part
from benchmarks.contention.part import Setting, Sheet, say
from benchmarks.findings import Verdict
from benchmarks.leases.doors import Line
from benchmarks.plausible import Impossible
from benchmarks.stats import percentile
from benchmarks.suite.processes import memory
from benchmarks.suite.systems.epoxy import Epoxy, Node
from benchmarks.suite.wires.resp import command

LONG_MS = 3_600_000
BATCH = 500
"""Commands in one pipeline."""

QUIET_S = 3.0
"""In which the other client is measured before."""

AHEAD_S, SLOWER = 2.0, 2.5
"""The moment of the end: so long after overwriting takes if it is so many times slower than making them was."""

LEAST_MS = 200
"""To live of the last one: less would be over before the others are written."""

PAUSE_S = 0.002
KNOWN_S, LOOK_S = 0.05, 0.25
PATIENCE_S = 180.0
LEASES = re.compile(r"^epoxy_leases ([0-9.e+]+)$", re.MULTILINE)


class Took(Struct, frozen=True):
    began_s: float
    took_ms: float


class Other:
    """Another client at the same node: one SET at a time, 100 keys in turn."""

    def __init__(self, port: int) -> None:
        self.samples: list[Took] = []
        self.failed = 0
        self._port = port
        self._over = threading.Event()

    @contextmanager
    def running(self) -> Iterator["Other"]:
        thread = threading.Thread(target=self._write)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def _write(self) -> None:
        with closing(Line(self._port)) as line:
            number = 0
            while not self._over.wait(PAUSE_S):
                number += 1
                began_s = time.monotonic()
                reply = line.ask(b"SET", b"bench/other/%d" % (number % 100), b"value of 16 byte")
                self.samples.append(Took(began_s, (time.monotonic() - began_s) * 1000))
                self.failed += reply != b"OK"

    def between(self, begin_s: float, end_s: float) -> list[float]:
        """RuntimeError: nothing was answered then."""
        took = [each.took_ms for each in self.samples if begin_s <= each.began_s < end_s]
        if not took:
            raise RuntimeError("no SET of the other client began while the leases ended")
        return took


def leases_at(node: Node) -> int:
    with urllib.request.urlopen(f"{node.url}/metrics", timeout=30) as answer:
        found = LEASES.search(answer.read().decode())
    if found is None:
        raise RuntimeError("the node's metrics have no epoxy_leases")
    return round(float(found[1]))


def write_all(port: int, leases: int, ttl_ms: Callable[[], int]) -> float:
    """Pipelined SET PX; how many seconds it took. RuntimeError: one was refused."""
    began_s = time.monotonic()
    with closing(Line(port)) as line:
        for first in range(0, leases, BATCH):
            ttl = b"%d" % ttl_ms()
            numbers = range(first, min(leases, first + BATCH))
            replies = line.ask_all([command(b"SET", b"bench/lease/%d" % n, b"x" * 16, b"PX", ttl) for n in numbers])
            for reply in replies:
                if reply != b"OK":
                    raise RuntimeError(f"SET PX: {reply!r}")
    return time.monotonic() - began_s


def left_until(end_s: float) -> int:
    """Milliseconds. RuntimeError: too few are left to give them to a lease."""
    left_ms = int((end_s - time.monotonic()) * 1000)
    if left_ms < LEAST_MS:
        raise RuntimeError("to overwrite the leases took far longer than to make them: the machine is too busy")
    return left_ms


def restarted_s(node: Node) -> float:
    """From its start to its readiness."""
    node.stop()
    began_s = time.monotonic()
    node.start()
    return time.monotonic() - began_s


def resident(nodes: list[Node]) -> list[float]:
    """MiB."""
    return [memory([node.pid]).resident / 2**20 for node in nodes if node.pid is not None]


def await_known(nodes: list[Node], leases: int) -> float:
    """Until all nodes know of all leases; how many seconds that took. The last commits reach other nodes a moment after
    they were acknowledged, and a node that starts reads its own beside its other work."""
    began_s = time.monotonic()
    while (known := [leases_at(node) for node in nodes]) != [leases] * len(nodes):
        if time.monotonic() > began_s + PATIENCE_S:
            raise RuntimeError(f"of {leases} leases the nodes know {known}")
        time.sleep(KNOWN_S)
    return time.monotonic() - began_s


def none_early(left: int, leases: int, now_s: float, end_s: float) -> None:
    if now_s < end_s and left < leases:
        raise Impossible(f"{leases - left} of {leases} leases had ended {end_s - now_s:.1f} s before their time")


def await_end(nodes: list[Node], leases: int, end_s: float) -> list[float]:
    """When each node had none left, in seconds after `end_s`, to a quarter of a second."""
    gone_s: dict[int, float] = {}
    while len(gone_s) < len(nodes):
        for node in nodes:
            if node.id not in gone_s:
                left = leases_at(node)
                now_s = time.monotonic()
                none_early(left, leases, now_s, end_s)
                if left == 0:
                    gone_s[node.id] = now_s - end_s
        if time.monotonic() > end_s + PATIENCE_S:
            raise RuntimeError(f"there were leases left {PATIENCE_S:.0f} s after their end")
        time.sleep(LOOK_S)
    return [gone_s[node.id] for node in nodes]


def many(setting: Setting, leases: int) -> Part:
    sheet = Sheet(setting)
    system = Epoxy(setting.folder / "many")
    try:
        system.start()
        fill_and_end(sheet, system.nodes, leases)
    finally:
        system.stop()
    return sheet.part()


def fill_and_end(sheet: Sheet, nodes: list[Node], leases: int) -> None:
    first, last = nodes[0], nodes[-1]
    rows = [["start of a node without leases", f"{restarted_s(last):.2f} s"]]
    before = resident(nodes)
    say(f"    making {leases:,} leases")
    making_s = write_all(first.resp_port, leases, lambda: LONG_MS)
    rows.append([f"to make {leases:,}, SET PX, {BATCH} in a pipeline", told_rate(leases, making_s)])
    await_known(nodes, leases)
    for node, old, new in zip(nodes, before, resident(nodes), strict=True):
        rows.append([f"RSS of node {node.id}, before and with them", f"{old:.0f}, {new:.0f} MiB"])
    ready_s = restarted_s(last)
    counting_s = ready_s + await_known([last], leases)
    rows.append(
        ["start of a node with them: until it is ready, until it counts all", f"{ready_s:.2f}, {counting_s:.2f} s"]
    )

    say("    overwriting them so that all end together")
    end_s = time.monotonic() + AHEAD_S + QUIET_S + SLOWER * making_s
    overwriting_s = write_all(first.resp_port, leases, lambda: left_until(end_s))
    rows.append(["to overwrite them, SET PX", told_rate(leases, overwriting_s)])
    with Other(first.resp_port).running() as other:
        time.sleep(max(0.0, end_s - time.monotonic() - LOOK_S))
        gone_s = await_end(nodes, leases, end_s)
        quiet = other.between(0.0, end_s)
        busy = other.between(end_s, end_s + max(gone_s))
    for node, took_s in zip(nodes, gone_s, strict=True):
        rows.append([f"from their end until node {node.id} has none left", f"{took_s:.1f} s"])
    for words, took in (("before", quiet), ("while they end", busy)):
        figures = f"p50 {percentile(took, 0.5):.1f}, p99 {percentile(took, 0.99):.1f} ms, {len(took)} SETs"
        rows.append([f"another client's SETs at node {first.id}, {words}", figures])
    with closing(Line(first.resp_port)) as line:
        keys = line.ask(b"DBSIZE")
    sheet.must(
        equal("keys left, DBSIZE, without those of the other client", int(str(keys)) - min(100, len(other.samples)), 0),
        equal("SETs of the other client that failed", other.failed, 0),
    )
    sheet.show(f"{leases:,} leases at one node of three", ["what", "found"], rows)


def told_rate(count: int, seconds: float) -> str:
    return f"{seconds:.1f} s, {count / seconds:,.0f}/s"


def equal(claim: str, found: int, wanted: int) -> Verdict:
    return Verdict(claim=claim, wanted=f"{wanted:,}", found=f"{found:,}", held=found == wanted)
