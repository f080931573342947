"""How long a node with many keys takes from its exec until it is ready, after it was stopped and after it was killed.

    python -m benchmarks.starts [--keys 2000000] [--actors 0] [--writes 20000] [--rounds 5] [--processes 1] [--cold]

All nodes hold the keys; the first one is ended and started again while the others run. Before each end clients write
`--writes` fresh keys, so that a node that is killed has a log to read at its start: 20,000 small ones nearly fill a
segment. `--actors` sleep at the first node, each with an alarm in a year. `--cold` drops the data directory from the
system's cache between the end and the start, as after a reboot. `--limit-s` makes the run fail if a start takes longer.
"""

import argparse
import asyncio
import http.client
import os
import socket
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median

from benchmarks.preload import preload
from benchmarks.store import opened
from benchmarks.suite.processes import cpu_s
from epoxy.actors import directory
from epoxy.model.actors import ActorName, make_id
from epoxy.model.homes import HomeRecord
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import Cluster, lay_out
from epoxy.testing.process_cluster import ClusterNode

POLL_S = 0.002
PIPELINE = 500
"""Below `limits.pipeline`, and what a node always admits."""
ACTORS_AT_ONCE = 1000
"""In one transaction."""
YEAR_MS = 365 * 86_400_000
PATHS = ("/healthz", "/readyz", "/readyz?for=transactions")


class Writer:
    """Fresh keys all over the tree, through the port for Redis clients."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._begun = 0

    def write(self, count: int) -> None:
        with socket.create_connection(("127.0.0.1", self._port)) as connection, connection.makefile("rb") as answers:
            for begin in range(0, count, PIPELINE):
                size = min(PIPELINE, count - begin)
                connection.sendall(b"".join(self._command() for _ in range(size)))
                for _ in range(size):
                    answer = answers.readline()
                    assert answer == b"+OK\r\n", answer

    def _command(self) -> bytes:
        """An odd multiplier spreads the numbers over all keys of this form."""
        self._begun += 1
        key = b"key:%016x" % (self._begun * 0x9E3779B97F4A7C15 % (1 << 64))
        return b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$16\r\n%b\r\n" % (len(key), key, bytes(16))


async def lay_asleep(folder: Path, label: int, count: int) -> None:
    """As actors that have run in this datacenter, sleep, and have an alarm."""
    store = opened(folder)
    now_ms = int(time.time() * 1000)
    for begin in range(0, count, ACTORS_AT_ONCE):
        tx = store.begin()
        for number in range(begin, min(begin + ACTORS_AT_ONCE, count)):
            home = HomeRecord(actor_id=make_id(now_ms, number, label), label=label, lease=bytes(16), pool="bench")
            actor = directory.adopt(tx, ActorName("default", "sleeper", str(number)), home, fresh=True)
            due_ms = now_ms + YEAR_MS + number
            directory.set_alarm(tx, directory.sleep(tx, actor), due_ms, due_ms)
        tx.commit()
        durable = asyncio.get_running_loop().create_future()
        store.when_durable(lambda durable=durable: durable.set_result(None))  # type: ignore[misc]
        await durable
    store.close()


def drop_from_cache(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


def timed_start(node: ClusterNode, limit_s: float) -> tuple[list[float], float]:
    """Seconds until each of the paths is answered with 200; and CPU seconds of the process by then, which a busy
    machine does not stretch."""
    began = time.monotonic()
    node.start(wait=False)
    took: list[float] = []
    for path in PATHS:
        while not answers(node, path):
            if time.monotonic() - began > limit_s:
                sys.exit(f"{path} not answered with 200 in {limit_s:.0f} s:\n{node.last_words()}")
            time.sleep(POLL_S)
        took.append(time.monotonic() - began)
    assert node.pid is not None, node.last_words()
    return took, cpu_s([node.pid])


def answers(node: ClusterNode, path: str) -> bool:
    connection = http.client.HTTPConnection(node.url.removeprefix("http://"), timeout=5.0)
    with suppress(OSError, http.client.HTTPException):
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
        finally:
            connection.close()
    return False


def measure(cluster: Cluster, given: argparse.Namespace) -> float:
    """The longest time to /readyz."""
    node, writer = cluster[0], Writer(cluster[0].resp_port)
    worst = 0.0
    for words, end in (("stopped", node.stop), ("killed", node.kill)):
        rounds = []
        for _ in range(given.rounds):
            writer.write(given.writes)
            end()
            if given.cold:
                drop_from_cache(node.data_dir)
            rounds.append(timed_start(node, given.patience_s))
            cluster.wait_until_connected()
        columns = list(zip(*[took for took, _ in rounds], strict=True))
        worst = max(worst, *columns[1])
        told = ", ".join(
            f"{path} {median(found):.2f} s (at most {max(found):.2f})"
            for path, found in zip(PATHS, columns, strict=True)
        )
        print(f"{words}: {told}; CPU {median([used for _, used in rounds]):.2f} s", flush=True)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=2_000_000)
    parser.add_argument("--actors", type=int, default=0, help="that sleep at the first node")
    parser.add_argument("--writes", type=int, default=20_000, help="before each end")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=1, help="node.processes")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="with nothing of the data directory in the system's cache")
    parser.add_argument("--limit-s", type=float, default=0.0, help="exit 1 if /readyz takes longer")
    parser.add_argument("--patience-s", type=float, default=60.0, help="give up after so long")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="epoxy-starts-")))
        settings = lay_out(folder, given.nodes, QuorumPolicy.OPTIMAL)
        for node in settings:
            text = node.config.read_text("utf-8")
            node.config.write_text(text.replace("[node]\n", f"[node]\nprocesses = {given.processes}\n"), "utf-8")
            preload(node.data_dir, node.id, given.keys)
        if given.actors:
            asyncio.run(lay_asleep(settings[0].data_dir, settings[0].id, given.actors))
        cluster = Cluster(settings, folder)
        stack.callback(cluster.stop)
        cluster.start()
        load = os.getloadavg()[0]
        print(
            f"{given.keys:,} keys, {given.actors:,} actors, {given.nodes} nodes of {given.processes} processes, "
            f"{given.writes:,} writes before each end, {given.rounds} rounds; "
            f"load average {load:.1f} on {os.cpu_count()} cores",
            flush=True,
        )
        worst = measure(cluster, given)
    if given.limit_s and worst > given.limit_s:
        sys.exit(f"/readyz took {worst:.2f} s, more than {given.limit_s:.2f}")


if __name__ == "__main__":
    main()
