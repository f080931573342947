"""Floods of every door of a real cluster: the node's memory, its links, and its other clients.

Whether others are served is counted, not timed: a bystander has all of its requests answered while the flood goes on,
and peers count the connections that the flooded node refused them or ended. How much slower others are is measured by
`make bench-floods`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.flood_senders import FLOODS, GUESSES, HANDSHAKES
from benchmarks.flood_watch import Bystander, Watch, flooding, peer_connections_ended, prepare, rss_kib
from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import Cluster, cluster, lay_out
from tests.transport.test_tls import Office

MOST_GROWTH_KIB = 64 << 10
REQUESTS = 24
"""Of the bystander, during each flood."""


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("floods")
    with cluster(3, folder=folder) as made:
        prepare(made)
        yield made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(3, folder=tmp_path_factory.mktemp("guesses"), auth=True) as made:
        prepare(made)
        yield made


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("handshakes")
    office = Office(folder / "office", "ca")
    cert, key = office.issue("127.0.0.1")
    nodes = lay_out(folder, 3, QuorumPolicy.OPTIMAL)
    for node in nodes:
        text = node.config.read_text("utf-8").replace("http://", "https://")
        node.config.write_text(f'{text}\n[tls]\ncert = "{cert}"\nkey = "{key}"\nca = "{office.ca}"\n', "utf-8")
        node.url = node.url.replace("http://", "https://")
    made = Cluster(nodes, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(office.ca))
        try:
            made.start()
            prepare(made)
            yield made
        finally:
            made.stop()


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_harms_no_other_client(flooded: Cluster, name: str) -> None:
    check_others(flooded, name)


@pytest.mark.parametrize("name", GUESSES)
def test_wrong_guesses_harm_no_other_client(guarded: Cluster, name: str) -> None:
    check_others(guarded, name)


@pytest.mark.parametrize("name", HANDSHAKES)
def test_handshakes_harm_no_other_client(certified: Cluster, name: str) -> None:
    check_others(certified, name)


def check_others(flooded: Cluster, name: str) -> None:
    node = flooded[0]
    ended_before = peer_connections_ended(flooded)
    with Bystander(node, name) as bystander:
        for _ in range(4):
            bystander.ask()
        before_kib = rss_kib(node)
        with flooding(name, node) as counts, Watch(flooded) as watch:
            for _ in range(REQUESTS):
                bystander.ask()
        assert len(bystander.took_s) == 4 + REQUESTS
        assert bystander.lost(flooded[2]) == []
    assert counts["sent"] > 0 or name == "tls-silence", "the flood never began"
    assert counts["connections"] > 0
    assert watch.samples > 0
    assert watch.most_kib - before_kib <= MOST_GROWTH_KIB
    assert peer_connections_ended(flooded) == ended_before, "peers lost connections, or were refused"
    flooded.wait_until_connected()
