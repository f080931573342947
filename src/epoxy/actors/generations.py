"""One generation of an actor, from its start to its end: it is started with its state, and its saves are taken while it
is in force.

A generation is in force while its actor's record names it and its envoy, and the datacenter holds the lease under which
it is the actor's home.
"""

from collections.abc import Callable
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from epoxy.actors import directory, listing
from epoxy.actors.alarms import AGAIN_MS, Alarms
from epoxy.actors.states import LoadedState, SaveDone, SaveFenced, SaveNotDone, SaveVerdict, States, StateSave
from epoxy.model.actors import ActorEntry, ActorState, parse_id
from epoxy.model.envoy_messages import AlarmDue, Saved, SaveRefused, SaveState, Start, ToEnvoy
from epoxy.model.errors import InvalidRequest
from epoxy.model.exchanges import HeldSocket
from epoxy.model.homes import MAX_DOCUMENT_BYTES, StateRecord
from epoxy.ports import Clock, Store, Transaction
from epoxy.protocol.placement.records import EnvoyId

DELETIONS_AT_ONCE = 64
"""States of destroyed actors that are being deleted: a quarter of the saves, which matter more."""

MOST = 2**63 - 1
"""Of a version, a number or a time."""


class Generations:
    """`lease` is the one in force; `tell` sends a message to an envoy, if it is connected; `wake` gives an actor that
    is asleep to an envoy; `sockets` are held for it meanwhile."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        states: States,
        lease: Callable[[], bytes | None],
        wall_ms: Callable[[], int],
        tell: Callable[[EnvoyId, ToEnvoy], None],
        wake: Callable[[bytes], None],
        sockets: Callable[[bytes], tuple[HeldSocket, ...]],
    ) -> None:
        self.states = states
        self.alarms = Alarms(store, clock, wall_ms, self._ring)
        self.strange: Callable[[ActorEntry], None] = lambda _: None
        """Told of an actor with an alarm whose home was here under an earlier lease."""
        self.local_kinds: dict[EnvoyId, frozenset[str]] = {}
        """The actors of an envoy whose state is to stay in their datacenter, by name."""
        self._store = store
        self._lease = lease
        self._wall_ms = wall_ms
        self._tell = tell
        self._wake = wake
        self._sockets = sockets
        self._deleting: set[bytes] = set()

    def in_force(self, actor_id: bytes, envoy: EnvoyId, generation: int) -> bool:
        actor = directory.load(self._store.newest(), actor_id)
        if actor is None or not actor.is_alive or not directory.speaks_of(actor, envoy, generation):
            return False
        return actor.lease == self._lease()

    # Starting

    def begin(self, actor: ActorEntry, clean: bool) -> None:
        """Send its envoy the start, with its state; `clean`: the generation before it is known to have ended."""
        envoy = directory.envoy_of(actor)
        wanted = partial(self.in_force, actor.id, envoy, actor.generation)
        self.states.load(actor, clean=clean, wanted=wanted, loaded=partial(self._loaded, actor, envoy))

    def _loaded(self, actor: ActorEntry, envoy: EnvoyId, state: LoadedState) -> None:
        if state.alarm_ms != actor.alarm_ms:
            self._set_alarm(actor.id, state.alarm_ms)
        name = actor.name
        start = Start(
            actor_id=actor.id.hex(),
            generation=actor.generation,
            namespace=name.namespace,
            name=name.name,
            key=name.key,
            input=actor.input,
            state=state.document,
            version=state.version,
            alarm_ms=state.alarm_ms,
            sockets=self._sockets(actor.id),
        )
        self._store.when_durable(partial(self._tell, envoy, start))

    # Saving

    def save(self, envoy: EnvoyId, message: SaveState) -> None:
        """Raises InvalidRequest. Nothing is written for a generation that is not in force."""
        actor_id = parse_id(message.actor_id)
        if not all(0 <= each <= MOST for each in (message.version, message.number, message.alarm_ms)):
            raise InvalidRequest("the version, the number and the alarm of a save are 0 or more, in 63 bits")
        answered = partial(self._answer, envoy, message)
        if self._lease() is None:
            answered(SaveNotDone("the datacenter does not hold its lease as a home of actors"))
        elif not self.in_force(actor_id, envoy, message.generation):
            answered(SaveFenced("this generation of the actor is over"))
        elif len(message.document) > MAX_DOCUMENT_BYTES:
            answered(SaveNotDone(f"the state has {len(message.document)} bytes; the limit is {MAX_DOCUMENT_BYTES}"))
        else:
            self._write(envoy, actor_id, message, answered)

    def _write(
        self, envoy: EnvoyId, actor_id: bytes, message: SaveState, answered: Callable[[SaveVerdict], None]
    ) -> None:
        actor = directory.load(self._store.newest(), actor_id)
        assert actor is not None, "it is in force"
        if not actor.saved:
            local = actor.name.name in self.local_kinds.get(envoy, ())
            actor = self._store.transact(partial(directory.begin_saving, actor=actor, local=local))
        record = StateRecord(
            generation=message.generation,
            number=message.number,
            alarm_ms=message.alarm_ms,
            document=message.document,
        )
        save = StateSave(actor_id=actor_id, local=actor.local, version=message.version, record=record)
        wanted = partial(self.in_force, actor_id, envoy, message.generation)
        self._store.when_durable(lambda: self.states.save(save, wanted, answered))

    def _answer(self, envoy: EnvoyId, message: SaveState, verdict: SaveVerdict) -> None:
        """The alarm follows the state that is durable, and only then the worker is told."""
        answer: Saved | SaveRefused
        match verdict:
            case SaveDone(version):
                if self.in_force(parse_id(message.actor_id), envoy, message.generation):
                    self._set_alarm(parse_id(message.actor_id), message.alarm_ms)
                answer = Saved(
                    actor_id=message.actor_id, generation=message.generation, number=message.number, version=version
                )
            case SaveFenced(reason) | SaveNotDone(reason):
                answer = SaveRefused(
                    actor_id=message.actor_id,
                    generation=message.generation,
                    number=message.number,
                    reason=reason,
                    fenced=isinstance(verdict, SaveFenced),
                )
            case _:
                assert_never(verdict)
        self._store.when_durable(partial(self._tell, envoy, answer))

    # The end

    def ended(self, actor: ActorEntry) -> ActorEntry:
        """As its envoy reports. What the next generation loads is known, unless the outcome of a save is not."""
        version = self.states.left(actor)
        return replace(actor, clean=version is not None, version=version or 0)

    def delete_states(self) -> None:
        """Of actors that were destroyed."""
        for actor_id, version in listing.doomed(self._store.newest(), DELETIONS_AT_ONCE):
            if actor_id not in self._deleting:
                self._deleting.add(actor_id)
                self.states.delete(actor_id, version, partial(self._deleted, actor_id))

    def _deleted(self, actor_id: bytes, done: bool) -> None:
        self._deleting.discard(actor_id)
        if done:
            self._store.transact(lambda tx: tx.clear(directory.doomed_row(actor_id)))

    # Alarms

    def tell_alarm(self, actor: ActorEntry) -> None:
        """If it is due, and the actor runs."""
        if actor.state is ActorState.RUNNING and 0 < actor.alarm_ms <= self._wall_ms():
            due = AlarmDue(actor_id=actor.id.hex(), generation=actor.generation, at_ms=actor.alarm_ms)
            self._tell(directory.envoy_of(actor), due)

    def _set_alarm(self, actor_id: bytes, alarm_ms: int) -> None:
        actor = directory.load(self._store.newest(), actor_id)
        if actor is not None and actor.is_alive and actor.alarm_ms != alarm_ms:
            self._store.transact(partial(directory.set_alarm, actor=actor, alarm_ms=alarm_ms, due_ms=alarm_ms))
            if alarm_ms:
                self.alarms.expect(alarm_ms)

    def _ring(self, actor_id: bytes, due_ms: int, now_ms: int) -> None:
        """The next look is a while later: by then the actor has set another alarm, or is told again."""

        def body(tx: Transaction) -> ActorEntry | None:
            actor = directory.readable(tx, actor_id)
            if actor is None or actor.due_ms != due_ms:
                tx.clear(directory.alarm_row(due_ms, actor_id))
                return None
            return directory.set_alarm(tx, actor, actor.alarm_ms, now_ms + AGAIN_MS)

        actor = self._store.transact(body)
        lease = self._lease()
        if actor is None or lease is None:
            return
        if actor.lease != lease:
            self.strange(actor)
        elif actor.state is ActorState.ASLEEP:
            self._wake(actor_id)
        else:
            self._store.when_durable(partial(self.tell_alarm, actor))
