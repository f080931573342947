"""How a node begins and ends, and whom it does not listen to."""

import http.client
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epoxy.cli.demo.cluster import DemoCluster
from epoxy.client import Status
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import clean_environment, lay_out
from tests.end_to_end.recorder import PATIENCE_S, PROCESS_S
from tests.end_to_end.world import regions, until

IN_FLIGHT = 20


def serve(config: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """For nodes that refuse to start."""
    return subprocess.run(
        [sys.executable, "-m", "epoxy", "serve", "--config", str(config), *flags],
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        check=False,
        env=clean_environment(os.environ),
    )


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 78, done
    assert done.stdout == ""
    assert done.stderr.startswith("epoxy: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_sigterm_lets_every_write_finish(tmp_path: Path) -> None:
    """The peers stand still until the node has been told to end, so that all writes are under way by then."""
    with regions(tmp_path) as cluster:
        node, *peers = cluster.nodes
        with node.client() as client, ThreadPoolExecutor(IN_FLIGHT) as pool:
            for peer in peers:
                peer.pause()
            asked = [pool.submit(client.reserve, b"drain/%d" % i, b"v") for i in range(IN_FLIGHT)]
            node.wait_until(lambda status: writes_in_flight(status) == IN_FLIGHT, "busy")
            assert node.pid is not None
            os.kill(node.pid, signal.SIGTERM)
            for peer in peers:
                peer.resume()
            assert [each.result(PATIENCE_S).won for each in asked] == [True] * IN_FLIGHT
        until(lambda: not node.running, "ended")
        assert node.exit_code == 0
        assert "stopped" in node.last_words()
        with peers[0].client() as client:
            assert [client.get(b"drain/%d" % i, read="linearizable") for i in range(IN_FLIGHT)] == [b"v"] * IN_FLIGHT


def writes_in_flight(status: Status) -> int:
    assert isinstance(status.document, dict)
    return int(status.document["writes_in_flight"])


def test_a_second_process_on_the_same_data_is_refused_by_name_and_pid(trio: DemoCluster) -> None:
    node = trio.nodes[0]
    told = refusal(serve(node.config, "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0"))
    assert f"in use by {node.datacenter}" in told
    assert "replica 1" in told
    assert f"pid {node.pid}" in told


def test_a_port_that_is_taken_is_named(trio: DemoCluster, tmp_path: Path) -> None:
    node = trio.nodes[0]
    done = serve(node.config, "--data-dir", str(tmp_path / "data"), "--resp", "127.0.0.1:0")
    told = done.stderr.splitlines()[-1]  # what was unusual before is in the log
    assert done.returncode == 75
    assert told == f"epoxy: node.http: cannot listen on {node.url.removeprefix('http://')}: Address already in use"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration that would do."""
    return lay_out(tmp_path_factory.mktemp("config"), 3, QuorumPolicy.OPTIMAL)[0].config


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("id = 1\n", "id = 9\n", "line 2: node.id 9 is not among cluster.members (1, 2, 3)"),
        ("id = 1\n", "id = 0\n", "line 2: node.id is 0; allowed: a whole number from 1 to 4294967295"),
        ("[node]\n", "[node]\ncolour = 1\n", "line 2: unknown setting node.colour; known: id, datacenter"),
        (
            "[node]\n",
            "[limits]\npipeline = 0\n[node]\n",
            "line 2: limits.pipeline is 0; allowed: a whole number from 1",
        ),
        ("[node]\n", "[nodes]\n", "line 1: unknown section [nodes]; known sections: node, cluster"),
        ("[node]\n", "[node\n", "is not TOML"),
        ('"optimal"', '"optimum"', 'allowed: "optimal" or "fast-paxos"'),
        ("/secret", "/no-secret", "cannot be read: No such file or directory"),
        ("[cluster]", "[wan]\nemulate = true\n[cluster]", "no round trips are known for 'dc-1'"),
    ],
)
def test_a_wrong_setting_ends_it_with_one_line(sound: Path, tmp_path: Path, old: str, new: str, told: str) -> None:
    text = sound.read_text("utf-8")
    assert old in text
    wrong = tmp_path / "epoxy.toml"
    wrong.write_text(text.replace(old, new, 1), "utf-8")
    assert told in refusal(serve(wrong))


def test_a_missing_file_and_a_wrong_flag(sound: Path, tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refusal(serve(tmp_path / "none.toml"))
    assert "node.http is 'x'" in refusal(serve(sound, "--http", "x"))
    assert "command line: unknown setting node.colour" in refusal(serve(sound, "--set", "node.colour=1"))


@pytest.mark.parametrize("path", ["/v2/epoxy/message", "/v2/epoxy/changelog-read", "/v2/admin/links"])
@pytest.mark.parametrize("signature", [None, "Epoxy v1,2,1,1,1,0000000000000001," + 64 * "0", "Bearer x"])
def test_who_cannot_sign_is_not_heard(trio: DemoCluster, path: str, signature: str | None) -> None:
    connection = http.client.HTTPConnection(trio.nodes[0].url.removeprefix("http://"), timeout=PATIENCE_S)
    connection.request("POST", path, b"\x00" * 64, {"authorization": signature} if signature else {})
    answer = connection.getresponse()
    told = answer.read()
    connection.close()
    assert answer.status == 401
    assert b'"definite":true' in told
