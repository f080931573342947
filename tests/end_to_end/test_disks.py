"""Disks that are not what they were, under real processes: copies, clones, older copies, and members that move."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from epoxy.model.api import MovedMember
from epoxy.model.quorum import QuorumPolicy
from epoxy.node.process.exits import EXIT_CONFIG
from epoxy.testing import Cluster, ClusterNode, cluster, configuration, free_ports
from tests.end_to_end.recorder import PROCESS_S


def elsewhere(node: ClusterNode, nodes: Sequence[ClusterNode], folder: Path) -> ClusterNode:
    """The same data, copied as it is now, for a process on other ports. In its file the members are `nodes`."""
    http, resp = free_ports(2)
    copy = ClusterNode(node_id=node.id, datacenter=node.datacenter, folder=folder, http=http, resp=resp)
    folder.mkdir(exist_ok=True)
    shutil.copytree(node.data_dir, copy.data_dir)
    secret = node.config.parent / "secret"
    settings = configuration(copy, nodes, secret, QuorumPolicy.OPTIMAL)
    copy.config.write_text(settings.replace("[node]\n", f'[node]\nadvertise_url = "{copy.url}"\n'), "utf-8")
    return copy


def refused_start(node: ClusterNode) -> str:
    """What it says instead of starting."""
    command = [sys.executable, "-m", "epoxy", "serve", "--config", str(node.config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_S, check=False)
    assert done.returncode == EXIT_CONFIG, (done.returncode, done.stderr)
    return done.stderr


def move(running: Cluster, node: ClusterNode, url: str) -> None:
    with running.client() as client:
        client.change_members(move=[MovedMember(id=node.id, url=url)])
    for member in running:
        if member.running:
            member.wait_until(lambda status: url in [peer.url for peer in status.peers], "told of the move")


def test_a_copied_cluster_does_not_start_elsewhere_and_a_member_that_moved_does(tmp_path: Path) -> None:
    """The copies have files of a staging cluster: all other URLs, and the production's secret."""
    with cluster(3, folder=tmp_path / "production") as production:
        for key in ("a", "b"):
            with production.client() as client:
                client.reserve(key, b"first")
        staging = [elsewhere(node, production.nodes, tmp_path / "staging") for node in production]
        said = refused_start(staging[1])
        assert f"epoxy members move 2 {staging[1].url}" in said
        assert "epoxy restore" in said
        assert f'node.advertise_url = "{production[1].url}"' in said

        production[1].stop()
        moved = elsewhere(production[1], production.nodes, tmp_path / "moved")
        refused_start(moved)
        production.nodes[1] = moved
        move(production, moved, moved.url)
        try:
            moved.start()
            production.wait_until_connected()
            with moved.client() as client:
                assert client.get("a") == b"first"
            moved.restart()
        finally:
            moved.kill()


def test_a_cluster_of_one_moves_by_itself(tmp_path: Path) -> None:
    with cluster(1, folder=tmp_path / "alone") as alone:
        with alone.client() as client:
            client.reserve("a", b"first")
        alone[0].stop()
        moved = elsewhere(alone[0], alone.nodes, tmp_path / "moved")
        try:
            moved.start()
            with moved.client() as client:
                assert client.get("a") == b"first"
                moved.wait_until(lambda _: client.members().replicas[0].url == moved.url, "written down")
        finally:
            moved.kill()
