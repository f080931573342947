"""What a node reports: about itself (`/v2/status`), and about a key at every replica (`/v2/inspect`)."""

import math
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from epoxy import __compiled__
from epoxy.model.api import DecisionView, NodeReport, PeerStatus, ReplicaView, StoreStart
from epoxy.model.cluster import ReplicaInfo, Side
from epoxy.model.messages import Failed, Inspect, Inspected, Reply
from epoxy.model.records import Proposal
from epoxy.model.writes import Path
from epoxy.node.process.auth import exposed_listeners
from epoxy.node.process.config import Settings
from epoxy.node.process.secret_files import is_open_to_others
from epoxy.node.timing import floor_ms

if TYPE_CHECKING:
    from epoxy.node.service import Node


class Credentials(Struct, frozen=True, kw_only=True):
    """What a process shows of its certificates and secrets: when the certificates end, in seconds since 1970, by the
    name of the setting, what is wrong with its own, and which authorities it trusts; fingerprints of the secrets, the
    spoken one first; how often new files could not be used."""

    certificate_ends: Mapping[str, float] = {}
    certificate_flaw: str = ""
    authorities: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    reload_failures: int = 0


def report_of(node: "Node") -> NodeReport:
    config, engine = node.replica.config, node.ordered
    tolerated = tolerated_failures(node)
    committed = sum(node.paths.values())
    now_ms, credentials = node.clock.now_ms(), node.credentials()
    return NodeReport(
        id=node.me,
        datacenter=node.settings.node.datacenter,
        cluster=node.settings.cluster.id,
        pid=os.getpid(),
        epoch=config.epoch,
        ready=node.ready,
        state=node.lifecycle.state.value,
        reason=node.lifecycle.reason,
        joint=config.is_joint,
        epoch_age_s=(now_ms - node.epoch_began_ms) / 1000,
        available=tolerated >= 0,
        tolerated_failures=tolerated,
        fast_path_share=node.paths[Path.FAST] / committed if committed else None,
        floor_ms=rounded(floor_ms(config, node.me, node.links)),
        quorum_policy=config.quorum_policy.value,
        replicas=config.quorums.n,
        slow_quorum=config.quorums.slow,
        fast_quorum=config.quorums.fast,
        txn_fast_path_share=node.transactions.fast_share,
        txn_term=engine.replica.number,
        txn_state=engine.state if orders_transactions(node) else "",
        txn_behind=engine.behind,
        txn_kept=engine.replica.kept,
        txn_kept_for=engine.replica.kept_for,
        writes_in_flight=node.in_flight,
        fast_rounds_wait_for=node.driver.fast_rounds_wait_for(),
        uptime_s=(now_ms - node.started_ms) / 1000,
        peers=[peer_status(node, info) for info in config.replicas if info.id != node.me],
        longest_sync_ms=rounded(node.longest_sync_ms()),
        disk=node.disk_usage(),
        changelog_bytes=node.changelog_bytes,
        changelog_limit=node.changelog_ceiling().size,
        clock_s=round(time.time(), 3),
        rotten_rows=node.repairs.found.total(),
        unrepaired_rows=len(node.repairs.rotten),
        scrub_ended_at=node.scrubber.described().last_ended_at if node.scrubber is not None else None,
        invariant_violations=node.violations,
        flow_failures=sum(node.failures.count.values()),
        compiled=__compiled__,
        url=node.settings.node.advertise_url,
        addresses=list(me.urls) if (me := config.info(node.me)) is not None else [],
        start=start_of(node),
        session=node.session,
        nodes=node.sessions_of_datacenter(),
        certificates=dict(credentials.certificate_ends),
        secrets=list(credentials.secrets),
        certificate_flaw=credentials.certificate_flaw,
        authorities=list(credentials.authorities),
        store_lease_ms=float(node.settings.store.lease_ms) if node.session else None,
        auth="open" if node.access.is_open else "tokens",
        open_listeners=open_listeners(node),
        grants=len(node.access.table.grants),
        access_version=node.access.version,
        access_age_s=access_age_s(node),
        readable_secrets=readable_secrets(node.settings),
        version=node.versions.mine.release,
        wire_oldest=node.versions.mine.oldest,
        wire_newest=node.versions.mine.newest,
    )


def orders_transactions(node: "Node") -> bool:
    """Of several nodes of a datacenter the gateway does: the only one with a gate between it and peers."""
    return not node.session or node.gate is not None


def open_listeners(node: "Node") -> list[str]:
    """Where clients of other machines may do everything."""
    if not node.access.is_open:
        return []
    return [f"{name} {address}" for name, address in exposed_listeners(node.settings.node).items()]


def readable_secrets(settings: Settings) -> list[str]:
    files = {"cluster.secret_file": settings.cluster.secret_file}
    if settings.tls is not None:
        files["tls.key"] = settings.tls.key
    return [f"{name} {file}" for name, file in files.items() if is_open_to_others(file)]


def access_age_s(node: "Node") -> float | None:
    confirmed_ms = node.access.confirmed_ms
    return (node.clock.now_ms() - confirmed_ms) / 1000 if confirmed_ms is not None else None


def tolerated_failures(node: "Node") -> int:
    """How many more replicas may fail; in a joint epoch, on the side that tolerates fewer."""
    config = node.replica.config
    sides = config.sides or (Side(frozenset(config.active), config.quorums.slow),)
    reached = {peer for peer in config.voters if peer == node.me or node.links.reachable(peer)}
    return min([len(reached & side.members) - side.need for side in sides])


def start_of(node: "Node") -> StoreStart | None:
    gate = node.gate
    if gate is None:
        return None
    return StoreStart(starts=gate.incarnation.counter, position=gate.position(), state=gate.state)


def peer_status(node: "Node", info: ReplicaInfo) -> PeerStatus:
    known = node.gate.greeting(info.id).known if node.gate is not None else None
    return PeerStatus(
        id=info.id,
        datacenter=node.datacenter_of(info.id),
        url=info.url,
        rtt_ms=rounded(node.links.rtt_ms(info.id)),
        reachable=node.links.reachable(info.id),
        status=info.status.value,
        trouble=node.versions.trouble(info.id) or node.links.trouble(info.id),
        starts=known.counter if known is not None else 0,
        position=known.position if known is not None else 0,
        refused=node.gate.refused_lately(info.id) if node.gate is not None else "",
        silent_s=silent_s(node, info.id),
        version=node.versions.release_of(info.id),
        wire=node.versions.common(info.id) or 0,
    )


def silent_s(node: "Node", peer: int) -> float | None:
    """None: it is reachable, or no link was ever made."""
    silent_ms = node.links.silent_ms(peer)
    return None if node.links.reachable(peer) or silent_ms == math.inf else round(silent_ms / 1000, 1)


def inspect(node: "Node", key: bytes, answered: Callable[[list[ReplicaView]], None]) -> None:
    """What every replica holds for a key. One that does not answer within a round is listed without it."""
    waiting = set(node.replica.config.replica_ids)
    views: dict[int, ReplicaView] = {}

    def heard(replica: int, reply: Reply) -> None:
        if replica not in waiting:
            return
        waiting.discard(replica)
        held = reply if isinstance(reply, Inspected) else None
        reason = reply.reason if isinstance(reply, Failed) else ""
        committed = held.committed if held is not None else None
        views[replica] = ReplicaView(
            id=replica,
            datacenter=node.datacenter_of(replica),
            held=held,
            reason=reason,
            decision=decision_of(committed) if committed is not None else None,
            remaining=node.leases.remaining_ms(key, committed)
            if committed is not None and replica == node.me
            else None,
        )
        if not waiting:
            timer.cancel()
            answered([views[i] for i in sorted(views)])

    def give_up() -> None:
        for replica in sorted(waiting):
            heard(replica, Failed(reason="no answer in time"))

    timer = node.clock.call_later(node.driver.timing.round_timeout_ms, give_up)
    for replica in sorted(waiting):
        if replica == node.me:
            node.dispatch([Inspect(key=key)], lambda replies: heard(node.me, replies[-1]))
        else:
            node.links.send(replica, [Inspect(key=key)], partial(heard, replica))


def decision_of(committed: Proposal) -> DecisionView:
    """A legacy value has no proposer, and its version 0 builds on none."""
    base, writes = max(0, committed.base), 1 + len(committed.folded)
    return DecisionView(proposer=committed.home, base=base, version=committed.version, writes=writes)


def rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, 3)
