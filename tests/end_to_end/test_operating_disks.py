"""docs/operating-disks.md: an operator's day, its commands in order, and what they print."""

import os
import re
from contextlib import ExitStack
from pathlib import Path

from epoxy.testing import Cluster, ClusterNode, cluster, free_ports
from tests.end_to_end.pages import ROOT, Shell, blocks, masked, transcript

PAGE = ROOT / "docs" / "operating-disks.md"
BLOCKS = blocks(PAGE)
NAMES = {"us-east-1": "dc-1", "eu-west-1(?= at|,)": "dc-2", "ap-northeast-1": "dc-3", "us-west-2": "dc-4"}
"""Of datacenters, on the page and in a test's cluster."""


def play(shell: Shell, steps: list[tuple[str, str]]) -> None:
    for command, printed in steps:
        said = shell.run(command)
        assert masked(said).rstrip() == masked(shell.adapt(printed)).rstrip(), (command, said)


def test_every_command_of_the_page_is_run_below() -> None:
    assert [place for place, text in BLOCKS if text.startswith("$ ")] == [
        "Look",
        "Back up",
        *["Restore into a new cluster"] * 3,
        "Check the rows on a disk",
        *["Replace a node"] * 2,
        "Rescue what is left",
    ]


def test_the_day(tmp_path: Path) -> None:
    with cluster(3, folder=tmp_path / "cluster") as nodes, ExitStack() as undo:
        staging, newcomer = staged(tmp_path), nodes.prepare()
        shell = operator_shell(tmp_path, nodes, newcomer, staging)
        with nodes.client() as client:
            client.reserve(b"user/ada", b"eu-west-1")
            for number in range(10):
                client.put(b"k/%d" % number, b"v")
        restore = transcript(BLOCKS, "Restore into a new cluster")
        play(shell, [*transcript(BLOCKS, "Look"), *transcript(BLOCKS, "Back up"), *restore[:2]])
        undo.callback(staging.kill)
        staging.start()
        play(shell, restore[2:])
        staging.kill()

        play(shell, transcript(BLOCKS, "Check the rows on a disk"))
        nodes[1].kill()
        newcomer.start(wait=False)
        newcomer.wait_until(lambda status: status.state == "new", "there")
        nodes[0].wait_until(lambda status: status.tolerated_failures == 0, "noticed")
        nodes[2].wait_until(lambda status: status.tolerated_failures == 0, "noticed")
        play(shell, transcript(BLOCKS, "Replace a node"))
        for node in (*nodes, newcomer):
            node.stop()
        play(shell, transcript(BLOCKS, "Rescue what is left"))


def staged(folder: Path) -> ClusterNode:
    """The node of the page's own file, on free ports."""
    http, resp = free_ports(2)
    node = ClusterNode(node_id=1, datacenter="staging", folder=folder, http=http, resp=resp)
    (sample,) = (text for _, text in BLOCKS if text.startswith("[node]"))
    (folder / "staging-secret").write_text("Aeg7uYeeShoh2aLoGhie9aik")
    (folder / "staging-secret").chmod(0o600)
    node.config.write_text(sample.replace("7900", str(http)))
    return node


def operator_shell(folder: Path, nodes: Cluster, newcomer: ClusterNode, staging: ClusterNode) -> Shell:
    addresses = {"10.3.0.1:7800": newcomer.url, "10.1.0.1:7800": nodes[1].url, "127.0.0.1:7900": staging.url}
    changes = {re.escape(f"http://{there}"): url for there, url in addresses.items()} | NAMES
    changes["/var/lib/epoxy"] = str(nodes[0].data_dir)
    return Shell(folder, {**os.environ, "EPOXY_URL": nodes[0].url}, changes)
