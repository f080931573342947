"""A few electors at one table: time moves by hand, messages arrive at once unless a connection is cut, and servers obey
orders."""

from collections.abc import Iterable
from functools import lru_cache

from msgspec.structs import replace

from epoxy.model.address import Address
from epoxy.protocol.elect.config import ElectConfig, ElectNode, ElectTiming
from epoxy.protocol.elect.elector import Elector
from epoxy.protocol.elect.handshake import Party, party_of
from epoxy.protocol.elect.lists import DIGEST_CHARS, first
from epoxy.protocol.elect.messages import Acceptance, Message, Offer
from epoxy.protocol.elect.terms import (
    Effect,
    ElectRecord,
    Fence,
    Follow,
    Mode,
    OpenServer,
    Order,
    Quiesce,
    ReplicationPosition,
    Save,
    Send,
    ServerReport,
)
from epoxy_sim.elect.admission import admits

TIMING = ElectTiming(
    hb_interval_ms=100,
    down_after_ms=1_000,
    lease_ms=700,
    election_timeout_ms=500,
    election_backoff_min_ms=200,
    election_backoff_max_ms=400,
)


def config_of(names: str, **settings: object) -> ElectConfig:
    nodes = tuple(ElectNode(id=name, control=Address(name, 1), server=Address(name, 2)) for name in names)
    given = ElectConfig(cluster="test", nodes=nodes, initial_primary=names[0], timing=TIMING)
    return replace(given, **settings)


def record_of(names: str, **settings: object) -> ElectRecord:
    """Of a node that has never seen a change of nodes."""
    return replace(ElectRecord(lists=first(config_of(names))), **settings)


admitted = lru_cache(admits)


class Seat:
    """One node: its elector, its disk, its server, and everything it ever sent."""

    def __init__(self, table: "Table", name: str, config: ElectConfig) -> None:
        self.table = table
        self.name = name
        self.config = config
        self.disk: ElectRecord | None = None
        self.report = ServerReport(alive=True, mode=Mode.FENCED)
        self.until_ms = 0
        self.sent: list[tuple[str, Message]] = []
        self.orders: list[Order] = []
        self.broken_disk = False
        """A failed save ends the agent."""
        self.elector = self._new()

    def _new(self) -> Elector:
        return Elector(self.config, self.name, self.disk, self.table.now_ms, lambda low, _: low)

    @property
    def party(self) -> Party:
        lists = self.elector.lists if self.elector.knows_lists else None
        return party_of(self.config, self.name, (b"a secret of a table",), lists)

    def restart(self) -> None:
        self.elector = self._new()
        self.look()

    @property
    def takes_writes(self) -> bool:
        return self.report.alive and self.report.mode is Mode.OPEN and self.table.now_ms < self.until_ms

    def look(self) -> None:
        if self.report.mode is Mode.OPEN and self.table.now_ms >= self.until_ms:
            self.report = replace(self.report, mode=Mode.FENCED)
        self.perform(self.elector.report(self.report, self.table.now_ms))

    def has(self, history: int, offset: int) -> None:
        self.report = replace(self.report, position=ReplicationPosition(history, offset))

    def receive(self, message: Message) -> None:
        self.perform(self.elector.receive(message, self.table.now_ms))

    def perform(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Save():
                    if self.broken_disk:
                        self.table.absent.add(self.name)
                        return
                    self.disk = effect.record
                case Send():
                    self.sent.append((effect.to, effect.message))
                    self.table.post(self.name, effect.to, effect.message)
                case _:
                    self.orders.append(effect)
                    self._obey(effect)

    def _obey(self, order: Order) -> None:
        match order:
            case Fence():
                self.report = replace(self.report, mode=Mode.FENCED, leader="")
            case Follow():
                leader = self.table.seats[order.leader].report.position if self.table.copying else ReplicationPosition()
                self.report = replace(
                    self.report, mode=Mode.FOLLOWING, leader=order.leader, position=max(leader, self.report.position)
                )
            case OpenServer():
                history = ReplicationPosition(order.epoch, self.report.position.offset)
                self.report = replace(self.report, mode=Mode.OPEN, leader="", position=history)
                self.until_ms = order.until_ms
            case Quiesce():
                self.report = replace(self.report, mode=Mode.QUIET)


class Table:
    def __init__(self, names: str = "abc", **settings: object) -> None:
        self.config = config_of(names, **settings)
        self.now_ms = 10_000
        self.cut: set[tuple[str, str]] = set()
        self.absent: set[str] = set()
        self.copying = True
        """Whether a server that follows has at once what its leader has."""
        self._mail: list[tuple[str, str, Message]] = []
        self.seats = {name: Seat(self, name, self.config) for name in names}

    def seat(self, name: str, config: ElectConfig) -> Seat:
        """A node joins the table."""
        self.seats[name] = Seat(self, name, config)
        return self.seats[name]

    def __getitem__(self, name: str) -> Seat:
        return self.seats[name]

    def post(self, sender: str, to: str, message: Message) -> None:
        if (sender, to) not in self.cut:
            self._mail.append((sender, to, message))

    def deliver(self) -> None:
        while self._mail:
            sender, to, message = self._mail.pop(0)
            if to not in self.absent and to in self.seats and self._admits(sender, to):
                self.seats[to].receive(message)

    def _admits(self, sender: str, to: str) -> bool:
        return admitted(self.seats[sender].party, self.seats[to].party)

    def run(self, ms: int, step_ms: int = 20) -> None:
        """No two servers may take writes at any of the moments in between."""
        for _ in range(ms // step_ms):
            self.now_ms += step_ms
            for name, seat in self.seats.items():
                if name not in self.absent:
                    seat.look()
                    seat.perform(seat.elector.tick(self.now_ms))
            self.deliver()
            assert len(self.writing()) <= 1, self.writing()

    def writing(self) -> list[str]:
        return [name for name, seat in self.seats.items() if seat.takes_writes]

    def isolate(self, name: str) -> None:
        others = [other for other in self.seats if other != name]
        self.cut |= {(name, other) for other in others} | {(other, name) for other in others}

    def begin(self) -> "Table":
        """A new cluster whose first primary takes writes and is followed."""
        self.run(400)
        assert self.writing() == [self.config.initial_primary]
        return self


def offer(epoch: int, node: str, history: int = 9, offset: int = 9_999, stage: int = 0) -> Offer:
    newest = "0" * DIGEST_CHARS
    return Offer(epoch=epoch, node=node, offset=offset, history=history, in_office=False, stage=stage, list=newest)


def accepts(table: Table, name: str) -> list[Acceptance]:
    return [message for _, message in table[name].sent if isinstance(message, Acceptance)]


def leaderless(names: str = "abc", **settings: object) -> Table:
    """All others are well, and none is a candidate yet: the primary is gone."""
    table = Table(names, **settings).begin()
    table.absent.add("a")
    table[names[0]].report = replace(table[names[0]].report, alive=False, mode=Mode.FENCED)
    return table


def relisted(table: Table, names: str, node: str) -> None:
    """The agent of this node is restarted with another list in its file."""
    seat = table.seats.get(node)
    if seat is None:
        seat = table.seat(node, config_of(names, initial_primary=names[0]))
    else:
        seat.config = config_of(names, initial_primary=names[0])
        seat.report = replace(seat.report, mode=Mode.FENCED, leader="")
        seat.restart()


def stages(table: Table) -> dict[str, int]:
    return {name: seat.elector.lists.stage for name, seat in table.seats.items() if name not in table.absent}
