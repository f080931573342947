"""Troubles that alerts are for, on real nodes: what these said before and meanwhile, and which alerts should fire."""

import signal
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from msgspec import Struct

from epoxy.client.actor_calls import Which
from epoxy.model.errors import ClientError
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.transactions import Put
from epoxy.testing import Cluster, ClusterNode, as_newcomer, cluster, lay_out
from epoxy.testing.datacenter_cluster import datacenters
from tests.end_to_end.test_disks import copy_of, put_back
from tests.end_to_end.test_rot import change_bytes, in_the_tree, scrubbed, wait_for
from tests.monitoring.faulty_node import FaultyNode
from tests.monitoring.scraping import SCRAPE_S, Phase, phase, until, value
from tests.transport.test_tls import Office

BEFORE_MINUTES = 15
SETTINGS = "[placement]\nhome_lease_ms = 5000\n\n[limits]\nchangelog_mib = 1\nwrites_in_flight = 4\n"
"""Limits that a few clients reach."""

CLIENTS = 16
SLOW_MACHINE = frozenset(("EpoxySlowSyncs", "EpoxyHomeLeaseLost"))
"""Alerts that a machine with too much to do may raise at any node, and rightly."""

NO_WORKERS = "envoy_lb_no_envoy_available_total"
VALUE = b"a value that the disk will change"
ACTOR = Which(name="room", key="lobby")


class Trouble(Struct, frozen=True):
    """`alerts`: what fires after the last phase, and at which instances; nothing does after the first. `beside`: what
    may fire elsewhere as well, or at any time."""

    name: str
    phases: list[Phase]
    alerts: Mapping[str, set[str]]
    beside: frozenset[str] = SLOW_MACHINE


def of_a_cluster(folder: Path) -> Iterator[Trouble]:
    """Three nodes, which have one trouble after the other."""
    with cluster(3, folder=folder, settings=SETTINGS) as trio:
        first, second, third = trio
        urls = {node.datacenter: node.url for node in trio}
        everywhere = set(urls)
        with trio.client() as client:
            client.reserve("rot", VALUE)
        before = phase(urls, lambda: some_writes(trio), minutes=BEFORE_MINUTES)

        def trouble(
            name: str,
            alerts: Mapping[str, set[str]],
            between: Callable[[], object] = lambda: None,
            beside: frozenset[str] = SLOW_MACHINE,
        ) -> Trouble:
            return Trouble(name, [before, phase(urls, between)], alerts, beside)

        with faulty(folder / "faulty") as (node, context):
            more = urls | {node.datacenter: node.url}
            trio.wait_until_connected()
            during = phase(more, lambda: its_faults(node, context), context=context)
            names = (
                *("EpoxyClockWrong", "EpoxyDiskNearlyFull", "EpoxySlowSyncs", "EpoxyInvariantViolated"),
                *("EpoxyFlowFailed", "EpoxyCertificateExpires", "EpoxyCertificateExpiresNow", "EpoxyFilesNotReloaded"),
            )
            alone = {name: {node.datacenter} for name in names}
            yield Trouble("a node with many faults", [before, during], alone | {"EpoxyVersionsDiffer": {""}})

        with first.client() as client:
            client.actors.get_or_create("room", "lobby")
            yield trouble("no workers", {"EpoxyNoWorkers": {"dc-1"}}, lambda: rises(first, NO_WORKERS))
            client.actors.destroy(ACTOR)

        yield trouble("more clients than it serves", {"EpoxyOverloaded": {"dc-3"}}, lambda: overload(third))

        with a_member_that_does_not_read(trio):
            with first.client() as client:
                for number in range(4):
                    client.put("large", bytes([number]) * 700_000)
            say(trio.nodes, "epoxy_changelog_bytes", lambda size: size > 1.6 * 2**20)
            say(trio.nodes, "epoxy_peer_up", lambda up: up == 2)
            alerts = {"EpoxyChangelogLarge": everywhere, "EpoxyPeerAway": everywhere}
            yield trouble("a newcomer that does not read", alerts)

        wait_for(third, "rot")
        third.kill()
        say([first, second], "epoxy_tolerated_failures", lambda tolerated: tolerated == 0)
        alerts = {
            "EpoxyNodeDown": {"dc-3"},
            "EpoxyPeerAway": {"dc-1", "dc-2"},
            "EpoxyNoFailureTolerated": {"dc-1", "dc-2"},
        }
        yield trouble("a node is lost", alerts)

        rot(third, folder / "copy")
        yield trouble("a disk that changes what was written", {"EpoxyRottenRows": {"dc-3"}})

        bring_back(third, folder / "copy", first)
        say([third], "epoxy_quorum_lost", lambda lost: lost == 1)
        say(trio.nodes, "epoxy_stores_refused_total", lambda refused: refused > 0)
        say([first, second], "epoxy_tolerated_failures", lambda tolerated: tolerated == 0)
        say([third], "epoxy_peer_up", lambda up: up == 0)
        alerts = {
            "EpoxyStoreRefused": everywhere,
            "EpoxyNotReady": {"dc-3"},
            "EpoxyNoQuorum": {"dc-3"},
            "EpoxyPeerAway": everywhere,
            "EpoxyNoFailureTolerated": {"dc-1", "dc-2"},
        }
        yield trouble("an old copy of a disk", alerts)

        with first.client() as client:
            client.actors.get_or_create("room", "lobby")
        second.kill()
        say([first, third], "epoxy_quorum_lost", lambda lost: lost == 1)
        say([first, third], "epoxy_peer_up", lambda up: up == 0)
        say([first], "epoxy_home_lease_held", lambda held: held == 0)
        probes = ("/healthz", "/readyz", "/readyz?quorum=1")
        assert [status(first, path) for path in probes] == [200, 200, 503], "alive and ready, without a quorum"
        assert [status(third, path) for path in probes] == [200, 503, 503], "alive, and refused"
        alerts = {
            "EpoxyNoQuorum": {"dc-1", "dc-3"},
            "EpoxyHomeLeaseLost": {"dc-1"},
            "EpoxyNodeDown": {"dc-2"},
            "EpoxyNotReady": {"dc-3"},
            "EpoxyStoreRefused": {"dc-1", "dc-3"},
            "EpoxyPeerAway": {"dc-1", "dc-3"},
        }
        yield trouble("a majority is lost", alerts, beside=SLOW_MACHINE | {"EpoxyNoWorkers"})


def of_a_shared_database(folder: Path) -> Iterator[Trouble]:
    """Two nodes of one datacenter, whose database stops."""
    with datacenters(1, nodes=2, folder=folder) as world:
        (datacenter,) = world.datacenters
        nodes = datacenter.nodes
        urls = {node.name: node.url for node in nodes}
        before = phase(urls, lambda: write_at_each(nodes), minutes=BEFORE_MINUTES)
        datacenter.database.stop("immediate")
        say(nodes, "epoxy_shards_without_owner", lambda shards: shards > 0)
        assert [status(node, "/healthz") for node in nodes] == [200, 200], "a restart brings no database back"
        yield Trouble("a database that is away", [before, phase(urls)], {"EpoxyShardsWithoutOwner": set(urls)})


# What nodes are put through


def say(nodes: Sequence[ClusterNode], name: str, wanted: Callable[[float], bool]) -> None:
    """Wait until all of them say so."""
    until(lambda: all(wanted(value(node.url, name)) for node in nodes), f"so: {name}")


def status(node: ClusterNode, path: str) -> int:
    try:
        with urlopen(f"{node.url}{path}", timeout=SCRAPE_S) as answer:
            return int(answer.status)
    except HTTPError as error:
        with error:
            return error.code


def some_writes(nodes: Cluster) -> None:
    write_at_each(nodes.nodes)
    with nodes.client() as client:
        client.txn(then=[Put(key=b"a", value=b"1"), Put(key=b"b", value=b"2")])
    nodes.wait_until_connected()


def write_at_each(nodes: Sequence[ClusterNode]) -> None:
    for node in nodes:
        with node.client() as client:
            for number in range(8):
                client.put(f"{node.id}/{number}", b"x")


@contextmanager
def faulty(folder: Path) -> Iterator[tuple[FaultyNode, ssl.SSLContext]]:
    """A cluster of one node, with every fault of `faulty_node` and a certificate for an hour."""
    folder.mkdir()
    (plain,) = lay_out(folder, 1, QuorumPolicy.OPTIMAL)
    node = FaultyNode.of(plain, folder)
    office = Office(folder / "office", "ca")
    cert, key = office.issue("127.0.0.1", expires=datetime.now(UTC) + timedelta(hours=1))
    settings = plain.config.read_text("utf-8").replace("http://", "https://").replace('"dc-1"', '"dc-9"')
    tls = f'\n[tls]\ncert = "{cert}"\nkey = "{key}"\nca = "{office.ca}"\n'
    node.config.write_text(settings + tls, "utf-8")
    node.url, node.datacenter = node.url.replace("http://", "https://"), "dc-9"
    context = ssl.create_default_context(cafile=office.ca)
    try:
        node.start(wait=False)
        until(lambda: value(node.url, "epoxy_ready", context) == 1, "ready")
        yield node, context
    finally:
        node.kill()


def its_faults(node: FaultyNode, context: ssl.SSLContext) -> None:
    """A certificate that is none is put in the place of the one in use, and a few writes wait for the disk."""
    (node.config.parent / "office" / "127.0.0.1-cert.pem").write_text("not a certificate")
    node._signal(signal.SIGHUP)
    until(lambda: value(node.url, "epoxy_reload_failures_total", context) > 0, "reloaded in vain")
    synced = value(node.url, "epoxy_sync_duration_seconds_count", context)
    with urlopen(Request(f"{node.url}/v2/kv/a", b"slow", method="PUT"), context=context) as answer:
        assert answer.status < 300
    assert value(node.url, "epoxy_sync_duration_seconds_count", context) > synced


def rises(node: ClusterNode, name: str) -> None:
    seen = value(node.url, name)
    until(lambda: value(node.url, name) > seen, "more")


def overload(node: ClusterNode) -> None:
    """More clients at a time than are admitted, until one is refused."""
    refused = value(node.url, "epoxy_refused_total")

    def write(number: int) -> None:
        with node.client() as client, suppress(ClientError):
            for each in range(50):
                client.put(f"{number}/{each}", b"x")

    with ThreadPoolExecutor(CLIENTS) as pool:
        while value(node.url, "epoxy_refused_total") == refused:
            list(pool.map(write, range(CLIENTS)))


@contextmanager
def a_member_that_does_not_read(nodes: Cluster) -> Iterator[None]:
    newcomer = nodes.prepare()
    newcomer.start(wait=False)
    newcomer.wait_until_in(("new",), "there")
    newcomer.pause()
    with nodes.client() as client:
        client.change_members(add=[as_newcomer(newcomer)])
        until(lambda: len(client.members().replicas) == 4, "in the configuration")
        yield
        client.change_members(remove=[newcomer.id])
        until(lambda: client.members(progress=True).settled is True, "without the newcomer")
    say(nodes.nodes, "epoxy_changelog_bytes", lambda size: size <= 1.1 * 2**20)
    newcomer.kill()


def rot(node: ClusterNode, copy: Path) -> None:
    """Of a node that is down. `copy`: where its data directory is kept as it was."""
    in_the_tree(node)
    copy_of(node, copy)
    assert change_bytes(node, VALUE) > 0
    node.start()
    with node.client() as client:
        scrubbed(client)


def bring_back(node: ClusterNode, copy: Path, other: ClusterNode) -> None:
    """Its data directory as it was, after it has voted."""
    with other.client() as client:
        client.reserve("after the copy", b"x")
    wait_for(node, "after the copy")
    node.kill()
    put_back(node, copy)
    node.start(wait=False)
    node.wait_until(lambda status: status.state == "refused", "refused")
