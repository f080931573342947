"""Planted faults of placement and actors: each takes out one rule, and a judge must notice."""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from epoxy.actors import directory, hosting, listing
from epoxy.actors.calls import Calls
from epoxy.actors.home_changes import HomeChange, HomeHere
from epoxy.actors.homes import Homes, KnownHome, NotReserved, Settled, Undecided
from epoxy.actors.hosting import Hosting
from epoxy.actors.messages import Ensure, OwnerUnavailable
from epoxy.actors.placing import Placing
from epoxy.actors.service import ActorService, Asked
from epoxy.client.envoy_protocol import EnvoyProtocol
from epoxy.client.hosted import Request
from epoxy.client.watchdog import WatchedLoop
from epoxy.codec.tuple import unpack
from epoxy.model.actors import ActorEntry, ActorName, ActorState
from epoxy.model.envoy_messages import FromEnvoy, Goodbye, Ping, Start
from epoxy.model.homes import HomeRecord
from epoxy.ports import Transaction
from epoxy.protocol.placement import envoys, rows
from epoxy.protocol.placement.expiry import Holder, Lease, LostTimeouts
from epoxy.protocol.placement.records import Envoy, EnvoyId
from epoxy.protocol.placement.ring import positions
from epoxy.protocol.placement.service import Placement
from epoxy_sim.patching import Mutant, Mutants, constant, never, nothing

right_expire = envoys.expire
right_started = directory.started
right_may_take = Lease._may_take
right_start = EnvoyProtocol._start
right_leave = EnvoyProtocol._leave
right_say = EnvoyProtocol._say
right_route = ActorService._route
right_adopt = Hosting.adopt

MUTANTS = Mutants(Mutant)
mutant = MUTANTS.mutant


@mutant(envoys, "withdraw", "rows-stay", "an expiry leaves the ring as it is")
def withdraw_from_view(tx: Transaction, envoy: Envoy) -> None:
    tx.clear(rows.ping_row(envoy.pool_id, envoy.version, envoy.last_ping_ts, envoy.key))
    if envoy.places:
        envoys.count(tx, envoy, -1)


@mutant(envoys, "withdraw", "surplus-stays", "places beyond the fourth are left")
def withdraw_four(tx: Transaction, envoy: Envoy) -> None:
    """Withdraws four places instead of as many as the envoy was given."""
    tx.clear(rows.ping_row(envoy.pool_id, envoy.version, envoy.last_ping_ts, envoy.key))
    if envoy.places:
        for position in positions(envoy.key, 0, min(4, envoy.places)):
            tx.clear(rows.hash_row(envoy.pool_id, envoy.version, position, envoy.key))
        tx.clear(rows.envoy_rows(envoy.namespace, envoy.key) + rows.VIRTUAL_NODES)
        envoys.count(tx, envoy, -1)


@mutant(envoys, "expire", "expire-unseeing", "a ping in time is overlooked")
def expire_unseeing(tx: Transaction, envoy: EnvoyId, now_ms: int, *, unless_fresh_for_ms: int | None = None) -> bool:
    """Expires a suspected envoy even if it has pinged since."""
    del unless_fresh_for_ms
    return right_expire(tx, envoy, now_ms)


mutant(EnvoyProtocol, "_is_cut_off", "no-fence", "an envoy without answers goes on", since=200)(never)


@mutant(Homes, "reserve", "no-reservation", "a name is taken without asking")
def reserve_alone(self: Homes, name: ActorName, record: HomeRecord, settled: Settled) -> None:
    """Without the consensus write."""
    settled(self.known(name) or KnownHome(record=record, mine=True))


@mutant(ActorService, "_route", "everybody-hosts", "the asked node hosts the actor")
def route_here(self: ActorService, name: ActorName, asked: Asked, home: KnownHome) -> None:
    """Whichever datacenter is the home of the name."""
    lease = self.changes.lease.held()
    if lease is None:
        right_route(self, name, asked, home)
    else:
        record = replace(home.record, lease=lease)
        self.hosting.adopt(name, record, lambda actor: self._located(asked, name, HomeHere(actor=actor)))


@mutant(HomeChange, "_make_anew", "same-id", "a destroyed actor's id is used again")
def make_again(self: HomeChange, home: KnownHome, ensure: Ensure) -> None:
    """The next actor of a name gets the id of the one before."""
    record = replace(self._new_record(ensure, home.record.epoch + 1), actor_id=home.record.actor_id)

    def made(new: KnownHome | NotReserved | Undecided) -> None:
        if isinstance(new, KnownHome) and new.mine:
            self._adopt(new, fresh=True, created=True)
        else:
            self._again(new)

    self._homes.change(self._name, home, record, made)


@mutant(Hosting, "adopt", "answer-at-once", "an answer before it is durable")
def answer_at_once(
    self: Hosting, name: ActorName, record: HomeRecord, answered: Callable[[ActorEntry], None], *, fresh: bool = False
) -> None:
    told: list[ActorEntry] = []
    right_adopt(self, name, record, told.append, fresh=fresh)
    actor = directory.named(self._store.newest(), name)
    assert actor is not None
    answered(actor)


@mutant(directory, "leave", "slot-kept", "an actor that leaves keeps its slot")
def leave_slot(tx: Transaction, actor: ActorEntry) -> None:
    tx.clear(directory.envoy_row(actor))


@mutant(directory, "started", "slot-twice", "an actor that starts is counted again")
def count_again(tx: Transaction, actor: ActorEntry, now_ms: int) -> ActorEntry:
    return right_started(tx, replace(actor, counted=False), now_ms)


@mutant(Placing, "_empty", "moved-at-once", "an actor moves before it has stopped")
def empty_at_once(self: Placing, envoy: EnvoyId, limit: int) -> None:
    """Another envoy may start them before this one has stopped them."""
    now_ms = self._placement.now_ms()
    for actor in listing.on_envoy(self._store.newest(), envoy, limit):
        if actor.state is ActorState.RUNNING:
            self._store.transact(partial(directory.release, actor=actor, failed=False, now_ms=now_ms))
            self.kick()


@mutant(Hosting, "stopped", "failed-is-over", "an actor that fails is gone")
def ends_for_good(self: hosting.Hosting, envoy: EnvoyId, actor_id: bytes, generation: int, **how: Any) -> None:
    """Also after a failure."""
    del how

    def body(tx: Transaction) -> None:
        actor = directory.load(tx, actor_id)
        if actor is not None and directory.speaks_of(actor, envoy, generation):
            directory.finish(tx, directory.destroy(tx, actor))

    self._store.transact(body)


mutant(directory, "mark_lost", "lost-forgotten", "a lost envoy's actors are not moved")(nothing)
mutant(Placing, "_place", "nobody-waits", "an actor without envoy stays so")(nothing)
mutant(Hosting, "_settle", "not-told-again", "a reconnected envoy gets no orders")(nothing)
mutant(Placement, "_sweep", "no-sweep", "only envoys passed over are expired")(nothing)


@mutant(EnvoyProtocol, "_say", "ping-when-quiet", "a busy worker does not ping")
def ping_when_quiet(self: EnvoyProtocol, word: FromEnvoy) -> None:
    """Any message postpones the next ping."""
    right_say(self, word)
    if self._ping_timer is not None and self.welcome is not None and not isinstance(word, Ping):
        self._ping_timer.cancel()
        self._ping_timer = self.clock.call_later(self.welcome.ping_every_ms, self._ping)


mutant(LostTimeouts, "heard", "no-lost-timeout", "silence is left to the sweep")(nothing)


@mutant(Lease, "_may_take", "lease-kept", "a restart waits for its own lease")
def wait_for_oneself(self: Lease, held: Holder, start: int, lasts_ms: float) -> bool:
    """Waits until the lease of the process before has run out."""
    if held.owner == self._owner and held.start != start:
        held = Holder(held.owner + 1, held.start, held.renewed)
    return right_may_take(self, held, start, lasts_ms)


mutant(rows, "latest_time", "wall-clock", "time goes back with the wall clock")(constant(0))


@mutant(Placing, "_place", "namespaces-share", "namespaces starve each other")
def place_by_name(self: Placing, after: bytes | None, unfinished: list[tuple[bytes, bytes]]) -> None:
    """A pool without room is identified by its name alone, without its namespace."""
    del after, unfinished
    now_ms = self._placement.now_ms()
    starved: set[object] = set()
    for pool in listing.pending_pools(self._store.newest(), directory.PENDING, 1000):
        due, _ = listing.waiting(self._store.newest(), now_ms, 1000, pool)
        name = unpack(pool)[-1]
        if name not in starved and not all(self._place_one(actor.id, now_ms) for actor in due):
            starved.add(name)
    self._in_round = False


@mutant(directory, "started", "forgiven-at-start", "back-off never grows")
def forgive(tx: Transaction, actor: ActorEntry, now_ms: int) -> ActorEntry:
    """A start resets the back-off, before the code has run."""
    return right_started(tx, replace(actor, failures=0), now_ms)


mutant(directory, "must_wait", "successor-at-once", "the next of a name does not wait")(never)


@mutant(EnvoyProtocol, "_start", "start-beside", "a generation starts over another")
def start_beside(self: EnvoyProtocol, start: Start) -> None:
    """A new generation does not wait for the clean-up of the old one."""
    held = self._hosted.get(start.actor_id)
    if held is not None and held.generation < start.generation:
        self._cancel(held)
        del self._hosted[start.actor_id], self._named[held.name]
    right_start(self, start)


@mutant(EnvoyProtocol, "_leave", "goodbye-first", "a worker leaves its actors behind")
def goodbye_first(self: EnvoyProtocol) -> None:
    """The node starts the actors elsewhere while they clean up here."""
    self._say(Goodbye())
    right_leave(self)


mutant(envoys, "holder_of", "any-process", "a key serves two processes")(nothing)


@mutant(Calls, "lose", "lost-is-definite", "what may have run is denied")
def lose_definitely(self: Calls, envoy: EnvoyId) -> None:
    """Requests to a lost envoy count as not carried out."""
    for call in [call for call in self._open.values() if call.envoy == envoy]:
        self._end(call, OwnerUnavailable(reason="the envoy was lost"))


@mutant(Request, "fail", "failed-is-refused", "what failed counts as not seen")
def refuse_what_ran(self: Request, reason: str) -> None:
    """A request whose code failed counts as not seen."""
    self.refuse(reason)


mutant(WatchedLoop, "look", "no-watchdog", "a process that stood still goes on")(nothing)
mutant(EnvoyProtocol, "_give_up", "no-deadline", "code that was cancelled runs on")(nothing)
