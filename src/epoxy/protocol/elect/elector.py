"""One node's part in an election.

Inputs are the calls `tick`, `receive`, `report`, `hand_over` and `retire`, with the machine's monotonic clock; each
returns a list of effects in the order in which they must happen.

Why there is one primary. A vote is durable before it is sent, so an epoch has one winner. A primary's server takes
writes until its lease ends, and a lease counts from heartbeats of the primary that a majority has answered. A node that
answered one votes for no other node before `down_after_ms` of silence, which is longer. So when a majority has voted,
no lease of an earlier primary is running. While one list of nodes replaces another, a majority is one of each
(`lists.py`).

Why no acknowledged write is lost. A node votes only while its server is fenced, and only for a candidate that has at
least its own data; from then on it answers no leader of an earlier epoch. A write that was on the primary and enough
replicas is on one of the voters, and so on the winner.
"""

from epoxy.protocol.elect import bootstrap, candidacy, changes, handover, heartbeats, rules, votes
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.epochs import EpochBound
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
        """Messages ignored because of an epoch, or the number of a list, that cannot be."""
        self._epoch_bound = EpochBound(me, self.highest_epoch, now_ms)
        self._ordered_ms = now_ms
        self._sent_state: ServerState | None = None

    # Inputs

    def tick(self, now_ms: int) -> list[Effect]:
        """Call at `due_ms`; an earlier call does no harm."""
        bootstrap.join(self, now_ms)
        heartbeats.prolong(self, now_ms)
        candidacy.end_campaign(self, now_ms)
        return self._settle(now_ms)

    def receive(self, message: Message, now_ms: int) -> list[Effect]:
        """The sender was authenticated as the node that the message names."""
        if message.node not in self.peers:
            return self._settle(now_ms)
        if not self._epoch_bound.admits(message, self.lists, now_ms):
            self.implausible += 1
        else:
            self.highest_epoch = max(self.highest_epoch, message.epoch)
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
        """A new report of the server. A primary whose server is certainly gone resigns at once; one whose server does
        not answer no longer claims to lead, and is replaced if that lasts for `down_after_ms`."""
        self.server = report
        if not report.alive and report.mode is Mode.FENCED and self.leading:
            self.resign()
        return self._settle(now_ms)

    def hand_over(self, heir: str, now_ms: int) -> str | None:
        """Begin a planned failover. Returns the reason if it is refused."""
        refused = handover.refusal(self, heir, now_ms)
        if refused is None:
            handover.begin(self, heir, now_ms)
        return refused

    def retire(self, now_ms: int) -> list[Effect]:
        """The agent is about to end. A primary resigns first, so that the others need not wait for `down_after_ms`: by
        a handover, or without an heir if no node has everything in time."""
        handover.retire(self, now_ms)
        return self._settle(now_ms)

    # Effects

    def due_ms(self, now_ms: int) -> int:
        """When to call `tick` if nothing else happens: at the next heartbeat, or at an earlier deadline."""
        due = [self.next_beat_ms, self.leader_assumed_until_ms, self.next_candidacy_ms]
        if self.leading:
            due.append(self.lease_end_ms)
        elif self.leader_heard_ms is not None:
            due.append(self.leader_heard_ms + self.timing.down_after_ms)
        if self.campaign is not None:
            due.append(self.campaign.deadline_ms)
        return min([each for each in due if each > now_ms], default=now_ms)

    def _settle(self, now_ms: int) -> list[Effect]:
        """Called after every input: candidacy, resignation and the order to the server follow from the rest of the
        state, and so does whether the peers need a heartbeat at once."""
        changes.settle(self, now_ms)
        handover.advance(self, now_ms)
        handover.announce_heir(self, now_ms)
        candidacy.consider(self, now_ms)
        wanted = self._wanted(now_ms)
        if is_news(wanted, self.order, self._overdue(now_ms), self.timing.hb_interval_ms):
            self.order, self._ordered_ms = wanted, now_ms
            self.effects.append(wanted)
        state = self.server_state(now_ms)
        if now_ms >= self.next_beat_ms or state is not self._sent_state:
            self._sent_state = state
            heartbeats.beat(self, now_ms)
            candidacy.offer(self)
        effects, self.effects = self.effects, []
        return effects

    def _wanted(self, now_ms: int) -> Order:
        if self.leading and now_ms < self.lease_end_ms and bootstrap.is_founded(self):
            if self.handing is not None:
                return Quiesce(min(self.handing.deadline_ms, self.lease_end_ms))
            return OpenServer(self.record.leader_epoch, self.lease_end_ms)
        leader = self.peers.get(self.record.leader)
        follower = not self.fresh and not self.leading and self.has_live_primary(now_ms)
        if not follower or leader is None or leader.heartbeat is None:
            return Fence()
        follows = self.server.mode is Mode.FOLLOWING and self.server.leader == self.record.leader
        supports = rules.supports_leader(self.record) and self.leader_heard_ms is not None
        may_copy = supports and rules.may_copy(self.lists, leader.heartbeat.list)
        may_copy = may_copy and (follows or leader.heartbeat.state is ServerState.OPEN)
        return Follow(self.record.leader) if may_copy else Fence()

    def _overdue(self, now_ms: int) -> bool:
        late = now_ms - self._ordered_ms >= 2 * self.timing.hb_interval_ms
        return late and self.server.alive and not is_done(self.order, self.server)
