"""States of actors: what a generation starts with, and which saves are written."""

import pytest

from epoxy.actors import states
from epoxy.actors.local_states import LocalStates
from epoxy.actors.states import (
    DEFINITE_MS,
    LOADS_AT_ONCE,
    MAX_SAVE_BYTES,
    SAVES_AT_ONCE,
    LoadedState,
    SaveDone,
    SaveFenced,
    SaveNotDone,
    SaveVerdict,
    States,
    StateSave,
)
from epoxy.model.actors import ActorEntry, ActorName, ActorState, make_id
from epoxy.model.homes import StateRecord, state_key
from epoxy.model.writes import ConsensusFailed, Refused, Write
from epoxy.store.memory import MemoryStore
from tests.actors.bench import Keys, MutableKeys
from tests.protocol.placement.bench import Clock

ID = make_id(3, 4, 1)
KEY = state_key(ID)
UNKNOWN = ConsensusFailed(reason="nothing was decided in time")


class Bench:
    def __init__(self) -> None:
        self.keys = Keys()
        self.clock = Clock()
        self.store = MemoryStore()
        self.states = States(self.keys, LocalStates(self.store), self.clock)
        self.loaded: list[LoadedState] = []
        self.told: list[SaveVerdict] = []
        self.wanted = True

    def load(self, actor: ActorEntry, *, clean: bool = False) -> None:
        self.states.load(actor, clean=clean, wanted=lambda: self.wanted, loaded=self.loaded.append)

    def save(self, number: int, version: int, *, generation: int = 1, local: bool = False) -> None:
        said = save(number, version, generation=generation, local=local)
        self.states.save(said, lambda: self.wanted, self.told.append)


def save(number: int, version: int, *, generation: int = 1, local: bool = False, document: bytes = b"") -> StateSave:
    record = StateRecord(generation=generation, number=number, alarm_ms=number, document=document or b"%d" % number)
    return StateSave(actor_id=ID, local=local, version=version, record=record)


def actor(*, saved: bool = True, version: int = 0, local: bool = False) -> ActorEntry:
    return ActorEntry(
        id=ID,
        name=ActorName("prod", "room", "lobby"),
        pool="web",
        state=ActorState.STARTING,
        envoy_key="a",
        generation=2,
        create_ts=0,
        saved=saved,
        version=version,
        local=local,
    )


@pytest.fixture(params=[False, True], ids=["replicated", "local"])
def local(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_an_actor_that_never_saved_costs_no_message() -> None:
    here = Bench()
    here.load(actor(saved=False))
    assert (here.loaded, here.keys.writes) == ([LoadedState()], [])
    assert here.states.left(actor(saved=False)) == 0


def test_after_a_clean_end_a_local_read_is_enough(local: bool) -> None:
    here = Bench()
    here.save(1, 0, local=local)
    assert here.told == [SaveDone(1)]
    assert here.states.left(actor()) == 1
    before = len(here.keys.writes)
    here.load(actor(version=1, local=local), clean=True)
    assert here.loaded == [LoadedState(document=b"1", version=1, alarm_ms=1)]
    assert len(here.keys.writes) == before


def test_a_replica_that_is_behind_what_was_saved_is_not_believed() -> None:
    here = Bench()
    here.save(1, 0)
    here.load(actor(version=2), clean=True)
    assert [state.version for state in here.loaded] == [2], "raised from 1"


def saves_of_a_zombie(here: Bench, *, local: bool) -> list[SaveVerdict]:
    """Generation 1 goes on after 2 has begun, and 2 has not saved yet."""
    here.save(1, 0, local=local)
    here.load(actor(local=local))
    here.told.clear()
    here.save(2, 1, local=local)
    return here.told


def test_a_raise_keeps_the_state_and_fences_saves_of_before(local: bool) -> None:
    here = Bench()
    (verdict,) = saves_of_a_zombie(here, local=local)
    assert isinstance(verdict, SaveFenced)
    assert here.loaded == [LoadedState(document=b"1", version=2, alarm_ms=1)]
    here.told.clear()
    here.save(1, 2, generation=2, local=local)
    assert here.told == [SaveDone(3)]


def test_without_a_raise_a_zombie_would_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: what this replica has is always believed."""

    def believe(self: States, actor: ActorEntry, **rest: object) -> None:
        del rest
        self._loaded(actor.id, LoadedState(), lambda _: None)

    monkeypatch.setattr(States, "load", believe)
    assert saves_of_a_zombie(Bench(), local=False) == [SaveDone(2)]


def test_without_a_version_a_zombie_would_write(monkeypatch: pytest.MonkeyPatch) -> None:
    right = states.write_of

    def careless(said: StateSave) -> Write:
        return Write(key=right(said).key, value=right(said).value, mutable=True)

    monkeypatch.setattr(states, "write_of", careless)
    assert saves_of_a_zombie(Bench(), local=False) == [SaveDone(3)]


def test_a_state_that_is_absent_is_raised_by_an_empty_record(local: bool) -> None:
    """A first save may be under way: it builds on nothing, and must fail."""
    here = Bench()
    here.load(actor(local=local))
    assert here.loaded == [LoadedState(document=None, version=1)]
    here.save(1, 0, local=local)
    assert [type(verdict) for verdict in here.told] == [SaveFenced]


def test_an_unknown_outcome_is_tried_until_it_is_known() -> None:
    here = Bench()
    here.keys.outcome = UNKNOWN
    here.save(1, 0)
    here.clock.advance(30_000)
    assert here.told == []
    assert here.states.is_saving(ID)
    assert here.states.left(actor()) is None, "so the next generation raises"
    here.keys.outcome = None
    here.clock.advance(2_000)
    assert here.told == [SaveDone(1)]


def test_an_own_save_is_recognised() -> None:
    here = Bench()
    here.keys.mutable.decide(states.write_of(save(1, 0)))
    here.save(1, 0)
    assert here.told == [SaveDone(1)]
    here.save(2, 0)
    assert [type(verdict) for verdict in here.told] == [SaveDone, SaveFenced], "another number is another save"


def recognised_after_a_raise(here: Bench) -> SaveVerdict:
    """The outcome of a save was not known; it was committed, and then raised by the next generation."""
    here.keys.mutable.decide(states.write_of(save(1, 0)))
    here.keys.mutable.decide(states.raise_of(actor()))
    here.save(1, 0)
    return here.told[0]


def test_an_own_save_that_was_raised_since_gives_no_version_to_go_on_from() -> None:
    """A raise keeps the record, with its generation and number."""
    assert isinstance(recognised_after_a_raise(Bench()), SaveFenced)


def test_by_its_record_alone_a_zombie_would_get_the_raised_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "is_own", lambda *_: True)
    assert recognised_after_a_raise(Bench()) == SaveDone(2)


def test_a_save_that_is_not_wanted_any_more_ends() -> None:
    here = Bench()
    here.keys.outcome = UNKNOWN
    here.save(1, 0)
    here.wanted = False
    here.clock.advance(2_000)
    assert [type(verdict) for verdict in here.told] == [SaveFenced]
    assert not here.states.is_saving(ID)


def test_what_is_refused_is_tried_again_for_a_while() -> None:
    here = Bench()
    here.keys.outcome = Refused(reason="too busy")
    here.save(1, 0)
    here.clock.advance(DEFINITE_MS - 1_000)
    assert here.told == []
    here.clock.advance(3_000)
    assert here.told == [SaveNotDone("too busy")]


def test_what_may_have_been_written_is_not_called_refused() -> None:
    here = Bench()
    here.keys.outcome = UNKNOWN
    here.save(1, 0)
    here.keys.outcome = Refused(reason="too busy")
    here.clock.advance(3 * DEFINITE_MS)
    assert here.told == []


def test_a_save_said_again_is_answered_once() -> None:
    here = Bench()
    here.keys.late = []
    here.save(1, 0)
    here.save(1, 0)
    here.save(2, 0)
    assert here.told == [SaveNotDone("another save of the actor is under way")]
    here.told.clear()
    here.keys.late.pop()()
    assert here.told == [SaveDone(1)]
    assert here.keys.late == []


def test_a_raise_is_tried_again_and_says_why_it_waits() -> None:
    here = Bench()
    here.keys.outcome = UNKNOWN
    here.load(actor())
    here.clock.advance(9_000)
    assert here.states.trouble == {ID: UNKNOWN.reason}
    here.keys.outcome = None
    here.clock.advance(2_000)
    assert here.loaded == [LoadedState(document=None, version=1)]
    assert here.states.trouble == {}


def test_a_raise_that_is_not_wanted_any_more_starts_nothing() -> None:
    here = Bench()
    here.keys.late = []
    here.load(actor())
    here.wanted = False
    here.keys.late.pop(0)()
    here.keys.late.pop(0)()
    assert here.loaded == []
    here.keys.late, here.keys.outcome, here.wanted = None, UNKNOWN, True
    here.load(actor())
    here.wanted = False
    here.clock.advance(9_000)
    assert (here.loaded, here.states.trouble) == ([], {})


def test_a_record_of_another_format_is_not_taken_for_an_empty_state() -> None:
    here = Bench()
    here.keys.mutable.decide(Write(key=KEY, value=b"\x07?", mutable=True))
    here.load(actor())
    assert here.loaded == []
    assert "not readable" in here.states.trouble[ID]
    here.save(1, 1)
    assert [type(verdict) for verdict in here.told] == [SaveFenced]


def test_saves_and_loads_at_once_are_bounded() -> None:
    here = Bench()
    here.keys.late = []
    told: list[SaveVerdict] = []
    for number in range(SAVES_AT_ONCE + 10):
        here.states.save(another(number), lambda: True, told.append)
    here.keys.mutable.decide(states.first_write(actor()))
    for _ in range(LOADS_AT_ONCE + 10):
        here.load(actor())
    assert len(here.keys.late) == SAVES_AT_ONCE + LOADS_AT_ONCE
    while here.keys.late:
        here.keys.late.pop(0)()
    assert len(told) == SAVES_AT_ONCE + 10
    assert len(here.loaded) == LOADS_AT_ONCE + 10


def test_the_bytes_of_saves_are_bounded() -> None:
    here = Bench()
    here.keys.late = []
    told: list[SaveVerdict] = []
    document = bytes(1 << 19)
    for number in range(1 + MAX_SAVE_BYTES // len(document)):
        here.states.save(another(number, document), lambda: True, told.append)
    assert told == [SaveNotDone("too many saves are under way at this node")]
    while here.keys.late:
        here.keys.late.pop(0)()
    here.states.save(another(1_000, document), lambda: True, told.append)
    here.keys.late.pop()()
    assert isinstance(told[-1], SaveDone)


def another(number: int, document: bytes = b"") -> StateSave:
    record = StateRecord(generation=1, number=1, document=document)
    return StateSave(actor_id=make_id(number, 9, 1), local=False, version=0, record=record)


@pytest.mark.parametrize("version", [0, 1])
def test_a_state_is_deleted_and_a_failure_is_told(version: int) -> None:
    here = Bench()
    done: list[bool] = []
    here.save(1, 0)
    here.keys.outcome = UNKNOWN
    here.states.delete(ID, version, done.append)
    here.keys.outcome = None
    for _ in range(2):
        here.states.delete(ID, version, done.append)
    assert done == [False, True, True]
    assert here.keys.mutable.held[KEY].value is None
    here.save(2, 1)
    assert isinstance(here.told[-1], SaveFenced)


def test_the_state_of_an_actor_that_another_datacenter_took_over_stays() -> None:
    here = Bench()
    here.save(1, 0)
    here.keys.mutable.decide(states.raise_of(actor()))
    done: list[bool] = []
    here.states.delete(ID, 1, done.append)
    assert done == [True]
    assert here.keys.mutable.held[KEY].value is not None


def test_an_answer_that_cannot_be_is_a_bug() -> None:
    absent = MutableKeys().decide(Write(key=b"k", value=None, mutable=True))
    with pytest.raises(AssertionError, match="no answer to a save"):
        states.verdict_of(save(1, 0), absent)
    mismatch = MutableKeys().decide(states.write_of(save(1, 5)))
    with pytest.raises(AssertionError, match="no answer to a raise"):
        states.raised(mismatch)
