"""What the console's feeds cost commits: a build before them, this build without a visitor, and this build with one.

    python -m benchmarks.console_cost --python P [--before P] [--rounds 15] [--window 1.0] [--only WORDS] [--folder DIR]

The same clients load one cluster of three nodes after the other, in windows that alternate. `--before` is the Python of
a build without the feeds; without it the last two are compared. The visitor is a browser's page of the world and one of
commits: it asks for /v2/world every second and follows /v2/commits/samples all the time. Of each round the ratios to
the first cluster are taken, and of these the median and the middle half are told: for the time of a commit, and for the
CPU time of all nodes for it, which depends less on what else runs.

What a visitor costs is small, and nearly the same at every load, so it is measured by itself, too: the CPU time of all
nodes in a second, with a visitor and without, while one client writes so slowly that they are idle otherwise; and what
is called for each commit while a visitor is there.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import uvloop

from benchmarks.access_cost import (
    Served,
    Variant,
    Window,
    Workload,
    change,
    http_writes,
    measured,
    redis_writes,
    served,
)

NODES = 3
LOOK_S = 1.0
PACE_S, PACED_S = 0.05, 3.0
"""Between two writes of the slow client, and how long a window of it is."""

PER_COMMIT = """
import timeit
from epoxy.model.writes import Path
from epoxy.node.commit_window import CommitWindow
from epoxy.node.keys.latency import RoundLatency
from epoxy.runtime.clock import LoopClock
import asyncio
async def main():
    latency = RoundLatency()
    window = CommitWindow(latency, LoopClock(asyncio.get_running_loop()), lambda: (0, 0))
    done = lambda: latency.proposal_done("Committed", Path.FAST, 0.001)
    times = []
    for _ in range(2):
        times.append(min(timeit.repeat(done, number=20000, repeat=20)) / 20000 * 1e6)
        window.look()
    print(times[1] - times[0])
asyncio.run(main())
"""

GOAL_VISITOR, GOAL_NONE = 0.01, 0.0
"""How much slower commits may be, with one visitor and without."""

BEFORE, WITHOUT, VISITED = "before the feeds", "no visitor", "one visitor"


def commits() -> Iterator[Workload]:
    many = {"nodes": NODES, "connections": 64, "depth": 1}
    yield Workload(name="RESP SET", lines=1, make=redis_writes, **many)
    yield Workload(name="HTTP PUT", lines=0, make=http_writes, **many)


class Visitor:
    """Looks at one node, as the pages do, and counts what it is shown."""

    def __init__(self, cluster: Served) -> None:
        self._port = cluster.http
        self.looks = self.samples = 0

    async def look(self) -> None:
        while True:
            reader, writer = await self._asked("/v2/world")
            answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 200"), answer
            self.looks += 1
            await asyncio.sleep(LOOK_S)

    async def follow(self) -> None:
        reader, writer = await self._asked("/v2/commits/samples")
        try:
            while line := await reader.readline():
                self.samples += line.startswith(b"data: ")
        finally:
            writer.close()

    async def _asked(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        closing = "Connection: close\r\n" if path == "/v2/world" else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{closing}\r\n".encode())
        return reader, writer


@asynccontextmanager
async def visited(cluster: Served) -> AsyncIterator[Visitor]:
    visitor = Visitor(cluster)
    tasks = [asyncio.ensure_future(visitor.look()), asyncio.ensure_future(visitor.follow())]
    try:
        yield visitor
        assert not any(task.done() for task in tasks), "the visitor was cut off"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def told(workload: Workload, variants: list[Variant], rounds: list[list[Window]], visitor: Visitor) -> str:
    first = [each[0] for each in rounds]
    lines = [
        f"{workload.name}: {variants[0].name} {statistics.median([each.rate for each in first]):,.0f} a second, "
        f"{statistics.median([each.cpu_us for each in first]):.1f} us of CPU each; "
        f"the visitor saw {visitor.samples} samples and looked {visitor.looks} times"
    ]
    for i, variant in enumerate(variants[1:], start=1):
        slower = change([each[0].rate / each[i].rate for each in rounds])
        dearer = change([each[i].cpu_us / each[0].cpu_us for each in rounds])
        goal = GOAL_VISITOR if variant.name == VISITED else GOAL_NONE
        held = "" if min(slower.low, dearer.low) <= goal else f"  ABOVE {goal:.0%}"
        lines.append(f"    {variant.name:20} time {slower!s:28} CPU {dearer!s:28}{held}")
    return "\n".join(lines)


# What a visitor costs by itself


async def paced(cluster: Served) -> float:
    """The CPU time of all nodes in a second, while one client writes now and then."""
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.resp)
    make = redis_writes(Variant(name="", cluster=cluster))
    began, cpu_s = time.perf_counter(), cluster.cpu_s()
    while (passed := time.perf_counter() - began) < PACED_S:
        writer.write(make())
        reply = await reader.readline()
        assert reply.startswith(b"+"), reply
        await asyncio.sleep(PACE_S)
    spent = (cluster.cpu_s() - cpu_s) / passed
    writer.close()
    return spent


async def alone(cluster: Served, rounds: int) -> list[float]:
    """What a visitor adds, in milliseconds of CPU a second, in each round: the same cluster, with it and without."""
    found = []
    for _ in range(rounds):
        async with visited(cluster):
            await asyncio.sleep(LOOK_S)
            busy = await paced(cluster)
        await asyncio.sleep(LOOK_S)
        found.append((busy - await paced(cluster)) * 1000)
    return found


def told_alone(found: list[float], per_commit_us: float) -> str:
    low, median, high = statistics.quantiles(found, n=4)
    return (
        f"A visitor by itself: {median:+.1f} ms of CPU a second ({low:+.1f} to {high:+.1f}), all {NODES} nodes,"
        f" and {per_commit_us:.2f} us for each commit of a node"
    )


def per_commit_us(python: str) -> float:
    return float(subprocess.run([python, "-c", PER_COMMIT], stdout=subprocess.PIPE, check=True, text=True).stdout)


async def run(folder: Path, python: str, before: str, rounds: int, window_s: float, only: str) -> None:
    print(f"load average when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    builds = [(BEFORE, before)] if before else []
    builds += [(WITHOUT, python), (VISITED, python)]
    with ExitStack() as running:
        variants = [
            Variant(name=name, cluster=running.enter_context(served(folder / f"cluster-{i}", NODES, "open", each)))
            for i, (name, each) in enumerate(builds)
        ]
        for workload in commits():
            if only.lower() in workload.name.lower():
                async with visited(variants[-1].cluster) as visitor:
                    windows = await measured(workload, variants, rounds, window_s)
                print(told(workload, variants, windows, visitor), flush=True)
        found = await alone(variants[-1].cluster, rounds)
        print(told_alone(found, per_commit_us(python)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--window", type=float, default=1.0, help="seconds")
    parser.add_argument("--only", default="", help="workloads whose names have these words")
    parser.add_argument("--python", default=sys.executable, help="whose `epoxy` is run: that of a compiled build, say")
    parser.add_argument("--before", default="", help="the Python of a build without the feeds")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        uvloop.run(run(folder, options.python, options.before, options.rounds, options.window, options.only))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
