"""Nodes of several processes (`node.processes`), while each of these is killed, paused and stopped:
`make processes-campaign`.

    python -m tests.datacenter_campaign.processes                            one node of 2 processes, 5 minutes
    python -m tests.datacenter_campaign.processes --datacenters 3 --processes 3
    python -m tests.datacenter_campaign.processes --minutes 1 --only 'kill the first' --seed 7

The load and the judges are those of `tests.datacenter_campaign`, with more clients at each node, whose connections the
system spreads over its processes. Exit 1: something is wrong; the history, all logs and the data are kept then.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from epoxy import Client
from epoxy.testing.datacenter_cluster import errors_in
from epoxy.testing.process_cluster import Cluster, ClusterNode, cluster
from tests.datacenter_campaign.__main__ import judge_keys, read_all
from tests.datacenter_campaign.counters import Sums, read_counter
from tests.datacenter_campaign.names import Names
from tests.datacenter_campaign.turns import BREATH_S, rage, say
from tests.end_to_end.datacenter_load import DatacenterLoad
from tests.end_to_end.recorder import PATIENCE_S, Recorder
from tests.end_to_end.test_processes import children, is_alive, restart_with, wait_for_shards, wait_until

DATACENTERS, PROCESSES, MINUTES, CLIENTS = 1, 2, 5.0, 3
LEASE_MS = 1500.0
MOST_PROCESSES = 3
SHOWN = 20


class ProcessFaults:
    """Each leaves all nodes running and ready, with the processes they had, and the shards spread over them."""

    def __init__(self, made: Cluster, processes: int, dice: random.Random) -> None:
        self._cluster = made
        self._processes = processes
        self._dice = dice

    def strike(self, kind: str) -> str:
        node = self._dice.choice(self._cluster.nodes)
        told = KINDS[kind](self, node)
        self._cluster.wait_until_connected()
        for each in self._cluster.nodes:
            wait_for_shards(each, self._processes)
        return f"{node.name}{told}"

    def kill_another(self, node: ClusterNode) -> str:
        os.kill(self._another(node), signal.SIGKILL)
        return ""

    def kill_the_first(self, node: ClusterNode) -> str:
        """Its supervisor starts it again at once."""
        orphans = children(node)
        node.kill()
        waits = self._dice.random() < 0.5
        if waits:
            wait_until(lambda: not any(map(is_alive, orphans)), "the others end with the first")
        node.start()
        return f", {'after' if waits else 'before'} the others ended"

    def kill_all(self, node: ClusterNode) -> str:
        for orphan in children(node):
            os.kill(orphan, signal.SIGKILL)
        node.kill()
        node.start()
        return ""

    def kill_beside_one_that_stands_still(self, node: ClusterNode) -> str:
        """It holds the address of Redis clients, and must not hold it for long."""
        orphan = self._another(node)
        os.kill(orphan, signal.SIGSTOP)
        node.kill()
        try:
            wait_until(lambda: not is_alive(orphan), "it ends with the first")
        finally:
            if is_alive(orphan):
                os.kill(orphan, signal.SIGKILL)
        node.start()
        return ""

    def pause_another(self, node: ClusterNode) -> str:
        """Until it has lost its shards."""
        paused = self._another(node)
        os.kill(paused, signal.SIGSTOP)
        try:
            node.wait_until(lambda status: len(status.nodes) < self._processes, "without the one that stands still")
        finally:
            os.kill(paused, signal.SIGCONT)
        wait_until(lambda: paused not in children(node), "it ends when it goes on")
        return ""

    def pause_the_first(self, node: ClusterNode) -> str:
        return self._doze(node.pid, self._dice.uniform(1.1, 2.0))

    def doze(self, node: ClusterNode) -> str:
        return self._doze(self._dice.choice([node.pid, *children(node)]), self._dice.uniform(0.1, 0.9))

    def _doze(self, pid: int | None, leases: float) -> str:
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(leases * LEASE_MS / 1000)
        os.kill(pid, signal.SIGCONT)
        return f", {leases:.1f} leases"

    def stop_another(self, node: ClusterNode) -> str:
        """With SIGTERM, which is not for it: it hands over all it has, and is started anew."""
        stopped = self._another(node)
        os.kill(stopped, signal.SIGTERM)
        wait_until(lambda: not is_alive(stopped), "it ends")
        return ""

    def restart(self, node: ClusterNode) -> str:
        node.restart()
        return ""

    def change_number(self, node: ClusterNode) -> str:
        other = self._dice.randint(1, MOST_PROCESSES)
        node.stop()
        restart_with(node, other)
        time.sleep(BREATH_S)
        node.stop()
        restart_with(node, self._processes)
        return f", to {other} and back"

    def _another(self, node: ClusterNode) -> int:
        return self._dice.choice(children(node))


KINDS: dict[str, Callable[[ProcessFaults, ClusterNode], str]] = {
    "kill another": ProcessFaults.kill_another,
    "kill the first": ProcessFaults.kill_the_first,
    "kill all": ProcessFaults.kill_all,
    "kill the first beside one that stands still": ProcessFaults.kill_beside_one_that_stands_still,
    "pause another past its lease": ProcessFaults.pause_another,
    "pause the first for longer than a lease": ProcessFaults.pause_the_first,
    "pause one for less than a lease": ProcessFaults.doze,
    "stop another": ProcessFaults.stop_another,
    "restart": ProcessFaults.restart,
    "change the number": ProcessFaults.change_number,
}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tests.datacenter_campaign.processes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--datacenters", type=int, default=DATACENTERS, help=f"default: {DATACENTERS}")
    made.add_argument("--processes", type=int, default=PROCESSES, help=f"of each node (default: {PROCESSES})")
    made.add_argument("--minutes", type=float, default=MINUTES, help=f"of faults (default: {MINUTES:g})")
    made.add_argument("--clients", type=int, default=CLIENTS, help=f"of each kind, at each node (default: {CLIENTS})")
    made.add_argument("--only", action="append", choices=KINDS, metavar="FAULT", help=f"one of: {'; '.join(KINDS)}")
    made.add_argument("--seed", type=int, default=None, help="of faults and clients (default: by chance)")
    return made


def run(folder: Path, options: argparse.Namespace) -> list[str]:
    recorder = Recorder()
    findings: list[str] = []
    with cluster(options.datacenters, folder=folder, settings=f"[store]\nlease_ms = {LEASE_MS:.0f}\n") as made:
        for node in made:
            node.stop()
            restart_with(node, options.processes)
        made.wait_until_connected()
        say(f"  {options.datacenters} nodes of {options.processes} processes are up; seed {options.seed}")
        faults = ProcessFaults(made, options.processes, random.Random(options.seed))
        with (
            DatacenterLoad(recorder, made.nodes, clients=options.clients, seed=options.seed) as load,
            Sums(made.nodes, options.seed, clients=options.clients) as sums,
            Names(made.nodes, clients=options.clients) as names,
        ):
            dice, kinds = random.Random(options.seed), options.only or KINDS
            done = rage(faults.strike, kinds, options.minutes, dice, recorder, findings)
        if not findings:
            findings += read_all(made.nodes, recorder)
            last = made[0]
            with Client(last.url, timeout=PATIENCE_S) as client:
                findings += sums.judge(read_counter(last), client)
            findings += names.judge(last)
        findings += [f"{node.name}: {line}" for node in made for line in errors_in(node.log)]
    findings += judge_keys(recorder.history, folder)
    outcomes = dict(Counter(type(each.outcome).__name__ for each in recorder.history))
    say(f"seed {options.seed}: " + ", ".join(f"{count} x {kind}" for kind, count in sorted(done.items())))
    say(f"{len(recorder.history)} operations on {len(recorder.keys())} keys, the slowest {load.slowest_s:.2f} s")
    told = dict(Counter(each.outcome for each in names.claims))
    say(f"{outcomes}; names: {told}")
    say(f"{len(sums.counted)} increments and {sum(sums.unknown.values())} unknown; {sums.moves} moves")
    return findings


def main() -> int:
    options = parser().parse_args()
    options.seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    folder = Path(tempfile.mkdtemp(prefix="epoxy-processes-campaign-"))
    findings = ["the campaign did not end"]
    try:
        findings = run(folder, options)
        for words in findings[:SHOWN]:
            print(words)
        print(f"{len(findings)} findings")
    finally:
        if findings:
            say(f"kept in {folder}")
        else:
            with suppress(OSError):
                shutil.rmtree(folder)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
