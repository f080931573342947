"""Rules of placement and actors, each broken in one way."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from epoxy.actors import directory, hosting
from epoxy.actors.messages import Ensure, Question
from epoxy.actors.reservation import Reservation, Reservations, Reserved
from epoxy.actors.service import Actors
from epoxy.model.actors import Actor, ActorName, ActorState, make_id
from epoxy.placement import envoys, rows
from epoxy.placement.records import Envoy, EnvoyId
from epoxy.placement.ring import positions
from epoxy.ports import Transaction

right_expire = envoys.expire
right_ensure = directory.ensure
right_started = directory.started


def nothing(*_: object, **__: object) -> None:
    return None


def never(*_: object, **__: object) -> bool:
    return False


def withdraw_from_view(tx: Transaction, envoy: Envoy) -> None:
    """The rows on the ring stay."""
    tx.clear(rows.ping_row(envoy.pool_id, envoy.version, envoy.last_ping_ts, envoy.key))
    if envoy.places:
        envoys.count(tx, envoy, -1)


def withdraw_four(tx: Transaction, envoy: Envoy) -> None:
    """As many places as somebody thinks an envoy has, not as many as it was given."""
    tx.clear(rows.ping_row(envoy.pool_id, envoy.version, envoy.last_ping_ts, envoy.key))
    if envoy.places:
        for position in positions(envoy.key, 0, min(4, envoy.places)):
            tx.clear(rows.hash_row(envoy.pool_id, envoy.version, position, envoy.key))
        tx.clear(rows.envoy_rows(envoy.namespace, envoy.key) + rows.VIRTUAL_NODES)
        envoys.count(tx, envoy, -1)


def expire_unseeing(tx: Transaction, envoy: EnvoyId, now_ms: int, *, unless_fresh_for_ms: int | None = None) -> bool:
    """Once it was suspected, however fresh it is by now."""
    del unless_fresh_for_ms
    return right_expire(tx, envoy, now_ms)


def take_alone(self: Reservations, name: ActorName, settled: Callable[[Reservation], None]) -> None:
    """Nobody else is asked."""
    known = self.known(name)
    settled(known or Reserved(make_id(self._dice.nonce(), self._dice.nonce(), self._label)))


def answer_here(
    self: Actors, settled: Reservation, question: Question, answered: Callable[..., None], relayed: bool
) -> None:
    """Whoever owns it."""
    if isinstance(settled, Reserved):
        self._answer(question, settled.actor_id, answered)
    else:
        right_at_owner(self, settled, question, answered, relayed)


right_at_owner = Actors._at_owner


def ensure_same_id(
    tx: Transaction, reserved: bytes, fresh: bytes, name: ActorName, pool: str, given: bytes, now_ms: int
) -> tuple[Actor, bool]:
    """The next actor of a name takes the id of the first."""
    del fresh
    return right_ensure(tx, reserved, reserved, name, pool, given, now_ms)


def answer_at_once(
    self: hosting.Hosting, ask: Ensure, reserved: bytes, answered: Callable[[Actor, bool], None]
) -> None:
    """Before it is on the disk."""
    now_ms = self.placement.now_ms()
    fresh = make_id(self._dice.nonce(), self._dice.nonce(), self._label)

    def body(tx: Transaction) -> tuple[hosting.Placed, bool]:
        actor, created = directory.ensure(tx, reserved, fresh, ask.name, ask.pool, ask.input, now_ms)
        return self._assign(tx, actor, now_ms), created

    placed, created = self._store.transact(body)
    self._placed(placed)
    answered(placed[0], created)


def leave_slot(tx: Transaction, actor: Actor) -> None:
    tx.clear(directory.envoy_row(actor))


def count_again(tx: Transaction, actor: Actor) -> Actor:
    return right_started(tx, replace(actor, counted=False))


def empty_at_once(self: hosting.Hosting, envoy: EnvoyId, limit: int) -> None:
    """Another envoy may start them while this one has not stopped."""
    now_ms = self.placement.now_ms()
    for actor in directory.on_envoy(self._store.newest(), envoy, limit):
        if actor.state is ActorState.RUNNING:
            self._store.transact(partial(directory.release, actor=actor, failed=False, now_ms=now_ms))
            self._kick()


def ends_for_good(self: hosting.Hosting, envoy: EnvoyId, actor_id: bytes, generation: int, *, failed: bool) -> None:
    """A failure, too."""
    del failed

    def body(tx: Transaction) -> None:
        actor = directory.load(tx, actor_id)
        if actor is not None and directory.speaks_of(actor, envoy, generation):
            directory.destroy(tx, actor)

    self._store.transact(body)
