"""Disks that are not what they were, under real processes: copies, clones, older copies, and members that move."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from epoxy.model.api import MovedMember
from epoxy.model.quorum import QuorumPolicy
from epoxy.node.process.exits import EXIT_CONFIG
from epoxy.testing import Cluster, ClusterNode, cluster, configuration, free_ports, lay_out, reached
from tests.end_to_end.recorder import PROCESS_S
from tests.end_to_end.world import until


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


NAMES = 12


def beside(node: ClusterNode, data: Path, folder: Path) -> ClusterNode:
    """A process on other ports with the data at `data`, that says it is the member: its file has the member's URL."""
    http, resp = free_ports(2)
    twin = ClusterNode(node_id=node.id, datacenter=node.datacenter, folder=folder, http=http, resp=resp)
    folder.mkdir(exist_ok=True)
    shutil.copytree(data, twin.data_dir)
    settings = node.config.read_text("utf-8").replace("[node]\n", f'[node]\nadvertise_url = "{node.url}"\n')
    for old, new in (
        (str(node.data_dir), str(twin.data_dir)),
        (f'http = "{node.url.removeprefix("http://")}"', f'http = "{twin.url.removeprefix("http://")}"'),
        (f"127.0.0.1:{node.resp_port}", f"127.0.0.1:{twin.resp_port}"),
    ):
        assert old in settings
        settings = settings.replace(old, new)
    twin.config.write_text(settings, "utf-8")
    return twin


def refused(node: ClusterNode) -> str:
    """Wait until it is refused; what its status says."""
    node.wait_until(lambda status: status.state == "refused", "refused")
    for path in ("v2/kv/name", "readyz"):
        with pytest.raises(HTTPError) as answered:
            urlopen(f"{node.url}/{path}", timeout=PROCESS_S)
        with answered.value as error:
            assert (error.code, json.load(error)["error"]["code"]) == (503, "refused")
    for path in ("healthz", "metrics"):
        with urlopen(f"{node.url}/{path}", timeout=PROCESS_S) as answer:
            assert answer.status == 200
    with socket.create_connection(("127.0.0.1", node.resp_port), timeout=PROCESS_S) as redis:
        redis.sendall(b"*2\r\n$3\r\nGET\r\n$4\r\nname\r\n")
        assert b"It takes no part any more" in redis.recv(4096)
    with node.client() as client:
        status = client.status()
    assert not any(peer.reachable for peer in status.peers)
    return status.reason


def alarms(node: ClusterNode) -> list[str]:
    lines = [json.loads(line) for line in node.log.read_text("utf-8").splitlines() if line.startswith("{")]
    return [line["detail"] for line in lines if line["level"] == "critical"]


def alarmed(node: ClusterNode, words: str) -> bool:
    return any(words in alarm for alarm in alarms(node))


def reserve(cluster: Cluster, prefix: str, node: int = 0) -> None:
    """Names that all nodes have voted on."""
    with cluster.client(node) as client:
        for number in range(NAMES):
            assert client.reserve(f"{prefix}/{number}", b"first").won


def lost_none(cluster: Cluster, *prefixes: str) -> None:
    """No name is won twice, whichever node is asked."""
    for node in range(len(cluster)):
        with cluster.client(node) as client:
            for prefix in prefixes:
                for number in range(NAMES):
                    assert not client.reserve(f"{prefix}/{number}", b"second").won


def copy_of(node: ClusterNode, folder: Path) -> Path:
    shutil.copytree(node.data_dir, folder)
    return folder


def put_back(node: ClusterNode, data: Path) -> None:
    shutil.rmtree(node.data_dir)
    shutil.copytree(data, node.data_dir)


def test_restarts_by_power_cuts_are_heard_at_once_and_raise_no_alarm(tmp_path: Path) -> None:
    with cluster(3, folder=tmp_path) as trio:
        for node in trio:
            reserve(trio, f"{node.id}", node.id % 3)
            node.kill()
            node.start()
            trio.wait_until_connected()
        assert [alarms(node) for node in trio] == [[], [], []]
        lost_none(trio, "1", "2", "3")


def test_a_copy_is_refused_beside_the_original_and_the_original_beside_a_copy_that_took_its_place(
    tmp_path: Path,
) -> None:
    """Both begin with the counter that the stopped node would have used next: the nonce tells them apart."""
    clone = "another process was started from a copy of the same store"
    with cluster(3, folder=tmp_path / "cluster") as trio, ExitStack() as stack:
        first, original, third = trio
        original.stop()
        twin = beside(original, original.data_dir, tmp_path / "twin")
        stack.callback(twin.kill)
        original.start()
        reserve(trio, "a")
        twin.start(wait=False)
        assert clone in refused(twin)
        assert clone in alarms(twin)[0]
        for node in (first, third):
            until(partial(alarmed, node, f"replica 2 is refused: {clone}"), "alarmed")
        lost_none(trio, "a")
        assert alarms(original) == []

        original.stop()
        instead = beside(original, original.data_dir, tmp_path / "instead")
        stack.callback(instead.kill)
        instead.start()
        reserve(trio, "b")
        original.start(wait=False)
        assert clone in refused(original)
        lost_none(Cluster([first, instead, third], tmp_path), "a", "b")
        assert alarms(instead) == []


def test_one_disk_that_went_back_in_time_is_refused_for_good(tmp_path: Path) -> None:
    """A copy of the directory of a running node, and one of a stopped node that was started twice since."""
    with cluster(3, folder=tmp_path / "cluster") as trio:
        first, second, third = trio
        reserve(trio, "a")
        running = copy_of(second, tmp_path / "running")
        third.stop()
        stopped = copy_of(third, tmp_path / "stopped")
        third.start()
        third.restart()
        reserve(trio, "b")

        second.kill()
        put_back(second, running)
        second.start(wait=False)
        assert "it held more before" in refused(second)
        second.stop()
        second.start(wait=False)
        assert "it held more before" in refused(second), "also in the next process"
        until(partial(alarmed, first, "replica 2 is refused: it held more before"), "alarmed")
        second.kill()

        third.kill()
        put_back(third, stopped)
        third.start(wait=False)
        assert "a later start of the same store is known" in refused(third)


def test_a_tail_of_the_log_that_was_zeroed_is_refused_by_the_others(tmp_path: Path) -> None:
    """The log alone looks like one whose last frames were never written. The home of the writes knows better."""
    with cluster(3, folder=tmp_path) as trio:
        reserve(trio, "a")
        second = trio[1]
        second.kill()
        log = max((second.data_dir / "log").iterdir())
        data = log.read_bytes()
        end = len(data.rstrip(b"\0"))
        log.write_bytes(data[: end - 600] + bytes(len(data) - end + 600))
        second.start(wait=False)
        assert "it held more before" in refused(second)
        until(partial(alarmed, trio[0], "replica 2 is refused: it held more before"), "alarmed")
        lost_none(Cluster([trio[0], trio[2]], tmp_path), "a")


class SlowDisk(ClusterNode):
    """A node whose log is not written while the file `slow` is there."""

    def _spawn(self, command: list[str], log: IO[bytes]) -> "subprocess.Popen[bytes]":
        slow = self.log.with_name("slow")
        return super()._spawn([command[0], "-c", SLOW_WRITES, str(slow), *command[3:]], log)


SLOW_WRITES = """
import os, sys, threading, time
from epoxy.cli.main import main
from epoxy.store.embedded.files import SystemFiles

slow, write = sys.argv.pop(1), SystemFiles.write

def late(*given):
    if threading.current_thread() is not threading.main_thread():
        open(slow + ".reached", "w").close()
        while os.path.exists(slow):
            time.sleep(0.01)
    return write(*given)

SystemFiles.write = late
SystemFiles.frame_writer = lambda _: None  # All goes through `write`.
main()
"""


def test_nothing_is_told_before_the_first_start_is_durable(tmp_path: Path) -> None:
    """One that was told and then lost kept the others of a new cluster waiting for it for ever."""
    nodes = lay_out(tmp_path, 3, QuorumPolicy.OPTIMAL)
    first = nodes[0]
    slow = SlowDisk(
        node_id=1,
        datacenter=first.datacenter,
        folder=tmp_path,
        http=int(first.url.rpartition(":")[2]),
        resp=first.resp_port,
    )
    trio = Cluster([slow, *nodes[1:]], tmp_path)
    (tmp_path / "slow").touch()
    try:
        for node in trio:
            node.start(wait=False)
        for node in nodes[1:]:
            node.wait_until(lambda status: reached(status) == {2, 3}, "in touch with the third")
        until((tmp_path / "slow.reached").exists, "at its log")
        with nodes[1].client() as client:
            (seen,) = [peer for peer in client.status().peers if peer.id == slow.id]
        assert not seen.reachable
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", slow.resp_port), timeout=PROCESS_S)
        slow.kill()
        (tmp_path / "slow").unlink()
        slow.start(wait=False)
        trio.wait_until_connected()
        reserve(trio, "a")
        assert [alarms(node) for node in trio] == [[], [], []]
    finally:
        trio.stop()
