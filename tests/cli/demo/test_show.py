"""The messages of a demo."""

import os
import sys
from pathlib import Path

import msgspec
import pytest

from epoxy.cli.demo import show
from epoxy.cli.demo.cluster import DemoCluster
from tests.cli.demo.plans import NOWHERE


def test_the_table_of_regions(cluster: DemoCluster) -> None:
    demo = cluster.document()
    told = show.welcome(cluster.plan, demo, 1.5, kept=True)
    assert told[0] == f"Console: http://127.0.0.1:{NOWHERE}/ui"
    assert told[2] == "3 regions are up after 1.5 s, with the round trips between their AWS regions."
    assert told[5].split() == [
        "us-east-1",
        f"http://127.0.0.1:{NOWHERE}",
        f"127.0.0.1:{NOWHERE + 1}",
        "70",
        "ms",
        "-",
    ]
    invited = "\n".join(show.invitation(cluster.plan, demo))
    assert f"reserve user/ada us-east-1 --url http://127.0.0.1:{NOWHERE}" in invited
    assert "demo kill eu-west-1" in invited
    assert msgspec.json.decode(msgspec.json.encode(demo)) == demo
    assert os.sep in demo["regions"][0]["log"]


def test_a_redis_cli_is_suggested_where_there_is_one_and_named_where_there_is_none(
    cluster: DemoCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "epoxy")])
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    demo = cluster.document()
    without = "\n".join(show.invitation(cluster.plan, demo))
    assert "SET user/ada" not in without
    assert "No redis-cli was found here; any Redis client will do. Debian and Ubuntu: apt install" in without
    (tmp_path / "redis-cli").touch()
    beside = "\n".join(show.invitation(cluster.plan, demo))
    assert f"{tmp_path / 'redis-cli'} -p {NOWHERE + 21} RESERVE user/ada mine" in beside
    assert "No redis-cli" not in beside


def test_the_table_of_nodes(shared: DemoCluster) -> None:
    demo = shared.document()
    first = demo["regions"][0]["nodes"]
    assert [(node["gateway"], node["shards"]) for node in first] == [(False, None)] * 2, "no node says"
    first[0] |= {"gateway": True, "shards": 129, "pid": 17, "condition": "up"}
    first[1] |= {"shards": 128, "pid": 18, "condition": "paused"}
    demo["regions"][0]["condition"] = "cut off"
    told = show.welcome(shared.plan, demo, 1.5, kept=False)
    assert told[2].startswith("3 regions of 2 nodes, each on a PostgreSQL of its own, are up after 1.5 s, with the")
    assert told[4].split() == ["region", "node", "shards", "HTTP", "RESP", "(Redis)", "commit", "floor", "pid"]
    assert told[5].split()[:5] == ["us-east-1", "1,", "gateway", "129", f"http://127.0.0.1:{NOWHERE}"]
    assert told[6].split() == ["2", "128", f"http://127.0.0.1:{NOWHERE + 2}", f"127.0.0.1:{NOWHERE + 3}", "18"]
    assert f"  rows     in PostgreSQL at 127.0.0.1:{NOWHERE + 8}, " in "\n".join(told)
    listed = show.listing(demo)
    assert listed[1].split()[:5] == ["us-east-1", "1,", "gateway", "129", "cut"]
    assert listed[2].split()[:4] == ["2", "128", "paused", "18"]
    assert "demo kill ap-northeast-1 gateway" in "\n".join(show.invitation(shared.plan, demo))
    assert "password" not in str(demo)
    assert shared.nodes[0].nodes[0].config.read_text().split(":")[-3].split("@")[0] not in str(demo)
