"""A whole node, as its doors see it, whose disk, clock and peers are moved by hand."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from epoxy.model.address import Address
from epoxy.model.messages import AcceptOk
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Outcome, ReadAnswer, Write
from epoxy.node.process.config import ClusterSettings, Limits, MemberSetting, NodeSettings, Settings
from epoxy.node.service import Node
from epoxy.store.memory import MemoryStore
from tests.node.bench import Disk, HandClock, HandTransport
from tests.protocol.keys.harness import KEY, A, B, FixedDice, commit, prop

TIMEOUT_MS = 10_000


class PromptLinks:
    """Peers that answer at once."""

    ticked: Callable[[], None] = staticmethod(lambda: None)

    def lag_ms(self, _peer: int) -> float:
        return 0.0

    def waited_ms(self, _peer: int) -> float:
        return 0.0

    def silent_ms(self, _peer: int) -> float:
        return 0.0


class HandLinks(HandTransport):
    """Peers are there as long as their round trip is known."""

    def __init__(self) -> None:
        super().__init__()
        self.rtts: dict[int, float] = {}
        self.silent: set[int] = set()
        self.lags: dict[int, float] = {}
        self.waits: dict[int, float] = {}
        self.silences: dict[int, float] = {}
        self.ticked: Callable[[], None] = lambda: None

    def rtt_ms(self, peer: int) -> float | None:
        return self.rtts.get(peer)

    def lag_ms(self, peer: int) -> float:
        return self.lags.get(peer, 0.0)

    def waited_ms(self, peer: int) -> float:
        return self.waits.get(peer, 0.0)

    def silent_ms(self, peer: int) -> float:
        return self.silences.get(peer, 0.0)

    def reachable(self, peer: int) -> bool:
        return peer in self.rtts and peer not in self.silent

    def trouble(self, peer: int) -> str:
        return "" if self.reachable(peer) else "gone"


def settings_of(n: int, *, writes_in_flight: int = 100, reads_in_flight: int = 100) -> Settings:
    members = tuple(MemberSetting(id=i, datacenter=f"dc-{i}", url=f"http://10.0.0.{i}") for i in range(1, n + 1))
    return Settings(
        node=NodeSettings(
            id=A,
            datacenter="dc-1",
            data_dir=Path("unused"),
            http=Address("127.0.0.1", 0),
            resp=None,
            advertise_url=members[0].url,
        ),
        cluster=ClusterSettings(members=members, quorum_policy=QuorumPolicy.OPTIMAL, secret_file=Path("unused")),
        tls=None,
        limits=Limits(
            connections=100,
            pipeline=100,
            writes_in_flight=writes_in_flight,
            reads_in_flight=reads_in_flight,
            request_timeout_ms=TIMEOUT_MS,
            peer_queue=100,
        ),
    )


class World:
    """A node whose disk, clock and peers are moved by hand."""

    def __init__(
        self, n: int = 3, *, ready: bool = True, writes_in_flight: int = 100, reads_in_flight: int = 100
    ) -> None:
        self.disk, self.clock, self.links = Disk(), HandClock(), HandLinks()
        self.outcomes: list[Outcome] = []
        self.reads: list[ReadAnswer] = []
        self.alarms: list[str] = []
        store = MemoryStore(self.disk.flush)
        settings = settings_of(n, writes_in_flight=writes_in_flight, reads_in_flight=reads_in_flight)
        self.node = Node(settings, store, self.links, self.clock, FixedDice(), self.alarms.append)
        self.node.start()
        if ready:
            self.disk.sync()
            assert self.node.ready

    def write(self, key: bytes = KEY, value: bytes = b"v") -> None:
        self.node.write(Write(key=key, value=value), self.outcomes.append)

    def version_shown(self) -> int | None:
        shown = self.node.peek(KEY)
        return shown.committed.version if shown is not None and shown.committed is not None else None

    def learn(self, *keys: bytes) -> None:
        """From a peer, and not yet durable."""
        for key in keys:
            heard = msgspec.structs.replace(commit(prop(b"v", by=B)), key=key)
            self.node.replica.handle([heard], lambda _: None)

    def accept(self, *peers: int) -> None:
        """They vote for what was sent to them."""
        sent = self.links.take()
        for peer in peers:
            sent[peer].answer(AcceptOk())
        self.disk.sync()
        self.links.sent.clear()  # the commit is told to everybody
