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
