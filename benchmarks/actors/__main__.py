"""Requests to actors at one node, beside a plain aiohttp handler in the same run: `python -m benchmarks.actors`.

    echo        requests without a change of state, to one actor and to 500
    state       each request changes the state, which is saved before its answer leaves: one save for each batch
    asleep      what an actor that sleeps costs its node in memory, behind as many that filled its caches

One client process sends all requests, pipelined over a few connections, and takes less time for one than the node.
CPU for each request is shown beside the pace, because others may use the machine.

    make bench-actors                                                renews docs/benchmarks.md
    make bench-actors ACTORS='--seconds 2 --asleep 500'              a look
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks import columns
from benchmarks.actors.pipeline import Pace, measure
from benchmarks.columns import Bars, Part, Table
from benchmarks.findings import Verdict
from benchmarks.machine import ROOT, Conditions, Watch, commit
from benchmarks.report import table
from benchmarks.suite.processes import memory
from epoxy import Client, EpoxyError, Which, testing

RESULT = ROOT / "benchmarks" / "results" / "actors.json"
MARK = "actors: made by benchmarks.actors"

MANY = 500
WARM_S = 1.0
PATIENCE_S = 120.0
BYTES_ASLEEP = 1024


class Measured(Struct, frozen=True, kw_only=True):
    name: str
    pace: Pace
    ratio: float
    """To the handler's pace in the same run."""
    node_us: float = 0.0
    worker_us: float = 0.0


class Report(Struct, frozen=True, kw_only=True):
    load_average: float
    """Before the run: of other processes."""
    measured: list[Measured]
    asleep: int
    bytes_asleep: float
    verdicts: list[Verdict]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.actors", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--aiohttp-python", type=Path, required=True, metavar="PATH", help="a Python that has aiohttp")
    made.add_argument("--seconds", type=float, default=10.0, help="of each measurement (default: 10)")
    made.add_argument("--connections", type=int, default=32)
    made.add_argument("--depth", type=int, default=8, help="requests under way on each of them (default: 8)")
    made.add_argument("--asleep", type=int, default=10_000, help="actors that sleep (default: 10,000)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    made.add_argument("--write", action="store_true", help="renew benchmarks/results/ and docs/benchmarks.md")
    return made


@contextmanager
def process(command: Sequence[str]) -> Iterator["subprocess.Popen[bytes]"]:
    started = subprocess.Popen(command, cwd=ROOT)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(15)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, options: argparse.Namespace, node: testing.ClusterNode, worker: int) -> None:
        assert node.pid is not None
        self.measured: list[Measured] = []
        self._options = options
        self._pids = (node.pid, worker)
        self._port = int(node.url.rsplit(":", 1)[1])
        self._client = node.client(timeout=PATIENCE_S)

    def plain(self, port: int) -> None:
        until(lambda: answers(port), "the aiohttp handler is up")
        self.measured.append(Measured(name="aiohttp handler", pace=self._pace(port, ["/echo"]), ratio=1.0))

    def actors(self, name: str, count: int, words: str) -> None:
        for number in range(count):
            self._client.actors.request(Which(name=name, key=str(number)), b"x", pool="bench")
        before = [cpu_s(pid) for pid in self._pids]
        paths = [f"/v2/actors/request?name={name}&key={number}" for number in range(count)]
        pace = self._pace(self._port, paths)
        requests = pace.answered * (self._options.seconds + WARM_S) / self._options.seconds
        used = [(cpu_s(pid) - at) / requests * 1e6 for pid, at in zip(self._pids, before, strict=True)]
        ratio = pace.a_second / self.measured[0].pace.a_second
        self.measured.append(Measured(name=words, pace=pace, ratio=ratio, node_us=used[0], worker_us=used[1]))

    def asleep(self, count: int) -> float:
        """Bytes at the node for each, when as many sleep already: the first ones fill its caches, too."""
        others = awake(self._client)
        sizes = []
        for part in ("first", "second"):
            for number in range(count):
                self._client.actors.request(Which(name="sleeper", key=f"{part}/{number}"), b"x", pool="bench")
            until(lambda: awake(self._client) <= others, "they sleep")
            sizes.append(memory([self._pids[0]]).anonymous)
        return (sizes[1] - sizes[0]) / count

    def _pace(self, port: int, paths: Sequence[str]) -> Pace:
        given = self._options
        run = measure(
            "127.0.0.1",
            port,
            paths,
            connections=given.connections,
            depth=given.depth,
            warm_s=WARM_S,
            seconds=given.seconds,
        )
        return asyncio.run(run)


def answers(port: int) -> bool:
    try:
        asyncio.run(measure("127.0.0.1", port, ["/echo"], connections=1, depth=1, warm_s=0.0, seconds=0.05))
    except (OSError, RuntimeError):
        return False
    return True


def awake(client: Client) -> int:
    """Actors that have a slot of a worker."""
    return sum(each.slots for each in client.actors.envoys(pool="bench"))


def until(condition: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not in {PATIENCE_S:.0f} s: {words}")
        time.sleep(0.2)


def verdicts(measured: Sequence[Measured], bytes_asleep: float) -> list[Verdict]:
    paces = {each.name: each for each in measured}
    found = [
        Verdict(
            claim=name,
            wanted=f"at least {least:,} a second",
            found=f"{paces[name].pace.a_second:,.0f} a second",
            held=paces[name].pace.a_second >= least,
        )
        for name, least in (("one actor", 3_000), (f"{MANY} actors", 5_000))
    ]
    failed = sum(each.pace.failed for each in measured)
    found.append(Verdict(claim="failed requests", wanted="0", found=str(failed), held=failed == 0))
    slowest = max(each.pace.cpu_us / each.node_us for each in measured if each.node_us)
    told = f"{slowest:.0%} of the node's CPU for a request"
    found.append(Verdict(claim="the client is not measured", wanted="below 100 %", found=told, held=slowest < 1))
    found.append(
        Verdict(
            claim="an actor that sleeps",
            wanted=f"at most {BYTES_ASLEEP:,} bytes at its node",
            found=f"{bytes_asleep:,.0f} bytes",
            held=bytes_asleep <= BYTES_ASLEEP,
        )
    )
    return found


HEAD = ["", "a second", "beside aiohttp", "p50 ms", "p99 ms", "node us", "worker us", "client us"]


def cells(report: Report) -> list[list[str]]:
    return [
        [
            each.name,
            f"{each.pace.a_second:,.0f}",
            f"{each.ratio:.2f}",
            f"{each.pace.p50_ms:.1f}",
            f"{each.pace.p99_ms:.1f}",
            f"{each.node_us:.0f}" if each.node_us else "",
            f"{each.worker_us:.0f}" if each.worker_us else "",
            f"{each.pace.cpu_us:.0f}",
        ]
        for each in report.measured
    ]


def show(report: Report) -> str:
    lines = [f"load average before the run: {report.load_average:.1f}", "", table(HEAD, cells(report))]
    held = {True: "held", False: "NOT "}
    lines += [f"{held[each.held]} {each.claim}: {each.found} ({each.wanted})" for each in report.verdicts]
    return "\n".join(lines)


def part(report: Report, conditions: Conditions) -> Part:
    groups = {"requests": {each.name: each.pace.a_second for each in report.measured}}
    return Part(
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=commit(),
        conditions=conditions,
        verdicts=report.verdicts,
        tables=[Table(title="Requests to actors at one node", head=HEAD, rows=cells(report))],
        bars=[Bars(file="bench-actors.svg", title="Requests to actors at one node", label="a second", groups=groups)],
    )


def run(options: argparse.Namespace) -> Report:
    load_average = os.getloadavg()[0]
    (port,) = testing.free_ports(1)
    with ExitStack() as stack:
        plain = ROOT / "benchmarks" / "actors" / "plain.py"
        stack.enter_context(process([str(options.aiohttp_python), str(plain), str(port)]))
        (node,) = stack.enter_context(testing.cluster(1))
        worker = stack.enter_context(process([sys.executable, "-m", "benchmarks.actors.host", node.url]))
        bench = Bench(options, node, worker.pid)
        bench.plain(port)
        bench.actors("echo", 1, "one actor")
        bench.actors("echo", MANY, f"{MANY} actors")
        bench.actors("count", 1, "one actor with state")
        bench.actors("count", MANY, f"{MANY} actors with state")
        asleep = bench.asleep(options.asleep)
    return Report(
        load_average=load_average,
        measured=bench.measured,
        asleep=options.asleep,
        bytes_asleep=asleep,
        verdicts=verdicts(bench.measured, asleep),
    )


def main() -> None:
    options = parser().parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="epoxy-actors-") as folder:
            watch = Watch(Path(folder))
            report = run(options)
            if options.write:
                columns.save(RESULT, {"actors": part(report, watch.read())}, before=False)
                columns.renew(RESULT, MARK)
    except (EpoxyError, OSError, RuntimeError) as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
    print(show(report))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    raise SystemExit(0 if all(each.held for each in report.verdicts) else 1)


if __name__ == "__main__":
    main()
