"""A node that was away, and a reader that was: what they missed is found, or they are told that it is gone."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.request import urlopen

import pytest

from epoxy import Client
from epoxy.model.errors import CursorGone
from epoxy.testing import ClusterNode, clean_environment, cluster
from tests.end_to_end.recorder import PATIENCE_S, PROCESS_S
from tests.end_to_end.world import until

MISSED = 300
KEPT, WRITTEN = 5, 60
LARGE_BYTES, OVERWRITES, CHANGELOG_MIB = 200_000, 400, 8
TREE_MIB = 120
"""Far below the rows of all overwrites, three times 78 MiB: pages of removed rows are used again."""


def metric(node: ClusterNode, name: str) -> float:
    with urlopen(f"{node.url}/metrics", timeout=PATIENCE_S) as answer:
        found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def held(node: ClusterNode) -> int:
    with node.client() as client:
        return len(client.page(b"missed/", limit=1000).items)


def test_a_node_that_was_away_finds_what_it_missed_by_itself() -> None:
    with cluster(3) as made:
        *others, away = made.nodes
        away.kill()
        with others[0].client() as client, ThreadPoolExecutor(8) as pool:
            won = pool.map(lambda i: client.reserve(b"missed/%03d" % i, b"%d" % i).won, range(MISSED))
            assert all(won)
        others[0].kill()  # and with it whatever waited for the third
        others[0].start()
        away.start()
        until(lambda: held(away) == MISSED, "caught up")
        assert metric(away, "epoxy_repaired_keys_total") >= MISSED
        assert metric(away, "epoxy_invariant_violations_total") == 0


def test_a_stream_of_changes_goes_on_as_long_as_they_are_kept() -> None:
    with cluster(1) as made:
        node = made[0]
        node.stop()
        with node.config.open("a") as file:
            file.write(f"[limits]\nchangelog_commits = {KEPT}\nchangelog_minutes = 0\n")
        node.start()
        with node.client() as client:
            for i in range(WRITTEN):
                client.put(b"k", b"%d" % i)
            until(lambda: metric(node, "epoxy_changelog_rows") <= KEPT, "swept")
            kept = list(client.changes(follow=False))
            assert [change.value for change in kept] == [b"%d" % i for i in range(WRITTEN - KEPT, WRITTEN)]
            client.put(b"k", b"later")
            until(lambda: metric(node, "epoxy_changelog_rows") <= KEPT, "swept again")
            rest = list(client.changes(after=kept[1].cursor, follow=False))
            assert [change.value for change in rest] == [change.value for change in kept[2:]] + [b"later"]
            gone = f"{int(kept[0].cursor, 16) - (1 << 16):020x}"
            with pytest.raises(CursorGone, match="no longer kept"):
                list(client.changes(after=gone, follow=False))
        assert told_by_watch(node, gone) == (1, True)


def test_large_values_do_not_fill_the_disk_with_changes() -> None:
    """Nothing else would remove them: neither a million commits nor ten minutes have passed."""
    with cluster(1) as made:
        node = made[0]
        node.stop()
        with node.config.open("a") as file:
            file.write(f"[limits]\nchangelog_mib = {CHANGELOG_MIB}\n")
        node.start()
        with node.client() as client:
            client.put(b"k", b"first")
            cursor = next(iter(client.changes(follow=False))).cursor
            for i in range(OVERWRITES):
                client.put(b"k", b"%d" % i + bytes(LARGE_BYTES))
            until(lambda: metric(node, "epoxy_changelog_bytes") <= CHANGELOG_MIB << 20, "swept")
            # The metric is of what is removed, a page of what is removed durably.
            until(lambda: is_below(client, CHANGELOG_MIB << 20), "durably")
            kept = list(client.changes(follow=False))
            assert len(kept) * LARGE_BYTES > (CHANGELOG_MIB << 20) - 3 * LARGE_BYTES
            with pytest.raises(CursorGone, match="no longer kept"):
                list(client.changes(after=cursor, follow=False))
            status = client.status()
            assert status.changelog_limit == CHANGELOG_MIB << 20
            assert status.disk is not None
            assert status.disk.tree_bytes < TREE_MIB << 20


def is_below(client: Client, limit: int) -> bool:
    try:
        return len(list(client.changes(follow=False))) * LARGE_BYTES < limit
    except CursorGone:  # swept between two pages
        return False


def told_by_watch(node: ClusterNode, cursor: str) -> tuple[int, bool]:
    """How it ended, and whether it said why in one line."""
    done = subprocess.run(
        [sys.executable, "-m", "epoxy", "watch", "--after", cursor, "--url", node.url],
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        check=False,
        env=clean_environment(os.environ),
    )
    return done.returncode, "no longer kept" in done.stderr and done.stderr.count("\n") == 1
