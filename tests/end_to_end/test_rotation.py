"""docs/operating.md, "Renew certificates" and "Replace the secret", as an operator does them: three nodes with TLS,
clients that write without a pause, and not one write that fails."""

import asyncio
import json
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from epoxy import Client
from epoxy.cli.secret import secret
from epoxy.model.errors import ClientError
from epoxy.model.quorum import QuorumPolicy
from epoxy.node.process.secret_files import secrets_in
from epoxy.testing import Cluster, ClusterNode, lay_out
from epoxy.transport.peers.keyring import fingerprint_of
from epoxy.transport.peers.probe import ProbeRefused, probe
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.pages import ROOT
from tests.end_to_end.recorder import PATIENCE_S
from tests.transport.test_tls import Office

PAGE = (ROOT / "docs" / "operating.md").read_text("utf-8")
FRESH = 25
"""Writes of one client on its connections; then another client begins, with a handshake of its own."""


class Writers(Crowd):
    """One for each node, which writes there and nowhere else."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.done: Counter[int] = Counter()
        self.failures: list[str] = []
        for node in cluster:
            self._begin(self._write, node)

    def _write(self, node: ClusterNode) -> None:
        while not self._over.is_set():
            with node.client() as client:
                for _ in range(FRESH):
                    try:
                        client.put(b"%d/%d" % (node.id, self.done[node.id]), b"x")
                        self.done[node.id] += 1
                    except ClientError as error:
                        self.failures.append(f"{node.id}: {error!r}")
                    self._over.wait(0.01)

    def more(self, count: int = FRESH) -> None:
        goals = {node: done + count for node, done in self.done.items()}
        until(
            lambda: all(self.done[node] >= goal for node, goal in goals.items()) or bool(self.failures), "more writes"
        )
        assert self.failures == []


def until(condition: Callable[[], bool], words: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never {words}"
        time.sleep(0.05)


def files_of(node: ClusterNode) -> Path:
    """A node's machine: its secret, its certificate, the authorities it trusts."""
    return node.config.parent / f"files-{node.config.stem}"


@pytest.fixture
def offices(tmp_path: Path) -> dict[str, Office]:
    return {name: Office(tmp_path / name, "ca") for name in ("old", "new")}


@pytest.fixture
def secured(tmp_path: Path, offices: dict[str, Office], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Clients trust both authorities, by the file that a variable names."""
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(b"".join([office.ca.read_bytes() for office in offices.values()]))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    nodes = lay_out(tmp_path, 3, QuorumPolicy.OPTIMAL)
    for node in nodes:
        folder = files_of(node)
        folder.mkdir()
        shutil.copy(tmp_path / "secret", folder)
        for name, office in offices.items():
            shutil.copy(office.ca, folder / f"{name}-ca.pem")
        shutil.copy(offices["old"].ca, folder / "ca.pem")
        install(node, offices["old"])
        text = node.config.read_text("utf-8").replace("http://", "https://")
        text = text.replace(str(tmp_path / "secret"), str(folder / "secret"))
        tls = "".join([f'{name} = "{folder / name}.pem"\n' for name in ("cert", "key", "ca")])
        node.config.write_text(f"{text}\n[tls]\n{tls}", "utf-8")
        node.url = node.url.replace("http://", "https://")
    cluster = Cluster(nodes, tmp_path)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def install(node: ClusterNode, office: Office) -> None:
    for made, name in zip(office.issue("127.0.0.1"), ("cert", "key"), strict=True):
        shutil.copy(made, files_of(node) / f"{name}.pem")


def steps(heading: str) -> list[str]:
    """What the table under a heading has operators run on every node, step by step."""
    section = PAGE.split(f"# {heading}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| \d+ \| (.+?) \|", section, re.MULTILINE)
    return [found[1] if (found := re.match(r"`([^`]+)`", row)) else row for row in rows]


def at(node: ClusterNode, command: str) -> None:
    """On a node's machine."""
    if command.startswith("epoxy secret "):
        _, _, step, *names = command.split()
        done = CliRunner().invoke(secret, [step, *[str(files_of(node) / name) for name in names]])
        assert done.exit_code == 0, done.output
    else:
        subprocess.run(["bash", "-c", command], cwd=files_of(node), check=True, timeout=PATIENCE_S)


def hang_up(node: ClusterNode) -> None:
    node._signal(signal.SIGHUP)


def events(node: ClusterNode, event: str) -> list[dict[str, str]]:
    lines = [json.loads(line) for line in node.log.read_text("utf-8").splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def reloads(
    cluster: Sequence[ClusterNode], change: Callable[[ClusterNode], None], *, all_by_signal: bool = True
) -> None:
    """Change the files of one node after the other, each when the one before has read its own. Without a signal the
    last one notices by itself."""
    for node in cluster:
        before = len(events(node, "reloaded"))
        change(node)
        if all_by_signal or node is not cluster[-1]:
            hang_up(node)
        until(lambda: len(events(node, "reloaded")) > before, "read again")  # noqa: B023


def trusts(node: ClusterNode, office: Office) -> bool:
    """Whether a client that knows one authority alone accepts the node's certificate."""
    context = ssl.create_default_context(cafile=office.ca)
    with Client(node.url, tls=context) as client:
        try:
            return client.status().ready
        except ClientError:
            return False


def secrets_of(cluster: Cluster) -> list[list[str]]:
    told = []
    for node in cluster:
        with node.client() as client:
            told.append(client.status().secrets)
    return told


def metrics(node: ClusterNode, office: Office) -> str:
    context = ssl.create_default_context(cafile=office.ca)
    with urllib.request.urlopen(f"{node.url}/metrics", timeout=PATIENCE_S, context=context) as answer:
        return str(answer.read(), "utf-8")


def doctor(cluster: Cluster) -> str:
    command = [sys.executable, "-m", "epoxy", "doctor", "--url", cluster[0].url]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False).stdout


def is_accepted(node: ClusterNode, secret: bytes, offices: dict[str, Office]) -> bool:
    context = ssl.create_default_context(cafile=offices["new"].ca)
    context.load_cert_chain(files_of(node) / "cert.pem", files_of(node) / "key.pem")
    try:
        asyncio.run(probe(node.url, node.id, secret, context, PATIENCE_S))
    except ProbeRefused:
        return False
    return True


def test_certificates_and_the_secret_are_replaced_and_no_write_fails(
    secured: Cluster, offices: dict[str, Office]
) -> None:
    old, new = offices["old"], offices["new"]
    with Writers(secured) as writers:
        writers.more()
        both, _, alone = steps("Renew certificates")
        reloads(secured.nodes, lambda node: at(node, both))
        writers.more()

        first = files_of(secured[0]) / "cert.pem"
        first.write_bytes(first.read_bytes()[:200])
        hang_up(secured[0])
        until(lambda: bool(events(secured[0], "not reloaded: what was read before stays in force")), "refused")
        writers.more()
        assert trusts(secured[0], old), "a pair that is half written changes nothing"
        assert "epoxy_reload_failures_total 1.0" in metrics(secured[0], old)
        assert 'epoxy_certificate_expiry_seconds{certificate="ca"}' in metrics(secured[0], old)
        reloads(secured.nodes, lambda node: install(node, new), all_by_signal=False)
        assert [trusts(node, new) for node in secured] == [True] * 3
        writers.more()

        reloads(secured.nodes, lambda node: at(node, alone))
        writers.more()
        assert not any(trusts(node, old) for node in secured)

        replace_secret(secured, offices, writers)
    secured.wait_until_connected()
    assert writers.failures == []


def replace_secret(cluster: Cluster, offices: dict[str, Office], writers: Writers) -> None:
    """Its links are made anew, so they use the new certificates too."""
    make, add, switch, drop = steps("Replace the secret")
    at(cluster[0], make)
    for node in cluster.nodes[1:]:
        shutil.copy(files_of(cluster[0]) / "new-secret", files_of(node))
    secrets = [secrets_in("file", files_of(cluster[0]) / name)[0] for name in ("secret", "new-secret")]
    before, after = map(fingerprint_of, secrets)
    reloads(cluster.nodes, lambda node: at(node, add))
    assert secrets_of(cluster) == [[before, after]] * 3
    assert f"3 nodes of 3 accept two secrets; all speak {before}" in doctor(cluster)
    writers.more()
    reloads(cluster.nodes, lambda node: at(node, switch), all_by_signal=False)
    assert secrets_of(cluster) == [[after, before]] * 3
    writers.more()
    reloads(cluster.nodes, lambda node: at(node, drop))
    writers.more()
    assert secrets_of(cluster) == [[after]] * 3
    assert [is_accepted(node, secrets[1], offices) for node in cluster] == [True] * 3
    assert [is_accepted(node, secrets[0], offices) for node in cluster] == [False] * 3
    assert "secret" not in doctor(cluster)
