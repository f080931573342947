"""Findings about disks: what is on them, whether it is what it was, and how much room is left."""

from collections.abc import Iterator

from epoxy.cli.findings import Finding, broken, name, warning
from epoxy.cli.output import plural
from epoxy.client.results import Status

MANY_KEPT = 100_000
"""Decisions: 100 MB of disk, and half a minute for the member that has to learn them."""

SLOW_SYNC_MS = 250.0
"""A quarter of the time after which a round gives up, and longer than any round trip between continents."""

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
                f"{name(status)} has seen {count}: two values for one name, or as severe",
                "Nothing was overwritten. Keep all data directories and logs, and report it.",
            )


def disks(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.longest_sync_ms is not None and status.longest_sync_ms > SLOW_SYNC_MS:
            yield warning(
                f"the disk of {name(status)} took {status.longest_sync_ms / 1000:.1f} s for a sync just now",
                "Every acknowledgement of that node waits for it. Look for other load on the disk, or replace it.",
            )


def rot(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        url = "`epoxy scrub --url` with its address"
        if status.unrepaired_rows:
            yield broken(
                f"{name(status)} has {plural(status.unrepaired_rows, 'rotten row')} that could not be repaired yet",
                f"They are not served. Start the other nodes: a quorum of them has the values; then {url}. "
                "With fewer than three nodes, replace it.",
            )
        elif status.rotten_rows:
            yield warning(
                f"{name(status)} has found {plural(status.rotten_rows, 'rotten row')}, and repaired all",
                f"Its disk does not keep what was written. Look at it, then {url}; replace the node if there are more.",
            )


def scrubs(statuses: list[Status]) -> Iterator[Finding]:
    """One that has never ended is no finding: a new node has a week for it."""
    for status in statuses:
        if status.clock_s is not None and status.scrub_ended_at:
            days = (status.clock_s - status.scrub_ended_at) / 86_400
            if days > LONG_UNSCRUBBED_DAYS:
                yield warning(
                    f"the rows of {name(status)} were last checked {days:.0f} days ago",
                    "It is too busy, or store.scrub_days is 0: `epoxy scrub --url` with its address checks them now.",
                )


def space(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.disk is not None and status.disk.free_bytes < LOW_FREE_BYTES:
            disk = status.disk
            words = f"the disk of {name(status)} has {in_mib(disk.free_bytes)} left, beside a tree of "
            words += f"{in_mib(disk.tree_bytes)} and a log of {in_mib(disk.log_bytes)}"
            advice = "A full disk ends the node. Make room, or stop it and move its data directory to a larger disk."
            yield (broken if disk.free_bytes < LEAST_FREE_BYTES else warning)(words, advice)


def changelogs(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        taken, limit = status.changelog_bytes, status.changelog_limit
        if taken is not None and limit and taken > OVERLONG * limit:
            yield warning(
                f"the changelog of {name(status)} takes {in_mib(taken)}, and may take {in_mib(limit)}",
                "A member reads it, or is being added and does not begin: `epoxy members list` shows which. "
                "`epoxy members remove` gives it up.",
            )


def failures(statuses: list[Status]) -> Iterator[Finding]:
    for status in statuses:
        if status.flow_failures:
            yield warning(
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
            f"{name(most)} keeps {most.txn_kept} decisions about transactions on its disk for {who}",
            f"Start it again. If it stays away, `epoxy members remove {most.txn_kept_for[0]}`: they are dropped, "
            "and it copies values instead when it is added again.",
        )
