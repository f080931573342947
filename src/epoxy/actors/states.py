"""The states of actors: loaded before a generation starts, and saved under the version that the save builds on.

That version is the fence. A generation whose predecessor may still write begins with a raise: a write that leaves the
value as it is, and whose version makes every save that was sent before it fail. Where the predecessor is known to have
ended, with its last save settled, what this replica has is the newest, and is read without a message.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, assert_never

from msgspec import Struct

from epoxy.codec.home_records import decode_state, encode
from epoxy.model.actors import ActorEntry
from epoxy.model.errors import CodecError
from epoxy.model.homes import StateRecord, state_key
from epoxy.model.records import Proposal
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    ReadResult,
    Refused,
    Source,
    Unchanged,
    VersionMismatch,
    Write,
)
from epoxy.ports import Clock

LOADS_AT_ONCE = 64
"""Raises under way. A state has up to 1 MiB, and each is in memory until its start has been sent."""

SAVES_AT_ONCE = 256
"""Writes of saves under way: half of what a node admits of all clients when it has no measure of its speed yet."""

MAX_SAVE_BYTES = 64 << 20
"""Of saves under way and waiting: more is refused, and the worker tries again."""

RETRY_MS = 100
MAX_RETRY_MS = 2_000
"""Between two tries, doubled each time: as long as a round trip between continents at first."""

DEFINITE_MS = 5_000
"""A save that nothing was written of is tried again for so long, and refused then: its actor may want to know."""


class StateKeys(Protocol):
    """Where states are: keys of the cluster, or rows of this datacenter's store."""

    def peek(self, key: bytes) -> ReadResult | None: ...

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None: ...


class LoadedState(Struct, frozen=True, kw_only=True):
    """`document` None: it has none yet. `version` is what the first save builds on."""

    document: bytes | None = None
    version: int = 0
    alarm_ms: int = 0


class StateSave(Struct, frozen=True, kw_only=True):
    actor_id: bytes
    local: bool
    version: int
    record: StateRecord


class SaveDone(Struct, frozen=True):
    version: int


class SaveFenced(Struct, frozen=True):
    """Another generation has written, or this one may not write any more."""

    reason: str


class SaveNotDone(Struct, frozen=True):
    """Nothing was written; it may be tried again."""

    reason: str


SaveVerdict = SaveDone | SaveFenced | SaveNotDone
Wanted = Callable[[], bool]
"""Whether the generation that something is done for is still in force, under the lease of its home."""


class StateLimit:
    """A bound on how many run at once; the others wait for their turn."""

    def __init__(self, at_once: int) -> None:
        self.running = 0
        self._at_once = at_once
        self._waiting: deque[Callable[[], None]] = deque()

    def enter(self, run: Callable[[], None]) -> None:
        if self.running < self._at_once:
            self.running += 1
            run()
        else:
            self._waiting.append(run)

    def leave(self) -> None:
        self.running -= 1
        if self._waiting:
            self.running += 1
            self._waiting.popleft()()


class Saving:
    """One save under way. `unsure`: an earlier try of it may have been written."""

    __slots__ = ("done", "save", "since_ms", "tries", "unsure", "wanted")

    def __init__(self, save: StateSave, wanted: Wanted, done: Callable[[SaveVerdict], None], now_ms: float) -> None:
        self.save = save
        self.wanted = wanted
        self.done = done
        self.since_ms = now_ms
        self.tries = 0
        self.unsure = False


class States:
    """`cluster` has the states of most actors, `local` those that stay in their datacenter."""

    def __init__(self, cluster: StateKeys, local: StateKeys, clock: Clock) -> None:
        self.trouble: dict[bytes, str] = {}
        """Why the state of an actor could not be loaded yet."""
        self._cluster = cluster
        self._local = local
        self._clock = clock
        self._loads = StateLimit(LOADS_AT_ONCE)
        self._saves = StateLimit(SAVES_AT_ONCE)
        self._versions: dict[bytes, int] = {}
        """Of actors that run: what was last loaded or saved."""
        self._saving: dict[tuple[bytes, int], Saving] = {}
        self._unsettled: dict[bytes, int] = {}
        self._bytes = 0

    def held(self, actor: ActorEntry) -> Proposal | None:
        """The state of an actor as this replica knows it; None: it has none, or none is known here."""
        here = self._keys(actor.local).peek(state_key(actor.id)) if actor.saved else None
        return here.committed if here is not None else None

    # Loading

    def load(self, actor: ActorEntry, *, clean: bool, wanted: Wanted, loaded: Callable[[LoadedState], None]) -> None:
        """Before a generation starts; `clean`: the one before it has ended, and `actor.version` is its last. Tried
        again until it succeeds, or is not wanted any more."""
        self._versions.pop(actor.id, None)
        if not actor.saved:
            self._loaded(actor.id, LoadedState(), loaded)
        elif clean and (here := self._here(actor)) is not None:
            self._loaded(actor.id, here, loaded)
        else:
            self._loads.enter(partial(self._raise, actor, wanted, loaded, 0))

    def _loaded(self, actor_id: bytes, state: LoadedState, loaded: Callable[[LoadedState], None]) -> None:
        self.trouble.pop(actor_id, None)
        self._versions[actor_id] = state.version
        loaded(state)

    def _here(self, actor: ActorEntry) -> LoadedState | None:
        """What this replica has, if that is the version which the last generation has left."""
        here = self._keys(actor.local).peek(state_key(actor.id))
        if here is None or here.source is not Source.LOCAL or here.committed is None:
            return None
        return state_of(here.committed) if here.committed.version == actor.version else None

    def _raise(self, actor: ActorEntry, wanted: Wanted, loaded: Callable[[LoadedState], None], tries: int) -> None:
        if not wanted():
            self.trouble.pop(actor.id, None)
            self._loads.leave()
            return

        def heard(outcome: Outcome) -> None:
            state, reason = raised(outcome)
            if state is not None:
                self._loads.leave()
                if wanted():
                    self._loaded(actor.id, state, loaded)
            elif isinstance(outcome, NothingToDelete):
                self._keys(actor.local).write(first_write(actor), heard)
            else:
                self._loads.leave()
                self.trouble[actor.id] = reason
                again = partial(self._raise, actor, wanted, loaded, tries + 1)
                self._clock.call_later(pause_ms(tries), lambda: self._loads.enter(again))

        self._keys(actor.local).write(raise_of(actor), heard)

    # Saving

    def save(self, save: StateSave, wanted: Wanted, done: Callable[[SaveVerdict], None]) -> None:
        """`done` is called when the outcome is known, or cannot be known under this lease. The same save, said again,
        is answered once."""
        key = save.actor_id, save.record.generation
        under_way = self._saving.get(key)
        if under_way is not None and under_way.save.record.number == save.record.number:
            under_way.done = done
        elif under_way is not None:
            done(SaveNotDone("another save of the actor is under way"))
        elif self._bytes + len(save.record.document) > MAX_SAVE_BYTES:
            done(SaveNotDone("too many saves are under way at this node"))
        else:
            self._bytes += len(save.record.document)
            self._saving[key] = saving = Saving(save, wanted, done, self._clock.now_ms())
            self._unsettled[save.actor_id] = self._unsettled.get(save.actor_id, 0) + 1
            self._saves.enter(partial(self._try, saving))

    def _try(self, saving: Saving) -> None:
        if not saving.wanted():
            self._settle(saving, SaveFenced("this generation of the actor is over"))
            return
        self._keys(saving.save.local).write(write_of(saving.save), partial(self._tried, saving))

    def _tried(self, saving: Saving, outcome: Outcome) -> None:
        verdict = verdict_of(saving.save, outcome)
        saving.unsure = saving.unsure or isinstance(outcome, ConsensusFailed)
        waited_ms = self._clock.now_ms() - saving.since_ms
        if isinstance(verdict, SaveNotDone) and (saving.unsure or waited_ms < DEFINITE_MS):
            verdict = None
        if verdict is not None:
            self._settle(saving, verdict)
        else:
            saving.tries += 1
            self._saves.leave()
            again = partial(self._try, saving)
            self._clock.call_later(pause_ms(saving.tries), lambda: self._saves.enter(again))

    def _settle(self, saving: Saving, verdict: SaveVerdict) -> None:
        save = saving.save
        del self._saving[save.actor_id, save.record.generation]
        self._bytes -= len(save.record.document)
        left = self._unsettled.pop(save.actor_id) - 1
        if left:
            self._unsettled[save.actor_id] = left
        if isinstance(verdict, SaveDone):
            self._versions[save.actor_id] = verdict.version
        elif isinstance(verdict, SaveFenced):
            self._versions.pop(save.actor_id, None)
        saving.done(verdict)
        self._saves.leave()

    # The end

    def left(self, actor: ActorEntry) -> int | None:
        """A generation has ended: the version of its state. None: that is not known, so the next one has to raise."""
        version = self._versions.pop(actor.id, None if actor.saved else 0)
        return None if actor.id in self._unsettled else version

    def is_saving(self, actor_id: bytes) -> bool:
        return actor_id in self._unsettled

    def delete(self, actor_id: bytes, version: int, done: Callable[[bool], None]) -> None:
        """Of an actor that was destroyed and has ended; `version` 0: what this replica has. A later version stays:
        another datacenter took the actor over before its end was decided. False: try again."""
        if not version:
            here = self._cluster.peek(state_key(actor_id))
            version = here.committed.version if here is not None and here.committed is not None else 0

        def heard(outcome: Outcome) -> None:
            done(isinstance(outcome, Committed | NothingToDelete | VersionMismatch))

        self._cluster.write(Write(key=state_key(actor_id), value=None, mutable=True, if_version=version), heard)

    def _keys(self, local: bool) -> StateKeys:
        return self._local if local else self._cluster


def write_of(save: StateSave) -> Write:
    return Write(key=state_key(save.actor_id), value=encode(save.record), mutable=True, if_version=save.version)


def raise_of(actor: ActorEntry) -> Write:
    """The value stays, and the version rises: saves that build on an earlier one fail."""
    return Write(key=state_key(actor.id), value=None, mutable=True, touch=True)


def first_write(actor: ActorEntry) -> Write:
    """Where there is nothing to raise: saves that build on nothing fail."""
    record = StateRecord(generation=actor.generation)
    return Write(key=state_key(actor.id), value=encode(record), mutable=True, if_absent=True)


def raised(outcome: Outcome) -> tuple[LoadedState | None, str]:
    """The state, or why there is none yet."""
    match outcome:
        case Committed(proposal=proposal):
            state = state_of(proposal)
            return state, "" if state is not None else "its record is not readable by this version of Epoxy"
        case ConsensusFailed(reason=reason) | Refused(reason=reason):
            return None, reason
        case NothingToDelete() | ExpectedValueDoesNotMatch():
            return None, "it was deleted or written meanwhile"
        case VersionMismatch() | ImmutableKey() | NotAnInteger() | Unchanged():
            raise AssertionError(f"no answer to a raise: {outcome}")
        case _:
            assert_never(outcome)


def state_of(committed: Proposal) -> LoadedState | None:
    """None: not readable."""
    if committed.value is None:
        return None
    try:
        record = decode_state(committed.value)
    except CodecError:
        return None
    return LoadedState(document=record.document or None, version=committed.version, alarm_ms=record.alarm_ms)


def verdict_of(save: StateSave, outcome: Outcome) -> SaveVerdict | None:
    """None: not known."""
    match outcome:
        case Committed(proposal=proposal):
            return SaveDone(proposal.version)
        case VersionMismatch(committed=committed):
            if committed is not None and is_own(save, committed):
                return SaveDone(committed.version)
            return SaveFenced("the state was written by a later generation of the actor")
        case Refused(reason=reason):
            return SaveNotDone(reason)
        case ConsensusFailed():
            return None
        case ExpectedValueDoesNotMatch() | ImmutableKey() | NothingToDelete() | NotAnInteger() | Unchanged():
            raise AssertionError(f"no answer to a save: {outcome}")
        case _:
            assert_never(outcome)


def is_own(save: StateSave, committed: Proposal) -> bool:
    """Whether an earlier try of this very save was committed, and nothing since. A raise leaves the record as it is:
    with the version after a raise, a generation that is over could go on."""
    if committed.value is None or committed.version != save.version + 1:
        return False
    try:
        there = decode_state(committed.value)
    except CodecError:
        return False
    return (there.generation, there.number) == (save.record.generation, save.record.number)


def pause_ms(tries: int) -> float:
    return min(MAX_RETRY_MS, RETRY_MS << min(tries, 8))
