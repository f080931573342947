"""Whether planned restarts leave clients without an outcome: a cluster under writes, its nodes restarted in turn.

    python -m benchmarks.restarts [--writes 50000] [--clients 24] [--tls] [--blocking]

Every write ends as done, as definitely refused, or as unknown. A planned restart must leave none unknown: exit 1 if one
is. Each client writes through the node that is nearest to it and goes to the next when that one refuses.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import trustme

from epoxy.client import AsyncClient, Client
from epoxy.model.errors import ClientError, OutcomeUnknown
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import Cluster, lay_out

NODES = 3
PAUSE_S = 0.3
"""Between a node that is back and the restart of the next, so that its clients have come back too."""


class Count:
    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.outcomes: Counter[str] = Counter()
        self._begun = 0
        self._lock = threading.Lock()

    def next(self) -> bytes | None:
        """The key of the next write; None: there were enough."""
        with self._lock:
            self._begun += 1
            return b"restart/%d" % self._begun if self._begun <= self.wanted else None

    def failed(self, error: ClientError) -> None:
        unknown = isinstance(error, OutcomeUnknown)
        if unknown:
            print(f"unknown: {error!r}", file=sys.stderr)
        self.add("unknown" if unknown else "refused")

    def add(self, outcome: str) -> None:
        with self._lock:
            self.outcomes[outcome] += 1

    @property
    def over(self) -> bool:
        return self._begun > self.wanted


def encrypt(cluster: Cluster, folder: Path) -> None:
    """Clients trust the authority as they trust any: by the system's list, which a variable names."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(folder / "node.pem"))
    os.environ["SSL_CERT_FILE"] = str(folder / "ca.pem")
    for node in cluster:
        text = node.config.read_text("utf-8").replace("http://127.0.0.1", "https://localhost")
        node.config.write_text(f'{text}\n[tls]\ncert = "node.pem"\nkey = "node.pem"\nca = "ca.pem"\n', "utf-8")
        node.url = node.url.replace("http://127.0.0.1", "https://localhost")


async def write(cluster: Cluster, first: int, count: Count) -> None:
    urls = cluster.urls[first:] + cluster.urls[:first]
    client = AsyncClient(urls, timeout=60.0)
    while (key := count.next()) is not None:
        try:
            await client.put(key, b"x" * 32)
            count.add("done")
        except ClientError as error:
            count.failed(error)
    await client.aclose()


def write_blocking(cluster: Cluster, first: int, count: Count) -> None:
    urls = cluster.urls[first:] + cluster.urls[:first]
    with Client(urls, timeout=60.0) as client:
        while (key := count.next()) is not None:
            try:
                client.put(key, b"x" * 32)
                count.add("done")
            except ClientError as error:
                count.failed(error)


def restart_in_turn(cluster: Cluster, count: Count) -> None:
    while not count.over:
        for node in cluster:
            node.stop()
            count.add("restarts")
            node.start()
            cluster.wait_until_connected()
            time.sleep(PAUSE_S)
            if count.over:
                break


async def write_all(cluster: Cluster, clients: int, count: Count) -> None:
    await asyncio.gather(*(write(cluster, number % NODES, count) for number in range(clients)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writes", type=int, default=50_000)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--blocking", action="store_true", help="clients with threads, not with asyncio")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="epoxy-restarts-")))
        cluster = Cluster(lay_out(folder, NODES, QuorumPolicy.OPTIMAL), folder)
        stack.callback(cluster.stop)
        if given.tls:
            encrypt(cluster, folder)
        cluster.start()
        count, began_s = Count(given.writes), time.monotonic()
        restarting = threading.Thread(target=restart_in_turn, args=(cluster, count))
        restarting.start()
        if given.blocking:
            writers = [
                threading.Thread(target=write_blocking, args=(cluster, number % NODES, count))
                for number in range(given.clients)
            ]
            for each in writers:
                each.start()
            for each in writers:
                each.join()
        else:
            asyncio.run(write_all(cluster, given.clients, count))
        restarting.join()
    told = count.outcomes
    print(
        f"{told['done']} done, {told['refused']} refused, {told['unknown']} unknown, "
        f"{told['restarts']} restarts, {time.monotonic() - began_s:.0f} s"
    )
    sys.exit(1 if told["unknown"] else 0)


if __name__ == "__main__":
    main()
