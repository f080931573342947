"""Checks of a config before anything starts. Each finding names its setting."""

from collections.abc import Iterator

from msgspec import Struct

from epoxy.protocol.elect.config import DRIFT_PERCENT, MAX_ID_BYTES, MAX_NODES, ElectConfig, ElectNode

BEATS_IN_A_LEASE = 2
"""With fewer, one late heartbeat fences a healthy primary."""


class LintFinding(Struct, frozen=True, kw_only=True):
    """`fatal`: the agent does not start. Otherwise it is a warning in the log."""

    setting: str
    text: str
    fatal: bool

    def __str__(self) -> str:
        return f"{self.setting}: {self.text}"


def refuse(setting: str, text: str) -> LintFinding:
    return LintFinding(setting=setting, text=text, fatal=True)


def warn(setting: str, text: str) -> LintFinding:
    return LintFinding(setting=setting, text=text, fatal=False)


def lint(config: ElectConfig) -> list[LintFinding]:
    found = [*identities(config), *sizes(config), *addresses(config), *timeouts(config)]
    return found if any(each.fatal for each in found) else [*found, *durability(config)]


def identities(config: ElectConfig) -> Iterator[LintFinding]:
    ids = [node.id for node in config.nodes]
    for each in dict.fromkeys(ids):
        if not each or not each.isascii() or not each.isprintable() or " " in each:
            yield refuse("nodes.id", f"{each!r} must be printable ASCII without spaces")
        if len(each.encode()) > MAX_ID_BYTES:
            yield refuse("nodes.id", f"{each!r} has {len(each.encode())} bytes; at most {MAX_ID_BYTES}")
        if ids.count(each) > 1:
            yield refuse("nodes.id", f"{each!r} is there {ids.count(each)} times; ids are unique")
    if not config.cluster or not config.cluster.isascii() or not config.cluster.isprintable() or " " in config.cluster:
        yield refuse("cluster.name", f"{config.cluster!r} must be printable ASCII without spaces")
    if config.initial_primary not in ids:
        yield refuse("cluster.initial_primary", f"{config.initial_primary!r} is not one of the nodes")
    elif not config.node(config.initial_primary).promotable:
        yield refuse("cluster.initial_primary", f"{config.initial_primary!r} has priority 0 and never leads")


def sizes(config: ElectConfig) -> Iterator[LintFinding]:
    count = len(config.nodes)
    if not 1 <= count <= MAX_NODES:
        yield refuse("nodes", f"{count} nodes; from 1 to {MAX_NODES}")
    if count == 1:
        yield warn("nodes", "N=1 has no fault tolerance: there is no other node to fail over to")
    elif count == 2:
        yield warn("nodes", "N=2 has no fault tolerance: either node going down stops all writes")
    elif count % 2 == 0:
        yield warn("nodes", f"N={count} tolerates no more failures than N={count - 1}; use an odd number")
    if sum(node.promotable for node in config.nodes) == 1 and count > 1:
        yield warn("nodes.priority", "only one node may ever lead: there is no other node to fail over to")


def addresses(config: ElectConfig) -> Iterator[LintFinding]:
    for setting in ("control", "server"):
        given = [getattr(node, setting) for node in config.nodes]
        for each in dict.fromkeys(given):
            if given.count(each) > 1:
                yield refuse(f"nodes.{setting}", f"{each} is there {given.count(each)} times")
    for node in config.nodes:
        yield from ranges(node)


def ranges(node: ElectNode) -> Iterator[LintFinding]:
    if not 0 <= node.priority <= 1_000:
        yield refuse("nodes.priority", f"{node.id} has {node.priority}; from 0 (never lead) to 1000")


def timeouts(config: ElectConfig) -> Iterator[LintFinding]:
    """hb < lease < down_after, each with a margin."""
    timing = config.timing
    for name in type(timing).__struct_fields__:
        if getattr(timing, name) < 1:
            yield refuse(f"timing.{name}", f"{getattr(timing, name)} ms; at least 1")
    if timing.lease_ms <= BEATS_IN_A_LEASE * timing.hb_interval_ms:
        least = BEATS_IN_A_LEASE * timing.hb_interval_ms
        yield refuse("timing.lease_ms", f"{timing.lease_ms} ms; more than two hb_interval_ms, which is {least}")
    if timing.lease_ms * (100 + DRIFT_PERCENT) >= timing.down_after_ms * 100:
        most = timing.down_after_ms * 100 // (100 + DRIFT_PERCENT)
        yield refuse(
            "timing.lease_ms",
            f"{timing.lease_ms} ms; below {most}, so that it runs out before down_after_ms by any clock",
        )
    if timing.election_timeout_ms <= timing.hb_interval_ms:
        yield refuse("timing.election_timeout_ms", "must be longer than hb_interval_ms")
    if timing.election_backoff_min_ms > timing.election_backoff_max_ms:
        yield refuse("timing.election_backoff_ms", "ends before it begins")


def durability(config: ElectConfig) -> Iterator[LintFinding]:
    """A write that is on the primary and m replicas is on a node of every majority if m is large enough. A node that
    never leads does not count: it votes without comparing data."""
    least = len(config.nodes) - config.quorum + sum(not node.promotable for node in config.nodes)
    wanted = config.min_replicas_to_write
    if wanted < 0 or wanted > max(0, len(config.nodes) - 1):
        most = max(0, len(config.nodes) - 1)
        yield refuse("cluster.min_replicas_to_write", f"{wanted}; from 0 to {most}, the other nodes")
    elif 0 < wanted < least:
        yield warn("cluster.min_replicas_to_write", f"{wanted} is too few for acknowledged writes to survive: {least}")
