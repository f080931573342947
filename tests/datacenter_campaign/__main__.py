"""Datacenters of several nodes on PostgreSQL, while nodes and databases are killed, paused, stopped and promoted:
`make datacenter-campaign`.

    python -m tests.datacenter_campaign                              3 datacenters of 2 nodes, 10 minutes
    python -m tests.datacenter_campaign --datacenters 1 --nodes 3    one of 3 nodes
    python -m tests.datacenter_campaign --minutes 1 --only 'kill a gateway' --seed 7
    python -m tests.datacenter_campaign --json                       the figures as JSON, on standard output

Clients at every node read and write keys, count over the Redis protocol, and move amounts between accounts with
transactions. In the end histories must be linearizable, every acknowledged increment be counted once, the accounts hold
what they held, each node be ready, and no log have an error. Exit 1: something of that is false; the history and all
logs are kept then.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from msgspec import Struct

from epoxy import Client
from epoxy.testing.datacenter_cluster import datacenters
from epoxy.testing.process_cluster import ClusterNode
from epoxy_sim.history import Failed, Operation, Read, Unknown
from tests.datacenter_campaign.counters import Sums, read_counter
from tests.datacenter_campaign.faults import KINDS, Faults
from tests.datacenter_campaign.turns import rage, say
from tests.end_to_end.datacenter_load import DatacenterLoad
from tests.end_to_end.recorder import PATIENCE_S, Recorder, judge

DATACENTERS, NODES, MINUTES, CLIENTS = 3, 2, 10.0, 1
AT_ONCE = 8
SHOWN = 20
"""Findings that are printed. All are in the files that are kept."""


class CampaignFigures(Struct, frozen=True, kw_only=True):
    seed: int
    seconds: float
    faults: dict[str, int]
    operations: int
    outcomes: dict[str, int]
    keys: int
    slowest_s: float
    increments: int
    unknown_increments: int
    moves: int
    unknown_moves: int
    totals: int
    slowest_take_over_s: dict[str, float]
    findings: tuple[str, ...]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tests.datacenter_campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--datacenters", type=int, default=DATACENTERS, help=f"default: {DATACENTERS}")
    made.add_argument("--nodes", type=int, default=NODES, help=f"in each of them (default: {NODES})")
    made.add_argument("--minutes", type=float, default=MINUTES, help=f"of faults (default: {MINUTES:g})")
    made.add_argument("--clients", type=int, default=CLIENTS, help=f"of keys, at each node (default: {CLIENTS})")
    made.add_argument(
        "--only",
        action="append",
        choices=KINDS,
        metavar="FAULT",
        help=f"this kind alone; may be given several times. One of: {'; '.join(KINDS)}",
    )
    made.add_argument("--seed", type=int, default=None, help="of faults and clients (default: by chance)")
    made.add_argument("--json", action="store_true", help="the figures as JSON")
    return made


def read_all(nodes: Iterable[ClusterNode], recorder: Recorder) -> list[str]:
    """Every key, linearizable, through each of these nodes: part of the history."""
    clients = [(node.name, Client(node.url, timeout=PATIENCE_S)) for node in nodes]
    keys = recorder.keys()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(recorder.run, name, client, key, Read()) for key in keys for name, client in clients]
    for _, client in clients:
        client.close()
    return [f"not read: {each.result()}" for each in asked if isinstance(each.result(), Failed | Unknown)]


def judge_keys(history: list[Operation], folder: Path) -> list[str]:
    """Key by key: the judge of reads that may be old looks through all that it is given."""
    of_key: dict[bytes, list[Operation]] = {}
    for operation in history:
        of_key.setdefault(operation.key, []).append(operation)
    found = []
    for number, operations in enumerate(of_key.values()):
        kept = folder / f"key-{number}"
        kept.mkdir(exist_ok=True)
        try:
            judge(operations, kept)
        except AssertionError as wrong:
            found.append(str(wrong))
        else:
            kept.rmdir()
    return found


def run(folder: Path, options: argparse.Namespace) -> CampaignFigures:
    began_s = time.monotonic()
    recorder = Recorder()
    with datacenters(options.datacenters, nodes=options.nodes, standby=True, folder=folder) as cluster:
        say(f"  {options.datacenters} datacenters with {options.nodes} nodes are up; seed {options.seed}")
        nodes = cluster.nodes
        faults = Faults(cluster, random.Random(options.seed))
        findings: list[str] = []
        with (
            DatacenterLoad(recorder, nodes, clients=options.clients, seed=options.seed) as load,
            Sums(nodes, options.seed) as sums,
        ):
            dice, kinds = random.Random(options.seed), options.only or KINDS
            done = rage(faults.strike, kinds, options.minutes, dice, recorder, findings)
        if not findings:
            findings += read_all([each.nodes[-1] for each in cluster.datacenters], recorder)
            last = cluster.nodes[0]
            with Client(last.url, timeout=PATIENCE_S) as client:
                findings += sums.judge(read_counter(last), client)
        findings += cluster.complaints()
    findings += judge_keys(recorder.history, folder)
    return CampaignFigures(
        seed=options.seed,
        seconds=round(time.monotonic() - began_s, 1),
        faults=dict(done),
        operations=len(recorder.history),
        outcomes=dict(Counter(type(each.outcome).__name__ for each in recorder.history)),
        keys=len(recorder.keys()),
        slowest_s=round(load.slowest_s, 2),
        increments=len(sums.counted),
        unknown_increments=sum(sums.unknown.values()),
        moves=sums.moves,
        unknown_moves=sums.unknown_moves,
        totals=sums.totals,
        slowest_take_over_s={kind: round(max(waits), 2) for kind, waits in faults.waits.items()},
        findings=tuple(findings),
    )


def show(found: CampaignFigures) -> str:
    lines = [
        f"seed {found.seed}, {found.seconds:.0f} s, faults: "
        + ", ".join(f"{count} x {kind}" for kind, count in sorted(found.faults.items())),
        f"{found.operations} operations on {found.keys} keys, the slowest {found.slowest_s} s: {found.outcomes}",
        f"{found.increments} increments and {found.unknown_increments} unknown; {found.moves} moves and "
        f"{found.unknown_moves} unknown; {found.totals} totals",
        f"slowest take-over: {found.slowest_take_over_s}",
        *found.findings[:SHOWN],
        f"{len(found.findings)} findings",
    ]
    return "\n".join(lines)


def main() -> int:
    options = parser().parse_args()
    options.seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    folder = Path(tempfile.mkdtemp(prefix="epoxy-datacenter-campaign-"))
    is_right = False
    try:
        found = run(folder, options)
        is_right = not found.findings
        print(msgspec.json.encode(found).decode() if options.json else show(found))
    finally:
        if is_right:
            shutil.rmtree(folder)
        else:
            say(f"kept in {folder}")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
