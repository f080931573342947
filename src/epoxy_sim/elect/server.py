"""A server that replicates by itself, as Redis does: asynchronous copies of a log, acknowledgements counted afterwards.

It refuses writes as soon as its deadline is over, by its machine's clock. A real server is closed then by the agent or
its watchdog; docs/protocol/elect.md describes the gap between the two.
"""

from typing import TYPE_CHECKING

from epoxy.protocol.elect.lists import list_of
from epoxy.protocol.elect.terms import (
    Fence,
    Follow,
    Mode,
    OpenServer,
    Order,
    Quiesce,
    ReplicationPosition,
    ServerReport,
)

if TYPE_CHECKING:
    from epoxy_sim.elect.machine import ElectMachine

Entry = tuple[int, int]
"""Its epoch and the number of the write; 0 opens an epoch."""

RETRY_US = 20_000
"""Reconnect interval of a follower."""


class Attachment:
    """One connection of a follower to its leader. `sent`: entries sent on it."""

    def __init__(self, leader: "Server", follower: "Server", sent: int) -> None:
        self.leader = leader
        self.follower = follower
        self.sent = sent


class Server:
    def __init__(self, machine: "ElectMachine") -> None:
        self.machine = machine
        self.alive = False
        self.hung = False
        self.log: list[Entry] = []
        self.mode = Mode.FENCED
        self.until_ms = 0
        self.following: Server | None = None
        self.source: Attachment | None = None
        self.followers: list[Attachment] = []
        self.confirmed: dict[int, set[str]] = {}
        """Writes not acknowledged yet, and the nodes that have them."""

    # For the agent

    def report(self) -> ServerReport:
        leader = self.following.machine.name if self.following is not None else ""
        if self.hung:
            return ServerReport(alive=False, mode=Mode.OPEN)
        if self.mode in (Mode.OPEN, Mode.QUIET) and not self.is_open:
            self._fence()
        return ServerReport(alive=self.alive, mode=self.mode, leader=leader, position=self.position)

    @property
    def position(self) -> ReplicationPosition:
        return ReplicationPosition(self.log[-1][0] if self.log else 0, len(self.log))

    @property
    def is_open(self) -> bool:
        return self.alive and self.mode in (Mode.OPEN, Mode.QUIET) and self.machine.local_ms() < self.until_ms

    def obey(self, order: Order) -> None:
        match order:
            case Fence():
                self._fence()
            case Follow():
                self._follow(self.machine.cluster.machines[order.leader].server)
            case OpenServer():
                self._open(order)
            case Quiesce():
                if self.is_open:
                    self.mode, self.until_ms = Mode.QUIET, order.until_ms
                    self.machine.cluster.judge.opened(self.machine)

    def _fence(self) -> None:
        self.mode, self.following = Mode.FENCED, None
        self._detach()
        self._drop_followers()

    def _follow(self, leader: "Server") -> None:
        if self.following is leader:
            return
        self._fence()
        self.mode, self.following = Mode.FOLLOWING, leader
        self._connect(leader)

    def _open(self, order: OpenServer) -> None:
        if self.machine.local_ms() >= order.until_ms:
            return
        if not self.is_open:
            self._fence()
        self.mode, self.until_ms = Mode.OPEN, order.until_ms
        begins = self.position.history != order.epoch
        self.machine.cluster.judge.opened(self.machine)
        if begins:
            self.machine.cluster.judge.promoted(self.machine, order.epoch)
            self._append((order.epoch, 0))

    # For its machine

    def crash(self) -> None:
        self.alive = self.hung = False
        self._fence()
        self.confirmed.clear()

    def start(self) -> None:
        """Fenced, as its file says."""
        self.alive = True

    # Writes

    def has(self, number: int) -> bool:
        return any(written == number for _, written in self.log)

    def write(self, number: int) -> bool:
        if not self.is_open or self.hung or self.mode is Mode.QUIET or self._is_lonely:
            return False
        self.confirmed[number] = set()
        self._append((self.position.history, number))
        self._acknowledge(number)
        return True

    @property
    def _is_lonely(self) -> bool:
        return len(self.followers) < self.machine.config.min_replicas_to_write

    def _append(self, entry: Entry) -> None:
        self.log.append(entry)
        for attachment in self.followers:
            self._stream(attachment)

    def _acknowledge(self, number: int) -> None:
        if len(self.confirmed[number]) >= self.machine.config.min_replicas_to_write:
            holders = {self.machine.name, *self.confirmed.pop(number)}
            self.machine.cluster.judge.acknowledged(number, holders, list_of(self.machine.config).copies)

    # Replication

    def _connect(self, leader: "Server") -> None:
        """Retried until it is attached or gets another order."""
        if self.following is not leader or self.source is not None or not self.alive:
            return
        cluster = self.machine.cluster
        if not leader.is_open or not cluster.network.connected(self.machine, leader.machine):
            cluster.world.after(RETRY_US, lambda: self.machine.run(lambda: self._connect(leader)))
            return
        attachment = Attachment(leader, self, len(leader.log))
        self.source = attachment
        is_prefix = leader.log[: len(self.log)] == self.log
        copy_us = 0 if is_prefix else 1000 * cluster.plan.sync_ms
        image = list(leader.log)
        delay_us = copy_us + cluster.network.delay_us()
        cluster.world.after(delay_us, lambda: self.machine.run(lambda: self._copied(attachment, image)))

    def _copied(self, attachment: Attachment, image: list[Entry]) -> None:
        leader = attachment.leader
        if self.source is not attachment:
            return
        if not leader.is_open or not self.machine.cluster.network.connected(self.machine, leader.machine):
            self._lost(attachment)
            return
        self.log = image
        leader.followers.append(attachment)
        self._confirm(attachment, len(image))
        leader._stream(attachment)

    def _stream(self, attachment: Attachment) -> None:
        """Entries arrive in order while the connection lives; those in flight when the leader dies still arrive."""
        for at in range(attachment.sent, len(self.log)):
            self._send(attachment, at)
        attachment.sent = len(self.log)

    def _send(self, attachment: Attachment, at: int) -> None:
        entry, follower, cluster = self.log[at], attachment.follower, self.machine.cluster
        delay_us = cluster.network.stream_delay_us(self.machine, follower.machine)
        cluster.world.after(delay_us, lambda: follower.machine.run(lambda: follower.arrived(attachment, at, entry)))

    def arrived(self, attachment: Attachment, at: int, entry: Entry) -> None:
        if self.source is not attachment or not self.alive:
            return
        if not self.machine.cluster.network.open_way(attachment.leader.machine, self.machine):
            self._lost(attachment)
        elif at == len(self.log):
            self.log.append(entry)
            self._confirm(attachment, len(self.log))

    def _confirm(self, attachment: Attachment, have: int) -> None:
        leader, network = attachment.leader, self.machine.cluster.network
        if network.open_way(self.machine, leader.machine):
            delay_us = network.delay_us()
            self.machine.cluster.world.after(
                delay_us, lambda: leader.machine.run(lambda: leader.confirmed_by(attachment, have))
            )

    def confirmed_by(self, attachment: Attachment, have: int) -> None:
        if attachment not in self.followers:
            return
        numbers = {number for _, number in self.log[:have]}
        for number in [number for number in self.confirmed if number in numbers]:
            self.confirmed[number].add(attachment.follower.machine.name)
            self._acknowledge(number)

    def _detach(self) -> None:
        """Over a broken connection the leader does not learn of it."""
        if self.source is not None:
            attachment, self.source = self.source, None
            if self.machine.cluster.network.connected(self.machine, attachment.leader.machine):
                attachment.leader.forget(attachment)

    def forget(self, attachment: Attachment) -> None:
        if attachment in self.followers:
            self.followers.remove(attachment)

    def _drop_followers(self) -> None:
        dropped, self.followers = self.followers, []
        for attachment in dropped:
            attachment.follower.dropped(attachment)

    def dropped(self, attachment: Attachment) -> None:
        self.machine.run(lambda: self._lost(attachment))

    def _lost(self, attachment: Attachment) -> None:
        if self.source is attachment:
            self._detach()
            if self.following is not None:
                self._connect(self.following)

    def notice(self) -> None:
        """Drop followers that have been silent for a while."""
        network = self.machine.cluster.network
        for attachment in list(self.followers):
            stale = attachment.follower.source is not attachment
            if stale or not network.connected(self.machine, attachment.follower.machine):
                self.forget(attachment)
                attachment.follower.dropped(attachment)
