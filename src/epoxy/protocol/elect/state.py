"""What one node knows of an election, and what follows from that alone."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from epoxy.protocol.elect import lists as node_lists
from epoxy.protocol.elect import rules
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.lists import Lists
from epoxy.protocol.elect.messages import Heartbeat, Message, Role, ServerState
from epoxy.protocol.elect.peer import ElectPeer
from epoxy.protocol.elect.terms import Effect, ElectRecord, Mode, Save, Send, ServerReport

Draw = Callable[[int, int], int]
"""A random number between two, both included. The only randomness of an election."""


class Candidacy(Struct, kw_only=True):
    epoch: int
    votes: set[str]
    deadline_ms: int
    in_office: bool


class PendingHandover(Struct, frozen=True, kw_only=True):
    """A planned handover that waits for its heir to have everything."""

    heir: str
    deadline_ms: int


class ElectorState:
    """Invariants: 1. `record` is never ahead of the last Save among the effects given out. 2. `leading` begins with a
    won election, or with epoch 1 of a new cluster, and never again after it has ended."""

    def __init__(self, config: ElectConfig, me: str, record: ElectRecord | None, now_ms: int, draw: Draw) -> None:
        self.timing = config.timing
        self.me = me
        self.draw = draw
        self.peers: dict[str, ElectPeer] = {}
        self.fresh = record is None
        self.record = record or ElectRecord(leader_epoch=0, leader=config.initial_primary)
        self.knows_lists = not self.fresh
        """Whether this node knows which lists count. Without a record it knows only its file until a peer tells it."""
        self.server = ServerReport(alive=False, mode=Mode.OPEN)
        self.started_ms = now_ms
        self.effects: list[Effect] = []
        self.config = config
        self.use_lists(node_lists.at_start(self.record.lists, self.record.floor, config))
        self.reported_lists = self.lists
        """The newest lists that peers have sent. A node without a record may have voted by these."""

        self.leading = False
        self.lease_end_ms = 0
        self.life = draw(1, rules.LIVES - 1)
        self.handing: PendingHandover | None = None
        self.heir = ""
        self.retired = False

        self.leader_heard_ms: int | None = None
        self.leader_stamp = 0
        self.leader_assumed_until_ms = now_ms + config.timing.down_after_ms if self.record.leader != me else now_ms
        """Until then the leader counts as alive: before its restart this node may have heard it a moment ago."""
        if self.record.leader == me and self.lists.leaving:
            self.leader_assumed_until_ms = now_ms + self.timing.rejoin_ms
            """Until then the server of a node that leaves may still copy from this one, which led it under the old
            list. Under the new one such a copy must not count."""

        self.highest_epoch = max(self.record.epoch, self.record.leader_epoch)
        self.campaign: Candidacy | None = None
        self.next_candidacy_ms = now_ms
        self.ready_ms: int | None = None
        self.next_beat_ms = now_ms

    # Queries

    @property
    def lists(self) -> Lists:
        assert self.record.lists is not None
        return self.record.lists

    @property
    def promotable(self) -> bool:
        return self.config.node(self.me).promotable

    @property
    def is_outdated(self) -> bool:
        """Whether this node has answered a leader of a newer list than it counts: then it cannot lead any more."""
        return not rules.grants(self.record.floor, self.lists.stage, self.lists.newest.digest)

    @property
    def role(self) -> Role:
        if self.leading and self.server.alive:
            return Role.PRIMARY
        return Role.CANDIDATE if self.campaign is not None else Role.REPLICA

    @property
    def has_stepped_down(self) -> bool:
        """Whether it neither leads nor has a server that takes writes."""
        return not self.leading and self.server.mode in (Mode.FENCED, Mode.FOLLOWING)

    def is_open(self, now_ms: int) -> bool:
        return self.leading and now_ms < self.lease_end_ms and self.server.mode in (Mode.OPEN, Mode.QUIET)

    def has_live_primary(self, now_ms: int) -> bool:
        """Whether this node takes a node, perhaps itself, for a live primary."""
        if self.leading:
            return now_ms < self.lease_end_ms
        return now_ms < self.leader_assumed_until_ms or self._supports_leader(now_ms)

    def answers(self, now_ms: int) -> bool:
        """Whether this node promises the leader to wait `down_after_ms` from when it last heard it."""
        return not self.fresh and self._supports_leader(now_ms)

    def _supports_leader(self, now_ms: int) -> bool:
        heard_ms = self.leader_heard_ms
        heard_lately = heard_ms is not None and now_ms - heard_ms < self.timing.down_after_ms
        return heard_lately and rules.supports_leader(self.record)

    def latest_heartbeats(self, now_ms: int) -> dict[str, Heartbeat]:
        """Of the peers whose last heartbeat is recent enough to decide by."""
        latest = ((node, peer.heartbeat_within(self.timing.fresh_ms, now_ms)) for node, peer in self.peers.items())
        return {node: heartbeat for node, heartbeat in latest if heartbeat is not None}

    def server_state(self, now_ms: int) -> ServerState:
        if self.fresh:
            return ServerState.FRESH
        if self.is_open(now_ms):
            return ServerState.OPEN
        if self.has_live_primary(now_ms) or self.server.mode is not Mode.FENCED:
            return ServerState.BUSY
        return ServerState.READY if rules.may_judge(self.server) else ServerState.DOWN

    # Changes that several modules make

    def save(self, record: ElectRecord) -> None:
        self.record = record
        self.effects.append(Save(record))

    def use_lists(self, lists: Lists) -> None:
        """Count by these lists of nodes from now on. A node that joins them starts without any knowledge of it."""
        if lists != self.record.lists:
            self.record = replace(self.record, lists=lists)
            if not self.fresh:
                self.effects.append(Save(self.record))
        self.config = node_lists.applied(lists, self.config)
        self.peers = {node: self.peers.get(node) or ElectPeer() for node in self.config.others(self.me)}

    def broadcast(self, message: Message) -> None:
        self.effects += [Send(node, message) for node in self.peers]

    def resign(self) -> None:
        """Needs no Save: after a restart this node does not lead either, so peers may rely on a resignation they heard
        of. A candidacy ends with it, because votes for a primary in office must not be counted after it has left."""
        self.leading = False
        self.lease_end_ms = 0
        self.handing = None
        self.campaign = None
        self.leader_heard_ms = None
