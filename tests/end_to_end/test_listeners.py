"""Nodes whose peers and operators have addresses of their own, and a crowd that keeps neither out."""

import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest

from epoxy.cli.main import run
from epoxy.client import Client
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import ClusterNode, free_ports, lay_out, newcomer
from epoxy.transport.tls import client_context
from tests.server.test_process import AT_MOST
from tests.transport.test_tls import Office

PATIENCE_S = 60.0
POLICY = QuorumPolicy.OPTIMAL

PEERS, ADMIN = "127.0.0.2", "127.0.0.3"
"""Where they listen; clients use 127.0.0.1."""

FILES = 256
CROWD = 300
"""More than the node may have files."""


class Apart:
    """Where a node's peers and operators connect."""

    def __init__(self, node: ClusterNode) -> None:
        (peers,), (admin,) = free_ports(1, PEERS), free_ports(1, ADMIN)
        self.node = node
        self.url = f"http://{PEERS}:{peers}"
        self.admin = f"{ADMIN}:{admin}"

    def configure(self, others: list["Apart"]) -> None:
        text = self.node.config.read_text()
        for other in others:
            text = text.replace(f'url = "{other.node.url}"', f'url = "{other.url}"')
        listeners = f'peers = "{self.url.removeprefix("http://")}"\nadmin = "{self.admin}"\nresp = '
        self.node.config.write_text(text.replace("resp = ", listeners) + '\n[access]\nauth = "tokens"\n')

    def move(self) -> str:
        """To another port; returns its new address."""
        (port,) = free_ports(1, PEERS)
        text, url = self.node.config.read_text(), f"http://{PEERS}:{port}"
        self.node.config.write_text(text.replace(self.url.removeprefix("http://"), url.removeprefix("http://")))
        self.url = url
        return url


def answer(address: str, method: str, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
    try:
        connection.request(method, path, headers={"content-type": "application/json"})
        told = connection.getresponse()
        return told.status, json.loads(told.read() or b"null")
    finally:
        connection.close()


def until_ready(node: ClusterNode, nodes: Sequence[ClusterNode]) -> None:
    """Asked without a token, as a supervisor does. `nodes`: those that it needs."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(OSError), closing(http.client.HTTPConnection(node.url.removeprefix("http://"))) as connection:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        for each in nodes:
            assert each.running, each.last_words()
        assert time.monotonic() < deadline, "\n".join([each.last_words() for each in nodes])
        time.sleep(0.05)


def until_listening(node: ClusterNode) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(OSError):
            answer(node.url.removeprefix("http://"), "GET", "/readyz")
            return
        assert node.running, node.last_words()
        assert time.monotonic() < deadline, node.last_words()
        time.sleep(0.05)


def test_a_cluster_with_four_listeners_and_tokens_forms_grows_and_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nodes ask of each other needs no token, and no listener but that of peers."""
    founders = lay_out(tmp_path, 3, POLICY)
    fourth = newcomer(tmp_path, founders, POLICY, 4)
    first = [Apart(node) for node in founders]
    late = Apart(fourth)
    for each in (*first, late):
        each.configure(first)
    nodes = [*founders, fourth]
    operator = ["--url", f"http://{first[0].admin}"]

    def told(*command: str) -> str:
        status = run([*command, *operator])
        said = capsys.readouterr()
        assert status == 0, said.err
        return said.out.strip()

    try:
        for node in nodes:
            node.start(wait=False)
        for node in founders:
            until_ready(node, founders)
        until_listening(fourth)
        assert run(["auth", "init", "--config", str(founders[0].config)]) == 0
        monkeypatch.setenv("EPOXY_TOKEN", capsys.readouterr().out.strip())
        writer = told("auth", "token", "create", "app", "--role", "writer")
        with Client(founders[0].url, token=writer) as client:
            assert client.reserve(b"name", b"taken").won

        plain = founders[0].url.removeprefix("http://")
        status, answered = answer(plain, "POST", "/v2/members")
        assert (status, answered["error"]["code"]) == (421, "wrong_listener")
        assert answered["error"]["message"].endswith("node.admin")
        assert answer(first[0].url.removeprefix("http://"), "GET", "/healthz")[0] == 421
        assert answer(first[0].admin, "GET", "/v2/kv/name")[0] == 421

        assert run(["members", "add", "4", fourth.url, *operator]) == 1, "the address of its clients"
        assert "served on another address of this node, node.peers" in capsys.readouterr().err
        told("members", "add", "4", late.url)
        until_ready(fourth, nodes)
        fourth.stop()
        moved = late.move()
        told("members", "move", "4", moved)
        fourth.start(wait=False)
        until_ready(fourth, nodes)
        assert moved in told("members", "list")
        with Client(fourth.url, token=writer) as client:
            assert client.get(b"name") == b"taken"
    finally:
        for node in nodes:
            node.kill()


class Limited(ClusterNode):
    """In a process with few files, and TLS."""

    files = 1024

    def _spawn(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return super()._spawn([sys.executable, "-c", AT_MOST, str(self.files), *command[3:]], log)


def secured(folder: Path) -> tuple[list[Limited], str, ssl.SSLContext]:
    """Three nodes that speak TLS, the address of operators at the first, and a context to connect with."""
    office = Office(folder / "office", "ca")
    cert, key = office.issue("127.0.0.1")
    files = f'\n[tls]\ncert = "{cert}"\nkey = "{key}"\nca = "{office.ca}"\n'
    nodes: list[Limited] = []
    (admin,) = free_ports(1)
    for node in lay_out(folder, 3, POLICY):
        text = node.config.read_text().replace('url = "http:', 'url = "https:')
        if node.id == 1:
            text = text.replace("resp = ", f'admin = "127.0.0.1:{admin}"\nresp = ')
        node.config.write_text(text + files)
        node.__class__ = Limited
        assert isinstance(node, Limited)
        nodes.append(node)
    nodes[0].files = FILES
    return nodes, f"127.0.0.1:{admin}", client_context(cert, key, office.ca)


def status_at(address: str, tls: ssl.SSLContext) -> dict[str, Any]:
    connection = http.client.HTTPSConnection(address, timeout=PATIENCE_S, context=tls)
    try:
        connection.request("GET", "/v2/status")
        told = connection.getresponse()
        body = told.read()
        assert told.status == 200, body
        document: dict[str, Any] = json.loads(body)
        return document
    finally:
        connection.close()


def until(address: str, tls: ssl.SSLContext, reached: set[int]) -> None:
    """Every question must be answered, once the listener is open."""
    deadline, answered = time.monotonic() + PATIENCE_S, False
    while True:
        assert time.monotonic() < deadline, f"{address} never reached {reached}"
        try:
            seen = status_at(address, tls)
        except ConnectionRefusedError:
            assert not answered
        else:
            answered = True
            if reached <= {peer["id"] for peer in seen["peers"] if peer["reachable"]}:
                return
        time.sleep(0.05)


@contextmanager
def crowd(ports: list[int]) -> Iterator[list[int]]:
    """Connections that say nothing, so that TLS handshakes never end; opened again when they are closed, all the while.
    The list counts them."""
    over, opened = threading.Event(), [0]

    def besiege() -> None:
        open_ones: list[socket.socket] = []
        while not over.is_set():
            with suppress(OSError):
                made = socket.create_connection(("127.0.0.1", ports[opened[0] % len(ports)]), timeout=1)
                made.setblocking(False)
                open_ones.append(made)
                opened[0] += 1
            if len(open_ones) > CROWD:
                open_ones.pop(0).close()
            time.sleep(0.001)
        for each in open_ones:
            each.close()

    thread = threading.Thread(target=besiege, daemon=True)
    thread.start()
    try:
        yield opened
    finally:
        over.set()
        thread.join()


def test_neither_handshakes_nor_idle_clients_keep_out_peers_and_operators(tmp_path: Path) -> None:
    """A node with 256 files, TLS and a crowd at both listeners of clients, one of which peers use too: another node
    dies and comes back meanwhile."""
    nodes, admin, tls = secured(tmp_path)
    here, there = (node.url.removeprefix("http://") for node in (nodes[0], nodes[2]))
    port = int(here.rpartition(":")[2])
    idle: list[ssl.SSLSocket] = []
    try:
        for node in nodes:
            node.start(wait=False)
        until(admin, tls, {2, 3})
        with suppress(OSError):
            while len(idle) < FILES:
                idle.append(tls.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1"))
        with crowd([port, nodes[0].resp_port]) as opened:
            while opened[0] < CROWD:
                time.sleep(0.01)
            nodes[2].kill()
            nodes[2].start(wait=False)
            until(there, tls, {1, 2})
            until(admin, tls, {2, 3})
            assert status_at(admin, tls)["available"]
        assert nodes[0].running
        assert "failed" not in nodes[0].log.read_text()
    finally:
        for each in idle:
            each.close()
        for node in nodes:
            node.kill()
