"""Attacks on homes: the power of a region is cut, or all of it stands still past its lease and goes on. Three regions,
and a lease of five seconds."""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.region import RegionNode
from epoxy.client.watchdog import EXIT_STOOD_STILL
from tests.end_to_end.actor_journal import overlaps, read
from tests.end_to_end.attacked import THRESHOLD_S, clock_set_back, persistent, workers
from tests.end_to_end.recorder import PATIENCE_S
from tests.end_to_end.test_state_attacks import Counted, count
from tests.end_to_end.world import in_touch, order, regions

SETTINGS = (
    f"\n[placement]\neligible_threshold_ms = {THRESHOLD_S * 1000:.0f}\nhome_lease_ms = 5000\nsweep_every_s = 86400\n"
)
AWAY_S = 10.0
"""The longest that an actor is away after the loss of its region: the lease and five seconds."""

BEHIND_S = 20
"""Several leases. Nodes refuse others whose clocks are more than 30 s off."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoCluster]:
    with regions(tmp_path_factory.mktemp("regions"), settings=SETTINGS) as made:
        yield made


def asked(node: RegionNode, pool: str, name: str = "") -> Counted:
    """One more, through this region, asked again with the same idempotency key if it fails. The actor is made there,
    if there is none."""
    key = secrets.token_hex(8)
    with node.client(timeout=PATIENCE_S) as client:
        return persistent(lambda: count(client, pool, key=key, name=name))


def waited(node: RegionNode, pool: str) -> Counted:
    """One more, asked once: the region waits for a home that is silent, and takes its place."""
    began = time.monotonic()
    with node.client(timeout=PATIENCE_S) as client:
        told = count(client, pool, key=secrets.token_hex(8))
    assert time.monotonic() - began < AWAY_S
    return told


@contextmanager
def one_worker_each(
    cluster: DemoCluster, journal: Path, pool: str
) -> Iterator[dict[RegionNode, subprocess.Popen[str]]]:
    with ExitStack() as stack:
        yield {
            node: stack.enter_context(workers(node, journal, f"{pool}-{node.datacenter}", pool=pool))[0]
            for node in cluster.nodes
        }


def test_the_actors_of_a_region_whose_power_is_cut_go_on_elsewhere_with_their_state(
    cluster: DemoCluster, tmp_path: Path
) -> None:
    """It comes back with its clock set back."""
    home, other, _ = cluster.nodes
    journal, pool = tmp_path / "journal", "cut"
    with one_worker_each(cluster, journal, pool) as processes:
        told = [asked(home, pool) for _ in range(3)]
        assert {each.pid for each in told} == {processes[home].pid}
        processes[home].kill()
        home.kill()
        told.append(asked(other, pool))
        with clock_set_back(tmp_path, BEHIND_S):
            order(cluster, "revive", home.datacenter)
        in_touch(cluster)
        with workers(home, journal, "back", pool=pool) as (back,):
            told.append(asked(home, pool))
            assert asked(home, pool, "new").pid == back.pid, "a name that is new there"
    assert [each.count for each in told] == [1, 2, 3, 4, 5]
    assert told[3].pid == told[4].pid != processes[home].pid, "its home stays where it is"
    assert told[4].fence >= told[3].fence > told[2].fence
    assert overlaps(read(journal)) == []


def test_a_region_that_stood_still_past_its_lease_changes_nothing_when_it_goes_on(
    cluster: DemoCluster, tmp_path: Path
) -> None:
    other, home, third = cluster.nodes
    journal, pool = tmp_path / "journal", "still"
    with one_worker_each(cluster, journal, pool) as processes:
        first = asked(home, pool)
        assert home.pid is not None
        stopped = [home.pid, processes[home].pid]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            told = [first, waited(other, pool), asked(third, pool)]
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        told += [asked(home, pool), asked(other, pool), asked(home, pool)]
        assert processes[home].wait(PATIENCE_S) == EXIT_STOOD_STILL
        in_touch(cluster)
    assert [each.count for each in told] == [1, 2, 3, 4, 5, 6]
    assert first.pid not in {each.pid for each in told[1:]}
    assert all(before.fence <= after.fence for before, after in pairwise(told))
    assert overlaps(read(journal), stood_still=[first.pid]) == []
