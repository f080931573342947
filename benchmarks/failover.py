"""`make bench-failover`: how long no server takes writes when a primary is lost, beside Redis Sentinel.

Two clusters of three plain servers with the same settings, both up all the time; they take turns in losing their
primary, so that both meet the same moments of the machine. One writer for each, the same code, through a Sentinel
client: what it measures is the longest pause between two of its writes.
"""

import argparse
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from benchmarks.failover_cluster import CLUSTER, ElectCluster, ask, wait_for
from benchmarks.failover_sentinel import SentinelCluster
from benchmarks.failover_writer import Writer
from benchmarks.plausible import above_floor
from tools.programs import redis_server

DOWN_AFTER_MS = 1_000
MIN_REPLICAS = 1
SLEEP_S = 3.0
"""How long a server that is stopped stays so: three times down-after."""

SILENCE_MS = DOWN_AFTER_MS / 2
"""No message announces a machine or a server that hangs: the others must miss it for most of down-after, which they
count from the last sign of life, before the loss."""

WARM = 20
"""Writes before and after a loss."""

IDLE_S = 60.0
"""Processor time is counted in hundredths of a second: this long for two digits of a percent."""


class Contender(Protocol):
    """What both kinds of cluster can do for the benchmark."""

    name: str
    ports: dict[str, int]
    sentinels: list[tuple[str, int]]

    def primary_now(self, *, but: str = "") -> str: ...
    def lose(self, name: str, kind: str) -> None: ...
    def revive(self, name: str, primary: str, kind: str) -> None: ...
    def followers(self, name: str) -> int: ...
    def stop(self) -> None: ...


class Ours:
    name = "epoxy elect"

    def __init__(self, folder: Path, binary: Path) -> None:
        self.cluster = ElectCluster(folder, binary, down_after_ms=DOWN_AFTER_MS, min_replicas=MIN_REPLICAS)
        self.ports = {name: member.server_port for name, member in self.cluster.members.items()}
        self.sentinels = [("127.0.0.1", member.clients_port) for member in self.cluster.members.values()]
        self.primary_now = self.cluster.primary_now
        self.followers = self.cluster.followers
        self.stop = self.cluster.stop
        self.cluster.write_files()
        self.cluster.start()

    def lose(self, name: str, kind: str) -> None:
        if kind == "machine":
            self.cluster.signal_agent(name, signal.SIGKILL)
        self.cluster.signal_server(name, signal.SIGSTOP if kind == "sleep" else signal.SIGKILL)

    def revive(self, name: str, primary: str, kind: str) -> None:  # noqa: ARG002
        if kind == "sleep":
            self.cluster.signal_server(name, signal.SIGCONT)
            return
        self.cluster.start_server(name)
        if kind == "machine":
            self.cluster.start_agent(name)


class Theirs:
    name = "Redis Sentinel"

    def __init__(self, folder: Path, binary: Path) -> None:
        self.cluster = SentinelCluster(folder, binary, n=3, down_after_ms=DOWN_AFTER_MS, min_replicas=MIN_REPLICAS)
        self.ports = self.cluster.server_ports
        self.sentinels = [("127.0.0.1", port) for port in self.cluster.sentinel_ports.values()]
        self.primary_now = self.cluster.primary_now
        self.followers = self.cluster.followers
        self.stop = self.cluster.stop
        self.cluster.start()

    def lose(self, name: str, kind: str) -> None:
        if kind == "machine":
            self.cluster.signal_sentinel(name, signal.SIGKILL)
        self.cluster.signal_server(name, signal.SIGSTOP if kind == "sleep" else signal.SIGKILL)

    def revive(self, name: str, primary: str, kind: str) -> None:
        if kind == "sleep":
            self.cluster.signal_server(name, signal.SIGCONT)
            return
        self.cluster.start_server(name, primary)
        if kind == "machine":
            self.cluster.start_sentinel(name)


class Probe:
    """Asks every server for a write, round and round. One that says yes before and after another did: both were open in
    between."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.twice = 0
        self._ports = ports
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> "Probe":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.is_set():
            yes = [port for port in self._ports if self._takes(port)]
            if len(yes) > 1 and self._takes(yes[0]) and self._takes(yes[1]):
                self.twice += 1
            self._over.wait(0.01)

    def _takes(self, port: int) -> bool:
        with suppress(OSError):
            return ask(port, "SET", "probe", "x", patience_s=0.05) == b"OK"
        return False


class Trial(Struct, frozen=True, kw_only=True):
    contender: str
    kind: str
    unavailable_s: float
    acknowledged: int
    lost_acknowledged: int
    lost_answered: int
    two_open: int


def trial(contender: Contender, kind: str) -> Trial:
    """Lose the primary under load, wait until writes go on, bring it back, and count."""
    primary = wait_for(contender.primary_now, "no primary")
    wait_for(lambda: contender.followers(primary) == 2, "not all servers follow")
    writer = Writer(contender.sentinels, CLUSTER, replicas=MIN_REPLICAS)
    with writer, Probe(list(contender.ports.values())) as probe:
        more(writer)
        contender.lose(primary, kind)
        lost_s = time.monotonic()
        successor = wait_for(lambda: contender.primary_now(but=primary), "no server takes over")
        more(writer)
        if kind == "sleep":
            wait_for(lambda: time.monotonic() - lost_s >= SLEEP_S, "time stands still")
        contender.revive(primary, successor, kind)
        wait_for(lambda: contender.followers(successor) == 2, f"{primary} does not come back")
        more(writer)
    port = contender.ports[successor]
    if kind != "server":
        above_floor(f"{contender.name}, {kind} lost", [max(writer.gaps_s) * 1e3], SILENCE_MS)
    return Trial(
        contender=contender.name,
        kind=kind,
        unavailable_s=max(writer.gaps_s),
        acknowledged=len(writer.acked),
        lost_acknowledged=len(writer.missing(port, writer.acked)),
        lost_answered=len(writer.missing(port, writer.answered)),
        two_open=probe.twice,
    )


def more(writer: Writer) -> None:
    enough = len(writer.acked) + WARM
    wait_for(lambda: len(writer.acked) >= enough, "writes are not acknowledged")


def row(trials: list[Trial]) -> list[str]:
    times = sorted(each.unavailable_s for each in trials)
    p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
    return [
        trials[0].kind,
        trials[0].contender,
        str(len(trials)),
        f"{statistics.median(times):.2f}",
        f"{times[0]:.2f} to {times[-1]:.2f}",
        f"{p99:.2f}",
        f"{sum(each.lost_acknowledged for each in trials)} of {sum(each.acknowledged for each in trials):,}",
        str(sum(each.lost_answered for each in trials)),
        str(sum(each.two_open > 0 for each in trials)),
    ]


HEADS = (
    "lost",
    "by",
    "failovers",
    "median s",
    "spread s",
    "p99 s",
    "acknowledged and lost",
    "answered and lost",
    "two open",
)


def table(trials: list[Trial]) -> list[str]:
    groups: dict[tuple[str, str], list[Trial]] = {}
    for each in trials:
        groups.setdefault((each.kind, each.contender), []).append(each)
    lines = [HEADS, ("---",) * len(HEADS), *(row(group) for group in groups.values())]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def idle(folder: Path, binary: Path, idle_s: float) -> float:
    """The share of a core that one agent of five takes when nothing happens, at the defaults; the busiest of them."""
    cluster = ElectCluster(folder, binary, n=5, down_after_ms=5_000, min_replicas=2)
    cluster.write_files()
    try:
        cluster.start()
        wait_for(lambda: cluster.followers("a") == 4, "not all servers follow")
        before = {name: cluster.agent_cpu_s(name) for name in cluster.members}
        began_s = time.monotonic()
        wait_for(lambda: time.monotonic() - began_s >= idle_s, "time stands still", idle_s + 5)
        spent = [cluster.agent_cpu_s(name) - before[name] for name in cluster.members]
        return max(spent) / (time.monotonic() - began_s)
    finally:
        cluster.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--failovers", type=int, default=20, help="of each kind, by each")
    parser.add_argument("--kinds", default="machine,server,sleep", help="what is lost: machine, server, sleep")
    parser.add_argument(
        "--server", default="", help="a redis-server or valkey-server; default: what tools/programs.py finds"
    )
    parser.add_argument("--idle", type=float, default=IDLE_S, help="seconds to watch idle agents for; 0 does not")
    parser.add_argument("--write", type=Path, help="where the trials go, as JSON")
    given = parser.parse_args()
    binary = Path(given.server) if given.server else redis_server()
    trials: list[Trial] = []
    with tempfile.TemporaryDirectory() as folder:
        if given.idle:
            print(f"idle agent of five: {idle(Path(folder) / 'idle', binary, given.idle):.2%} of a core", flush=True)
        makers: tuple[Callable[[Path, Path], Contender], ...] = (Ours, Theirs)
        contenders = [make(Path(folder) / make.__name__, binary) for make in makers]
        try:
            for kind in given.kinds.split(","):
                for number in range(given.failovers):
                    turn = contenders if number % 2 == 0 else contenders[::-1]
                    for contender in turn:
                        trials.append(trial(contender, kind))
                        print(msgspec.json.encode(trials[-1]).decode(), file=sys.stderr, flush=True)
        finally:
            for contender in contenders:
                contender.stop()
    print("\n".join(table(trials)))
    if given.write is not None:
        given.write.write_bytes(msgspec.json.format(msgspec.json.encode(trials)))


if __name__ == "__main__":
    main()
