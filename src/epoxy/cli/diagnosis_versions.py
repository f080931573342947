"""Findings about releases: nodes that run different ones, and a doctor that is older than they are."""

import re
from collections.abc import Iterator, Sequence

from epoxy import __version__
from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Finding, broken, name, warning
from epoxy.client.results import Status
from epoxy.model.versions import LAST_RELEASE

RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(.*)")


def release_key(version: str) -> tuple[int, int, int, bool]:
    """In the order of releases: what follows the numbers (dev, rc) comes before the release itself."""
    found = RELEASE.match(version or LAST_RELEASE)
    if found is None:
        return 0, 0, 0, False
    major, minor, patch, rest = found.groups(default="0")
    return int(major), int(minor), int(patch), not rest


def spelled(version: str) -> str:
    return version or f"{LAST_RELEASE} or older, which do not say"


def releases(statuses: Sequence[Status]) -> Iterator[Finding]:
    """Of members: nodes of one datacenter that differ have a finding of their own (`diagnosis_nodes.mixture`)."""
    members = {status.id: status for status in sorted(statuses, key=lambda each: release_key(each.version))}
    if len({status.version for status in members.values()}) < 2:
        return
    told = sorted(members.values(), key=lambda status: status.id)
    newest = max(told, key=lambda status: release_key(status.version)).version
    said = ", ".join(f"{name(status)}: {spelled(status.version)}" for status in told)
    older = ", ".join(name(status) for status in told if status.version != newest)
    advice = (
        f"Finish the upgrade: {older}, one after the other: install, stop the node with SIGTERM, start it, and wait "
        "until it is ready. docs/upgrading.md has the way back."
    )
    install = f"pip install 'epoxydb[server]=={newest}'"
    if strangers := without_common_wire(told):
        words = f"{strangers} have no version of the wire in common ({said})"
        yield broken(FindingKind.VERSIONS_DIFFER, words, advice, install)
    else:
        yield warning(FindingKind.VERSIONS_DIFFER, f"the nodes run different releases ({said})", advice, install)


def without_common_wire(statuses: Sequence[Status]) -> str:
    """The first two that do not understand each other; empty: all do, or do not say."""
    spoken = [status for status in statuses if status.wire_newest]
    for status in spoken:
        for other in spoken:
            if status.wire_newest < other.wire_oldest:
                return f"{name(status)} and {name(other)}"
    return ""


def own_release(statuses: Sequence[Status], own: str = __version__) -> Iterator[Finding]:
    newest = max([status.version for status in statuses], key=release_key, default="")
    if newest and release_key(own) < release_key(newest):
        yield warning(
            FindingKind.VERSION_HERE,
            f"this command is of release {own}, and nodes run {newest}",
            "Install theirs here, and ask again.",
            f"pip install epoxydb=={newest}",
        )
