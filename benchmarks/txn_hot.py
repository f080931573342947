"""Transactions that want the same key, beside etcd's, on real processes: `python -m benchmarks.txn_hot`.

Three nodes on this machine, without delays between them. Clients in closed loops read a key and write it in one
transaction: all of them the same key or each a key of its own, through one node (of etcd the leader) or through all
three. Every stretch is measured for both systems in turn. A run takes two minutes.

    python -m benchmarks.txn_hot --rounds 1                  a look
    python -m benchmarks.txn_hot --clients 3 --only hot      one client at each node
    make bench-txn                                           the compiled build, beside etcd
"""

import argparse
import re
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.suite.job import MARK, Choice, Exchange, Job, Outcome, Step, Wire
from benchmarks.suite.measure import generate, honest
from benchmarks.suite.systems.base import System
from benchmarks.suite.systems.epoxy import Epoxy
from benchmarks.suite.systems.etcd import Etcd
from benchmarks.suite.wires import grpc, http1
from epoxy.model.errors import EpoxyError

WARM_S = 0.7
COUNTED = re.compile(r'^epoxy_txn_(executed_total|commands_total\{path="(?:fast|slow)"\}) ([0-9.e+]+)$', re.MULTILINE)


class Stretch(Struct, frozen=True, kw_only=True):
    name: str
    title: str
    choice: Choice
    one_node: bool


STRETCHES = (
    Stretch(name="hot-one", title="one key, through one node", choice=Choice.ONE, one_node=True),
    Stretch(name="hot-three", title="one key, through three", choice=Choice.ONE, one_node=False),
    Stretch(name="own-one", title="own keys, through one node", choice=Choice.OWN, one_node=True),
    Stretch(name="own-three", title="own keys, through three", choice=Choice.OWN, one_node=False),
)


class Found(Struct, frozen=True, kw_only=True):
    """Medians over the rounds; `failed` are those of all. `least_share`: what the node that got least through has, of
    an even share. `in_command` and `fast_share` are Epoxy's alone."""

    rate: float
    least_share: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    others_share: float
    failed: int
    in_command: float | None = None
    fast_share: float | None = None


def epoxy_txn(key: bytes) -> Exchange:
    body = b'{"then": [{"op": "get", "key": "%b"}, {"op": "put", "key": "%b", "value": "v"}]}' % (key, key)
    return Exchange(http1.request("POST", b"/v2/txn", body, "application/json"), b"200")


def etcd_txn(key: bytes) -> Exchange:
    get = grpc.field(2, grpc.field(1, grpc.field(1, key)))
    put = grpc.field(2, grpc.field(2, grpc.field(1, key) + grpc.field(2, b"v")))
    return Exchange(grpc.call(grpc.TXN, get + put), grpc.SUCCEEDED)


def job(system: System, stretch: Stretch, clients: int, seconds: float) -> Job:
    key = b"txn/hot" if stretch.choice is Choice.ONE else b"txn/own/" + MARK
    ours = isinstance(system, Epoxy)
    door = system.doors["HTTP" if ours else "gRPC"]
    return Job(
        wire=Wire.HTTP if ours else Wire.GRPC,
        ports=door.ports[:1] if stretch.one_node else door.ports,
        greeting=() if ours else (grpc.greeting(),),
        steps=(Step(exchange=epoxy_txn(key) if ours else etcd_txn(key), choice=stretch.choice, count=64 * clients),),
        clients=clients,
        warm_s=WARM_S,
        seconds=seconds,
        roots=system.roots,
    )


def counted(system: System) -> dict[str, float]:
    """What Epoxy's nodes have counted of transactions, together."""
    sums: dict[str, float] = {}
    for port in system.doors["HTTP"].ports if isinstance(system, Epoxy) else ():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            for name, count in COUNTED.findall(answer.read().decode()):
                sums[name] = sums.get(name, 0.0) + float(count)
    return sums


def measured(system: System, stretch: Stretch, clients: int, seconds: float) -> Found:
    before, work = counted(system), job(system, stretch, clients, seconds)
    outcome = honest(f"{system.name}, {stretch.title}", work, generate(work))
    grown = {name: count - before.get(name, 0.0) for name, count in counted(system).items()}
    return found(outcome, grown)


def found(outcome: Outcome, grown: dict[str, float]) -> Found:
    fast, slow = (grown.get(f'commands_total{{path="{path}"}}', 0.0) for path in ("fast", "slow"))
    shares = [node.operations * len(outcome.nodes) / max(1, outcome.operations) for node in outcome.nodes]
    return Found(
        rate=outcome.rate,
        least_share=min(shares),
        p50_ms=outcome.latency.p50,
        p99_ms=outcome.latency.p99,
        cpu_us=outcome.cpu_us,
        others_share=outcome.others_share,
        failed=outcome.failed,
        in_command=grown["executed_total"] / (fast + slow) if fast + slow else None,
        fast_share=fast / (fast + slow) if fast + slow else None,
    )


def summed(rounds: Sequence[Found]) -> Found:
    def middle(name: str) -> float:
        return float(statistics.median([getattr(each, name) for each in rounds]))

    counts = ("in_command", "fast_share")
    names = [name for name in Found.__struct_fields__ if name not in ("failed", *counts)]
    more = {name: middle(name) for name in counts if getattr(rounds[0], name) is not None}
    return Found(failed=sum(each.failed for each in rounds), **{name: middle(name) for name in names}, **more)


def line(name: str, each: Found) -> str:
    parts = [
        f"{name:7} {each.rate:7.0f}/s",
        f"least {each.least_share:.2f}",
        f"p50 {each.p50_ms:6.2f} ms  p99 {each.p99_ms:6.1f}",
        f"CPU {each.cpu_us:5.0f} us",
        f"failed {each.failed}",
        f"others {each.others_share:.0%}",
    ]
    if each.in_command is not None and each.fast_share is not None:
        parts.append(f"{each.in_command:.1f} a command, {each.fast_share:.0%} fast")
    return "  ".join(parts)


@contextmanager
def running(folder: Path, etcd: Path | None, python: Path | None) -> Iterator[list[System]]:
    systems: list[System] = [Epoxy(folder / "epoxy", python=python)]
    if etcd is not None:
        systems.append(Etcd(folder / "etcd", etcd))
    try:
        for system in systems:
            system.start()
        yield systems
    finally:
        for system in systems:
            system.stop()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.txn_hot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--clients", type=int, default=48, help="in all (default: 48)")
    made.add_argument("--seconds", type=float, default=3.0, help="of a stretch (default: 3)")
    made.add_argument("--rounds", type=int, default=3, help="of every stretch, in turns (default: 3)")
    made.add_argument(
        "--only", default="", metavar="NAME", help=f"names begin so: {', '.join(s.name for s in STRETCHES)}"
    )
    made.add_argument("--etcd", type=Path, metavar="PATH", help="its binary; without it Epoxy is measured alone")
    made.add_argument("--python", type=Path, metavar="PATH", help="the interpreter that runs our nodes")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    return made


def main() -> None:
    options = parser().parse_args()
    stretches = [stretch for stretch in STRETCHES if stretch.name.startswith(options.only)]
    if not stretches or min(options.clients, options.rounds) < 1 or options.seconds <= 0:
        raise SystemExit("error: nothing to measure; see --help")
    results: dict[str, dict[str, Found]] = {}
    try:
        with (
            tempfile.TemporaryDirectory(prefix="epoxy-txn-hot-") as folder,
            running(Path(folder), options.etcd, options.python) as systems,
        ):
            for stretch in stretches:
                results[stretch.name] = compared(systems, stretch, options)
    except (EpoxyError, OSError, RuntimeError) as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))


def compared(systems: Sequence[System], stretch: Stretch, options: argparse.Namespace) -> dict[str, Found]:
    print(f"{stretch.title}, {options.clients} clients", flush=True)
    rounds: dict[str, list[Found]] = {system.name: [] for system in systems}
    for number in range(options.rounds):
        for system in systems:
            print(f"  round {number + 1} of {options.rounds}, {system.name}", end="\r", file=sys.stderr, flush=True)
            rounds[system.name].append(measured(system, stretch, options.clients, options.seconds))
    results = {name: summed(each) for name, each in rounds.items()}
    for name, each in results.items():
        print(f"  {line(name, each)}", flush=True)
    if "etcd" in results:
        print(f"  {results['Epoxy'].rate / results['etcd'].rate:.2f} times etcd's", flush=True)
    return results


if __name__ == "__main__":
    main()
