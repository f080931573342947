"""A real cluster of three processes, and a client that outlives them."""

import asyncio
import json
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import epoxy
from epoxy import Add, Compare, Delete, Get, Put
from epoxy.cli.main import run
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Path as Travelled
from epoxy.model.writes import Source
from epoxy.testing import HELD, PORTS_HELD, Cluster, ClusterNode, cluster, configuration, free_ports, hold, lay_out
from tests.client.both import BOTH


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with epoxy.testing.cluster(3) as made:
        yield made


def test_a_name_has_one_owner_everywhere(three: Cluster) -> None:
    """All regions race for one name."""

    async def race() -> list[epoxy.Reservation]:
        clients = [three.async_client(first) for first in range(3)]
        found = await asyncio.gather(*(c.reserve(b"race", b"from %d" % i) for i, c in enumerate(clients)))
        for client in clients:
            await client.aclose()
        return list(found)

    results = asyncio.run(race())
    assert sum(result.won for result in results) == 1
    assert len({result.value for result in results}) == 1
    for node in three:
        with node.client() as client:
            assert client.get(b"race", read="linearizable") == results[0].value


@pytest.mark.parametrize("client_type", BOTH)
def test_a_transaction_is_one_moment(three: Cluster, client_type: Any, tmp_path: Path) -> None:
    a, b = (f"{client_type.__name__}/{name}".encode() for name in "ab")
    with client_type(three[0].url) as client, client_type(three[1].url) as other:
        client.txn(then=[Put(key=a, value=b"10"), Put(key=b, value=b"0")])
        moved = other.txn(
            compares=[Compare(key=a, values=(b"10",))],
            then=[Add(key=a, amount=3, negative=True), Add(key=b, amount=3)],
            reads=[a],
        )
        assert (moved.succeeded, moved.seen, moved.reads) == (True, (b"10",), (b"10",))
        assert [each.value for each in moved.results] == [b"7", b"3"]
        again = client.txn(compares=[Compare(key=a, values=(b"10",))], then=[Delete(key=a)], otherwise=[Get(key=b)])
        assert (again.succeeded, again.seen, again.results[0].value) == (False, (b"7",), b"3")
        assert client.get(a, read="linearizable") == b"7"
        version = client.put(a, b"1").version
        assert other.put(a, b"2", if_version=version).version == version + 1
        with pytest.raises(epoxy.VersionMismatch):
            client.put(a, b"3", if_version=version)
        assert client.add(a, 5).number == 7
        with pytest.raises(epoxy.InvalidRequest, match="wrong_engine"):
            client.reserve(a, b"mine")
        with pytest.raises(epoxy.InvalidRequest, match="at least one key"):
            client.txn()
    file = tmp_path / "txn.json"
    file.write_text(json.dumps({"then": [{"op": "add", "key": a.decode(), "amount": -1}]}))
    assert run(["txn", str(file), "--url", three[0].url]) == 0
    file.write_text(json.dumps({"compare": [{"key": a.decode(), "absent": True}]}))
    assert run(["txn", str(file), "--url", three[0].url, "--json"]) == 3
    file.write_text("{}")
    assert run(["txn", str(file), "--url", three[0].url]) == 1


def test_an_answer_from_home_costs_no_message(three: Cluster) -> None:
    with three.client() as client:
        assert client.reserve(b"home", b"a").won
        again = client.reserve(b"home", b"b")
        assert (again.won, again.value, again.path) == (False, b"a", Travelled.LOCAL)
        assert client.read(b"home").source is Source.LOCAL


def test_awkward_bytes_survive_the_journey(three: Cluster) -> None:
    with three.client() as client:
        for key in (bytes(range(256)), b"..", b"a b+c%2F?&=#", b"x" * 1024):
            client.put(key, key)
            assert client.get(key) == key
        client.put(b"large", bytes(1 << 20))
        assert client.get(b"large", read="linearizable") == bytes(1 << 20)
        page = client.page(b"a b")
        assert [(item.key, item.value) for item in page.items] == [(b"a b+c%2F?&=#", b"a b+c%2F?&=#")]


def test_mutable_keys_count_their_versions(three: Cluster) -> None:
    with three.client() as near, three.client(1) as far:
        assert near.put(b"count", b"1", if_version=0).created
        with pytest.raises(epoxy.VersionMismatch):
            near.put(b"count", b"x", if_version=0)
        value = far.get(b"count", read="linearizable")
        assert value is not None
        assert far.put(b"count", b"2", if_version=value.version).version == 2
        assert near.delete(b"count", if_version=2).deleted
        assert not far.delete(b"count").deleted
        near.reserve(b"fixed", b"1")
        with pytest.raises(epoxy.ImmutableKey):
            far.put(b"fixed", b"2")


def test_changes_arrive_in_order(three: Cluster) -> None:
    with three[0].client() as client:
        for number in range(20):
            client.put(b"watched/%d" % (number % 3), b"%d" % number)
        told = list(client.changes(b"watched/", follow=False))
        rest = list(client.changes(b"watched/", after=told[9].cursor, follow=False))
        following = client.changes(b"watched/", after=told[-1].cursor)
        client.delete(b"watched/0")
        last = next(following)
        following.close()
    assert [change.value for change in told] == [b"%d" % number for number in range(20)]
    assert rest == told[10:]
    assert (last.key, last.value) == (b"watched/0", None)


def test_every_replica_can_be_looked_into(three: Cluster) -> None:
    with three.client() as client:
        client.reserve(b"seen", b"v")
        views = client.inspect(b"seen").replicas
    assert [view.id for view in views] == [1, 2, 3]
    assert views[0].held is not None
    assert views[0].held.committed is not None
    assert views[0].held.committed.value == b"v"


def test_a_killed_node_is_passed_over_and_comes_back_with_its_data(three: Cluster) -> None:
    with three.client() as client:
        assert client.reserve(b"before", b"1").won
        first = three[0].pid
        three[0].kill()
        assert (three[0].running, three[0].pid) == (False, None)
        assert client.reserve(b"during", b"2").won
        three[0].start()
        assert three[0].pid not in (None, first)
        three.wait_until_connected()
        with three[0].client() as home:
            assert home.get(b"before") == b"1"
            assert home.get(b"during", read="linearizable") == b"2"


def test_a_paused_node_keeps_a_write_waiting_and_its_fate_is_unknown(three: Cluster) -> None:
    three[0].pause()
    with three.client() as client:
        with pytest.raises(epoxy.Timeout) as caught:
            client.put(b"paused", b"v", timeout=1.0)
        assert not caught.value.definite
        assert client.get(b"absent", timeout=12.0) is None  # a read goes on to the next
    three[0].resume()
    three.wait_until_connected()


def test_a_cluster_keeps_its_folder_if_it_is_given_one(tmp_path: Path) -> None:
    for expected in (True, False):
        with cluster(1, folder=tmp_path / "kept") as single, single.client() as client:
            assert client.reserve(b"k", b"v").won is expected


def test_a_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    (node,) = lay_out(tmp_path, 1, QuorumPolicy.OPTIMAL)
    node.config.write_text(node.config.read_text().replace("id = 1", "id = 7", 1))
    with pytest.raises(epoxy.Unavailable, match=r"ended before it was ready:(?s:.*)not among cluster.members"):
        node.start()


def test_ports_are_all_different() -> None:
    assert len(set(free_ports(40))) == 40


def test_a_port_is_given_to_nobody_else_before_its_server_listens_and_between_two_starts() -> None:
    (port,) = free_ports(1)
    for _ in range(2):
        with pytest.raises(OSError, match="in use"):
            hold([0, port])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            pass


def test_ports_are_not_held_without_end() -> None:
    (port,) = free_ports(1)
    for _ in range(PORTS_HELD):
        free_ports(1)
    assert len(HELD) == PORTS_HELD
    assert hold([port]) == [port]


def test_a_path_with_quotes_stays_one_path(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b" \\c'
    node = ClusterNode(node_id=1, datacenter="dc-1", folder=folder, http=1, resp=2)
    settings = tomllib.loads(configuration(node, [node], folder / "secret", QuorumPolicy.OPTIMAL))
    assert settings["node"]["data_dir"] == str(folder / "dc-1")


@pytest.mark.parametrize("n", [0, 65])
def test_a_cluster_of_no_size(n: int) -> None:
    with pytest.raises(epoxy.InvalidRequest, match="1 to 64 nodes"), cluster(n):
        pytest.fail("there is no such cluster")
