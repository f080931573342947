"""One node's part in deciding who writes.

Everything goes in through `tick`, `receive`, `report` and `hand_over`, with the machine's monotonic clock, and comes
out as a list of effects in the order in which they must happen.

Why there is one primary. A vote is durable before it is told, so an epoch has one winner. A primary's server takes
writes until its lease ends, and a lease counts from heartbeats of its own that a majority has answered. Who answered
one votes for nobody else before `down_after_ms` of silence, which is longer. So when a majority has voted, no
lease of an earlier primary is running.

Why nothing acknowledged is lost. A node votes only while its server follows nobody, and only for a candidate that has
at least what it has itself; from then on it answers for nobody of an earlier epoch. A write that was on the primary and
enough replicas is on one of the voters, and so on the winner.
"""

from collections.abc import Callable

from msgspec import Struct

from epoxy.elect import rules
from epoxy.elect.config import Config
from epoxy.elect.messages import Accept, Announce, Handover, Heartbeat, Message, Offer, Role, State
from epoxy.elect.orders import is_done, is_news
from epoxy.elect.peer import Peer
from epoxy.elect.terms import (
    Effect,
    Fence,
    Follow,
    Mode,
    Open,
    Order,
    Position,
    Quiesce,
    Record,
    Report,
    Save,
    Send,
)

Draw = Callable[[int, int], int]
"""A number between two, both included. The only chance there is in an election."""


class Campaign(Struct, kw_only=True):
    epoch: int
    votes: set[str]
    deadline_ms: int
    in_office: bool


class Handing(Struct, frozen=True, kw_only=True):
    """A planned handover that waits for its heir to have everything."""

    heir: str
    deadline_ms: int


class Elector:
    """Invariants: 1. `record` is never ahead of the last Save among the effects given out. 2. `leading` begins with a
    won election, or with epoch 1 where nobody remembers anything, and never again after it has ended."""

    def __init__(self, config: Config, me: str, record: Record | None, now_ms: int, draw: Draw) -> None:
        self.config = config
        self.me = me
        self.peers = {node: Peer() for node in config.others(me)}
        remembered = rules.after_restart(record)
        self.fresh = remembered is None
        self.record = remembered if remembered is not None else Record(leader=config.initial_primary)
        self.server = Report(alive=False, mode=Mode.OPEN)
        self.leading = False
        self.campaign: Campaign | None = None
        self.handing: Handing | None = None
        self.heir = ""
        self.retired = False
        self.lease_end_ms = 0
        self.order: Order = Fence()
        self._draw = draw
        self._started_ms = now_ms
        self._life = draw(1, rules.LIVES - 1)
        self._deaf_ms = now_ms if self.record.leader == me else rules.silent_until(now_ms, config.timing)
        self._heard_ms: int | None = None
        self._heard_stamp = 0
        self._seen = max(self.record.epoch, self.record.leader_epoch)
        self._rest_ms = now_ms
        self._ready_ms: int | None = None
        self._beat_ms = now_ms
        self._ordered_ms = now_ms
        self._told_state: State | None = None
        self._out: list[Effect] = []

    # What comes in

    def tick(self, now_ms: int) -> list[Effect]:
        """To be called a few times in each `hb_interval_ms`, and whenever there may be something to do."""
        self._recall(now_ms)
        self._prolong(now_ms)
        self._end_campaign(now_ms)
        self._hand_on(now_ms)
        self._stand(now_ms)
        return self._settle(now_ms)

    def receive(self, message: Message, now_ms: int) -> list[Effect]:
        """From a node that was authenticated as the one the message names."""
        if message.node in self.peers:
            self._seen = max(self._seen, message.epoch)
            match message:
                case Heartbeat():
                    self._on_heartbeat(message, now_ms)
                case Offer():
                    self._on_offer(message, now_ms)
                case Accept():
                    self._on_accept(message, now_ms)
                case Announce():
                    self._adopt(message.epoch, message.node, now_ms)
                case Handover():
                    self._on_handover(message, now_ms)
        return self._settle(now_ms)

    def report(self, report: Report, now_ms: int) -> list[Effect]:
        """What the server is doing. A primary whose server is gone for certain makes way at once; one whose server does
        not answer no longer says that it leads, and is replaced if that goes on for `down_after_ms`."""
        self.server = report
        if not report.alive and report.mode is Mode.FENCED and self.leading:
            self._resign()
        return self._settle(now_ms)

    def hand_over(self, heir: str, now_ms: int) -> str | None:
        """Begin a planned failover. Returns why not, if not."""
        peer = self.peers.get(heir)
        if peer is None:
            return f"{heir!r} is no other node of this cluster"
        if not self.is_open(now_ms):
            return f"{self.me} is not the primary; ask {self.record.leader}"
        if not self.config.node(heir).promotable:
            return f"{heir} has priority 0 and never leads"
        if peer.said_lately(now_ms, self.config.timing.fresh_ms) is None:
            return f"{heir} has not been heard lately"
        self.handing = Handing(heir=heir, deadline_ms=now_ms + self.config.timing.election_timeout_ms)
        return None

    def retire(self, now_ms: int) -> list[Effect]:
        """The agent is about to end. A primary makes way first, so that nobody has to wait for its silence: by a
        handover, or without an heir if nobody has everything in time."""
        self.retired = True
        heir = self._best_peer(now_ms) if self.is_open(now_ms) else ""
        if heir:
            self.handing = Handing(heir=heir, deadline_ms=now_ms + self.config.timing.election_timeout_ms)
        elif self.leading:
            self._resign()
        return self._settle(now_ms)

    def _best_peer(self, now_ms: int) -> str:
        """Of those heard lately that could lead; empty if there is none."""
        within_ms = self.config.timing.fresh_ms
        lately = ((node, peer.said_lately(now_ms, within_ms)) for node, peer in self.peers.items())
        able = [node for node, said in lately if said is not None and said.state not in (State.FRESH, State.DOWN)]
        heirs = [node for node in able if self.config.node(node).promotable]
        return min(heirs, key=lambda node: rules.rank(self.config, node, self.peers[node].position), default="")

    # What others may ask

    @property
    def role(self) -> Role:
        if self.leading and self.server.alive:
            return Role.PRIMARY
        return Role.CANDIDATE if self.campaign is not None else Role.REPLICA

    def is_open(self, now_ms: int) -> bool:
        return self.leading and now_ms < self.lease_end_ms and self.server.mode in (Mode.OPEN, Mode.QUIET)

    @property
    def has_made_way(self) -> bool:
        """Whether it neither leads nor has a server that takes writes."""
        return not self.leading and self.server.mode in (Mode.FENCED, Mode.FOLLOWING)

    def hears(self, now_ms: int) -> bool:
        """Whether this node takes somebody, perhaps itself, for a live primary."""
        if self.leading:
            return now_ms < self.lease_end_ms
        stands = rules.stands_behind(self.record)
        return now_ms < self._deaf_ms or (stands and rules.heard_lately(self._heard_ms, now_ms, self.config.timing))

    def state(self, now_ms: int) -> State:
        if self.fresh:
            return State.FRESH
        if self.is_open(now_ms):
            return State.OPEN
        if self.hears(now_ms) or self.server.mode is not Mode.FENCED:
            return State.BUSY
        return State.READY if rules.may_judge(self.server) else State.DOWN

    # Heartbeats

    def _on_heartbeat(self, heartbeat: Heartbeat, now_ms: int) -> None:
        sender = heartbeat.node
        peer = self.peers[sender]
        peer.heard(heartbeat, now_ms)
        self._seen = max(self._seen, heartbeat.leader_epoch)
        self._adopt(heartbeat.leader_epoch, heartbeat.leader, now_ms)
        claim = (heartbeat.leader_epoch, heartbeat.leader)
        if claim != (self.record.leader_epoch, self.record.leader):
            return
        if sender == self.record.leader:
            self._hear_leader(heartbeat, now_ms)
        elif self.leading and heartbeat.echo:
            said_ms = rules.stamped_ms(self._life, heartbeat.echo, self._started_ms)
            if said_ms is not None:
                peer.answered_ms = max(said_ms, peer.answered_ms or 0)
                self._prolong(now_ms)

    def _hear_leader(self, heartbeat: Heartbeat, now_ms: int) -> None:
        """A leader that says it does not lead has resigned, and never takes that back. But its server may still be
        open; only when that is over is there nobody to be waited for."""
        if heartbeat.role is Role.PRIMARY:
            self._heard_ms, self._heard_stamp = now_ms, heartbeat.stamp
        elif rules.has_closed(heartbeat):
            self._heard_ms, self._deaf_ms = None, now_ms

    def _adopt(self, epoch: int, leader: str, now_ms: int) -> None:
        """Follow the higher claim, whoever tells of it."""
        if leader not in self.peers or not rules.is_higher_claim(epoch, self.record):
            return
        voted_for = self.record.voted_for if epoch == self.record.epoch else ""
        self.record = Record(epoch=epoch, voted_for=voted_for, leader_epoch=epoch, leader=leader)
        if not self.fresh:
            self._out.append(Save(self.record))
        self._resign()
        self.heir = ""
        self._heard_ms, self._heard_stamp = now_ms, 0

    def _beat(self, now_ms: int) -> None:
        self._beat_ms = now_ms + self.config.timing.hb_interval_ms
        self._told_state = self.state(now_ms)
        for node in self.peers:
            self._out.append(Send(node, self._heartbeat(node, now_ms)))
        if self.campaign is not None:
            self._offer()

    def _heartbeat(self, to: str, now_ms: int) -> Heartbeat:
        return Heartbeat(
            epoch=self.record.epoch,
            node=self.me,
            role=self.role,
            offset=self.server.position.offset,
            leader_epoch=self.record.leader_epoch,
            leader=self.record.leader,
            history=self.server.position.history,
            state=self.state(now_ms),
            stamp=rules.stamp(self._life, now_ms, self._started_ms),
            echo=self._heard_stamp if to == self.record.leader and self._answers(now_ms) else 0,
        )

    def _answers(self, now_ms: int) -> bool:
        """Whether this node promises the leader to wait `down_after_ms` from when it last heard it."""
        stands = rules.stands_behind(self.record) and not self.fresh
        return stands and rules.heard_lately(self._heard_ms, now_ms, self.config.timing)

    # The lease

    def _prolong(self, now_ms: int) -> None:
        if self.leading:
            answered = [peer.answered_ms for peer in self.peers.values() if peer.answered_ms is not None]
            self.lease_end_ms = max(self.lease_end_ms, rules.lease_end(answered, now_ms, self.config))

    def _resign(self) -> None:
        """Nothing to be saved: a restart does not lead either, and whoever has heard of this may rely on it. What was
        offered in office must not be won out of it."""
        self.leading = False
        self.lease_end_ms = 0
        self.handing = None
        self.campaign = None
        self._heard_ms = None

    # Votes

    def _on_offer(self, offer: Offer, now_ms: int) -> None:
        if self.fresh or not self._would_vote(offer, now_ms):
            return
        if not rules.is_repeated(offer.epoch, offer.node, self.record):
            self.record = self._after_vote(offer)
            self._out.append(Save(self.record))
            self._yield()
            if offer.node != self.record.leader:
                self._resign()
            self._rest_ms = now_ms + self.config.timing.election_timeout_ms
        self._out.append(Send(offer.node, Accept(epoch=offer.epoch, node=self.me, candidate=offer.node)))

    def _after_vote(self, offer: Offer) -> Record:
        was = self.record
        return Record(epoch=offer.epoch, voted_for=offer.node, leader_epoch=was.leader_epoch, leader=was.leader)

    def _would_vote(self, offer: Offer, now_ms: int) -> bool:
        if rules.is_repeated(offer.epoch, offer.node, self.record):
            return True
        if not rules.is_new(offer.epoch, self.record) and not self._should_yield(offer):
            return False
        if self.hears(now_ms):
            return offer.in_office and offer.node == self.record.leader and self._heard_ms is not None
        return rules.may_judge(self.server) and not self._lacks(offer)

    def _lacks(self, offer: Offer) -> bool:
        """A node that never leads would block everybody with what it alone has, so it does not judge."""
        candidate = Position(offer.history, offer.offset)
        return self.config.node(self.me).promotable and rules.is_worse(candidate, self.server.position)

    def _should_yield(self, offer: Offer) -> bool:
        """Two candidates in one epoch: the worse takes its own vote back, which nobody but itself has counted."""
        if self.campaign is None or self.campaign.epoch != offer.epoch or self.record.epoch != offer.epoch:
            return False
        theirs = rules.rank(self.config, offer.node, Position(offer.history, offer.offset))
        return theirs < rules.rank(self.config, self.me, self.server.position)

    def _yield(self) -> None:
        """In the same step as the vote: this candidacy is over and will never be announced."""
        self.campaign = None

    # Candidacy

    def _stand(self, now_ms: int) -> None:
        if self.campaign is not None or self.fresh or self.retired:
            return
        if self.state(now_ms) is not State.READY:
            self._ready_ms = None
            if self._must_refresh(now_ms):
                self._campaign(now_ms)
            return
        self._ready_ms = self._ready_ms if self._ready_ms is not None else now_ms
        if now_ms >= self._rest_ms and self.config.node(self.me).promotable and self._has_a_chance(now_ms):
            self._campaign(now_ms)

    def _has_a_chance(self, now_ms: int) -> bool:
        lately = ((node, peer.said_lately(now_ms, self.config.timing.fresh_ms)) for node, peer in self.peers.items())
        ready = [node for node, said in lately if said is not None and said.state is State.READY]
        return self._would_win(ready) and self._should_be(ready, now_ms)

    def _would_win(self, ready: list[str]) -> bool:
        """What a round of questions before the vote would tell is in the heartbeats already."""
        return 1 + len(ready) >= self.config.quorum

    def _should_be(self, ready: list[str], now_ms: int) -> bool:
        """Nobody is better, or whoever is has not stood for a while and so cannot."""
        patience_ms = self.config.timing.election_timeout_ms
        if self.heir == self.me or now_ms - (self._ready_ms or now_ms) >= patience_ms:
            return True
        mine = rules.rank(self.config, self.me, self.server.position)
        rivals = (node for node in ready if self.config.node(node).promotable)
        return all(mine < rules.rank(self.config, node, self.peers[node].position) for node in rivals)

    def _must_refresh(self, now_ms: int) -> bool:
        """A primary in office, and somebody who voted in a later epoch that nobody won: it can never stand behind this
        one again. A new epoch with the same primary takes it back."""
        if not self.is_open(now_ms) or now_ms < self._rest_ms or self.handing is not None:
            return False
        lately = [peer.said_lately(now_ms, self.config.timing.fresh_ms) for peer in self.peers.values()]
        epochs = [said.epoch for said in lately if said is not None]
        return max([self.record.epoch, *epochs]) > self.record.leader_epoch

    def _campaign(self, now_ms: int) -> None:
        epoch = rules.next_epoch([self._seen, self.record.epoch])
        was = self.record
        self._seen = epoch
        self.record = Record(epoch=epoch, voted_for=self.me, leader_epoch=was.leader_epoch, leader=was.leader)
        self._out.append(Save(self.record))
        deadline_ms = now_ms + self.config.timing.election_timeout_ms
        in_office = self.is_open(now_ms)
        self.campaign = Campaign(epoch=epoch, votes={self.me}, deadline_ms=deadline_ms, in_office=in_office)
        self.heir = ""
        self._offer()
        self._count(now_ms)

    def _offer(self) -> None:
        assert self.campaign is not None
        position, epoch = self.server.position, self.campaign.epoch
        offer = Offer(
            epoch=epoch,
            node=self.me,
            offset=position.offset,
            history=position.history,
            in_office=self.campaign.in_office,
        )
        self._out += [Send(node, offer) for node in self.peers if node not in self.campaign.votes]

    def _on_accept(self, accept: Accept, now_ms: int) -> None:
        campaign = self.campaign
        if campaign is None or (accept.epoch, accept.candidate) != (campaign.epoch, self.me):
            return
        if rules.counts(now_ms, campaign.deadline_ms):
            campaign.votes.add(accept.node)
            self._count(now_ms)

    def _count(self, now_ms: int) -> None:
        if self.campaign is None or len(self.campaign.votes) < self.config.quorum:
            return
        epoch = self.campaign.epoch
        self.record = Record(epoch=epoch, voted_for=self.me, leader_epoch=epoch, leader=self.me)
        self._out.append(Save(self.record))
        self.campaign = None
        self.leading = True
        for peer in self.peers.values():
            peer.answered_ms = None
        address = str(self.config.node(self.me).server)
        self._out += [Send(node, Announce(epoch=epoch, node=self.me, address=address)) for node in self.peers]
        self._beat(now_ms)

    def _end_campaign(self, now_ms: int) -> None:
        if self.campaign is not None and not rules.counts(now_ms, self.campaign.deadline_ms):
            timing = self.config.timing
            self.campaign = None
            self._rest_ms = now_ms + self._draw(timing.election_backoff_min_ms, timing.election_backoff_max_ms)

    # Without memory

    def _recall(self, now_ms: int) -> None:
        """A node without memory may have voted a moment ago. It waits until no candidate can count that vote, and until
        so many others have told their epochs that one of them knows who won with it. Where no other node has seen an
        election, there was none to vote in; and where none remembers anything, the cluster is new and has a primary."""
        if not self.fresh:
            return
        recalled_ms = self._started_ms + self.config.timing.recall_ms
        begins = self._may_begin(now_ms >= recalled_ms)
        told = sum(peer.remembers and peer.at_ms >= recalled_ms for peer in self.peers.values())
        if not begins and (now_ms < recalled_ms or told < self.config.witnesses):
            return
        self.fresh = False
        was = self.record
        epoch = max(self._seen, was.epoch)
        voted_for = was.voted_for if epoch == was.epoch else ""
        self.record = Record(epoch=epoch, voted_for=voted_for, leader_epoch=was.leader_epoch, leader=was.leader)
        self._out.append(Save(self.record))
        new = begins and epoch == 1 and all(peer.was_fresh for peer in self.peers.values())
        self.leading = new and was.leader == self.me

    def _may_begin(self, in_vain: bool) -> bool:
        """In a new cluster the first primary must see that all others are new. So these stay as they are until it
        leads, unless that was waited for in vain."""
        first = self.peers.get(self.config.initial_primary)
        led = first is None or first.has_led
        return all(peer.was_new for peer in self.peers.values()) and (led or in_vain)

    # Handover

    def _hand_on(self, now_ms: int) -> None:
        """Let go when the heir has everything and writes are held back. When that takes too long, or the heir is gone,
        take it all back; who is about to end lets go all the same."""
        if self.handing is None:
            return
        heir = self.peers[self.handing.heir]
        silent = heir.said_lately(now_ms, self.config.timing.fresh_ms) is None
        if silent or now_ms >= self.handing.deadline_ms or not self.is_open(now_ms):
            self.handing = None
            if self.retired:
                self._resign()
        elif self.server.mode is Mode.QUIET and heir.position >= self.server.position:
            self.heir = self.handing.heir
            self._resign()

    def _tell_heir(self, now_ms: int) -> None:
        """Once the server is closed for good, not before."""
        if self.heir and self.heir != self.me and rules.may_judge(self.server):
            message = Handover(epoch=self.record.leader_epoch, node=self.me, heir=self.heir)
            self._out += [Send(node, message) for node in self.peers]
            self._rest_ms = now_ms + self.config.timing.election_timeout_ms
            self.heir = ""

    def _on_handover(self, handover: Handover, now_ms: int) -> None:
        """The sender led this epoch and has closed. Its heir goes first; the others give it the time of an election."""
        if (handover.epoch, handover.node) != (self.record.leader_epoch, self.record.leader):
            return
        self._heard_ms, self._deaf_ms = None, now_ms
        self.heir = self.me if handover.heir == self.me else ""
        self._rest_ms = now_ms if self.heir else now_ms + self.config.timing.election_timeout_ms

    # A new cluster

    def _founded(self) -> bool:
        """The first primary waits until everybody remembers it, and could lose a node from its first write on. Whoever
        remembers nothing when it dies could elect nobody before it is back."""
        return self.record.leader_epoch > 1 or all(peer.has_joined for peer in self.peers.values())

    # What goes out

    def _settle(self, now_ms: int) -> list[Effect]:
        """The order to the server follows from everything else, and so does whether the others must know at once."""
        self._tell_heir(now_ms)
        wanted = self._wanted(now_ms)
        if is_news(wanted, self.order, self._overdue(now_ms), self.config.timing.hb_interval_ms):
            self.order, self._ordered_ms = wanted, now_ms
            self._out.append(wanted)
        if now_ms >= self._beat_ms or self.state(now_ms) is not self._told_state:
            self._beat(now_ms)
        out, self._out = self._out, []
        return out

    def _wanted(self, now_ms: int) -> Order:
        if self.leading and now_ms < self.lease_end_ms and self._founded():
            if self.handing is not None:
                return Quiesce(min(self.handing.deadline_ms, self.lease_end_ms))
            return Open(self.record.leader_epoch, self.lease_end_ms)
        leader = self.peers.get(self.record.leader)
        if self.fresh or self.leading or leader is None or not self.hears(now_ms) or leader.heartbeat is None:
            return Fence()
        follows = self.server.mode is Mode.FOLLOWING and self.server.leader == self.record.leader
        stands = rules.stands_behind(self.record) and self._heard_ms is not None
        return Follow(self.record.leader) if stands and (follows or leader.heartbeat.state is State.OPEN) else Fence()

    def _overdue(self, now_ms: int) -> bool:
        late = now_ms - self._ordered_ms >= 2 * self.config.timing.hb_interval_ms
        return late and self.server.alive and not is_done(self.order, self.server)
