"""The actors of this datacenter and the envoys they run on.

Every change is one transaction, and what follows from it (a message to an envoy, an answer to a client) is sent when it
is durable. A process that dies between two steps leaves rows that say what comes next. The next request, the next
connection of an envoy, or the tick goes on from there.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from epoxy.actors import directory
from epoxy.actors.calls import Calls, Heard
from epoxy.actors.messages import Ensure, Target
from epoxy.model.actors import (
    ActorEntry,
    ActorRequest,
    ActorState,
    EnvoyHello,
    Start,
    Stop,
    ToEnvoy,
    Welcome,
    make_id,
    parse_id,
)
from epoxy.ports import Clock, Dice, Snapshot, Store, Timer, Transaction
from epoxy.protocol.placement import records, rows
from epoxy.protocol.placement.allocator import Allocation
from epoxy.protocol.placement.balance import excesses
from epoxy.protocol.placement.envoys import InUse
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool, KeyInUse
from epoxy.protocol.placement.service import Placement

TICK_MS = 1_000
"""Between two looks for actors that wait: as long as the first pause after a failure."""

BATCH = 64
"""Actors moved or placed in one go: a few milliseconds of the event loop."""

MOVES_AT_ONCE = 32
"""Actors of one draining envoy that are between two envoys."""

PINGS = 4
"""Within the time after which an envoy counts as lost: three may get lost."""

SILENT_PINGS = 2
"""After so many missed, the process behind an open connection may be dead."""

LOST_PERCENT = 80
"""Of that time, after which an envoy without an answer stops its actors. The rest is for clocks of different speed, and
for stopping."""

Placed = tuple[ActorEntry, Allocation | None]


class EnvoyLink(Protocol):
    """The connection to an envoy."""

    def send(self, message: ToEnvoy) -> None: ...

    def close(self, reason: str = "") -> None: ...


class Hosting:
    """`datacenter` is this one's name, `label` its number in the ids it gives out."""

    def __init__(
        self, store: Store, placement: Placement, clock: Clock, dice: Dice, datacenter: str, label: int
    ) -> None:
        self.placement = placement
        self.sessions: dict[EnvoyId, EnvoyLink] = {}
        self.calls = Calls(clock, self._why_not)
        self._store = store
        self._clock = clock
        self._dice = dice
        self._datacenter = datacenter
        self._label = label
        self._pools: dict[EnvoyId, EnvoyPool] = {}
        self._draining: set[EnvoyId] = set()
        self._timer: Timer | None = None
        self._kicked = False
        self._balanced_ms = placement.now_ms()
        placement.leaving.append(directory.mark_lost)
        placement.expired.append(self._expired)

    def start(self) -> None:
        """Also finishes what the last process left undone."""
        self._tick()

    def last_call(self) -> None:
        """Refuse requests that no actor has yet. Envoys stay connected, so that the others are answered."""
        self.calls.close("the node is stopping")

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for session in list(self.sessions.values()):
            session.close()

    # Requests of clients

    def ensure(self, ask: Ensure, reserved: bytes, answered: Callable[[ActorEntry, bool], None]) -> None:
        """The actor of a name that this datacenter owns. If it has no envoy, it gets one."""
        fresh, now_ms = make_id(self._dice.nonce(), self._dice.nonce(), self._label), self.placement.now_ms()

        def body(tx: Transaction) -> tuple[Placed, bool]:
            actor, created = directory.ensure(tx, reserved, fresh, ask.name, ask.pool, ask.input, now_ms)
            return self._assign(tx, actor, now_ms), created

        placed, created = self._store.transact(body)
        self._placed(placed)
        self._store.when_durable(lambda: answered(placed[0], created))

    def get(self, target: Target) -> ActorEntry | None:
        return find(self._store.durable(), target)

    def page(self, namespace: str, name: str | None, after: str | None, limit: int) -> list[ActorEntry]:
        behind = parse_id(after) if after is not None else None
        return directory.page(self._store.durable(), namespace, name, behind, limit)

    def destroy(self, target: Target, answered: Callable[[ActorEntry | None], None]) -> None:
        def body(tx: Transaction) -> tuple[ActorEntry, ActorEntry] | None:
            actor = find(tx, target)
            return None if actor is None or not actor.is_alive else (actor, directory.destroy(tx, actor))

        done = self._store.transact(body)
        self._store.when_durable(lambda: self._destroyed(done, answered))

    def call(self, target: Target, payload: bytes, heard: Heard) -> bool:
        """False: there is no such actor."""
        actor = self.get(target)
        if actor is None or not actor.is_alive:
            return False
        if self.calls.begin(actor.id, payload, heard) is not None:
            self._serve(actor)
        return True

    def _why_not(self, actor_id: bytes) -> str:
        """Why an actor does not run. Usually the workers are in another datacenter, and a name does not move."""
        view = self._store.durable()
        actor = directory.load(view, actor_id)
        if actor is not None and directory.must_wait(view, actor):
            return "the last actor of this name was destroyed and has not ended yet on its worker"
        if actor is None or actor.state is not ActorState.PENDING or actor.failures:
            return "the actor did not start in time"
        return f"no worker of pool {actor.pool!r} in {self._datacenter}, which owns the name, had room for the actor"

    # Messages of envoys

    def connect(self, hello: EnvoyHello, session: EnvoyLink) -> EnvoyId:
        """Raises InvalidRequest. A second connection of an envoy takes the place of the first; a second process under
        the same key is refused until the first is lost."""
        said = records.EnvoyRegistration(
            namespace=hello.namespace,
            pool=hello.pool,
            envoy_key=hello.envoy_key,
            version=hello.version,
            protocol_version=hello.protocol_version,
            weight=hello.weight,
            capacity=hello.slots,
            incarnation=hello.incarnation,
        )
        held = {parse_id(each.actor_id): each.generation for each in hello.running}
        envoy = said.id
        connected = self.placement.connect(said)
        if isinstance(connected, InUse):
            raise self._key_in_use(envoy, connected)
        before = self.sessions.get(envoy)
        if before is not None:
            self.calls.lose(envoy)
            before.close()
        self.sessions[envoy] = session
        self._pools[envoy] = EnvoyPool(said.namespace, said.pool)
        self._store.transact(lambda tx: directory.clear_lost(tx, envoy))
        self._store.when_durable(partial(self._welcome, envoy, session, held))
        return envoy

    def _key_in_use(self, envoy: EnvoyId, other: InUse) -> KeyInUse:
        """An open connection whose process is silent may belong to a host that lost its power: the worker may retry."""
        ago_ms, threshold_ms = self.placement.now_ms() - other.last_ping_ts, self.placement.config.eligible_threshold_ms
        told = f"key {envoy.key!r} in namespace {envoy.namespace!r} is in use by {other.holder}"
        if envoy in self.sessions and ago_ms <= SILENT_PINGS * threshold_ms // PINGS:
            return KeyInUse(f"{told}, which is connected; give each worker process a key of its own", retry=False)
        gone = "is connected but silent" if envoy in self.sessions else "is not connected any more"
        free = f"the key is free when that counts as lost, within {threshold_ms / 1000:g} s"
        return KeyInUse(f"{told}, which {gone}; {free}", retry=True)

    def ping(self, envoy: EnvoyId, rtt_ms: int) -> bool:
        """False: it has expired, and must connect again."""
        return self.placement.ping(envoy, rtt_ms)

    def running(self, envoy: EnvoyId, actor_id: bytes, generation: int) -> None:
        def body(tx: Transaction, now_ms: int) -> ActorEntry | None:
            actor = directory.load(tx, actor_id)
            if actor is None or not actor.is_alive or not directory.speaks_of(actor, envoy, generation):
                return None
            return directory.started(tx, actor, now_ms)

        actor = self.placement.stamped(body)
        if actor is None:
            stop = Stop(actor_id=actor_id.hex(), generation=generation)
            self._store.when_durable(partial(self._tell, envoy, stop))
        else:
            self._store.when_durable(partial(self._serve, actor))

    def stopped(
        self, envoy: EnvoyId, actor_id: bytes, generation: int, *, failed: bool, cancelled: bool = False
    ) -> None:
        """The actor ended: for ever, if its code returned. Otherwise another envoy starts it again, after a failure of
        its code with a pause."""

        def body(tx: Transaction, now_ms: int) -> Placed | None:
            actor = directory.load(tx, actor_id)
            if actor is None or not directory.speaks_of(actor, envoy, generation):
                return None
            moving = actor.state is ActorState.MOVING
            if not actor.is_alive or not (moving or failed):
                return directory.finish(tx, directory.destroy(tx, actor)), None
            fault = failed and not moving and not cancelled
            return self._assign(tx, directory.release(tx, actor, failed=fault, now_ms=now_ms), now_ms)

        placed = self.placement.stamped(body)
        if placed is not None:
            self._placed(placed)
            if not placed[0].is_alive:
                self.calls.refuse(actor_id, "the actor has ended")
                self._kick()

    def drain(self, envoy: EnvoyId) -> bool:
        """The envoy gets no new actors, and those it has move, a limited number at a time."""
        drained = self.placement.drain(envoy)
        if drained:
            self._draining.add(envoy)
            self._kick()
        return drained

    def leave(self, envoy: EnvoyId, session: EnvoyLink) -> None:
        """For good."""
        if self.sessions.get(envoy) is session:
            self.placement.expire(envoy)

    def disconnected(self, envoy: EnvoyId, session: EnvoyLink) -> None:
        """It may connect again. If not, placement expires it when its last ping is too old."""
        if self.sessions.get(envoy) is session:
            del self.sessions[envoy]
            self.calls.lose(envoy)

    # Placing, starting and stopping

    def _assign(self, tx: Transaction, actor: ActorEntry, now_ms: int) -> Placed:
        if actor.state is not ActorState.PENDING or actor.not_before_ms > now_ms or directory.must_wait(tx, actor):
            return actor, None
        reserve = self.placement.config.of(EnvoyPool(actor.name.namespace, actor.pool)).reserve_slots
        return directory.assign(tx, actor, self.placement.choose, reserved=reserve)

    def _placed(self, placed: Placed) -> None:
        actor, allocation = placed
        if allocation is None:
            return
        self.placement.chosen(EnvoyPool(actor.name.namespace, actor.pool), allocation)
        if actor.state is ActorState.STARTING:
            self._store.when_durable(partial(self._tell, directory.envoy_of(actor), start(actor)))

    def _destroyed(
        self, done: tuple[ActorEntry, ActorEntry] | None, answered: Callable[[ActorEntry | None], None]
    ) -> None:
        if done is None:
            answered(None)
            return
        before, after = done
        if before.envoy_key is not None:
            self._send(directory.envoy_of(before), Stop(actor_id=before.id.hex(), generation=before.generation))
        self.calls.refuse(before.id, "the actor was destroyed")
        answered(after)

    def _welcome(self, envoy: EnvoyId, session: EnvoyLink, held: dict[bytes, int]) -> None:
        """Start the actors it should have and has not; stop those it has and should not have."""
        if self.sessions.get(envoy) is not session:
            return
        threshold_ms = self.placement.config.eligible_threshold_ms
        session.send(
            Welcome(
                datacenter=self._datacenter,
                ping_every_ms=threshold_ms // PINGS,
                lost_after_ms=threshold_ms * LOST_PERCENT // 100,
            )
        )
        for actor in directory.all_on_envoy(self._store.newest(), envoy):
            self._settle(envoy, actor, has_it=held.pop(actor.id, None) == actor.generation)
        for actor_id, generation in held.items():
            session.send(Stop(actor_id=actor_id.hex(), generation=generation))
        known = rows.load(self._store.newest(), envoy.namespace, envoy.key)
        if known is not None and known.draining_ts is not None:
            self._draining.add(envoy)
        self._kick()

    def _settle(self, envoy: EnvoyId, actor: ActorEntry, *, has_it: bool) -> None:
        match actor.state, has_it:
            case ActorState.MOVING | ActorState.DESTROYED, True:
                self._send(envoy, Stop(actor_id=actor.id.hex(), generation=actor.generation))
            case ActorState.MOVING | ActorState.DESTROYED, False:
                self.stopped(envoy, actor.id, actor.generation, failed=False)
            case _, True:
                self.running(envoy, actor.id, actor.generation)
            case _:
                self._send(envoy, start(actor))

    def _serve(self, actor: ActorEntry) -> None:
        if actor.state is ActorState.RUNNING:
            self.calls.give(actor, directory.envoy_of(actor), self._send)

    def _send(self, envoy: EnvoyId, message: ToEnvoy | ActorRequest) -> bool:
        """A message to an envoy that is not connected is dropped: when it connects, the rows tell what to send."""
        session = self.sessions.get(envoy)
        if session is not None:
            session.send(message)
        return session is not None

    def _expired(self, envoy: EnvoyId) -> None:
        session = self.sessions.pop(envoy, None)
        self._draining.discard(envoy)
        self._pools.pop(envoy, None)
        self.calls.lose(envoy)
        if session is not None:
            session.close()
        self._kick()

    # The tick

    def _tick(self) -> None:
        self._timer = self._clock.call_later(TICK_MS, self._tick)
        self._kick()

    def _kick(self) -> None:
        """Run `_work` in a later turn of the event loop, once."""
        if not self._kicked:
            self._kicked = True
            self._clock.call_later(0, self._work)

    def _work(self) -> None:
        self._kicked = False
        self._relocate()
        self._place(directory.PENDING)
        for envoy in list(self._draining):
            self._empty(envoy, MOVES_AT_ONCE)
        self._balance()

    def _relocate(self) -> None:
        """The actors of envoys that expired, a batch at a time."""
        for envoy in directory.lost(self._store.newest(), 1):
            self.placement.stamped(partial(release_lost, envoy))
            self._kick()

    def _place(self, after: bytes) -> None:
        now_ms = self.placement.now_ms()
        due, more = directory.waiting(self._store.newest(), now_ms, BATCH, after)
        starved: set[EnvoyPool] = set()
        for actor in due:
            pool = EnvoyPool(actor.name.namespace, actor.pool)
            if pool not in starved and not self._place_one(actor.id, now_ms):
                starved.add(pool)
        if more is not None:
            self._clock.call_later(0, lambda: self._place(more))

    def _place_one(self, actor_id: bytes, now_ms: int) -> bool:
        """False: its pool has no room. An actor that waits for something else counts as placed."""

        def body(tx: Transaction) -> Placed | None:
            actor = directory.load(tx, actor_id)
            return self._assign(tx, actor, now_ms) if actor is not None else None

        placed = self._store.transact(body)
        if placed is None:
            return True
        self._placed(placed)
        allocation = placed[1]
        return allocation is None or allocation.envoy_key is not None

    def _empty(self, envoy: EnvoyId, limit: int) -> None:
        """Move up to `limit` actors off an envoy, those on their way among them."""
        actors = directory.on_envoy(self._store.newest(), envoy, limit)
        if not actors:
            self._draining.discard(envoy)
        for actor in actors:
            if actor.state is ActorState.RUNNING:
                self._store.transact(partial(directory.move, actor=actor))
                stop = Stop(actor_id=actor.id.hex(), generation=actor.generation)
                self._store.when_durable(partial(self._tell, envoy, stop))

    def _tell(self, envoy: EnvoyId, message: ToEnvoy) -> None:
        self._send(envoy, message)

    def _balance(self) -> None:
        """Move actors off envoys with too many, every `sweep_every_s`, if that is configured."""
        config = self.placement.config
        now_ms = self.placement.now_ms()
        if not config.rebalance_at_once or now_ms - self._balanced_ms < 1000 * config.sweep_every_s:
            return
        self._balanced_ms = now_ms
        for pool in set(self._pools.values()):
            view = self._store.newest()
            for excess in excesses(view, pool, config.of(pool).load_bound_percent, config.rebalance_at_once):
                self._empty(EnvoyId(pool.namespace, excess.envoy_key), excess.actors)


def find(view: Snapshot, target: Target) -> ActorEntry | None:
    return directory.load(view, parse_id(target)) if isinstance(target, str) else directory.named(view, target)


def start(actor: ActorEntry) -> Start:
    name = actor.name
    return Start(
        actor_id=actor.id.hex(),
        generation=actor.generation,
        namespace=name.namespace,
        name=name.name,
        key=name.key,
        input=actor.input,
    )


def release_lost(envoy: EnvoyId, tx: Transaction, now_ms: int) -> None:
    actors = directory.on_envoy(tx, envoy, BATCH)
    for actor in actors:
        if actor.is_alive:
            directory.release(tx, actor, failed=False, now_ms=now_ms)
        else:
            directory.finish(tx, actor)
    if len(actors) < BATCH:
        directory.clear_lost(tx, envoy)
