"""Three real nodes whose Accepts leave before their own votes: what is on their disks, and what a kill costs."""

import json
from pathlib import Path

from epoxy.store.embedded.datadir import FORMAT
from epoxy.testing.process_cluster import Cluster, ClusterNode, cluster
from tests.end_to_end.attacked import until

MARKED = 6


def format_of(node: ClusterNode) -> int:
    found = json.loads((node.data_dir / "format").read_bytes())["format"]
    assert isinstance(found, int)
    return found


def said(node: ClusterNode, words: str) -> int:
    return node.log.read_text().count(words)


def write(nodes: Cluster, name: str) -> None:
    with nodes.client() as client:
        assert client.reserve(name.encode(), b"v").won


def test_a_directory_is_marked_while_its_node_runs_and_an_end_in_order_takes_that_away(tmp_path: Path) -> None:
    with cluster(3, folder=tmp_path) as nodes:
        until(lambda: {format_of(node) for node in nodes} == {MARKED}, "all have asked")
        write(nodes, "a")
        for node in nodes:
            node.stop()
        assert {format_of(node) for node in nodes} == {FORMAT}


def test_after_a_kill_a_start_asks_both_others(tmp_path: Path) -> None:
    with cluster(3, folder=tmp_path) as nodes:
        until(lambda: {format_of(node) for node in nodes} == {MARKED}, "all have asked")
        killed, away, _ = nodes
        killed.kill()
        away.kill()
        killed.restart()
        assert said(killed, "did not end in order") == 1
        killed.wait_until(lambda status: status.fast_rounds_wait_for == [away.id], "told by its status")
        write(nodes, "one is away")
        assert said(killed, "the others have answered") == 0
        killed.stop()
        assert format_of(killed) == MARKED, "one of the others has not answered"
        killed.restart()
        away.start()
        until(lambda: said(killed, "the others have answered") == 1, "both are there")
        until(lambda: said(away, "the others have answered") == 1, "both are there")
        write(nodes, "all are there")
        killed.stop()
        assert format_of(killed) == FORMAT
