"""The epochs that this node knows of, and which members were away since its process started.

Nothing is stored for it. Earlier epochs are found in the changelog, which has a row for each configuration until the
row is removed as any other; a row has no time. What happens while this process runs is kept in memory, in rings.
"""

import time
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from epoxy.model.api import QuorumSizes
from epoxy.model.api_members import (
    AwayMember,
    EpochMember,
    EpochRecord,
    EpochSource,
    MemberEvent,
    MemberEventKind,
    MembersPast,
)
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig, ReplicaStatus
from epoxy.model.records import KeyState
from epoxy.node.members import config_record
from epoxy.node.service import Node
from epoxy.ports import Store, Timer
from epoxy.protocol.members.epoch_changes import changes_between
from epoxy.store.member_rows import MemberSpace

MAX_EPOCHS = 64
"""A change of members takes four epochs, so these are the last fifteen changes, which fit on a screen. A configuration
of the largest cluster has 8 KiB."""

MAX_EVENTS = 256
"""Of members that were away: days of a quiet cluster, and an hour of one whose member comes and goes twice a minute."""

SEARCHED_ROWS, SEARCHED_BYTES = 2_000, 4 << 20
"""Of the changelog, when the process starts: some milliseconds."""

LOOK_MS = 1_000.0

AWAY_MS = 3_000.0
"""Without a word, beyond what a quorum waits for (`quorum_watch`). A process that is restarted takes a second."""


class SeenEpoch(Struct, frozen=True):
    """`at` None: from the disk, of a time before this process."""

    config: ClusterConfig
    at: float | None


class MemberHistory:
    def __init__(self, node: Node, store: Store, wall_s: Callable[[], float] = time.time) -> None:
        self._node = node
        self._wall_s = wall_s
        self._started_s = wall_s()
        is_first_start = node.gate is not None and node.gate.incarnation.counter == 1
        self._epochs = kept_epochs(node, store, self._started_s if is_first_start else None)
        self._events: deque[MemberEvent] = deque(maxlen=MAX_EVENTS)
        self._missed: dict[int, tuple[float, float]] = {}
        """Members that do not answer: since when, by both clocks."""
        self._away: dict[int, float] = {}
        """Those that have not answered for long."""
        self._starts: dict[int, int] = {}
        self._timer: Timer | None = None
        node.replica.config_watchers.append(self._config_changed)

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def past(self) -> MembersPast:
        seen = list(self._epochs)
        before = [None, *[each.config for each in seen[:-1]]]
        records = [self._record(was, now) for was, now in zip(before, seen, strict=True)]
        return MembersPast(
            now=self._wall_s(),
            started=self._started_s,
            complete=seen[0].config.epoch == 1,
            epochs=tuple(reversed(records)),
            events=tuple(reversed(self._events)),
            away=tuple([self._away_member(replica) for replica in sorted(self._away)]),
        )

    def _record(self, before: ClusterConfig | None, seen: SeenEpoch) -> EpochRecord:
        config = seen.config
        source: EpochSource = "kept" if seen.at is None else "seen"
        return EpochRecord(
            epoch=config.epoch,
            at=seen.at,
            source=source,
            joint=config.is_joint,
            previous=config.previous,
            coordinator_id=config.coordinator_id,
            quorums=QuorumSizes(fast=config.quorums.fast, slow=config.quorums.slow),
            members=tuple(
                [
                    EpochMember(
                        id=info.id,
                        datacenter=info.datacenter or self._node.datacenter_of(info.id),
                        status=info.status.value,
                        url=info.url,
                    )
                    for info in config.replicas
                ]
            ),
            changes=changes_between(before, config, self._name_of),
            missed=config.epoch - before.epoch - 1 if before is not None else 0,
        )

    def _name_of(self, replica: int) -> str:
        """Also of one that is gone: by the last epoch that had it."""
        for seen in reversed(self._epochs):
            info = seen.config.info(replica)
            if info is not None and info.datacenter:
                return info.datacenter
        return self._node.datacenter_of(replica)

    def _away_member(self, replica: int) -> AwayMember:
        trouble = self._node.links.trouble(replica)
        return AwayMember(id=replica, datacenter=self._name_of(replica), since=self._away[replica], trouble=trouble)

    def _config_changed(self, _key: bytes, _before: KeyState, _after: KeyState) -> None:
        self._epochs.append(SeenEpoch(self._node.replica.config, self._wall_s()))

    # Who is away

    def _look(self) -> None:
        config, me = self._node.replica.config, self._node.me
        watched = {info.id for info in config.replicas if info.id != me and info.status is not ReplicaStatus.JOINING}
        if config.info(me) is None:
            watched = set()  # it has no links any more
        for gone in self._missed.keys() - watched:
            del self._missed[gone]
            self._away.pop(gone, None)
        for replica in sorted(watched):
            self._notice(replica)
        self._timer = self._node.clock.call_later(LOOK_MS, self._look)

    def _notice(self, replica: int) -> None:
        now_ms = self._node.clock.now_ms()
        if self._node.quorum.answers(replica):
            self._missed.pop(replica, None)
            since_s = self._away.pop(replica, None)
            if since_s is not None:
                self._happened("back", replica, away_s=max(0.0, self._wall_s() - since_s))
            self._notice_start(replica)
            return
        since_s, since_ms = self._missed.setdefault(replica, (self._wall_s(), now_ms))
        if replica not in self._away and now_ms - since_ms >= AWAY_MS:
            self._away[replica] = since_s
            self._happened("away", replica, at=since_s)

    def _notice_start(self, replica: int) -> None:
        """Of its store: another process of the same member."""
        gate = self._node.gate
        known = gate.greeting(replica).known if gate is not None else None
        if known is None:
            return
        before = self._starts.get(replica)
        self._starts[replica] = known.counter
        if before is not None and known.counter > before:
            self._happened("restarted", replica)

    def _happened(
        self, what: MemberEventKind, replica: int, *, at: float | None = None, away_s: float | None = None
    ) -> None:
        when = self._wall_s() if at is None else at
        name = self._name_of(replica)
        self._events.append(MemberEvent(at=when, id=replica, datacenter=name, what=what, away_s=away_s))


def kept_epochs(node: Node, store: Store, begun_s: float | None) -> deque[SeenEpoch]:
    """Those the changelog has, and the one in force, oldest first. `begun_s`: of a store that is started for the first
    time, now: it learned of them a moment ago."""
    space = MemberSpace(node.replica.keyspace, node.me)
    logged = space.logged(store.newest(), CONFIG_KEY, SEARCHED_ROWS, SEARCHED_BYTES)
    found = {proposal.version: config_record.from_proposal(proposal) for proposal in logged[:MAX_EPOCHS]}
    found[node.replica.config.epoch] = node.replica.config
    return deque([SeenEpoch(found[epoch], begun_s) for epoch in sorted(found)], maxlen=MAX_EPOCHS)
