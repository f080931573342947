"""The process of a node, for real: how it starts, drains, fails and ends, and what it says meanwhile."""

import asyncio
import json
import os
import pty
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPSConnection, RemoteDisconnected
from pathlib import Path
from threading import Timer
from typing import IO, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.asyncio.client import connect

from benchmarks.preload import preload
from epoxy.api.connection_metrics import ConnectionMetrics
from epoxy.api.home_metrics import ActorCallMetrics, HomeMetrics
from epoxy.api.metrics import Metrics
from epoxy.model.errors import ConfigError, InvariantViolation
from epoxy.model.quorum import QuorumPolicy
from epoxy.node.process.config import load
from epoxy.server.process import Process
from epoxy.store.embedded.datadir import FORMAT
from epoxy.store.embedded.tree import TreeView
from epoxy.testing import Cluster, ClusterNode, clean_environment, lay_out
from epoxy.transport.http.listener import Listener
from tests.actors.test_home_changes import regions
from tests.node.process.test_config import MANUAL

PATIENCE_S = 60.0
"""For what takes a moment; only a broken node takes so long."""

WITH_A_BAD_DISK = """
import os, sys, time
from epoxy.store.embedded.files import SystemFiles
from epoxy.cli.main import main

folder, write = sys.argv.pop(1), SystemFiles.write

def obedient(*given):
    while os.path.exists(folder + "/slow"):
        time.sleep(0.001)
    if os.path.exists(folder + "/broken"):
        raise OSError(5, "Input/output error")
    return write(*given)

SystemFiles.write = obedient
SystemFiles.frame_writer = lambda _: None  # All goes through `write`.
main()
"""
"""A node whose disk waits while there is a file `slow` in its folder, and fails once there is one called `broken`."""


def layout(folder: Path, n: int) -> ClusterNode:
    """The first of n nodes; the others are never started."""
    return lay_out(folder, n, QuorumPolicy.OPTIMAL)[0]


def acquainted(folder: Path) -> ClusterNode:
    """The first of three; its others have met its store, and are gone."""
    nodes = lay_out(folder, 3, QuorumPolicy.OPTIMAL)
    cluster = Cluster(nodes, folder)
    try:
        cluster.start()
        with nodes[0].client() as client:
            client.reserve(b"name", b"taken")
        for node in nodes:
            node.stop()
    finally:
        cluster.stop()
    return nodes[0]


def command(node: ClusterNode, *flags: str) -> list[str]:
    return ["serve", "--config", str(node.config), *flags]


def spawned(*arguments: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=clean_environment(os.environ),
    )


class Running:
    """A node's process, and what it has said so far."""

    def __init__(self, node: ClusterNode, process: subprocess.Popen[str]) -> None:
        self.node = node
        self.process = process
        self.lines: list[dict[str, Any]] = []

    def hear(self, event: str) -> dict[str, Any]:
        """Wait for it; a node that does not say it in time is killed."""
        assert self.process.stderr is not None
        alarm = Timer(PATIENCE_S, self.process.kill)
        alarm.start()
        try:
            return self._hear(self.process.stderr, event)
        finally:
            alarm.cancel()

    def _hear(self, said: IO[str], event: str) -> dict[str, Any]:
        for line in said:
            self.lines.append(json.loads(line))
            if self.lines[-1]["event"] == event:
                return self.lines[-1]
        raise AssertionError(f"never said {event!r}: {self.lines}")

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)

    def http(self) -> HTTPConnection:
        return HTTPConnection(self.node.url.removeprefix("http://"), timeout=PATIENCE_S)

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        connection = self.http()
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def status(self) -> dict[str, Any]:
        status, body = self.ask("GET", "/v2/status")
        assert status == 200
        document: dict[str, Any] = json.loads(body)
        return document

    def redis(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.node.resp_port), timeout=PATIENCE_S)


def redis_command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


@contextmanager
def running(node: ClusterNode, *program: str) -> Iterator[Running]:
    """Started, and so ready; killed in the end if it still runs."""
    with spawned(*(program or ("-m", "epoxy")), *command(node)) as process:
        try:
            served = Running(node, process)
            served.hear("started")
            yield served
        finally:
            process.kill()


def until(condition: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never {words}"
        time.sleep(0.005)


def refusal(node: ClusterNode, *flags: str, status: int = 78) -> str:
    """What a node says that does not start: one line."""
    with spawned("-m", "epoxy", *command(node, *flags)) as process:
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout) == (status, "")
    line = str(stderr).rstrip("\n")
    assert line.startswith("epoxy: "), stderr
    assert "\n" not in line, stderr
    return line.removeprefix("epoxy: ")


def add(node: ClusterNode, text: str) -> None:
    node.config.write_text(node.config.read_text() + text)


# Starting


def test_reads_are_served_although_its_peers_are_absent(tmp_path: Path) -> None:
    """A name that was taken is read at home for ever. It is not sure whether its disk is the newest, so it writes
    nothing."""
    with running(acquainted(tmp_path)) as served:
        assert served.ask("GET", "/v2/kv/name") == (200, b"taken")
        assert served.ask("PUT", "/v2/kv/name", b"taken")[0] == 200
        assert served.ask("PUT", "/v2/kv/name", b"other")[0] == 409
        for method, path in (
            ("GET", "/readyz"),
            ("GET", "/v2/kv/free"),
            ("PUT", "/v2/kv/free"),
            ("DELETE", "/v2/kv/x"),
        ):
            refused, body = served.ask(method, path, b"")
            assert (refused, json.loads(body)["error"]["definite"]) == (503, True)
            assert "others must confirm" in json.loads(body)["error"]["message"]
        status = served.status()
        assert (status["ready"], status["available"], status["tolerated_failures"]) == (False, False, -1)
        assert status["state"] == "confirming"
        assert [peer["reachable"] for peer in status["peers"]] == [False, False]
        assert status["pid"] == served.process.pid
        assert served.lines[-1]["http"] == served.node.url.removeprefix("http://")


def test_not_ready_before_the_others_have_met_its_store(tmp_path: Path) -> None:
    """It may stand in for a disk that was lost."""
    with running(layout(tmp_path, 3)) as served:
        status = served.status()
        assert (status["ready"], status["state"]) == (False, "unconfirmed")
        for method, path in (("GET", "/readyz"), ("GET", "/v2/kv/a"), ("PUT", "/v2/kv/a"), ("POST", "/v2/members")):
            refused, body = served.ask(method, path)
            assert (refused, json.loads(body)["error"]["definite"]) == (503, True)
            assert "most of the others have no record of this store" in json.loads(body)["error"]["message"]
        with served.redis() as redis:
            redis.sendall(redis_command(b"RESERVE", b"b", b"2"))
            assert b"most of the others have no record of this store" in redis.recv(1000)


def test_a_signal_counts_as_soon_as_it_says_that_it_has_started(tmp_path: Path) -> None:
    with running(layout(tmp_path, 1)) as served:
        served.process.send_signal(signal.SIGINT)
        assert served.end() == 0
        assert served.process.stderr is not None
        rest = [json.loads(line)["event"] for line in served.process.stderr]
        assert rest[-2:] == ["draining", "stopped"], "before them, how few descriptors this machine allows"


def test_a_data_directory_remembers_how_its_quorums_are_counted(tmp_path: Path) -> None:
    node = layout(tmp_path, 3)
    with running(node) as served:
        served.process.send_signal(signal.SIGTERM)
        assert served.end() == 0
    assert refusal(node, "--set", "cluster.quorum_policy=fast-paxos") == (
        "cluster.members or cluster.quorum_policy: not those this data directory was made with: "
        "1, 2, 3 with optimal quorums"
    )


@pytest.mark.pure("a method of the tree is replaced")
def test_a_start_reads_as_many_rows_however_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a start would take minutes with millions of keys. Ranges are counted, the last 2,000 rows of the changelog
    among them, in which epochs are looked for; single rows are found by their keys."""
    read: list[bytes] = []
    rows = TreeView.rows

    def counted(tree: TreeView, begin: bytes, end: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        for row in rows(tree, begin, end, reverse):
            read.append(row[0])
            yield row

    async def start(node: ClusterNode) -> None:
        process = Process(load(node.config))
        await process.start()
        async with asyncio.timeout(PATIENCE_S):
            while process.node.txn_waits or not process.node.ready:
                await asyncio.sleep(0.01)
        await process.stop(asyncio.Event())

    found = {}
    for keys in (3000, 6000):
        (tmp_path / str(keys)).mkdir()
        node = layout(tmp_path / str(keys), 1)
        preload(node.data_dir, 1, keys, owned=True)
        monkeypatch.setattr(TreeView, "rows", counted)
        read.clear()
        asyncio.run(start(node))
        found[keys] = len(read)
    assert abs(found[6000] - found[3000]) < 500, found


def test_a_refusal_leaves_no_thread_behind(tmp_path: Path) -> None:
    """One that outlives the interpreter would have something to say after the one line."""

    async def attempt() -> None:
        Process(load(node.config, flags={"cluster.quorum_policy": "fast-paxos"}))

    node = layout(tmp_path, 3)
    with running(node) as served:
        served.process.send_signal(signal.SIGTERM)
        assert served.end() == 0
    with pytest.raises(ConfigError, match="quorum_policy"):
        asyncio.run(attempt())
    assert not {"epoxy-log", "epoxy-checkpoint"} & {thread.name for thread in threading.enumerate()}


def test_a_flow_that_fails_is_counted_and_logged_with_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> bytes:
        process = Process(load(layout(tmp_path, 1).config))
        try:
            raise RuntimeError("a bug")
        except RuntimeError as error:
            process.node.failures.ended("learner", error, lambda: None)
        try:
            raise InvariantViolation("two decisions")
        except InvariantViolation as violation:
            process.node.failures.ended("recovery", violation, lambda: None)
        found = process.metrics.text()
        await process.stop(asyncio.Event())
        return found

    with caplog.at_level("ERROR", logger="epoxy"):
        text = asyncio.run(fail())
    assert b'epoxy_flow_failures_total{flow="learner"} 1.0' in text
    assert b'epoxy_flow_failures_total{flow="recovery"} 1.0' in text
    assert b'epoxy_flow_failures_total{flow="write"} 0.0' in text
    assert b"epoxy_invariant_violations_total 1.0" in text
    logged = [(record.getMessage(), record.exc_info and record.exc_info[0]) for record in caplog.records]
    assert logged == [
        ("a flow failed by a fault of this node", RuntimeError),
        ("invariant violated", InvariantViolation),
    ]


def test_a_node_whose_store_is_refused_hosts_no_actors(tmp_path: Path) -> None:
    """Its rows of actors may be old, and another process may have the same ones. Its next process begins with none."""
    node = layout(tmp_path, 1)
    url = f"ws{node.url[4:]}/v2/envoys/connect"

    async def lose_envoy() -> None:
        process = Process(load(node.config))
        await process.start()
        async with connect(url, proxy=None, open_timeout=PATIENCE_S) as envoy:
            await envoy.send('{"type":"hello","namespace":"n","pool":"p","envoy_key":"k"}')
            await envoy.recv()
            process.node.gate.refuse("told so")  # type: ignore[union-attr]
            async with asyncio.timeout(PATIENCE_S):
                await envoy.wait_closed()
        assert envoy.close_reason == "the store of this node is refused"
        await process.stop(asyncio.Event())

    async def begin_again() -> bool:
        process = Process(load(node.config))
        await process.start()
        begun = process._actors._hosting.placing._timer is not None
        await process.stop(asyncio.Event())
        return begun

    asyncio.run(lose_envoy())
    assert not asyncio.run(begin_again())


def test_clients_of_either_door_and_those_that_are_let_in_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that stops gives them a moment for a last request; without them it stops at once."""
    settings = load(layout(tmp_path, 1).config)
    assert settings.node.resp is not None
    ports = (settings.node.http.port, settings.node.resp.port)

    async def story() -> None:
        process = Process(settings)
        await process.start()
        try:
            assert not process.endpoints.listeners.has_clients
            for port in ports:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                await settled(lambda: bool(process.endpoints.connections or process.endpoints._resp.connections))
                await settled(lambda: not any(each.opening for each in process.endpoints.listeners._open.values()))
                assert process.endpoints.listeners.has_clients, f"one at port {port} alone"
                writer.close()
                await settled(lambda: not process.endpoints.connections and not process.endpoints._resp.connections)
                assert not process.endpoints.listeners.has_clients
            with monkeypatch.context() as patched:
                patched.setattr(Listener, "opening", 1)
                assert process.endpoints.listeners.has_clients, "a handshake is under way"
        finally:
            await process.stop(asyncio.Event())

    async def settled(condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_what_is_dangerous_is_said_at_the_start(tmp_path: Path) -> None:
    node = layout(tmp_path, 3)
    secret = load(node.config).cluster.secret_file
    dangers = {"others can read the secret", "a new data directory"}
    secret.chmod(0o644)
    with running(node) as served:
        assert dangers <= {line["event"] for line in served.lines}
    secret.chmod(0o600)
    with running(node) as served:
        assert not dangers & {line["event"] for line in served.lines}


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    node = layout(tmp_path, 1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for door in ("http", "resp"):
            assert refusal(node, f"--{door}", address, status=75) == (
                f"node.{door}: cannot listen on {address}: Address already in use"
            )


@pytest.mark.parametrize(
    ("address", "why"), [("no such host:1", ""), ("192.0.2.1:1", "it is not an address of this machine")]
)
def test_an_address_that_is_not_this_machine_s(tmp_path: Path, address: str, why: str) -> None:
    """Starting it again would be pointless."""
    told = refusal(layout(tmp_path, 1), "--http", address, "--set", "access.auth=open")
    assert told.startswith(f"node.http: cannot listen on {address}: {why}")


def test_a_node_that_others_can_reach_starts_by_choice_alone(tmp_path: Path) -> None:
    node = layout(tmp_path, 1)
    told = refusal(node, "--http", "0.0.0.0:0")
    assert 'auth = "tokens"' in told
    assert 'auth = "open"' in told
    assert not node.data_dir.exists()


def test_the_password_of_earlier_versions_is_refused_with_what_to_do_instead(tmp_path: Path) -> None:
    told = refusal(layout(tmp_path, 1), "--set", f"node.resp_password_file={tmp_path}/none")
    assert told == (
        "command line: unknown setting node.resp_password_file; "
        'clients of both ports show tokens now: access.auth = "tokens", then epoxy auth init'
    )


def test_a_data_directory_of_somebody_else(tmp_path: Path) -> None:
    node = layout(tmp_path, 1)
    node.data_dir.mkdir()
    (node.data_dir / "letters").touch()
    assert (
        refusal(node) == f"data directory {node.data_dir}: not empty, and not made by Epoxy (it has no file `format`)"
    )
    (node.data_dir / "format").write_text(json.dumps({"format": FORMAT, "replica": 7}))
    assert refusal(node) == f"data directory {node.data_dir}: belongs to replica 7, this is replica 1"


def test_a_disk_that_fails_at_the_start(tmp_path: Path) -> None:
    node, disk = layout(tmp_path, 1), tmp_path / "disk"
    disk.mkdir()
    (disk / "broken").touch()
    with spawned("-c", WITH_A_BAD_DISK, str(disk), *command(node)) as process:
        _, stderr = process.communicate(timeout=PATIENCE_S)
    assert stderr == f"epoxy: data directory {node.data_dir}: [Errno 5] Input/output error\n"
    assert process.returncode == 74


def test_an_emulated_wan_of_places_nobody_has_measured(tmp_path: Path) -> None:
    told = refusal(layout(tmp_path, 3), "--set", "wan.emulate=true")
    assert told.startswith("wan.emulate: no round trips are known for 'dc-1'; allowed: us-east-1, ")
    assert not (tmp_path / "dc-1").exists(), "the store was opened before the settings were looked at"


# Ending


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def test_sigterm_waits_for_writes_on_both_doors(tmp_path: Path, disk: Path) -> None:
    with running(layout(tmp_path, 1), "-c", WITH_A_BAD_DISK, str(disk)) as served, ExitStack() as stack:
        (disk / "slow").touch()
        http, redis, idle = served.http(), stack.enter_context(served.redis()), stack.enter_context(served.redis())
        stack.callback(http.close)
        http.request("PUT", "/v2/kv/a", b"1")
        redis.sendall(redis_command(b"RESERVE", b"b", b"2"))
        until(lambda: served.status()["writes_in_flight"] == 2, "two writes in flight")
        served.process.send_signal(signal.SIGTERM)
        assert served.hear("draining")["writes_in_flight"] == 2
        until(lambda: not listens(served.node), "closed to newcomers")
        assert idle.recv(10) == b"", "an idle client is sent away at once"
        (disk / "slow").unlink()
        assert http.getresponse().status == 201
        assert redis.recv(100) == b"+OK\r\n"
        assert redis.recv(100) == b""
        served.hear("stopped")
        assert served.end() == 0


def test_what_reaches_a_node_that_stops_is_refused_and_not_lost(tmp_path: Path) -> None:
    """On a connection that was open before: the client cannot know, and must be told."""
    with running(layout(tmp_path, 1)) as served, ExitStack() as stack:
        http, silent = served.http(), served.http()
        for each in (http, silent):
            stack.callback(each.close)
            each.request("PUT", "/v2/kv/before", b"1")
            assert each.getresponse().read() == b""
        served.process.send_signal(signal.SIGTERM)
        served.hear("draining")
        http.request("PUT", "/v2/kv/after", b"2")
        answer = http.getresponse()
        error = json.loads(answer.read())["error"]
        assert (answer.status, error["code"], error["definite"]) == (503, "stopping", True)
        assert answer.headers["connection"] == "close"
        assert served.end() == 0
    with running(served.node) as again:
        assert again.ask("GET", "/v2/kv/before")[0] == 200
        assert again.ask("GET", "/v2/kv/after")[0] == 404


def test_a_second_sigterm_does_not_wait(tmp_path: Path) -> None:
    """Its peers are silent, so what was put forward would be waited for until its time is over. Had they gone, a node
    that knows it would refuse writes at once."""
    me, *others = lay_out(tmp_path, 3, QuorumPolicy.OPTIMAL)
    with running(me) as served, ExitStack() as stack:
        for other in others:
            other.start(wait=False)
            stack.callback(other.kill)
        until(lambda: bool(served.status()["ready"]), "ready")
        redis, http = stack.enter_context(served.redis()), served.http()
        stack.callback(http.close)
        http.connect()
        for other in others:
            other.pause()
        http.request("PUT", "/v2/kv/a", b"1")
        redis.sendall(redis_command(b"RESERVE", b"b", b"2"))
        until(lambda: served.status()["writes_in_flight"] == 2, "two writes in flight")
        served.process.send_signal(signal.SIGTERM)
        served.hear("draining")
        served.process.send_signal(signal.SIGTERM)
        assert served.hear("not waiting any longer")["writes_in_flight"] == 2
        served.process.send_signal(signal.SIGTERM)
        assert served.end() == 0
        assert redis.recv(100) == b"", "no answer is no promise"


def test_a_disk_that_hangs_does_not_hold_a_node_that_stops(tmp_path: Path, disk: Path) -> None:
    node = layout(tmp_path, 1)
    program = WITH_A_BAD_DISK.replace("from epoxy.cli.main", "from epoxy.server import storage\nfrom epoxy.cli.main")
    program = program.replace("main()", "storage.CLOSE_S = 1.0\nmain()")
    with running(node, "-c", program, str(disk)) as served, served.redis() as redis:
        (disk / "slow").touch()
        redis.sendall(redis_command(b"RESERVE", b"a", b"1"))
        until(lambda: served.status()["writes_in_flight"] == 1, "a write under way")
        served.process.send_signal(signal.SIGTERM)
        served.hear("draining")
        served.process.send_signal(signal.SIGTERM)
        served.hear("not waiting any longer")
        detail = served.hear("the store failed; ending without another answer")["detail"]
        assert detail == "the disk has not ended what was under way for 1 s"
        assert served.end() == 74
        assert redis.recv(100) == b"", "no answer is no promise"


def listens(node: ClusterNode) -> bool:
    try:
        socket.create_connection(("127.0.0.1", node.resp_port), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_disk_that_fails_ends_it_before_another_word(tmp_path: Path, disk: Path) -> None:
    node = layout(tmp_path, 1)
    with running(node, "-c", WITH_A_BAD_DISK, str(disk)) as served:
        assert served.ask("PUT", "/v2/kv/before", b"1")[0] == 201
        (disk / "broken").touch()
        with pytest.raises((ConnectionResetError, RemoteDisconnected)):
            served.ask("PUT", "/v2/kv/after", b"2")
        assert served.end() == 74
        last = served.hear("the store failed; ending without another answer")
        assert (last["level"], last["detail"]) == ("critical", "the disk failed: [Errno 5] Input/output error")
        assert served.process.stderr is not None
        assert served.process.stderr.read() == ""
    with running(node) as served:
        assert served.ask("GET", "/v2/kv/before") == (200, b"1")
        assert served.ask("GET", "/v2/kv/after")[0] == 404
        assert served.ask("PUT", "/v2/kv/after", b"3")[0] == 201


def test_a_bug_is_logged_in_a_line_and_the_node_goes_on(tmp_path: Path) -> None:
    script = (
        "from epoxy.node.service import Node\nfrom epoxy.cli.main import main\nNode.inspect = lambda *_: 1 / 0\nmain()"
    )
    with running(layout(tmp_path, 1), "-c", script) as served:
        assert served.ask("GET", "/v2/inspect/a")[0] == 500
        assert "ZeroDivisionError" in served.hear("a request's handler failed")["error"]
        assert served.ask("GET", "/readyz")[0] == 200


# TLS


def certificate(folder: Path) -> None:
    """For 127.0.0.1, signed by itself: it is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "node")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "cert.pem").write_bytes(made.public_bytes(encoding))
    (folder / "key.pem").write_bytes(key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain))


@pytest.fixture
def secured(tmp_path: Path) -> ClusterNode:
    """The paths are relative to the file's folder, which is not where the tests run."""
    certificate(tmp_path)
    node = layout(tmp_path, 1)
    node.config.write_text(node.config.read_text().replace("http://127.0.0.1", "https://localhost"))
    add(node, '[tls]\ncert = "cert.pem"\nkey = "key.pem"\nca = "cert.pem"\n')
    return node


def test_with_tls_both_doors_speak_it_and_nothing_else(tmp_path: Path, secured: ClusterNode) -> None:
    context = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    with running(secured) as served:
        port = int(secured.url.rpartition(":")[2])
        secure = HTTPSConnection("localhost", port, timeout=PATIENCE_S, context=context)
        secure.request("GET", "/readyz")
        assert secure.getresponse().status == 200
        secure.close()
        with served.redis() as plain, context.wrap_socket(plain, server_hostname="localhost") as redis:
            redis.sendall(redis_command(b"PING"))
            assert redis.recv(100) == b"+PONG\r\n"
        with pytest.raises((ConnectionResetError, RemoteDisconnected)):
            served.ask("GET", "/readyz")


def test_a_certificate_of_its_own_that_peers_would_refuse_is_told_at_the_start(secured: ClusterNode) -> None:
    secured.config.write_text(secured.config.read_text().replace("https://localhost", "https://127.0.0.1"))
    told = "this node's own certificate would be refused by its peers"
    with running(secured) as served:
        (line,) = [line for line in served.lines if line["event"] == told]
    assert "127.0.0.1" in line["detail"]
    assert "mismatch" in line["detail"]


@pytest.mark.parametrize("name", ["cert", "key", "ca"])
def test_tls_files_that_are_missing_are_named(tmp_path: Path, secured: ClusterNode, name: str) -> None:
    told = refusal(secured, "--set", f"tls.{name}={tmp_path}/none.pem")
    assert told == f"tls.{name} {tmp_path}/none.pem: cannot be read: No such file or directory"


@pytest.mark.parametrize(("name", "other"), [("cert", "secret"), ("key", "cert.pem"), ("ca", "secret")])
def test_tls_files_that_are_something_else(tmp_path: Path, secured: ClusterNode, name: str, other: str) -> None:
    told = refusal(secured, "--set", f"tls.{name}={tmp_path}/{other}")
    assert told.startswith("[tls]: no certificate with its key, or no authority, in ")


# What it says


def test_a_terminal_gets_lines_for_people(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with spawned("-m", "epoxy", *command(layout(tmp_path, 1)), stderr=theirs) as process:
        os.close(theirs)
        alarm = Timer(PATIENCE_S, process.kill)
        alarm.start()
        with os.fdopen(ours, "rb") as terminal:
            said = terminal.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        alarm.cancel()
    assert re.match(rb"\d\d:\d\d:\d\d\.\d\d\d info    started  release=\S+ replica=1 datacenter=dc-1 pid=\d+ ", said)


def test_the_manual_has_every_metric() -> None:
    manual = MANUAL.read_text("utf-8")
    named = set(re.findall(r"epoxy_[a-z_]+", manual))
    metrics = Metrics()
    metrics.include(ConnectionMetrics())
    (region,) = regions(1)
    metrics.include(HomeMetrics(region.changes))
    metrics.include(ActorCallMetrics(region.hosting.calls, lambda: 0))
    families = set(re.findall(r"^# TYPE (epoxy_\w+)", metrics.text().decode(), re.MULTILINE))
    assert families
    assert families - named == set()
    assert named - families == set(), "metrics that are not there"


def test_the_manual_has_every_status() -> None:
    manual = MANUAL.read_text("utf-8")
    assert all(f"| {status} |" in manual for status in (0, 2, 74, 75, 78))


AT_MOST = """
import resource, sys
from epoxy.cli.main import main

files = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, 64), files))
main()
"""
"""A node in a process that may open so many files, and must ask for more than the first 64."""


def test_a_crowd_does_not_take_the_stores_last_file_descriptors(tmp_path: Path) -> None:
    """A store that cannot open its next segment ends the node; a client that cannot connect ends nothing."""
    node = layout(tmp_path, 1)
    process = spawned("-c", AT_MOST, "128", *command(node))
    served = Running(node, process)
    try:
        served.hear("started")
        assert served.hear("fewer connections than limits.connections")["allowed"] == 12
        http = served.http()
        http.connect()
        crowd = [socket.create_connection(("127.0.0.1", http.port), timeout=PATIENCE_S) for _ in range(200)]
        for number in range(20):  # a segment has 16 MiB
            http.request("PUT", f"/v2/kv/long?mode=put&if_version={number}", bytes(1 << 20))
            assert http.getresponse().read() == b""
        http.close()
        for client in crowd:
            client.close()
        process.send_signal(signal.SIGTERM)
        assert served.end() == 0
    finally:
        process.kill()
        process.communicate()


def test_too_few_file_descriptors_are_a_setting_that_is_wrong(tmp_path: Path) -> None:
    process = spawned("-c", AT_MOST, "50", *command(layout(tmp_path, 1)))
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 78
    assert said == "epoxy: file descriptors: this process may open 50, and a node needs 64; see ulimit -n\n"
