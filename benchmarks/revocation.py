"""How long a revoked token is still accepted, in each region of a WAN on one machine.

    python -m benchmarks.revocation [--revocations 20] [--port-base 7800]

Five real nodes with the round trips between AWS regions, which ask for tokens. Each time a token is made, used in every
region over HTTP and over RESP (a connection that stays open), and revoked at one region. Measured are how long the
command to revoke takes, and how long a region accepts the token from the moment the command was given. Then the same
with a region that is cut off when the token is revoked: it goes on accepting it, and its time is measured from the
command to restore its links. Exit 1 if a region accepts a token 5 seconds after it was revoked or restored.
"""

import argparse
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from benchmarks.stats import percentile
from epoxy.cli.demo import tokens
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.control import DemoOrder
from epoxy.cli.demo.plan import PORTS_APART, DemoPlan
from epoxy.cli.demo.region import RegionNode
from epoxy.client import Client
from epoxy.client.token import read_token
from epoxy.model.errors import AccessRefused
from epoxy.node.access.control import MISSED_S
from epoxy.testing import hold

REGIONS = 5
KEY, VALUE = "revocation", b"a reserved name, which every region reads by itself, also while it is cut off"
PAUSE_S = 0.01
"""Between two requests of one client: the resolution of what is measured."""

CUT_S = 1.0
"""How long a region is cut off after the revocation, and must still accept the token."""

LONGEST_S = 30.0
"""After which a client is not waited for."""


class Watch:
    """A client of one region that uses a token again and again, and notes when it sent the first request that was
    refused. The refusal itself comes later and later: wrong tokens are slowed down."""

    def __init__(self, region: str, ask: Callable[[], bool]) -> None:
        self.region = region
        self.accepted = threading.Event()
        self.refused_at: float | None = None
        self._ask = ask

    def run(self) -> None:
        end = time.monotonic() + LONGEST_S
        while (sent_at := time.monotonic()) < end:
            if self._ask():
                self.accepted.set()
            elif self.accepted.is_set():
                self.refused_at = sent_at
                return
            time.sleep(PAUSE_S)


class RespClient:
    """One connection, which stays open: what was in force when it was opened must not last."""

    def __init__(self, node: RegionNode, token: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", node.resp_port), LONGEST_S)
        self._file = self._socket.makefile("rb")
        self._token = token
        self._is_known = False

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def accepts(self) -> bool:
        if not self._is_known:
            self._is_known = self._say("AUTH", self._token) == b"+OK\r\n"
            return self._is_known
        reply = self._say("GET", KEY)
        assert reply.startswith((b"$", b"-NOAUTH")), reply
        return reply.startswith(b"$") and self._file.readline() == VALUE + b"\r\n"

    def _say(self, *words: str) -> bytes:
        parts = "".join([f"${len(word)}\r\n{word}\r\n" for word in words])
        self._socket.sendall(f"*{len(words)}\r\n{parts}".encode())
        return self._file.readline()


def http_accepts(client: Client) -> bool:
    try:
        return client.get(KEY) == VALUE
    except AccessRefused:
        return False


class Trial:
    """One token, from its making to its end everywhere."""

    def __init__(self, cluster: DemoCluster, operator: RegionNode, name: str) -> None:
        self.cluster = cluster
        self.operator = operator
        self.name = name
        self.answered_s = 0.0
        """How long the command to revoke took."""

    def run(self, cut_off: RegionNode | None) -> dict[str, float]:
        """By region, how many seconds it accepted the token after the command to revoke it was given, or, of the one
        that was cut off, after the command to restore its links."""
        with ExitStack() as stack, self.operator.client() as admin:
            made = admin.auth.create_token(self.name, ["reader"])
            assert made is not None, "each trial has a name of its own"
            watches = [watch for node in self.cluster.nodes for watch in self._watches(node, made.token, stack)]
            pool = stack.enter_context(ThreadPoolExecutor(len(watches)))
            running = [pool.submit(watch.run) for watch in watches]
            for watch in watches:
                assert watch.accepted.wait(LONGEST_S), f"{watch.region} never accepted the token"
            if cut_off is not None:
                self._order("cut", cut_off)
            began = {node.datacenter: time.monotonic() for node in self.cluster.nodes}
            revoked_at = time.monotonic()
            assert admin.auth.revoke_token(self.name)
            self.answered_s = time.monotonic() - revoked_at
            if cut_off is not None:
                time.sleep(CUT_S)
                early = [watch for watch in watches if watch.region == cut_off.datacenter and watch.refused_at]
                assert not early, "a region that was cut off cannot know of the revocation"
                began[cut_off.datacenter] = time.monotonic()
                self._order("heal", cut_off)
        took: dict[str, float] = {}
        for done in running:
            done.result()
        for watch in watches:
            refused_at = watch.refused_at if watch.refused_at is not None else began[watch.region] + LONGEST_S
            took[watch.region] = max(took.get(watch.region, 0.0), refused_at - began[watch.region])
        return took

    def _watches(self, node: RegionNode, token: str, stack: ExitStack) -> list[Watch]:
        client = stack.enter_context(node.client(token=token))
        redis = stack.enter_context(closing(RespClient(node, token)))
        return [Watch(node.datacenter, lambda: http_accepts(client)), Watch(node.datacenter, redis.accepts)]

    def _order(self, verb: str, region: RegionNode) -> None:
        done = self.cluster.perform(DemoOrder(verb=verb, region=region.datacenter))
        assert done.done, done.lines


def reserve(cluster: DemoCluster) -> None:
    token = read_token(Path(tokens.files(cluster.plan.folder)[tokens.APP]))
    for node in cluster.nodes:
        with node.client(token=token) as client:
            client.reserve(KEY, VALUE)  # at each of them, so that each has it


def measure(cluster: DemoCluster, revocations: int) -> tuple[list[dict[str, float]], dict[str, float], list[float]]:
    nodes = cluster.nodes
    plain, restored, answers = [], {}, []
    for number in range(revocations):
        trial = Trial(cluster, nodes[number % len(nodes)], f"plain-{number}")
        plain.append(trial.run(None))
        answers.append(trial.answered_s)
        print(f"{number + 1:2} of {revocations}: {max(plain[-1].values()):.2f} s", file=sys.stderr)
    for number, node in enumerate(nodes):
        operator = nodes[(number + 1) % len(nodes)]
        trial = Trial(cluster, operator, f"cut-{number}")
        took = trial.run(node)
        answers.append(trial.answered_s)
        restored[node.datacenter] = took.pop(node.datacenter)
        plain.append(took)
        print(f"{node.datacenter} cut off: {restored[node.datacenter]:.2f} s after it was restored", file=sys.stderr)
    return plain, restored, answers


def table(names: tuple[str, ...], plain: list[dict[str, float]], restored: dict[str, float]) -> str:
    rows = ["| region | p50 | most | after it was cut off |", "|---|---|---|---|"]
    for name in names:
        took = [each[name] for each in plain if name in each]
        rows.append(f"| {name} | {percentile(took, 0.5):.2f} s | {max(took):.2f} s | {restored[name]:.2f} s |")
    return "\n".join(rows)


def port_base() -> int:
    """The first of the ports that a demo of five regions takes, below those that systems give to clients."""
    for base in random.sample(range(20_000, 32_000, 100), 50):
        with suppress(OSError):
            hold([base + PORTS_APART * region + port for region in range(REGIONS) for port in (0, 1)])
            return base
    raise SystemExit("no free ports from 20000 to 32000")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--revocations", type=int, default=20)
    parser.add_argument("--port-base", type=int, default=None, help="the first of 50 ports")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="epoxy-revocation-") as folder:
        plan = DemoPlan(
            folder=Path(folder), regions=REGIONS, port_base=given.port_base or port_base(), wan=True, auth=True
        )
        cluster = DemoCluster(plan)
        try:
            cluster.start(lambda node: print(f"{node.datacenter} is ready", file=sys.stderr))
            reserve(cluster)
            plain, restored, answers = measure(cluster, given.revocations)
        finally:
            cluster.kill()
    print(table(plan.names, plain, restored))
    print(f"\n{len(plain)} revocations, {len(restored)} of them with a region cut off. The command took", end=" ")
    print(f"{percentile(answers, 0.5):.2f} s (p50), {max(answers):.2f} s at most.")
    late = [max(each.values()) - answered for each, answered in zip(plain, answers, strict=True)]
    longest = max(*late, *restored.values())
    print(f"The longest time from the answer, or from a restored link, to the last refusal: {longest:.2f} s")
    return 0 if longest < MISSED_S else 1


if __name__ == "__main__":
    sys.exit(main())
