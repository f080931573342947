"""Bytes that change in the tree of a stopped node, under real processes: never served, repaired or the node's end."""

import subprocess
import time
from contextlib import suppress
from pathlib import Path

from epoxy.client import Client
from epoxy.model.errors import ClientError, Unavailable
from epoxy.node.process.exits import EXIT_STORE
from epoxy.testing import Cluster, ClusterNode, as_newcomer, change_members, cluster
from tests.end_to_end.recorder import PROCESS_S

VALUE = b"dublin, as it was written before the disk changed it"


def in_the_tree(node: ClusterNode) -> None:
    """What is in the log goes to the tree at the next start."""
    node.kill()
    node.start(wait=False)
    node.wait_until(lambda status: status.pid != 0, "up")
    node.kill()


def change_bytes(node: ClusterNode, written: bytes) -> int:
    """Each place where the tree has these bytes; returns how many there were."""
    assert not node.running
    path = node.data_dir / "tree" / "data.mdb"
    tree = path.read_bytes()
    found = tree.count(written)
    path.write_bytes(tree.replace(written, written[:3] + b"\x00" + written[4:]))
    return found


def metric(node: ClusterNode, name: str) -> float:
    told = subprocess.run(["curl", "-s", f"{node.url}/metrics"], capture_output=True, text=True, check=True).stdout
    return sum(float(line.split()[-1]) for line in told.splitlines() if line.startswith(f"epoxy_{name}"))


def scrubbed(client: Client) -> None:
    client.begin_scrub()
    deadline = time.monotonic() + PROCESS_S
    while (seen := client.scrub()).state != "idle" or seen.unrepaired:
        assert time.monotonic() < deadline, seen
        time.sleep(0.05)


def test_a_committed_value_is_repaired_from_the_others(tmp_path: Path) -> None:
    with cluster(3, folder=tmp_path) as running:
        rotten, others = running[2], (running[0], running[1])
        with running.client() as client:
            client.reserve("user/ada", VALUE)
            client.reserve("user/bob", b"paris")
        wait_for(rotten, "user/ada")
        in_the_tree(rotten)
        assert change_bytes(rotten, VALUE) >= 2, "the key's row, and the changelog's"
        for other in others:
            other.pause()
        rotten.start(wait=False)
        rotten.wait_until(lambda status: status.pid != 0, "up")
        with rotten.client(timeout=1.0) as client:
            refused = value_or_error(client)
            assert refused != VALUE.replace(b"l", b"\x00")
            assert isinstance(refused, ClientError), "without a quorum there is no value"
        for other in others:
            other.resume()
        running.wait_until_connected()
        with rotten.client() as client:
            assert value_or_error(client) == VALUE
            assert client.get("user/bob") == b"paris"
            scrubbed(client)
            assert client.get("user/ada") == VALUE
            assert client.status().rotten_rows >= 1
            assert client.status().unrepaired_rows == 0
            assert metric(rotten, "rotten_rows_repaired_total") >= 1
            assert metric(rotten, "rotten_rows_left") == 0
            assert metric(rotten, "scrubbed_rows_total") >= 4
        for other in others:
            other.kill()
        with rotten.client() as client:
            assert client.get("user/ada") == VALUE, "its own row, with no other to ask"
        assert "a committed value of user/ada" in rotten.log.read_text("utf-8")


def value_or_error(client: Client) -> bytes | ClientError | None:
    try:
        return client.get("user/ada")
    except ClientError as error:
        return error


def wait_for(node: ClusterNode, key: str) -> None:
    deadline = time.monotonic() + PROCESS_S
    with node.client() as client:
        while client.get(key, read="skip_cache") is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_rotten_vote_ends_the_node_for_good_and_it_is_replaced(tmp_path: Path) -> None:
    with cluster(3, folder=tmp_path) as running:
        rotten = running[0]
        leave_a_vote(running, rotten)
        in_the_tree(rotten)
        assert change_bytes(rotten, VALUE) >= 1
        for node in running:
            node.start(wait=False)
        process = rotten._process
        assert process is not None
        with rotten.client() as client, suppress(ClientError):
            client.begin_scrub()  # unless it has met the row before
        assert process.wait(PROCESS_S) == EXIT_STORE
        assert "a vote of user/ada" in rotten.log.read_text("utf-8")
        rotten.start(wait=False)
        rotten.wait_until(lambda status: status.state == "refused", "refused")
        with rotten.client() as client:
            assert "a vote of user/ada" in client.status().reason
            assert isinstance(value_or_error(client), Unavailable)
        new = running.prepare()
        new.start(wait=False)
        change_members(running[1], add=[as_newcomer(new)], remove=[rotten.id])
        with new.client() as client:
            assert client.reserve("user/ada", b"oslo").value in (b"oslo", VALUE)
        new.kill()


def leave_a_vote(running: Cluster, node: ClusterNode) -> None:
    """Its own, for a write that no other has heard of."""
    for other in running.nodes[1:]:
        other.kill()
    with node.client(timeout=0.5) as client:
        assert isinstance(reserved(client), ClientError)


def reserved(client: Client) -> object:
    try:
        return client.reserve("user/ada", VALUE)
    except ClientError as error:
        return error
