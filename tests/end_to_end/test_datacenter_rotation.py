"""SIGHUP at nodes of one datacenter: new certificates and a new secret for the links between them, while clients write
keys of all nodes through each of them."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from epoxy.model.errors import ClientError
from epoxy.node.process.secret_files import secrets_in
from epoxy.testing.datacenter_cluster import (
    LEASE_MS,
    Datacenter,
    DatacenterCluster,
    DatacenterProcess,
    write_secret,
)
from epoxy.transport.peers.keyring import fingerprint_of
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.test_rotation import at, files_of, install, reloads, steps, until
from tests.transport.test_tls import Office

MORE = 40
"""Writes through each node after each step: of about as many shards, half of which are another node's."""


class SecuredDatacenters(DatacenterCluster):
    """Each node is a machine with files of its own."""

    def write_config(self, datacenter: Datacenter, node: DatacenterProcess) -> None:
        super().write_config(datacenter, node)
        folder = files_of(node)
        text = node.config.read_text("utf-8").replace('http = "https://', 'http = "')
        text = text.replace(str(node.secret), str(folder / "secret"))
        tls = "".join([f'{name} = "{folder / name}.pem"\n' for name in ("cert", "key", "ca")])
        node.config.write_text(f"{text}\n[tls]\n{tls}", "utf-8")


class NodeWriters(Crowd):
    """One for each node, which writes there alone."""

    def __init__(self, nodes: list[DatacenterProcess]) -> None:
        super().__init__()
        self.done = dict.fromkeys([node.name for node in nodes], 0)
        self.failures: list[str] = []
        for node in nodes:
            self._begin(self._write, node)

    def _write(self, node: DatacenterProcess) -> None:
        with node.client() as client:
            while not self._over.is_set():
                try:
                    client.put(f"{node.name}/{self.done[node.name]}", b"x")
                    self.done[node.name] += 1
                except ClientError as error:
                    self.failures.append(f"{node.name}: {error!r}")
                self._over.wait(0.01)

    def more(self) -> None:
        goals = {name: done + MORE for name, done in self.done.items()}
        until(lambda: all(self.done[name] >= goal for name, goal in goals.items()) or bool(self.failures), "more")
        assert self.failures == []


@pytest.fixture
def offices(tmp_path: Path) -> dict[str, Office]:
    return {name: Office(tmp_path / name, "ca") for name in ("old", "new")}


@pytest.fixture
def secured(tmp_path: Path, offices: dict[str, Office], monkeypatch: pytest.MonkeyPatch) -> Iterator[DatacenterCluster]:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(b"".join([office.ca.read_bytes() for office in offices.values()]))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with ExitStack() as stack:
        write_secret(tmp_path / "secret")
        home = Datacenter(1, tmp_path, LEASE_MS)
        made = SecuredDatacenters(tmp_path, [home], "")
        stack.callback(made.close)
        home.lay_out(2)
        for node in home.nodes:
            node.url = node.url.replace("http://", "https://")
            folder = files_of(node)
            folder.mkdir()
            shutil.copy(tmp_path / "secret", folder)
            for name, office in offices.items():
                shutil.copy(office.ca, folder / f"{name}-ca.pem")
            shutil.copy(offices["old"].ca, folder / "ca.pem")
            install(node, offices["old"])
        home.urls = [node.url for node in home.nodes]
        home.start_database(standby=False)
        made.start()
        yield made


def test_the_links_between_nodes_get_new_certificates_and_a_new_secret_and_no_write_fails(
    secured: DatacenterCluster, offices: dict[str, Office]
) -> None:
    (home,) = secured.datacenters
    nodes = home.nodes
    both, _, alone = steps("Renew certificates")
    make, add, switch, drop = steps("Replace the secret")
    at(nodes[0], make)
    shutil.copy(files_of(nodes[0]) / "new-secret", files_of(nodes[1]))
    before, after = (
        fingerprint_of(secrets_in("file", files_of(nodes[0]) / name)[0]) for name in ("secret", "new-secret")
    )
    with NodeWriters(nodes) as writers:
        writers.more()
        for commands in (both, None, alone, add, switch, drop):
            reloads(nodes, lambda node: at(node, commands) if commands else install(node, offices["new"]))  # noqa: B023
            writers.more()
    assert writers.failures == []
    for node in nodes:
        with node.client() as client:
            assert client.status().secrets == [after] != [before]
    # A node that starts now has links that were never made with what was replaced.
    nodes[1].stop()
    nodes[1].start(wait=False)
    home.wait_until_ready()
    home.wait_until_spread()
    assert not secured.complaints(), "\n".join(secured.complaints())
