"""What one node knows of an election, and what follows from that alone."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from epoxy.protocol.elect import lists as node_lists
from epoxy.protocol.elect import rules
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.lists import Lists
from epoxy.protocol.elect.messages import Message, Role, ServerState
from epoxy.protocol.elect.peer import ElectPeer
from epoxy.protocol.elect.terms import Effect, ElectRecord, Mode, Save, Send, ServerReport

Draw = Callable[[int, int], int]
"""A number between two, both included. The only chance there is in an election."""


class Candidacy(Struct, kw_only=True):
    epoch: int
    votes: set[str]
    deadline_ms: int
    in_office: bool


class Handing(Struct, frozen=True, kw_only=True):
    """A planned handover that waits for its heir to have everything."""

    heir: str
    deadline_ms: int


class ElectorState:
    """Invariants: 1. `record` is never ahead of the last Save among the effects given out. 2. `leading` begins with a
    won election, or with epoch 1 where nobody remembers anything, and never again after it has ended."""

    def __init__(self, config: ElectConfig, me: str, record: ElectRecord | None, now_ms: int, draw: Draw) -> None:
        self.timing = config.timing
        self.me = me
        self.draw = draw
        self.peers: dict[str, ElectPeer] = {}
        remembered = rules.after_restart(record)
        self.fresh = remembered is None
        self.record = (
            remembered if remembered is not None else ElectRecord(leader_epoch=0, leader=config.initial_primary)
        )
        self.learned = not self.fresh
        """Whether it knows which lists count. Who has no memory knows its file alone, until somebody tells."""
        self.server = ServerReport(alive=False, mode=Mode.OPEN)
        self.started_ms = now_ms
        self.out: list[Effect] = []
        self.config = config
        self.count_by(node_lists.at_start(self.record.lists, self.record.floor, config))
        self.voted_by = self.lists
        """The newest lists that others have told of: by these a node without memory may have voted."""

        self.leading = False
        self.lease_end_ms = 0
        self.life = draw(1, rules.LIVES - 1)
        self.handing: Handing | None = None
        self.heir = ""
        self.retired = False

        self.heard_ms: int | None = None
        self.heard_stamp = 0
        self.deaf_ms = rules.silent_until(now_ms, config.timing) if self.record.leader != me else now_ms
        """Until then it takes somebody for alive whom it may have heard in an earlier life."""
        if self.record.leader == me and self.lists.leaving:
            self.deaf_ms = now_ms + self.timing.recall_ms
            """Until then the server of a node that leaves may still copy from this one, which led it under the old
            list. Under the new one such a copy must not count."""

        self.seen = max(self.record.epoch, self.record.leader_epoch)
        self.campaign: Candidacy | None = None
        self.rest_ms = now_ms
        self.ready_ms: int | None = None
        self.beat_ms = now_ms

    # What others may ask

    @property
    def lists(self) -> Lists:
        assert self.record.lists is not None
        return self.record.lists

    @property
    def promotable(self) -> bool:
        return self.config.node(self.me).promotable

    @property
    def is_left_behind(self) -> bool:
        """Whether this node has answered a leader of a newer list than it counts: then it cannot lead any more."""
        return not rules.grants(self.record.floor, self.lists.stage, self.lists.newest.digest)

    @property
    def role(self) -> Role:
        if self.leading and self.server.alive:
            return Role.PRIMARY
        return Role.CANDIDATE if self.campaign is not None else Role.REPLICA

    @property
    def has_made_way(self) -> bool:
        """Whether it neither leads nor has a server that takes writes."""
        return not self.leading and self.server.mode in (Mode.FENCED, Mode.FOLLOWING)

    def is_open(self, now_ms: int) -> bool:
        return self.leading and now_ms < self.lease_end_ms and self.server.mode in (Mode.OPEN, Mode.QUIET)

    def hears(self, now_ms: int) -> bool:
        """Whether this node takes somebody, perhaps itself, for a live primary."""
        if self.leading:
            return now_ms < self.lease_end_ms
        stands = rules.stands_behind(self.record)
        return now_ms < self.deaf_ms or (stands and rules.heard_lately(self.heard_ms, now_ms, self.timing))

    def answers(self, now_ms: int) -> bool:
        """Whether this node promises the leader to wait `down_after_ms` from when it last heard it."""
        stands = rules.stands_behind(self.record) and not self.fresh
        return stands and rules.heard_lately(self.heard_ms, now_ms, self.timing)

    def state(self, now_ms: int) -> ServerState:
        if self.fresh:
            return ServerState.FRESH
        if self.is_open(now_ms):
            return ServerState.OPEN
        if self.hears(now_ms) or self.server.mode is not Mode.FENCED:
            return ServerState.BUSY
        return ServerState.READY if rules.may_judge(self.server) else ServerState.DOWN

    # What several rooms do

    def save(self, record: ElectRecord) -> None:
        self.record = record
        self.out.append(Save(record))

    def count_by(self, lists: Lists) -> None:
        """From here on these lists of nodes count. Nothing is known of a node that was not among them before."""
        if lists != self.record.lists:
            self.record = replace(self.record, lists=lists)
            if not self.fresh:
                self.out.append(Save(self.record))
        self.config = node_lists.applied(lists, self.config)
        self.peers = {node: self.peers.get(node) or ElectPeer() for node in self.config.others(self.me)}

    def tell_all(self, message: Message) -> None:
        self.out += [Send(node, message) for node in self.peers]

    def resign(self) -> None:
        """Nothing to be saved: a restart does not lead either, and whoever has heard of this may rely on it. What was
        offered in office must not be won out of it."""
        self.leading = False
        self.lease_end_ms = 0
        self.handing = None
        self.campaign = None
        self.heard_ms = None
