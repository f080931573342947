"""A node of a simulated datacenter: a process with a store, an ownership, a replica and a driver, which are production
code, over the shared database. A process whose session is fenced throws all of them away and builds them anew."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from epoxy.codec import wire
from epoxy.datacenter.follower import GatewayLinks
from epoxy.datacenter.gateway import Gateway
from epoxy.datacenter.gateway_handover import GatewayHandover
from epoxy.datacenter.messages import Question, Unanswerable
from epoxy.datacenter.ports import Answered, AnswerLost, NeverSent, Serve
from epoxy.datacenter.routes import Routes
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import StoreError
from epoxy.model.messages import Reply, Request
from epoxy.model.records import KeyState, Proposal
from epoxy.model.shards import SYSTEM_SHARD
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.writes import Consistency, Outcome, ReadAnswer, Write
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import NOT_OWNED, Replica
from epoxy.node.keys.shard_handover import ShardHandover
from epoxy.store.shared.database import Reached, Verdict
from epoxy.store.shared.ownership import Ownership
from epoxy.store.shared.store import SharedStore
from epoxy_sim.datacenter.judge import ME
from epoxy_sim.datacenter.server import DatabaseWay
from epoxy_sim.world import Action, Event

if TYPE_CHECKING:
    from epoxy_sim.datacenter.simulation import DatacenterSimulation

T = TypeVar("T", Outcome, ReadAnswer)

AGAIN_MS = 20.0
"""Between two attempts: to reach the database, or to find a configuration there."""

PROMOTION_MS, LOOK_MS = 500.0, 10.0
"""For writes under way at a node that becomes the gateway without preparation, as in production; and between two looks
at what ends."""


class NodeMachine:
    """What stays when a process ends: its number, its clock and its way to the database."""

    def __init__(self, number: int, simulation: "DatacenterSimulation") -> None:
        self.number = number
        self.name = f"node {number}"
        self.simulation = simulation
        self.world = simulation.world
        self.rate = simulation.plan.rates[number - 1]
        self.dice = Random(f"node/{number}/{simulation.plan.seed}")
        self.life: NodeLife | None = None
        self.paused = False
        self.is_cut = False
        self.fenced = 0
        self.is_leaving = False
        self._must_run = False
        self._backlog: list[Action] = []

    def start(self) -> None:
        """A process that is leaving ends first."""
        self._must_run = True
        if self.life is None:
            self.life = NodeLife(self)
            self.life.begin()

    def crash(self) -> None:
        if self.life is not None:
            life, self.life = self.life, None
            self.paused = self.is_leaving = False
            self._backlog.clear()
            life.hang_up()

    def rebuild(self, why: str) -> None:
        """The session is over: everything in memory is void."""
        self.world.note(f"{self.name} begins anew: {why}")
        self.fenced += 1
        self.crash()
        self.start()

    def leave(self) -> None:
        """SIGTERM."""
        self._must_run = False
        if self.life is not None:
            self.is_leaving = True
            self.life.ownership.hand_all_over(partial(self._left, self.life))

    def _left(self, life: "NodeLife") -> None:
        if life is self.life:
            self.world.note(f"{self.name} has left")
            self.crash()
            if self._must_run:
                self.start()

    def cut(self, is_cut: bool) -> None:
        self.is_cut = is_cut
        if self.life is not None:
            self.life.way.set_cut(is_cut)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """Everything that waited arrives at once."""
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for action in backlog:
            self.world.after(0, action)

    def run(self, life: "NodeLife", action: Action) -> None:
        """Every action of a process runs through here: one that is gone does nothing, a paused one does it later."""
        if life is not self.life:
            return
        if self.paused:
            self._backlog.append(partial(self.run, life, action))
            return
        try:
            action()
        except StoreError as error:
            self.world.note(f"{self.name}: {error}")


class InsideLinks:
    """The links of one process to the other nodes. Each message takes a while; a question to a process that is gone, or
    that ends before it has answered, has no answer."""

    def __init__(self, life: "NodeLife") -> None:
        self._life = life
        self._handlers: dict[type[Any], Serve[Any]] = {}

    @property
    def sessions(self) -> Collection[int]:
        """By the table that this node believes in."""
        return [row.id for row in self._life.ownership.table.sessions if row.id != self._life.session]

    def serve(self, kind: type[Any], handler: Serve[Any]) -> None:
        self._handlers[kind] = handler

    def tell(self, session: int, question: Question) -> None:
        self.ask(session, question, lambda _: None)

    def ask(self, session: int, question: Question, answered: Answered) -> None:
        here, simulation = self._life, self._life.simulation
        there = next((life for life in simulation.lives if life.session == session), None)
        if there is None:
            here.soon(lambda: answered(NeverSent("there is no link", unreachable=True)))
            return
        is_over = False

        def over(answer: Any) -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                answered(answer)

        def arrive() -> None:
            there.links.asked(here.session, question, lambda answer: simulation.inside(here, partial(over, answer)))

        there.hang_ups.append(lambda: here.run(partial(over, AnswerLost("the link was lost"))))
        simulation.inside(there, arrive)

    def asked(self, session: int, question: Question, answered: Answered) -> None:
        handler = self._handlers.get(type(question))
        if handler is None:
            answered(Unanswerable("this node does not serve that"))
        else:
            handler(session, question, answered)


class PeerLinks:
    """The gateway's links to other datacenters, as `datacenter.gateway` needs them."""

    def __init__(self, life: "NodeLife") -> None:
        self._life = life

    def send_encoded(self, to: int, requests: bytes, count: int, answered: Callable[[Reply], None] | None) -> None:
        frame = wire.decode_peer_request(wire.join_peer_request(ME, to, count, [requests]))
        self._life.simulation.network.send(self._life, to, frame.requests, answered)

    def rtt_ms(self, _peer: int) -> float | None:
        return self._life.simulation.plan.distance_us / 500

    def lag_ms(self, _peer: int) -> float:
        return 0.0

    waited_ms = silent_ms = lag_ms

    def reachable(self, _peer: int) -> bool:
        return True

    def trouble(self, _peer: int) -> str:
        return ""


class NodeLife:
    """One session of a node. It is the clock, the dice and the transport of the production code, and what its routes
    serve."""

    def __init__(self, machine: NodeMachine) -> None:
        plan = machine.simulation.plan
        self.machine = machine
        self.simulation = machine.simulation
        self.world = machine.world
        self.judge = machine.simulation.judge
        self.hang_ups: list[Action] = []
        """Called when the process ends: its connections break."""
        self.way = DatabaseWay(machine.simulation.server, self.run)
        self.way.set_cut(machine.is_cut)
        url = f"http://{machine.number}"
        self.ownership = Ownership(self.way.database, self, url=url, version="1", lease_ms=plan.lease_ms)
        self.ownership.taken = self._taken
        self.ownership.quiesce = self._quiesce
        self.ownership.farewell = self._farewell
        self.ownership.fenced = machine.rebuild
        self.links = InsideLinks(self)
        self.routes = Routes(self.ownership, self.links, self, self)
        self.gateway_links = GatewayLinks(self.ownership, self.links, self)
        self.gateway: Gateway | None = None
        self.handover = GatewayHandover(self.ownership, self.links, self.routes, self)
        self.handover.make_room = self._make_room
        self.handover.is_busy = self._is_busy
        self.handover.rested, self.handover.resumed = self.gateway_links.hold, self._resumed
        self.store: SharedStore | None = None
        self.replica: Replica | None = None
        self.driver: Driver | None = None
        self.shards: ShardHandover | None = None
        self.is_closed = False
        """To clients, whose next requests wait."""
        self._asked = 0
        """By clients, and not answered yet."""

    def begin(self) -> None:
        self.ownership.open(self._opened)

    @property
    def session(self) -> int:
        return self.ownership.session

    def _opened(self) -> None:
        try:
            sequence, position = self.way.database.position()
        except StoreError:
            self.call_later(AGAIN_MS, self._opened)
            return
        self.store = SharedStore(
            self.way.database,
            self.session,
            ME,
            schedule=self.soon,
            pause=self._later,
            reached=Reached(Verdict.DONE, sequence, position),
            on_fenced=self.ownership.end,
        )
        self.ownership.start()

    def hang_up(self) -> None:
        self.ownership.stop()
        if self.gateway is not None:
            self.gateway.stop()
        if self.store is not None:
            self.store.close()
        for hang_up in self.hang_ups:
            self.world.after(0, hang_up)

    # Shards that come and go

    def _taken(self, shards: Sequence[int], then: Action) -> None:
        assert self.store is not None
        self.store.own(shards, partial(self._build, shards, then))

    def _build(self, shards: Sequence[int], then: Action) -> None:
        """The replica, as soon as there is a configuration: the owner of the system shard makes the first."""
        assert self.store is not None
        leads = SYSTEM_SHARD in shards
        if leads and self.replica is not None:
            self._promote(then, self.now_ms() + PROMOTION_MS)
            return
        if self.replica is None:
            try:
                self._build_replica(follows=not leads)
            except StoreError:
                self.call_later(AGAIN_MS, partial(self._build, shards, then))
                return
        self.judge.look()
        then()

    def _promote(self, then: Action, deadline_ms: float) -> None:
        """As `server.serve`: what is under way has half a second to end; then a gateway's node takes the place of the
        one that followed another."""
        assert self.replica is not None
        if self._is_busy() and self.now_ms() < deadline_ms:
            self.call_later(LOOK_MS, partial(self._promote, then, deadline_ms))
            return
        self.replica.retire()
        self._build_replica(follows=False)
        self.judge.look()
        then()
        self.handover.take_up()

    def _build_replica(self, *, follows: bool) -> None:
        plan = self.simulation.plan
        assert self.store is not None
        replica = Replica(ME, self.store, self.simulation.config, self.judge.alarm, follows=follows)
        self.store.config_epoch = replica.config.epoch
        replica.watchers.append(self._watch)
        replica.config_watchers.append(self._configured)
        self.replica = replica
        self.driver = Driver(replica, self, self, self, plan.timing, self.judge.alarm)
        self.driver.routes = self.routes
        self.shards = ShardHandover(self.driver, self.store.when_durable, self, self.routes.runs)
        if not follows:
            self._build_gateway(self.store, replica)

    def _build_gateway(self, store: SharedStore, replica: Replica) -> None:
        self.gateway = Gateway(
            self.ownership,
            self.links,
            self,
            PeerLinks(self),
            self,
            me=ME,
            config=lambda: replica.config,
            when_durable=store.when_durable,
        )
        replica.rest_first = self.gateway.rest_first
        self.gateway.start()

    def _configured(self, _key: bytes, _before: KeyState, _after: KeyState) -> None:
        assert self.store is not None
        assert self.replica is not None
        self.store.config_epoch = self.replica.config.epoch

    def _watch(self, key: bytes, before: KeyState, after: KeyState) -> None:
        assert self.store is not None
        assert self.replica is not None
        if key < FIRST_SYSTEM_KEY:
            self.judge.began(self.session, key, self.replica.config.epoch)
            self.store.when_durable(partial(self.judge.reported, self.session, key, before, after))

    def _quiesce(self, shard: int, done: Callable[[bool], None]) -> None:
        if self.shards is None:
            self._quiesced(shard, done, True)
        else:
            self.shards.quiesce(shard, partial(self._quiesced, shard, done))

    def _quiesced(self, shard: int, done: Callable[[bool], None], is_at_rest: bool) -> None:
        assert self.store is not None
        if is_at_rest:
            self.store.disown([shard])
        done(is_at_rest)

    # The gateway leaves

    def _farewell(self, then: Callable[[int], None]) -> None:
        """As `server.serve`."""
        if self.gateway is not None:
            heir = next(iter(self.ownership.heirs()), 0)
            self.handover.announce(heir, partial(self._announced, heir, then))
        else:
            self._close(partial(self._end, then, 0))

    def _announced(self, heir: int, then: Callable[[int], None], is_ready: bool) -> None:
        end = partial(self._end, then, heir if is_ready else 0)
        self._close(partial(self.handover.let_go, end))

    def _end(self, then: Callable[[int], None], heir: int) -> None:
        assert self.store is not None
        self.store.when_durable(partial(then, heir))

    def _make_room(self, made: Action) -> None:
        self._close(made)

    def _close(self, then: Action) -> None:
        """Until all that clients have asked is answered."""
        self.is_closed = True
        if self._asked:
            self.call_later(LOOK_MS, partial(self._close, then))
        else:
            then()

    def _resumed(self) -> None:
        self.is_closed = self.machine.is_leaving
        self.gateway_links.release()

    def _is_busy(self) -> bool:
        return (self.shards is not None and self.shards.is_busy) or self.gateway_links.under_way > 0

    # What a client asks of this node

    def ask_write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        answered = self._counted(answered)
        if self.routes.is_mine(write.key):
            self.write(write, answered)
        else:
            self.routes.write(write, answered)

    def ask_read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        answered = self._counted(answered)
        if self.routes.is_mine(key):
            self.read(key, consistency, answered)
        else:
            self.routes.read(key, consistency, answered)

    def _counted(self, answered: Callable[[T], None]) -> Callable[[T], None]:
        self._asked += 1

        def answer(outcome: T) -> None:
            self._asked -= 1
            answered(outcome)

        return answer

    # What the routes serve: `datacenter.ports.ServedKeys`

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        assert self.driver is not None
        self._when_near(write.key, partial(self.driver.write, write, answered))

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        assert self.driver is not None
        self._when_near(key, partial(self.driver.read, key, consistency, answered))

    def _when_near(self, key: bytes, then: Action) -> None:
        assert self.store is not None
        assert self.replica is not None
        self.store.load(self.replica.keyspace.rows_of(key), then)

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        raise NotImplementedError("no client asks for transactions")

    def ordered_write(self, write: Write, mark: Proposal, answered: Callable[[Outcome], None]) -> None:
        raise NotImplementedError("no key belongs to transactions")

    def ordered_read(
        self, key: bytes, mark: Proposal, consistency: Consistency, answered: Callable[[ReadAnswer], None]
    ) -> None:
        raise NotImplementedError("no key belongs to transactions")

    def session_over(self, session: bytes) -> None:
        raise NotImplementedError("no client has a session")

    def handle(self, requests: Sequence[Request], answered: Callable[[Sequence[Reply]], None]) -> None:
        if self.replica is None:
            answered([NOT_OWNED] * len(requests))
        else:
            self.replica.handle_all(requests, answered)

    def hold(self, rested: Action) -> None:
        if self.replica is None:
            rested()
        else:
            self.replica.hold(rested)

    def release(self) -> None:
        if self.replica is not None:
            self.replica.release()

    # Clock, dice, transport

    def run(self, action: Action) -> None:
        self.machine.run(self, action)

    def soon(self, action: Action) -> None:
        self.world.after(0, partial(self.run, action))

    def _later(self, action: Action) -> None:
        self.call_later(AGAIN_MS, action)

    def now_ms(self) -> float:
        return self.world.now_us * self.machine.rate / 1000

    def call_later(self, delay_ms: float, then: Action) -> Event:
        return self.world.after(int(delay_ms * 1000 / self.machine.rate), partial(self.run, then))

    def uniform(self) -> float:
        return self.machine.dice.random()

    def nonce(self) -> int:
        return self.machine.dice.getrandbits(64)

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        if self.gateway is not None:
            self.simulation.network.send(self, to, requests, answered)
        else:
            self.gateway_links.send(to, requests, answered)
