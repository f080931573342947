"""`epoxy demo --store postgres --nodes 2` as a stranger uses it: nine processes, three of them PostgreSQL."""

import json
import signal
import urllib.request
from functools import partial
from pathlib import Path

from epoxy import Client
from tests.end_to_end.recorder import PATIENCE_S
from tests.end_to_end.test_demo import Demo, epoxy, gone, running
from tests.end_to_end.world import draw_port_base, until


def gateway_of(demo: Demo, region: str) -> int | None:
    """Its number; None: the nodes do not say."""
    return next((node["node"] for node in demo.ps()[region]["nodes"] if node["gateway"]), None)


def spread_of(demo: Demo, region: str) -> list[int]:
    return sorted(node["shards"] or 0 for node in demo.ps()[region]["nodes"])


def is_even(demo: Demo, region: str) -> bool:
    return spread_of(demo, region) == [128, 129]


def test_regions_of_two_nodes_and_the_end_of_a_gateway() -> None:
    with running("--no-wan", "--store", "postgres", "--nodes", "2", "--port-base", str(draw_port_base())) as demo:
        east, west, north = (region["region"] for region in demo.regions)
        urls = [node["http"] for region in demo.regions for node in region["nodes"]]
        assert len(set(urls)) == 6
        assert all(is_even(demo, region) for region in (east, west, north)), "they are up when they are whole"
        for place, url in enumerate(urls):
            with Client(url, timeout=PATIENCE_S) as client:
                assert client.reserve(f"user/{place}", url).won
        with Client(urls[3], timeout=PATIENCE_S) as client:
            assert [client.get(f"user/{place}") for place in range(6)] == [url.encode() for url in urls]

        dead = gateway_of(demo, west)
        killed = demo.order("kill", west, "gateway").stdout
        assert f"node {dead} of {west} is dead: SIGKILL to pid" in killed
        other = 3 - (dead or 0)
        assert f"the gateway of {west} is node {other}." in killed
        assert (gateway_of(demo, west), spread_of(demo, west)) == (other, [0, 257])
        left = demo.ps()[west]["nodes"][other - 1]["http"]
        with Client(left, timeout=PATIENCE_S) as client:
            assert client.reserve("user/later", b"mine").won
            assert client.get("user/2") == urls[2].encode()
        doctor = epoxy("doctor", "--url", left).stdout
        assert f"warning {west} at {demo.ps()[west]['nodes'][(dead or 0) - 1]['http']} does not answer" in doctor
        assert f"{west} has 1 node: 257 shards at {left} (gateway)" in doctor
        assert f"node {dead} of {west} is back" in demo.order("revive", west, str(dead)).stdout
        until(partial(is_even, demo, west), "spread evenly again")
        assert f"{west} has 2 nodes:" in epoxy("members", "list", "--url", urls[0]).stdout

        killed = demo.order("kill", east).stdout
        assert f"{east} is dead: SIGKILL to pids " in killed
        assert "and its PostgreSQL with it" in killed
        assert demo.ps()[east]["database"]["pid"] is None
        with Client(urls[4], timeout=PATIENCE_S) as client:
            assert client.reserve("user/without", north).won
        assert f"{east} is back with the data it had" in demo.order("revive", east).stdout
        with Client(urls[1], timeout=PATIENCE_S) as client:
            assert client.get("user/0") == urls[0].encode()
        with urllib.request.urlopen(f"{urls[1]}/v2/console/demo", timeout=PATIENCE_S) as answer:
            assert json.load(answer)["url"] == f"http://127.0.0.1:{int(demo.port_base) + 91}"

        described = demo.ps().values()
        pids = [each["pid"] for region in described for each in (*region["nodes"], region["database"])]
        assert len(pids) == 9
        assert demo.end(signal.SIGTERM) == 0
        assert all(map(gone, pids))
        assert not Path(demo.folder).exists()


def test_no_process_outlives_a_demo_that_is_killed() -> None:
    with running("--no-wan", "--store", "postgres", "--port-base", str(draw_port_base())) as demo:
        pids = [each["pid"] for region in demo.regions for each in (*region["nodes"], region["database"])]
        assert demo.end(signal.SIGKILL) == -signal.SIGKILL
        until(lambda: all(map(gone, pids)), "gone")
