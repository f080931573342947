"""The actors of this datacenter and the envoys they run on.

Every change is one transaction, and what follows from it (a message to an envoy, an answer to a client) is sent when it
is durable. A process that dies between two steps leaves rows that say what comes next. The next request, the next
connection of an envoy, or the tick goes on from there.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Protocol

from epoxy.actors import directory, listing
from epoxy.actors.calls import Calls
from epoxy.actors.envoy_lease import ended_after_ms, key_in_use, lost_after_ms, welcome
from epoxy.actors.generations import Generations
from epoxy.actors.history import ActorMoves
from epoxy.actors.local_states import LocalStates
from epoxy.actors.messages import CallActor, OwnerUnavailable, Target
from epoxy.actors.placing import Placed, Placing
from epoxy.actors.states import States
from epoxy.actors.streams import Heard, StreamEnd
from epoxy.model.actors import ActorEntry, ActorName, ActorState, parse_id
from epoxy.model.api_actors import MoveKind
from epoxy.model.envoy_messages import EnvoyHello, Stop, ToEnvoy
from epoxy.model.exchanges import HeldSocket
from epoxy.model.homes import HomeRecord
from epoxy.ports import Clock, Dice, KeyEngine, Snapshot, Store, Transaction
from epoxy.protocol.placement import records, rows
from epoxy.protocol.placement.envoys import InUse
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool
from epoxy.protocol.placement.service import Placement


class EnvoyLink(Protocol):
    """The connection to an envoy."""

    def send(self, message: ToEnvoy) -> None: ...

    def close(self, reason: str = "") -> None: ...


class Hosting:
    """`datacenter` is this one's name, `label` its number in the ids it gives out.

    `lease` returns the incarnation of the lease under which this datacenter is at home now; None: it holds none, so it
    serves no actor. By default there is one lease, for ever. `lease_left_ms`: how long no other datacenter can take an
    actor over; what is promised to an envoy (`lost_after_ms`) ends before. `when_leased` waits for a lease, for a
    while. `ended` is told of an actor whose code has returned. `wall_ms` is unix time, by which alarms are set."""

    def __init__(
        self,
        store: Store,
        placement: Placement,
        clock: Clock,
        dice: Dice,
        datacenter: str,
        label: int,
        keys: KeyEngine,
    ) -> None:
        self.lease: Callable[[], bytes | None] = lambda: b""
        self.lease_left_ms: Callable[[], float] = lambda: inf
        self.when_leased: Callable[[Callable[[bytes | None], None]], None] = lambda then: then(self.lease())
        self.fence: Callable[[Callable[[], None]], None] = lambda then: then()
        """Runs a promise to an envoy: where nodes share a store, when this one is known to be the gateway still."""
        self.lost_after_ms = lost_after_ms(placement.config.eligible_threshold_ms)
        self.ended: Callable[[ActorEntry], None] = lambda _: None
        self.pools_changed: Callable[[], None] = lambda: None
        self.wall_ms: Callable[[], int] = placement.now_ms
        self.placement = placement
        self.sessions: dict[EnvoyId, EnvoyLink] = {}
        self.calls = Calls(clock, self._why_not, self._send, self._wanted)
        self.states = States(keys, LocalStates(store), clock)
        self.generations = Generations(
            store,
            clock,
            self.states,
            lambda: self.lease(),
            lambda: self.wall_ms(),
            self._tell,
            self.wake,
            self.calls.held,
        )
        self.moves = ActorMoves(lambda: self.wall_ms())
        self.placing = Placing(store, placement, clock, lambda: self.lease(), self._begin, self._tell)
        self.placing.chores += [self._look_at_lease, self._look_at_releasing, self.generations.delete_states]
        self._store = store
        self._clock = clock
        self._dice = dice
        self._datacenter = datacenter
        self._label = label
        self._settled_by: bytes | None = None
        self._releasing: dict[bytes, list[Callable[[ActorEntry | None], None]]] = {}
        placement.leaving.append(directory.mark_lost)
        placement.expired.append(self._expired)

    def start(self) -> None:
        """Also finishes what the last process left undone."""
        self._settled_by = self.lease()
        self.placing.start()
        self.generations.alarms.start()

    def last_call(self) -> None:
        """Refuse requests that no actor has yet. Envoys stay connected, so that the others are answered."""
        self.calls.close("the node is stopping")

    def stop(self) -> None:
        self.placing.stop()
        self.generations.alarms.stop()
        for session in list(self.sessions.values()):
            session.close()

    # Requests of clients

    def get(self, target: Target) -> ActorEntry | None:
        return find(self._store.durable(), target)

    def page(
        self, namespace: str, name: str | None, after: str | None, limit: int, key_prefix: str = ""
    ) -> list[ActorEntry]:
        behind = parse_id(after) if after is not None else None
        return listing.page(self._store.durable(), namespace, name, behind, limit, key_prefix)

    def destroy(self, target: Target, answered: Callable[[ActorEntry | None], None]) -> None:
        def body(tx: Transaction) -> tuple[ActorEntry, ActorEntry] | None:
            actor = find(tx, target)
            return None if actor is None or not actor.is_alive else (actor, directory.destroy(tx, actor))

        done = self._store.transact(body)
        self._store.when_durable(lambda: self._destroyed(done, answered))

    def call(self, asked: CallActor, heard: Heard, stream: StreamEnd | None = None) -> bool:
        """False: there is no such actor."""
        actor = self.get(asked.target)
        if actor is None or not actor.is_alive:
            return False
        if not self.at_home(actor):
            heard(OwnerUnavailable(reason=f"{self._datacenter} is not the actor's home now"))
        elif self.calls.begin(actor.id, asked, heard, stream) is None:
            pass
        elif actor.state is ActorState.RUNNING:
            self._serve(actor)
        else:
            self._wanted(actor.id)
        return True

    def _wanted(self, actor_id: bytes) -> None:
        """Something waits for an actor: give it, or wake the actor. By the newest record: an actor that has just gone
        to sleep would not be woken by the durable one."""
        actor = directory.load(self._store.newest(), actor_id)
        if actor is not None and actor.state is ActorState.ASLEEP:
            self.wake(actor_id)
        elif actor is not None:
            self._store.when_durable(partial(self._serve, actor))

    def wake(self, actor_id: bytes) -> None:
        """An actor that is asleep here is started."""

        def body(tx: Transaction, now_ms: int) -> Placed | None:
            actor = directory.load(tx, actor_id)
            if actor is None or actor.state is not ActorState.ASLEEP or not self.at_home(actor):
                return None
            return self.placing.assign(tx, directory.wake(tx, actor), now_ms)

        placed = self.placement.stamped(body)
        if placed is not None:
            self.placing.placed(placed)

    def _why_not(self, actor_id: bytes) -> str:
        """Why an actor does not run. Usually the workers are in another datacenter, and a name does not move."""
        view = self._store.durable()
        actor = directory.load(view, actor_id)
        if actor is not None and directory.must_wait(view, actor):
            return "the last actor of this name was destroyed and has not ended yet on its worker"
        if (trouble := self.states.trouble.get(actor_id)) is not None:
            return f"the state of the actor could not be loaded: {trouble}"
        if actor is None or actor.state is not ActorState.PENDING or actor.failures:
            return "the actor did not start in time"
        return f"no worker of pool {actor.pool!r} in {self._datacenter}, which owns the name, had room for the actor"

    # The home: what the lease of the datacenter decides

    def at_home(self, actor: ActorEntry) -> bool:
        """Whether the lease under which this datacenter became the home of the actor is in force."""
        return actor.lease == self.lease()

    def fenced(self) -> None:
        """The lease is over: another datacenter may take over any actor. Stop those that run here, end the requests
        that wait, let no answer pass. The rows stay; each actor is at home again when `adopt` says so."""
        self.calls.abandon(f"{self._datacenter} has lost its lease as a home of actors")
        self._stop_strangers()

    def leased(self) -> None:
        """A lease is in force, perhaps another than before: actors that run under it are served, others are stopped.
        Noticed by a tick, too."""
        self._settled_by = self.lease()
        self._stop_strangers()
        for envoy in self.sessions:
            for actor in listing.all_on_envoy(self._store.newest(), envoy):
                self._serve(actor)
        self.placing.kick()

    def _look_at_lease(self) -> None:
        if self.lease() not in (None, self._settled_by):
            self.leased()

    def _stop_strangers(self) -> None:
        """Whose home is not this datacenter by the lease in force. Their rows say that they move, until they end."""
        for envoy in self.sessions:
            for actor in listing.all_on_envoy(self._store.newest(), envoy):
                if self.at_home(actor):
                    continue
                if actor.is_alive:
                    self.placing.move(actor)
                else:
                    self._send(envoy, Stop(actor_id=actor.id.hex(), generation=actor.generation))

    def forget_alarm(self, actor_id: bytes) -> None:
        """Of an actor that has its home elsewhere now."""

        def body(tx: Transaction) -> None:
            actor = directory.load(tx, actor_id)
            if actor is not None and not self.at_home(actor):
                directory.set_alarm(tx, actor, 0, 0)

        self._store.transact(body)

    def pools(self) -> set[EnvoyPool]:
        """Those with envoys here."""
        return set(self.placing.pools.values())

    def adopt(
        self, name: ActorName, record: HomeRecord, answered: Callable[[ActorEntry], None], *, fresh: bool = False
    ) -> None:
        """This datacenter is the home of a name, by this record and under the lease in it. The actor is given an envoy,
        and starts with the state it has left anywhere, raised. `fresh`: this very record made it, so it has none."""

        def body(tx: Transaction, now_ms: int) -> Placed:
            return self.placing.assign(tx, directory.adopt(tx, name, record, fresh=fresh), now_ms)

        placed = self.placement.stamped(body)
        actor = placed.actor
        self.moves.note("home", actor)
        self.placing.placed(placed)
        if actor.state is ActorState.MOVING:
            stop = Stop(actor_id=actor.id.hex(), generation=actor.generation)
            self._store.when_durable(partial(self._tell, directory.envoy_of(actor), stop))
        self._store.when_durable(lambda: answered(actor))

    def release(self, actor_id: bytes, done: Callable[[ActorEntry | None], None]) -> None:
        """End an actor here, cleanly, so that it can move to another datacenter; `done` when it is on no envoy and no
        save of it is under way. It is at home nowhere then, until a record with a later epoch is adopted. None: there
        is no such actor, or it was destroyed meanwhile."""

        def body(tx: Transaction) -> ActorEntry | None:
            actor = directory.load(tx, actor_id)
            return directory.give_up(tx, actor) if actor is not None and actor.is_alive else None

        actor = self._store.transact(body)
        if actor is None:
            self._store.when_durable(lambda: done(None))
            return
        self._releasing.setdefault(actor_id, []).append(done)
        self.moves.note("left", actor)
        self._look_at_released(actor_id)
        if actor.envoy_key is not None:
            stop = Stop(actor_id=actor_id.hex(), generation=actor.generation)
            self._store.when_durable(partial(self._tell, directory.envoy_of(actor), stop))

    def _look_at_releasing(self) -> None:
        """Those whose envoy was lost, too."""
        for actor_id in list(self._releasing):
            self._look_at_released(actor_id)

    def _look_at_released(self, actor_id: bytes) -> None:
        actor = directory.load(self._store.newest(), actor_id) if actor_id in self._releasing else None
        if actor is not None and actor.envoy_key is None and not self.states.is_saving(actor_id):
            for done in self._releasing.pop(actor_id):
                self._store.when_durable(partial(done, actor if actor.is_alive else None))

    # Messages of envoys

    def connect(self, hello: EnvoyHello, session: EnvoyLink) -> EnvoyId:
        """Raises InvalidRequest. A second connection of an envoy takes the place of the first; a second process under
        the same key is refused until the first is lost."""
        said, held = introduced(hello)
        envoy = said.id
        connected = self.placement.connect(said)
        if isinstance(connected, InUse):
            raise key_in_use(self.placement, envoy, connected, is_connected=envoy in self.sessions)
        before = self.sessions.get(envoy)
        if before is not None:
            self.calls.lose(envoy)
            before.close()
        self.sessions[envoy] = session
        self.placing.pools[envoy] = EnvoyPool(said.namespace, said.pool)
        self.generations.local_kinds[envoy] = frozenset(kind.name for kind in hello.kinds if kind.local)
        self._store.transact(lambda tx: directory.clear_lost(tx, envoy))
        self._store.when_durable(partial(self._welcome, envoy, session, held))
        self.pools_changed()
        return envoy

    def ping(self, envoy: EnvoyId, rtt_ms: int) -> bool:
        """False: it has expired, and must connect again."""
        return self.placement.ping(envoy, rtt_ms)

    def may_promise(self) -> bool:
        """Whether an envoy may go on without another answer until it stops its actors by itself: they must have ended
        while the lease of this datacenter lasts, their clean-up included."""
        return self.lease_left_ms() >= ended_after_ms(self.lost_after_ms)

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
            self._store.when_durable(partial(self._started, actor))

    def _started(self, actor: ActorEntry) -> None:
        self.generations.tell_alarm(actor)
        self._serve(actor)

    def stopped(
        self,
        envoy: EnvoyId,
        actor_id: bytes,
        generation: int,
        *,
        failed: bool,
        cancelled: bool = False,
        asleep: bool = False,
        sockets: tuple[HeldSocket, ...] = (),
        destroyed: bool = False,
    ) -> None:
        """The actor ended: for ever, if its code returned or wants that, or until it is needed, if it sleeps. Otherwise
        another envoy starts it again, after a failure of its code with a pause."""
        actor = directory.load(self._store.newest(), actor_id)
        if actor is None or not directory.speaks_of(actor, envoy, generation):
            return
        ended = self.generations.ended(actor)

        def body(tx: Transaction, now_ms: int) -> Placed:
            moving = ended.state is ActorState.MOVING
            if ended.is_alive and (asleep or not self.at_home(ended)):
                return Placed(directory.sleep(tx, ended))
            if not ended.is_alive or destroyed or not (moving or failed):
                return Placed(directory.finish(tx, directory.destroy(tx, ended)))
            fault = failed and not moving and not cancelled
            return self.placing.assign(tx, directory.release(tx, ended, failed=fault, now_ms=now_ms), now_ms)

        placed = self.placement.stamped(body)
        self.moves.note(end_of(ended, placed.actor, asleep=asleep, failed=failed and not cancelled), ended)
        self.calls.stopped(envoy, actor_id, generation, sockets if asleep else ())
        self.placing.placed(placed)
        self._after_end(envoy, placed.actor)

    def _after_end(self, envoy: EnvoyId, actor: ActorEntry) -> None:
        self._look_at_released(actor.id)
        if not actor.is_alive:
            self.calls.refuse(actor.id, "the actor has ended")
            self._store.when_durable(partial(self.ended, actor))
            self.placing.kick()
        elif actor.state is ActorState.ASLEEP and self.calls.waits(actor.id):
            self.wake(actor.id)
        if envoy in self.placing.draining or actor.state is ActorState.ASLEEP:
            self.placing.kick()

    def drain(self, envoy: EnvoyId) -> bool:
        """The envoy gets no new actors, and those it has move, a limited number at a time."""
        drained = self.placement.drain(envoy)
        if drained:
            self.placing.draining.add(envoy)
            self.placing.kick()
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

    # Starting and stopping

    def _begin(self, actor: ActorEntry, clean: bool) -> None:
        self.moves.note("started", actor)
        self.generations.begin(actor, clean)

    def _destroyed(
        self, done: tuple[ActorEntry, ActorEntry] | None, answered: Callable[[ActorEntry | None], None]
    ) -> None:
        if done is None:
            answered(None)
            return
        before, after = done
        self.moves.note("destroyed", before)
        if before.envoy_key is not None:
            self._send(directory.envoy_of(before), Stop(actor_id=before.id.hex(), generation=before.generation))
        self.calls.refuse(before.id, "the actor was destroyed")
        answered(after)

    def _welcome(self, envoy: EnvoyId, session: EnvoyLink, held: dict[bytes, int]) -> None:
        """Start the actors it should have and has not; stop those it has and should not have."""
        if self.sessions.get(envoy) is not session:
            return
        session.send(welcome(self._datacenter, self.placement.config.eligible_threshold_ms, self.lost_after_ms))
        for actor in listing.all_on_envoy(self._store.newest(), envoy):
            self._settle(envoy, actor, has_it=held.pop(actor.id, None) == actor.generation)
        for actor_id, generation in held.items():
            session.send(Stop(actor_id=actor_id.hex(), generation=generation))
        known = rows.load(self._store.newest(), envoy.namespace, envoy.key)
        if known is not None and known.draining_ts is not None:
            self.placing.draining.add(envoy)
        self.placing.kick()

    def _settle(self, envoy: EnvoyId, actor: ActorEntry, *, has_it: bool) -> None:
        """A generation that was begun is not begun again, because the numbers of its saves would be: one that an envoy
        has not is ended first. If it was never reported to run, its start may still wait there for an earlier one."""
        strange = self.lease() is not None and not self.at_home(actor)
        match actor.state, has_it:
            case ActorState.MOVING | ActorState.DESTROYED, False:
                self.stopped(envoy, actor.id, actor.generation, failed=False)
            case ActorState.RUNNING, False:
                self.stopped(envoy, actor.id, actor.generation, failed=True, cancelled=True)
            case _, False:
                self.placing.move(actor)
            case ActorState.MOVING | ActorState.DESTROYED, True:
                self._send(envoy, Stop(actor_id=actor.id.hex(), generation=actor.generation))
            case _ if strange:
                self._send(envoy, Stop(actor_id=actor.id.hex(), generation=actor.generation))
            case _:
                self.running(envoy, actor.id, actor.generation)

    def _serve(self, actor: ActorEntry) -> None:
        if actor.state is ActorState.RUNNING and self.at_home(actor):
            self.calls.give(actor, directory.envoy_of(actor))

    def _send(self, envoy: EnvoyId, message: ToEnvoy) -> bool:
        """A message to an envoy that is not connected is dropped: when it connects, the rows tell what to send."""
        session = self.sessions.get(envoy)
        if session is not None:
            session.send(message)
        return session is not None

    def _tell(self, envoy: EnvoyId, message: ToEnvoy) -> None:
        self._send(envoy, message)

    def _expired(self, envoy: EnvoyId) -> None:
        session = self.sessions.pop(envoy, None)
        self.placing.draining.discard(envoy)
        self.placing.pools.pop(envoy, None)
        self.pools_changed()
        self.generations.local_kinds.pop(envoy, None)
        self.calls.lose(envoy)
        if session is not None:
            session.close()
        self.placing.kick()


def end_of(before: ActorEntry, after: ActorEntry, *, asleep: bool, failed: bool) -> MoveKind:
    """How an actor ended on its worker. One that was destroyed by a client, or moves, just ended."""
    if before.state in (ActorState.DESTROYED, ActorState.MOVING):
        return "ended"
    if not after.is_alive:
        return "destroyed"
    return "asleep" if asleep else "failed" if failed else "ended"


def introduced(hello: EnvoyHello) -> tuple[records.EnvoyRegistration, dict[bytes, int]]:
    """Who says it, and the generations of the actors that run there, by their ids. Raises InvalidRequest."""
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
    return said, {parse_id(each.actor_id): each.generation for each in hello.running}


def find(view: Snapshot, target: Target) -> ActorEntry | None:
    return directory.load(view, parse_id(target)) if isinstance(target, str) else directory.named(view, target)
