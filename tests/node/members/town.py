"""Whole nodes beside each other in virtual time: registers, learners, coordinators and both engines, as in production.
A message takes a millisecond, a member request as long; a node that is down receives nothing."""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from epoxy.model.address import Address
from epoxy.model.members import Member, MemberReply, MemberRequest
from epoxy.model.messages import Reply, Request
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.transactions import Executed, Txn, TxnOutcome
from epoxy.node import service
from epoxy.node.members.members_admin import Accepted, Verdict
from epoxy.node.members.peer_gate import PeerGate
from epoxy.node.process import config
from epoxy.protocol.members.change_request import Amendment
from epoxy.store.memory import MemoryStore
from epoxy_sim.world import Event, World
from tests.node.service_bench import PromptLinks

WAY_US = 1000

LIMITS = config.Limits(
    connections=100,
    pipeline=100,
    writes_in_flight=1000,
    reads_in_flight=1000,
    request_timeout_ms=10_000,
    peer_queue=100,
)


def url_of(me: int) -> str:
    return f"http://10.0.0.{me}"


def settings_of(me: int, founders: Sequence[int]) -> config.Settings:
    members = tuple(config.MemberSetting(id=i, datacenter=f"dc-{i}", url=url_of(i)) for i in founders)
    return config.Settings(
        node=config.NodeSettings(
            id=me,
            datacenter=f"dc-{me}",
            data_dir=Path("unused"),
            http=Address("127.0.0.1", 0),
            resp=None,
            advertise_url=url_of(me),
        ),
        cluster=config.ClusterSettings(
            members=members,
            quorum_policy=QuorumPolicy.OPTIMAL,
            secret_file=Path("unused"),
            join=me not in founders,
        ),
        tls=None,
        limits=LIMITS,
    )


class Town:
    def __init__(self, founders: Sequence[int] = (1, 2, 3), seed: int = 7) -> None:
        self.world = World()
        self.dice = Random(seed)
        self.founders = tuple(founders)
        self.loses: Callable[[int, int, Sequence[Request]], bool] = lambda _sender, _to, _requests: False
        """Whether these requests are lost on their way."""
        self.stores: dict[int, MemoryStore] = {}
        self.lives: dict[int, Life] = {}
        for me in founders:
            self.start(me)
        self.until(lambda: all(life.is_settled for life in self.lives.values()), "all stores are known")

    def start(self, me: int) -> "Life":
        """For the first time, or again with what its disk holds."""
        self.stores.setdefault(me, MemoryStore())
        self.lives[me] = life = Life(self, me)
        life.node.start()
        for other in self.lives.values():
            life.greet(other)
            other.greet(life)
        return life

    def kill(self, me: int) -> None:
        self.lives.pop(me).over = True

    def run(self, virtual_ms: float) -> None:
        end_us = self.world.now_us + int(virtual_ms * 1000)
        self.world.after(end_us - self.world.now_us, lambda: None)
        self.world.run_until(lambda: self.world.now_us >= end_us, end_us)

    def until(self, condition: Callable[[], bool], words: str, virtual_s: int = 120) -> None:
        assert self.world.run_until(condition, self.world.now_us + virtual_s * 1_000_000), f"not so: {words}"

    def order(self, at: int, *, add: Sequence[int] = (), remove: Sequence[int] = ()) -> None:
        """Ask for other members; whoever is added is started."""
        for me in add:
            self.start(me)
        verdicts: list[Verdict] = []
        roster = self.lives[at].node.members_admin
        assert roster is not None
        wanted = tuple(Member(id=me, url=url_of(me), datacenter=f"dc-{me}") for me in add)
        roster.change(Amendment(add=wanted, remove=tuple(remove), force=True), verdicts.append)
        self.until(lambda: bool(verdicts), "the order is taken")
        assert isinstance(verdicts[0], Accepted), verdicts

    def change(self, at: int, *, add: Sequence[int] = (), remove: Sequence[int] = ()) -> None:
        """... and wait until it is so."""
        config = self.lives[at].node.replica.config
        wanted = tuple(sorted({*config.active, *add} - set(remove)))
        self.order(at, add=add, remove=remove)
        self.until(lambda: all(self.lives[me].holds(wanted) for me in wanted if me in self.lives), f"{wanted} order")

    def txn(self, at: int, txn: Txn) -> Executed:
        told: list[TxnOutcome] = []
        self.lives[at].node.txn(txn, told.append)
        self.until(lambda: bool(told), "answered")
        assert isinstance(told[0], Executed), told
        return told[0]


class Life(PromptLinks):
    """One process: the node, and its clock, dice and links."""

    def __init__(self, town: Town, me: int) -> None:
        self.town = town
        self.me = me
        self.over = False
        settings = settings_of(me, town.founders)
        self.node = service.Node(settings, town.stores[me], self, self, self, self.alarm, self)

    @property
    def is_settled(self) -> bool:
        return self.node.ready and all(info.identity for info in self.node.replica.config.replicas)

    def holds(self, members: tuple[int, ...]) -> bool:
        """It knows these members alone, and orders transactions with them."""
        config = self.node.replica.config
        is_quiet = config.replica_ids == members and not config.is_joint
        return is_quiet and self.node.ordered.replica.part.value == "open"

    def alarm(self, text: str) -> None:
        raise AssertionError(text)

    # Links

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        def arrive(there: "Life") -> None:
            if there.admits(self) and there.gate.serves(requests):
                there.node.replica.handle(requests, lambda reply: self._later(lambda: heard(there, reply)))

        def heard(there: "Life", reply: Reply) -> None:
            if self.heard(there) and answered is not None:
                answered(reply)

        if not self.town.loses(self.me, to, requests):
            self._deliver(to, arrive)

    def ask(self, to: int, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        def arrive(there: "Life") -> None:
            assert there.node.member is not None
            there.node.member.answer(request, lambda reply: self._later(lambda: answered(reply)))

        self._deliver(to, arrive)

    def _deliver(self, to: int, arrive: Callable[["Life"], None]) -> None:
        def now() -> None:
            there = self.town.lives.get(to)
            if there is not None:
                arrive(there)

        self.town.world.after(WAY_US, now)

    def _later(self, then: Callable[[], None]) -> None:
        self.town.world.after(WAY_US, lambda: None if self.over else then())

    def rtt_ms(self, peer: int) -> float | None:
        return 2 * WAY_US / 1000 if self.reachable(peer) else None

    def reachable(self, peer: int) -> bool:
        return peer in self.town.lives

    def trouble(self, peer: int) -> str:
        return "" if self.reachable(peer) else "gone"

    @property
    def gate(self) -> PeerGate:
        assert self.node.gate is not None
        return self.node.gate

    def greet(self, other: "Life") -> None:
        """Links beat when they are idle, too, and so all stores get to know each other."""
        if other is not self and other.admits(self):
            self.heard(other)

    def heard(self, other: "Life") -> bool:
        if not self.admits(other):
            return False
        self.gate.answered(other.me)
        return True

    def admits(self, other: "Life") -> bool:
        return self.gate.meet(other.me, other.gate.greeting(self.me)) is None

    # Clock and dice

    def now_ms(self) -> float:
        return self.town.world.now_us / 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Event:
        return self.town.world.after(int(delay_ms * 1000), lambda: None if self.over else then())

    def uniform(self) -> float:
        return self.town.dice.random()

    def nonce(self) -> int:
        return self.town.dice.getrandbits(64)
