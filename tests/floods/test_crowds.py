"""More connections than a node takes, from the address of its peers: these are heard, and keep their connections.

A peer that starts meanwhile finds all connections taken. Its handshake may be crowded out a few times; one that is kept
out would be refused again and again. What peers count decides, not the time it takes.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import IO
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from benchmarks.flood_watch import flooding, peer_connections_ended
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import Cluster, ClusterNode, lay_out, reached

FEW = 32
"""`limits.connections` of the flooded node; the flood holds 600."""

MANY = 10
"""Handshakes of one peer that are refused, or connections it loses."""

PATIENCE_S = 30.0
CROWDS = 5
"""Strangers that are refused while a peer keeps its connections: the crowd goes on."""

AS_CLIENTS = "HttpServer._may_prove = lambda self, path, headers: False"
"""A connection beyond the limit is refused, whatever its request may prove."""

PLANTED = """
import sys
from epoxy.transport.http.server import HttpServer
{fault}
from epoxy.cli.main import main
main(sys.argv[1:])
"""


class PlantedNode(ClusterNode):
    """Its process runs with a fault."""

    fault = ""

    def _spawn(self, command: list[str], log: IO[bytes]) -> Popen[bytes]:
        assert command[:3] == [sys.executable, "-m", "epoxy"]
        return super()._spawn([sys.executable, "-c", PLANTED.format(fault=self.fault), *command[3:]], log)


def cluster_with(folder: Path, fault: str) -> Cluster:
    nodes = lay_out(folder, 3, QuorumPolicy.OPTIMAL)
    with nodes[0].config.open("a", encoding="utf-8") as config:
        config.write(f"\n[limits]\nconnections = {FEW}\n")
    planted = PlantedNode.__new__(PlantedNode)
    planted.__dict__.update(nodes[0].__dict__)
    planted.fault = fault
    return Cluster([planted, *nodes[1:]], folder)


def until(condition: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never {words}"
        time.sleep(0.05)


def refuses_strangers(node: ClusterNode) -> bool:
    try:
        with urlopen(f"{node.url}/healthz", timeout=PATIENCE_S):
            return False
    except HTTPError as refused:
        refused.close()
        return refused.code == 503
    except OSError:  # Crowded out.
        return True


def peers_are_heard(made: Cluster) -> bool:
    """Whether a peer that starts in the crowd gets its connections, and neither it nor the third node loses one."""
    crowded, starting, _ = made

    def ended() -> float:
        return sum(count for (node, _), count in peer_connections_ended(made).items() if node == starting.id)

    def arrived() -> bool:
        with starting.client() as client:
            return crowded.id in reached(client.status())

    with flooding("http-slow-heads", crowded, "127.0.0.1"):
        until(lambda: refuses_strangers(crowded), "crowded")
        starting.restart()
        until(lambda: arrived() or ended() >= MANY, "decided")
        if not arrived():
            return False
        before = peer_connections_ended(made)
        for _ in range(CROWDS):
            until(lambda: refuses_strangers(crowded), "crowded still")
        return peer_connections_ended(made) == before


@pytest.mark.parametrize("fault", ["", pytest.param(AS_CLIENTS, marks=pytest.mark.pure("a planted fault"))])
def test_peers_are_heard_in_a_crowd(tmp_path: Path, fault: str) -> None:
    made = cluster_with(tmp_path, fault)
    try:
        made.start()
        assert peers_are_heard(made) == (not fault)
    finally:
        made.stop()
