"""Elections as the original text describes them: heartbeats, OFFER, ACCEPT, ANNOUNCE, and no durable state.

They lose acknowledged writes and have two primaries at once (docs/protocol/elect.md). They stay here to show that the
checkers find that.
"""

from collections.abc import Callable

from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.lists import DIGEST_CHARS
from epoxy.protocol.elect.messages import (
    Acceptance,
    Announce,
    Counted,
    Handover,
    Heartbeat,
    Message,
    Offer,
    Role,
    ServerState,
)
from epoxy.protocol.elect.terms import Effect, ElectRecord, Follow, Mode, OpenServer, Order, Send, ServerReport

FOR_EVER_MS = 1 << 40

LIST = "0" * DIGEST_CHARS
"""There is only one list."""

TICKS = 4
"""Ticks in a heartbeat interval."""


class AsDescribed:
    def __init__(
        self, config: ElectConfig, me: str, _: ElectRecord | None, now_ms: int, draw: Callable[[int, int], int]
    ) -> None:
        self.config = config
        self.me = me
        self.role = Role.PRIMARY if me == config.initial_primary else Role.REPLICA
        self.epoch = 1
        self.seen = 1
        self.primary = config.initial_primary
        self.last_seen = dict.fromkeys(config.others(me), now_ms)
        self.offsets = dict.fromkeys(config.others(me), 0)
        self.server = ServerReport(alive=False, mode=Mode.FENCED)
        self.votes: set[str] = set()
        self.until_ms = 0
        self.rest_ms = now_ms
        self._draw = draw
        self._beat_ms = now_ms
        self._order: Order | None = None

    @property
    def record(self) -> ElectRecord:
        return ElectRecord(epoch=self.epoch, leader_epoch=self.epoch, leader=self.primary)

    @property
    def leading(self) -> bool:
        return self.role is Role.PRIMARY

    has_stepped_down = True

    def retire(self, now_ms: int) -> list[Effect]:  # noqa: ARG002
        return []

    def hand_over(self, heir: str, now_ms: int) -> str | None:  # noqa: ARG002
        return "not supported"

    def report(self, report: ServerReport, now_ms: int) -> list[Effect]:  # noqa: ARG002
        self.server = report
        if not report.alive:
            self._order = None
        return []

    def due_ms(self, now_ms: int) -> int:
        return now_ms + self.config.timing.hb_interval_ms // TICKS

    def tick(self, now_ms: int) -> list[Effect]:
        out: list[Effect] = []
        timing = self.config.timing
        if self.role is Role.CANDIDATE and now_ms >= self.until_ms:
            self.role = Role.REPLICA
            self.rest_ms = now_ms + self._draw(timing.election_backoff_min_ms, timing.election_backoff_max_ms)
        if self.role is Role.REPLICA and self._primary_is_down(now_ms) and self._wins(now_ms):
            out += self._campaign(now_ms)
        if now_ms >= self._beat_ms:
            self._beat_ms = now_ms + timing.hb_interval_ms
            out += [Send(node, self._heartbeat()) for node in self.last_seen]
        return out + self._orders()

    def receive(self, message: Message, now_ms: int) -> list[Effect]:
        match message:
            case Heartbeat():
                self._on_heartbeat(message, now_ms)
                return self._orders()
            case Offer():
                return self._on_offer(message)
            case Acceptance():
                return self._on_accept(message) + self._orders()
            case Announce():
                self._on_announce(message)
                return self._orders()
            case Handover() | Counted():
                return []

    def _primary_is_down(self, now_ms: int) -> bool:
        silent_ms = now_ms - self.last_seen.get(self.primary, now_ms)
        return silent_ms >= self.config.timing.down_after_ms and now_ms >= self.rest_ms

    def _wins(self, now_ms: int) -> bool:
        """Highest offset, then lowest id, among the nodes heard lately."""
        mine = (-self.server.position.offset, self.me)
        seen = [n for n, at in self.last_seen.items() if now_ms - at < self.config.timing.down_after_ms]
        return all(mine < (-self.offsets[node], node) for node in seen)

    def _campaign(self, now_ms: int) -> list[Effect]:
        self.role = Role.CANDIDATE
        self.seen += 1
        self.votes = {self.me}
        self.until_ms = now_ms + self.config.timing.election_timeout_ms
        offset = self.server.position.offset
        offer = Offer(epoch=self.seen, node=self.me, offset=offset, history=0, in_office=False, stage=0, list=LIST)
        return [Send(node, offer) for node in self.last_seen] + self._count()

    def _on_heartbeat(self, heartbeat: Heartbeat, now_ms: int) -> None:
        self.last_seen[heartbeat.node] = now_ms
        self.offsets[heartbeat.node] = heartbeat.offset
        if heartbeat.epoch > self.epoch and heartbeat.role is Role.PRIMARY:
            self._demote(heartbeat.epoch, heartbeat.node)

    def _on_offer(self, offer: Offer) -> list[Effect]:
        """At most one ACCEPT for an epoch, except that a candidate yields to a lower id."""
        mine = self.server.position.offset
        duel = self.role is Role.CANDIDATE and offer.epoch == self.seen
        yields = duel and offer.offset == mine and offer.node < self.me
        if not yields and (offer.epoch <= self.seen or offer.offset < mine):
            return []
        self.seen = offer.epoch
        if yields:
            self.role = Role.REPLICA
        return [Send(offer.node, Acceptance(epoch=offer.epoch, node=self.me, candidate=offer.node))]

    def _on_accept(self, accept: Acceptance) -> list[Effect]:
        if self.role is not Role.CANDIDATE or accept.epoch != self.seen:
            return []
        self.votes.add(accept.node)
        return self._count()

    def _count(self) -> list[Effect]:
        if len(self.votes) < self.config.quorum:
            return []
        self.role, self.epoch, self.primary = Role.PRIMARY, self.seen, self.me
        address = str(self.config.node(self.me).server)
        return [Send(node, Announce(epoch=self.epoch, node=self.me, address=address)) for node in self.last_seen]

    def _on_announce(self, announce: Announce) -> None:
        if announce.epoch > self.epoch:
            self._demote(announce.epoch, announce.node)

    def _demote(self, epoch: int, primary: str) -> None:
        self.epoch, self.primary, self.role = epoch, primary, Role.REPLICA
        self.seen = max(self.seen, epoch)

    def _orders(self) -> list[Effect]:
        """A primary takes writes until it hears of another."""
        wanted: Order = OpenServer(self.epoch, FOR_EVER_MS) if self.leading else Follow(self.primary)
        if not self.server.alive or wanted == self._order:
            return []
        self._order = wanted
        return [wanted]

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            epoch=self.epoch,
            node=self.me,
            role=self.role,
            offset=self.server.position.offset,
            leader_epoch=self.epoch,
            leader=self.primary,
            history=0,
            state=ServerState.BUSY,
            stamp=0,
            echo=0,
            stage=0,
            list=LIST,
        )
