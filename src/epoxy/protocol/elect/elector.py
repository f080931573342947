"""One node's part in deciding who writes.

Everything goes in through `tick`, `receive`, `report`, `hand_over` and `retire`, with the machine's monotonic clock,
and comes out as a list of effects in the order in which they must happen.

Why there is one primary. A vote is durable before it is told, so an epoch has one winner. A primary's server takes
writes until its lease ends, and a lease counts from heartbeats of its own that a majority has answered. Who answered
one votes for nobody else before `down_after_ms` of silence, which is longer. So when a majority has voted, no
lease of an earlier primary is running. While one list of nodes gives way to another, a majority is one of both
(`lists.py`).

Why nothing acknowledged is lost. A node votes only while its server follows nobody, and only for a candidate that has
at least what it has itself; from then on it answers for nobody of an earlier epoch. A write that was on the primary and
enough replicas is on one of the voters, and so on the winner.
"""

from epoxy.protocol.elect import bootstrap, candidacy, changes, handover, heartbeats, rules, votes
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.messages import (
    Acceptance,
    Announce,
    Counted,
    Handover,
    Heartbeat,
    Message,
    Offer,
    ServerState,
)
from epoxy.protocol.elect.orders import is_done, is_news
from epoxy.protocol.elect.state import Draw, ElectorState
from epoxy.protocol.elect.terms import (
    Effect,
    ElectRecord,
    Fence,
    Follow,
    Mode,
    OpenServer,
    Order,
    Quiesce,
    ServerReport,
)


class Elector(ElectorState):
    def __init__(self, config: ElectConfig, me: str, record: ElectRecord | None, now_ms: int, draw: Draw) -> None:
        super().__init__(config, me, record, now_ms, draw)
        self.order: Order = Fence()
        self.implausible = 0
        """Messages that were not believed."""
        self._ordered_ms = now_ms
        self._told_state: ServerState | None = None

    # What comes in

    def tick(self, now_ms: int) -> list[Effect]:
        """To be called when `due_ms` says so; earlier does no harm."""
        bootstrap.recall(self, now_ms)
        heartbeats.prolong(self, now_ms)
        candidacy.end_campaign(self, now_ms)
        return self._settle(now_ms)

    def receive(self, message: Message, now_ms: int) -> list[Effect]:
        """From a node that was authenticated as the one the message names."""
        claimed = max(message.epoch, message.leader_epoch) if isinstance(message, Heartbeat) else message.epoch
        if not rules.is_plausible(claimed, self.seen):
            self.implausible += 1
        elif message.node in self.peers:
            self.seen = max(self.seen, message.epoch)
            match message:
                case Heartbeat():
                    heartbeats.on_heartbeat(self, message, now_ms)
                case Offer():
                    votes.on_offer(self, message, now_ms)
                case Acceptance():
                    candidacy.on_accept(self, message, now_ms)
                case Announce():
                    heartbeats.adopt(self, message.epoch, message.node, now_ms)
                case Handover():
                    handover.on_handover(self, message, now_ms)
                case Counted():
                    bootstrap.on_counted(self, message, now_ms)
        return self._settle(now_ms)

    def report(self, report: ServerReport, now_ms: int) -> list[Effect]:
        """What the server is doing. A primary whose server is gone for certain makes way at once; one whose server does
        not answer no longer says that it leads, and is replaced if that goes on for `down_after_ms`."""
        self.server = report
        if not report.alive and report.mode is Mode.FENCED and self.leading:
            self.resign()
        return self._settle(now_ms)

    def hand_over(self, heir: str, now_ms: int) -> str | None:
        """Begin a planned failover. Returns why not, if not."""
        refused = handover.refusal(self, heir, now_ms)
        if refused is None:
            handover.begin(self, heir, now_ms)
        return refused

    def retire(self, now_ms: int) -> list[Effect]:
        """The agent is about to end. A primary makes way first, so that nobody has to wait for its silence: by a
        handover, or without an heir if nobody has everything in time."""
        handover.retire(self, now_ms)
        return self._settle(now_ms)

    # What goes out

    def due_ms(self, now_ms: int) -> int:
        """When to call `tick` if nothing else happens: at the next heartbeat, or when something ends before that."""
        due = [self.beat_ms, self.deaf_ms, self.rest_ms]
        if self.leading:
            due.append(self.lease_end_ms)
        elif self.heard_ms is not None:
            due.append(self.heard_ms + self.timing.down_after_ms)
        if self.campaign is not None:
            due.append(self.campaign.deadline_ms)
        return min([each for each in due if each > now_ms], default=now_ms)

    def _settle(self, now_ms: int) -> list[Effect]:
        """Whether to stand or to let go, and what the server should be, follows from everything else, and so does
        whether the others must know at once."""
        changes.settle(self, now_ms)
        handover.hand_on(self, now_ms)
        handover.tell_heir(self, now_ms)
        candidacy.stand(self, now_ms)
        wanted = self._wanted(now_ms)
        if is_news(wanted, self.order, self._overdue(now_ms), self.timing.hb_interval_ms):
            self.order, self._ordered_ms = wanted, now_ms
            self.out.append(wanted)
        state = self.state(now_ms)
        if now_ms >= self.beat_ms or state is not self._told_state:
            self._told_state = state
            heartbeats.beat(self, now_ms)
            candidacy.offer(self)
        out, self.out = self.out, []
        return out

    def _wanted(self, now_ms: int) -> Order:
        if self.leading and now_ms < self.lease_end_ms and bootstrap.is_founded(self):
            if self.handing is not None:
                return Quiesce(min(self.handing.deadline_ms, self.lease_end_ms))
            return OpenServer(self.record.leader_epoch, self.lease_end_ms)
        leader = self.peers.get(self.record.leader)
        if self.fresh or self.leading or leader is None or not self.hears(now_ms) or leader.heartbeat is None:
            return Fence()
        follows = self.server.mode is Mode.FOLLOWING and self.server.leader == self.record.leader
        stands = rules.stands_behind(self.record) and self.heard_ms is not None
        stands = stands and rules.may_copy(self.lists, leader.heartbeat.list)
        return (
            Follow(self.record.leader)
            if stands and (follows or leader.heartbeat.state is ServerState.OPEN)
            else Fence()
        )

    def _overdue(self, now_ms: int) -> bool:
        late = now_ms - self._ordered_ms >= 2 * self.timing.hb_interval_ms
        return late and self.server.alive and not is_done(self.order, self.server)
