"""Datacenters for tests: what is written for their nodes, and what counts as an error in their logs. The processes are
run by `tests/end_to_end/test_datacenter.py`."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from epoxy.model.errors import InvalidRequest
from epoxy.testing import datacenter_cluster
from epoxy.testing.datacenter_cluster import Datacenter, DatacenterCluster, datacenters, errors_in, urls_of


@pytest.fixture
def laid_out(tmp_path: Path) -> Iterator[DatacenterCluster]:
    made = [Datacenter(replica, tmp_path, 2000.0) for replica in (1, 2)]
    cluster = DatacenterCluster(tmp_path, made, "[console]\nenabled = false")
    for each in made:
        each.lay_out(2)
        each.dsn = f"postgresql://{each.name}"
    for each in made:
        for node in each.nodes:
            cluster.write_config(each, node)
    yield cluster
    cluster.close()


def test_nodes_of_a_datacenter_have_one_replica_and_addresses_of_their_own(laid_out: DatacenterCluster) -> None:
    first, second, third, fourth = (tomllib.loads(node.config.read_text("utf-8")) for node in laid_out.nodes)
    assert [each["node"]["id"] for each in (first, second, third, fourth)] == [1, 1, 2, 2]
    assert first["store"] == second["store"]
    assert first["store"] != third["store"] == fourth["store"]
    assert first["cluster"] == second["cluster"] == third["cluster"] == fourth["cluster"]
    urls = [each["node"]["advertise_url"] for each in (first, second, third, fourth)]
    assert len(set(urls)) == 4
    assert [member["url"] for member in first["cluster"]["members"]] == [urls[:2], urls[2:]]


def test_one_address_is_no_list() -> None:
    assert urls_of(["http://a"]) == '"http://a"'
    assert urls_of(["http://a", "http://b"]) == '["http://a", "http://b"]'


def test_errors_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert errors_in(log) == []
    lines = [
        '{"level":"info","event":"started"}',
        '{"level":"critical","event":"a store is refused"}',
        '{"level":"error","event":"Exception in callback"}',
        "Traceback (most recent call last):",
    ]
    log.write_text("\n".join(lines))
    assert errors_in(log) == lines[1:]


def test_complaints_name_the_node(laid_out: DatacenterCluster) -> None:
    node = laid_out.nodes[2]
    node.log.write_text('{"level":"error"}')
    assert laid_out.complaints() == [f'{node.name}: {{"level":"error"}}']


def test_sizes_are_bounded(laid_out: DatacenterCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest, match="1 to"), datacenters(1, nodes=datacenter_cluster.MAX_NODES + 1):
        raise AssertionError("it started")
    monkeypatch.setattr(datacenter_cluster, "MAX_NODES", 2)
    with pytest.raises(InvalidRequest, match="has 2 nodes"):
        laid_out.add_node(laid_out.datacenters[0])
    with pytest.raises(InvalidRequest, match="no standby"):
        laid_out.datacenters[0].fail_over()
