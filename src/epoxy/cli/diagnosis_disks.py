"""Findings about disks: what is on them, whether it is what it was, and how much room is left."""

import shlex
from collections.abc import Iterator

from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Finding, broken, name, replacement, warning
from epoxy.cli.output import plural
from epoxy.client.results import Status

MANY_KEPT = 100_000
"""Decisions: 100 MB of disk, and half a minute for the member that has to learn them."""

SLOW_SYNC_MS = 250.0
"""Of the longest sync, and of the 99th percentile: a quarter of the time after which a round gives up, and longer than
any round trip between continents."""

SLOW_MEDIAN_MS = 25.0
"""Of the median: `USUAL_LAG_MS` of node/timing.py, from which on other replicas are asked before this one. Disks of
servers take 0.1 to 10 ms."""

FEW_SYNCS = 100
"""With fewer, one slow sync is the 99th percentile."""

LOW_FREE_BYTES = 1 << 30
LEAST_FREE_BYTES = 300 << 20
"""The log alone may take 256 MiB, in a minute of many commits."""

OVERLONG = 1.25
"""Of what a changelog may take. For a second it may take a little more."""

LONG_UNSCRUBBED_DAYS = 30.0
"""Four rounds, by default."""

GIB = 1 << 30


def violations(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.invariant_violations:
            count = f"{status.invariant_violations} broken invariant{'' if status.invariant_violations == 1 else 's'}"
            yield broken(
                FindingKind.INVARIANT_BROKEN,
                f"{name(status)} has seen {count}: two values for one name, or as severe",
                "Keep all data directories and logs, and report it.",
            )


def disks(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if slow := slowness(status):
            yield warning(
                FindingKind.SLOW_DISK,
                f"the disk of {name(status)} {slow}",
                "Look for other load on the disk (`iostat -x 1`, on its machine). If there is none, replace it: start "
                "a node with another disk, a new id and join = true in its file.",
                replacement(status.id, status.url, statuses),
            )


def slowness(status: Status) -> str:
    """Of its disk, in words; empty: it is fast, or nothing is known."""
    longest_ms, syncs = status.longest_sync_ms or 0.0, status.disk.syncs if status.disk is not None else None
    told = [f"took {longest_ms / 1000:.1f} s for a sync just now"] if longest_ms > SLOW_SYNC_MS else []
    if syncs is not None:
        is_slow = syncs.p50_ms > SLOW_MEDIAN_MS or (syncs.p99_ms > SLOW_SYNC_MS and syncs.count >= FEW_SYNCS)
        figures = f"p50 {syncs.p50_ms:.1f} ms, p99 {syncs.p99_ms:.1f} ms"
        told += [f"syncs slowly: {figures} of {plural(syncs.count, 'sync')} in the last minute"] if is_slow else []
    return ", and ".join(told)


def rot(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        scrub = f"epoxy scrub --url {shlex.quote(status.url)}"
        if status.unrepaired_rows:
            yield broken(
                FindingKind.ROT,
                f"{name(status)} has {plural(status.unrepaired_rows, 'rotten row')} that could not be repaired yet",
                "Start the other nodes: a quorum of them has the values; then check its rows. With fewer than three "
                "nodes, replace it.",
                scrub,
                replacement(status.id, status.url, statuses),
            )
        elif status.rotten_rows:
            yield warning(
                FindingKind.ROT_REPAIRED,
                f"{name(status)} has found {plural(status.rotten_rows, 'rotten row')}, and repaired all",
                "Look at its disk (`smartctl -a`, on its machine), then check its rows; replace it if there are more.",
                scrub,
                replacement(status.id, status.url, statuses),
            )


def scrubs(statuses: list[Status]) -> Iterator[Finding]:
    """One that has never ended is no finding: a new node has a week for it."""
    for status in statuses:
        if status.clock_s is not None and status.scrub_ended_at:
            days = (status.clock_s - status.scrub_ended_at) / 86_400
            if days > LONG_UNSCRUBBED_DAYS:
                yield warning(
                    FindingKind.UNCHECKED_ROWS,
                    f"the rows of {name(status)} were last checked {days:.0f} days ago",
                    "It is too busy, or store.scrub_days is 0. To check them now:",
                    f"epoxy scrub --url {shlex.quote(status.url)}",
                )


def space(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.disk is not None and status.disk.free_bytes < LOW_FREE_BYTES:
            disk = status.disk
            words = f"the disk of {name(status)} has {in_mib(disk.free_bytes)} left, beside a tree of "
            words += f"{in_mib(disk.tree_bytes)} and a log of {in_mib(disk.log_bytes)}"
            advice = "Make room, or stop it, move its data directory to a larger disk, and start it there."
            finding = broken if disk.free_bytes < LEAST_FREE_BYTES else warning
            yield finding(FindingKind.DISK_SPACE, words, advice)


def changelogs(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        taken, limit = status.changelog_bytes, status.changelog_limit
        if taken is not None and limit and taken > OVERLONG * limit:
            coming = [peer.id for peer in status.peers if peer.status in ("joining", "learning")]
            yield warning(
                FindingKind.LONG_CHANGELOG,
                f"the changelog of {name(status)} takes {in_mib(taken)}, and may take {in_mib(limit)}",
                "A member reads it, or is being added and does not begin: the list shows which. Start that node, or "
                "remove it.",
                "epoxy members list",
                *(f"epoxy members remove {replica}" for replica in coming),
            )


def failures(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.flow_failures:
            yield warning(
                FindingKind.EXCEPTIONS,
                f"{name(status)} has met {status.flow_failures} exceptions that only a bug explains",
                "Its log has each with a traceback, `a flow failed by a fault of this node`. Report it.",
            )


def in_mib(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size >> 20} MiB"


def kept(statuses: list[Status]) -> Iterator[Finding]:
    """As one node reports it: every node keeps what a member lacks."""
    most = max(statuses, key=lambda status: status.txn_kept)
    if most.txn_kept >= MANY_KEPT and most.txn_kept_for:
        who = ", ".join(f"replica {absent}" for absent in most.txn_kept_for)
        yield warning(
            FindingKind.DECISIONS_KEPT,
            f"{name(most)} keeps {most.txn_kept} decisions about transactions on its disk for {who}",
            "Start it again. If it stays away, remove it: they are dropped, and it copies values instead when it is "
            "added again.",
            f"epoxy members remove {most.txn_kept_for[0]}",
        )
