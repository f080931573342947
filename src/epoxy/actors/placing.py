"""Gives waiting actors to envoys, moves those of envoys that are lost or draining, and evens out the load.

What takes longer than a few milliseconds is done in turns of the event loop. Pools take turns, too: neither many
waiting actors of one pool nor a pool without room hold up another.
"""

from collections.abc import Callable
from functools import partial

from msgspec import Struct

from epoxy.actors import directory, listing
from epoxy.codec.tuple import strinc
from epoxy.model.actors import ActorEntry, ActorState
from epoxy.model.envoy_messages import Stop, ToEnvoy
from epoxy.ports import Clock, Store, Timer, Transaction
from epoxy.protocol.placement.allocator import Allocation
from epoxy.protocol.placement.balance import excesses, outdated
from epoxy.protocol.placement.config import Upgrade
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool
from epoxy.protocol.placement.service import Placement

TICK_MS = 1_000
"""Between two looks for actors that wait: as long as the first pause after a failure."""

BATCH = 64
"""Actors of a lost envoy released in one turn: a few milliseconds of the event loop."""

POOLS = 8
SHARE = 8
"""In one turn so many pools are looked at, and so many actors of each are placed."""

MOVES_AT_ONCE = 64
"""Actors of one draining envoy that are being stopped. An idle one takes a few milliseconds, so some hundred move in a
second."""


class Placed(Struct, frozen=True):
    """An actor after a transaction that may have given it to an envoy. `clean`: the generation before has ended, as its
    record says before that transaction."""

    actor: ActorEntry
    allocation: Allocation | None = None
    clean: bool = False


class Placing:
    """`lease` is the one in force; `begin` starts a generation on its envoy; `tell` sends an envoy a message. `chores`
    run with each tick."""

    def __init__(
        self,
        store: Store,
        placement: Placement,
        clock: Clock,
        lease: Callable[[], bytes | None],
        begin: Callable[[ActorEntry, bool], None],
        tell: Callable[[EnvoyId, ToEnvoy], None],
    ) -> None:
        self.pools: dict[EnvoyId, EnvoyPool] = {}
        self.draining: set[EnvoyId] = set()
        self.chores: list[Callable[[], None]] = []
        self._store = store
        self._placement = placement
        self._clock = clock
        self._lease = lease
        self._begin = begin
        self._tell = tell
        self._timer: Timer | None = None
        self._kicked = False
        self._in_round = False
        self._again = False
        self._balanced_ms = placement.now_ms()

    def start(self) -> None:
        """Also finishes what the last process left undone."""
        self._timer = self._clock.call_later(TICK_MS, self.start)
        for chore in self.chores:
            chore()
        self._upgrade()
        self.kick()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # One actor

    def assign(self, tx: Transaction, actor: ActorEntry, now_ms: int) -> Placed:
        """An envoy for an actor that waits, if there is one. Call `placed` after the commit. An actor whose home is by
        an earlier lease sleeps, until the home is confirmed."""
        lease = self._lease()
        if actor.state is not ActorState.PENDING or actor.not_before_ms > now_ms or lease is None:
            return Placed(actor)
        if actor.lease != lease:
            return Placed(directory.sleep(tx, actor))
        if directory.must_wait(tx, actor):
            return Placed(actor)
        reserve = self._placement.config.of(EnvoyPool(actor.name.namespace, actor.pool)).reserve_slots
        after, allocation = directory.assign(tx, actor, self._placement.choose, reserved=reserve)
        return Placed(after, allocation, actor.clean)

    def placed(self, placed: Placed) -> None:
        actor, allocation = placed.actor, placed.allocation
        if allocation is None:
            return
        self._placement.chosen(EnvoyPool(actor.name.namespace, actor.pool), allocation)
        if actor.state is ActorState.STARTING:
            self._store.when_durable(partial(self._begin, actor, placed.clean))

    def move(self, actor: ActorEntry) -> None:
        """Its envoy ends it, and another starts it then."""
        self._store.transact(partial(directory.move, actor=actor))
        stop = Stop(actor_id=actor.id.hex(), generation=actor.generation)
        self._store.when_durable(partial(self._tell, directory.envoy_of(actor), stop))

    # Turns of work

    def kick(self) -> None:
        """Run `_work` in a later turn of the event loop, once."""
        if not self._kicked:
            self._kicked = True
            self._clock.call_later(0, self._work)

    def _work(self) -> None:
        self._kicked = False
        self._relocate()
        if self._in_round:
            self._again = True
        else:
            self._in_round = True
            self._place(directory.PENDING, [])
        for envoy in list(self.draining):
            self._empty(envoy, MOVES_AT_ONCE)
        self._balance()

    def _relocate(self) -> None:
        """The actors of envoys that expired, a batch at a time."""
        for envoy in listing.lost(self._store.newest(), 1):
            self._placement.stamped(partial(release_lost, envoy, BATCH))
            self.kick()

    def _place(self, after: bytes | None, unfinished: list[tuple[bytes, bytes]]) -> None:
        """One turn of a round over all pools. `unfinished` have more to place, and are behind the others; pools from
        `after` on were not looked at yet."""
        turn, rest = unfinished[:POOLS], unfinished[POOLS:]
        if after is not None and len(turn) < POOLS:
            fresh = listing.pending_pools(self._store.newest(), after, POOLS - len(turn))
            after = strinc(fresh[-1]) if len(fresh) == POOLS - len(turn) else None
            turn += [(pool, pool) for pool in fresh]
        for pool, begin in turn:
            more = self._place_some(pool, begin)
            if more is not None:
                rest.append((pool, more))
        if rest or after is not None:
            self._clock.call_later(0, partial(self._place, after, rest))
            return
        self._in_round = False
        if self._again:
            self._again = False
            self.kick()

    def _place_some(self, pool: bytes, begin: bytes) -> bytes | None:
        """Of one pool. The row to go on from; None: all were looked at, or there is no room."""
        now_ms = self._placement.now_ms()
        due, more = listing.waiting(self._store.newest(), now_ms, SHARE, pool, begin)
        return more if all(self._place_one(actor.id, now_ms) for actor in due) else None

    def _place_one(self, actor_id: bytes, now_ms: int) -> bool:
        """False: its pool has no room. An actor that waits for something else counts as placed."""

        def body(tx: Transaction) -> Placed | None:
            actor = directory.load(tx, actor_id)
            return self.assign(tx, actor, now_ms) if actor is not None else None

        placed = self._store.transact(body)
        if placed is None:
            return True
        self.placed(placed)
        return placed.allocation is None or placed.allocation.envoy_key is not None

    def _empty(self, envoy: EnvoyId, limit: int) -> None:
        """Move up to `limit` actors off an envoy, those on their way among them."""
        actors = listing.on_envoy(self._store.newest(), envoy, limit)
        if not actors:
            self.draining.discard(envoy)
        for actor in actors:
            if actor.state is ActorState.RUNNING:
                self.move(actor)

    def _balance(self) -> None:
        """Move actors off envoys with too many, every `sweep_every_s`, if that is configured."""
        config = self._placement.config
        now_ms = self._placement.now_ms()
        if not config.rebalance_at_once or now_ms - self._balanced_ms < 1000 * config.sweep_every_s:
            return
        self._balanced_ms = now_ms
        for pool in set(self.pools.values()):
            view = self._store.newest()
            for excess in excesses(view, pool, config.of(pool).load_bound_percent, config.rebalance_at_once):
                self._empty(EnvoyId(pool.namespace, excess.envoy_key), excess.actors)

    def _upgrade(self) -> None:
        """Move actors to envoys of a higher version, in pools where that is configured; with each tick."""
        config = self._placement.config
        for pool in set(self.pools.values()):
            if config.of(pool).upgrade is Upgrade.MOVE:
                oldest_ms = self._placement.now_ms() - config.eligible_threshold_ms
                for each in outdated(self._store.newest(), pool, oldest_ms, MOVES_AT_ONCE):
                    self._empty(EnvoyId(pool.namespace, each.envoy_key), each.actors)


def release_lost(envoy: EnvoyId, limit: int, tx: Transaction, now_ms: int) -> None:
    """Actors of an envoy that expired, so many at a time. Whether they have ended is not known, so they stay unclean:
    the next generation of each raises its state."""
    actors = listing.on_envoy(tx, envoy, limit)
    for actor in actors:
        if actor.is_alive:
            directory.release(tx, actor, failed=False, now_ms=now_ms)
        else:
            directory.finish(tx, actor)
    if len(actors) < limit:
        directory.clear_lost(tx, envoy)
