"""Generations of actors at their node: started with their state, saved, asleep, woken, and told of alarms."""

import pytest

from epoxy.actors import listing
from epoxy.actors.alarms import AGAIN_MS
from epoxy.actors.conversation import Conversation
from epoxy.actors.generations import Generations
from epoxy.actors.messages import CallActor, Destroy, OwnerUnavailable, Responded, Verdict
from epoxy.actors.states import SaveDone, States
from epoxy.codec.home_records import decode_state
from epoxy.model.actors import ActorEntry, ActorState
from epoxy.model.envoy_messages import (
    ActorKind,
    ActorRequest,
    AlarmDue,
    Draining,
    EnvoyHello,
    FromEnvoy,
    Held,
    Response,
    Running,
    Saved,
    SaveRefused,
    SaveState,
    Start,
    Stop,
    Stopped,
    ToEnvoy,
)
from epoxy.model.homes import MAX_DOCUMENT_BYTES, state_key
from epoxy.model.writes import ConsensusFailed
from epoxy.protocol.placement import rows
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.records import EnvoyId
from epoxy.store.memory import MemoryStore
from tests.actors.bench import NAME, Datacenter, Envoy

THRESHOLD_MS = PlacementConfig().eligible_threshold_ms
UNKNOWN = ConsensusFailed(reason="nothing was decided in time")
ALARM_MS = 2_000_000


class Worker:
    """An envoy that says what a test wants it to."""

    def __init__(
        self, here: Datacenter, key: str = "a", *, running: tuple[Held, ...] = (), local: bool = False
    ) -> None:
        self.here = here
        self.key = key
        self.link = Envoy()
        self.talk = Conversation(here.hosting, self.link)
        kinds = (ActorKind(name="room", local=local),)
        self.say(EnvoyHello(namespace="prod", pool="web", envoy_key=key, kinds=kinds, running=running))
        here.clock.advance(1)

    def say(self, message: FromEnvoy) -> None:
        self.talk.heard(message)

    def start(self) -> Start:
        (start,) = (word for word in self.link.take() if isinstance(word, Start))
        self.say(Running(actor_id=start.actor_id, generation=start.generation))
        return start

    def save(self, start: Start, number: int = 1, version: int = 0, alarm_ms: int = 0) -> list[ToEnvoy]:
        self.say(
            SaveState(
                actor_id=start.actor_id,
                generation=start.generation,
                number=number,
                version=version,
                document=b"state %d" % number,
                alarm_ms=alarm_ms,
            )
        )
        return self.link.take()

    def sleep(self, start: Start) -> None:
        self.say(Stopped(actor_id=start.actor_id, generation=start.generation, asleep=True))


def saved(start: Start, number: int = 1, version: int = 1) -> Saved:
    return Saved(actor_id=start.actor_id, generation=start.generation, number=number, version=version)


def slots(here: Datacenter) -> int:
    return rows.slots(here.store.newest(), EnvoyId("prod", "a"))


def state(here: Datacenter, actor: ActorEntry) -> bytes | None:
    held = here.keys.mutable.held.get(state_key(actor.id))
    return decode_state(held.value).document if held is not None and held.value is not None else None


def test_a_save_is_answered_when_it_is_durable() -> None:
    here = Datacenter()
    actor, worker = here.made(), Worker(here)
    start = worker.start()
    assert (start.state, start.version) == (None, 0)
    here.keys.late = []
    assert worker.save(start) == []
    here.keys.late.pop()()
    assert worker.link.take() == [saved(start)]
    assert state(here, actor) == b"state 1"
    here.keys.late = None
    assert worker.save(start, 2, 1) == [saved(start, 2, 2)]


def test_a_save_that_is_answered_before_it_is_durable_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: States, save: object, wanted: object, done: object) -> None:
        del self, save, wanted
        done(SaveDone(1))  # type: ignore[operator]

    monkeypatch.setattr(States, "save", at_once)
    with pytest.raises(AssertionError):
        test_a_save_is_answered_when_it_is_durable()


def test_an_actor_whose_envoy_was_lost_starts_with_its_state_raised() -> None:
    """What it saved last may be on its way to other regions yet."""
    here = Datacenter()
    here.made()
    worker = Worker(here)
    start = worker.start()
    worker.save(start)
    worker.say(Stopped(actor_id=start.actor_id, generation=1, failed=True, cancelled=True))
    assert worker.start().version == 1, "after a clean end, read here"
    worker.talk.lost()
    here.clock.advance(2 * THRESHOLD_MS)
    last = Worker(here, "b").start()
    assert (last.generation, last.state, last.version) == (3, b"state 1", 2)
    assert here.keys.writes[-1].touch


def test_a_lost_envoy_that_counts_as_a_clean_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Generations.begin
    monkeypatch.setattr(Generations, "begin", lambda self, actor, _: right(self, actor, True))
    with pytest.raises(AssertionError):
        test_an_actor_whose_envoy_was_lost_starts_with_its_state_raised()


def test_a_save_of_a_generation_that_is_over_is_refused_and_writes_nothing() -> None:
    here = Datacenter()
    actor, worker = here.made(), Worker(here)
    start = worker.start()
    other = Worker(here, "b")
    writes = len(here.keys.writes)
    (refused,) = other.save(start)
    assert isinstance(refused, SaveRefused)
    assert refused.fenced
    old = Start(actor_id=start.actor_id, generation=0, namespace="", name="", key="")
    (refused,) = worker.save(old)
    assert isinstance(refused, SaveRefused)
    assert refused.fenced
    here.hosting.lease = lambda: b"another lease"
    (refused,) = worker.save(start)
    assert isinstance(refused, SaveRefused)
    assert refused.fenced
    here.hosting.lease = lambda: None
    (refused,) = worker.save(start)
    assert isinstance(refused, SaveRefused)
    assert not refused.fenced, "the lease may come back, as at the start of a node"
    assert (len(here.keys.writes), state(here, actor)) == (writes, None)


def test_a_save_is_given_up_with_the_lease() -> None:
    here = Datacenter()
    here.made()
    worker = Worker(here)
    start = worker.start()
    here.keys.outcome = UNKNOWN
    assert worker.save(start) == []
    here.hosting.lease = lambda: None
    here.clock.advance(1_000)
    (refused,) = worker.link.take()
    assert isinstance(refused, SaveRefused)
    assert refused.fenced


def test_saves_that_no_worker_of_ours_sends_are_refused() -> None:
    here = Datacenter()
    here.made()
    worker = Worker(here)
    start = worker.start()
    big = SaveState(actor_id=start.actor_id, generation=1, number=1, version=0, document=bytes(MAX_DOCUMENT_BYTES + 1))
    worker.say(big)
    (refused,) = worker.link.take()
    assert isinstance(refused, SaveRefused)
    assert "1048449 bytes; the limit is 1048448" in refused.reason
    worker.save(start, number=-1)
    assert worker.link.closed


def test_an_actor_that_sleeps_takes_no_slot_and_wakes_with_its_state() -> None:
    here = Datacenter()
    actor, worker = here.made(), Worker(here)
    start = worker.start()
    worker.save(start)
    writes = len(here.keys.writes)
    worker.sleep(start)
    assert (here.look(actor).state, here.look(actor).envoy_key, slots(here)) == (ActorState.ASLEEP, None, 0)
    here.beat("a", ms=5_000)
    assert worker.link.take() == []
    told: list[Verdict] = []
    here.actors.ask(CallActor(target=NAME, body=b"hi"), told.append)
    again = worker.start()
    assert (again.generation, again.state, again.version) == (2, b"state 1", 1)
    assert len(here.keys.writes) == writes, "after a clean end no message is needed"
    (asked,) = worker.link.take()
    assert isinstance(asked, ActorRequest)
    worker.say(Response(request_id=asked.request_id, body=b"ho"))
    assert told == [Responded(body=b"ho")]


class SlowStore(MemoryStore):
    """Durable when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.waiting: list[object] = []

    def when_durable(self, done: object, *, urgent: bool = True) -> None:  # noqa: ARG002
        if self.slow:
            self.waiting.append(done)
        else:
            done()  # type: ignore[operator]

    def sync(self) -> None:
        self.slow = False
        while self.waiting:
            self.waiting.pop(0)()  # type: ignore[operator]


@pytest.mark.parametrize("refused_first", [True, False])
@pytest.mark.parametrize("slow", [True, False])
def test_a_request_that_meets_an_actor_going_to_sleep_is_answered(refused_first: bool, slow: bool) -> None:
    """The worker refuses what comes while the actor goes to sleep, before or after it reports that."""
    here = Datacenter(store := SlowStore())
    here.made()
    worker = Worker(here)
    start = worker.start()
    told: list[Verdict] = []
    here.actors.ask(CallActor(target=NAME, body=b"hi"), told.append)
    (asked,) = worker.link.take()
    assert isinstance(asked, ActorRequest)
    refusal = Response(request_id=asked.request_id, body=b"the actor is asleep", refused=True)
    store.slow = slow
    if refused_first:
        worker.say(refusal)
        worker.sleep(start)
    else:
        worker.sleep(start)
        worker.say(refusal)
    store.sync()
    here.clock.advance(1)
    assert worker.start().generation == 2
    (again,) = worker.link.take()
    assert isinstance(again, ActorRequest)
    worker.say(Response(request_id=again.request_id, body=b"ho"))
    assert told == [Responded(body=b"ho")]


def test_an_actor_sleeps_on_while_its_envoy_drains_and_moves_if_it_is_wanted() -> None:
    here = Datacenter()
    actor, worker = here.made(), Worker(here)
    start = worker.start()
    here.hosting.drain(EnvoyId("prod", "a"))
    here.clock.advance(1)
    assert [type(word) for word in worker.link.take()] == [Stop]
    worker.sleep(start)
    assert here.look(actor).state is ActorState.ASLEEP
    other = Worker(here, "b")
    here.actors.ask(CallActor(target=NAME, body=b"hi"), lambda _: None)
    assert other.start().generation == 2


def test_local_states_stay_in_the_store_of_the_datacenter() -> None:
    here = Datacenter()
    actor, worker = here.made(), Worker(here, local=True)
    start = worker.start()
    writes = len(here.keys.writes)
    assert worker.save(start) == [saved(start)]
    worker.talk.lost()
    here.clock.advance(2 * THRESHOLD_MS)
    again = Worker(here, "b").start()
    assert (again.state, again.version) == (b"state 1", 2)
    assert (len(here.keys.writes), here.look(actor).local) == (writes, True)
    here.ask(Destroy(target=NAME))
    here.hosting.stopped(EnvoyId("prod", "b"), actor.id, 2, failed=False)
    assert here.store.newest().range(b"\x15\x04\x15\x05", b"\x15\x04\x15\x06", limit=1) == []


def test_where_the_state_is_stays_as_the_first_save_had_it() -> None:
    here = Datacenter()
    actor, worker = here.made(), Worker(here)
    worker.save(worker.start())
    worker.talk.lost()
    here.clock.advance(2 * THRESHOLD_MS)
    other = Worker(here, "b", local=True)
    again = other.start()
    assert other.save(again, version=again.version) == [saved(again, version=3)]
    assert not here.look(actor).local
    assert state(here, actor) == b"state 1"


def test_the_state_of_a_destroyed_actor_is_deleted_when_it_has_ended() -> None:
    here = Datacenter()
    actor, worker = here.made(), Worker(here)
    start = worker.start()
    worker.save(start)
    here.ask(Destroy(target=NAME))
    here.beat("a", ms=3_000)
    assert state(here, actor) == b"state 1", "it may be needed until its clean-up is over"
    (refused,) = (word for word in worker.save(start, 2, 1) if isinstance(word, SaveRefused))
    assert refused.fenced
    here.keys.outcome = UNKNOWN
    worker.say(Stopped(actor_id=start.actor_id, generation=1))
    here.beat("a", ms=3_000)
    assert listing.doomed(here.store.newest(), 9) == [(actor.id, 1)]
    here.keys.outcome = None
    here.beat("a", ms=2_000)
    assert state(here, actor) is None
    assert listing.doomed(here.store.newest(), 9) == []


def test_a_node_that_restarts_goes_on_with_the_saves_of_a_worker() -> None:
    """The worker says a save again whose answer it has not heard; the node does not know what the actor has left."""
    before = Datacenter()
    before.made()
    worker = Worker(before)
    start = worker.start()
    worker.save(start)
    after = Datacenter(before.store)
    after.keys.mutable = before.keys.mutable
    back = Worker(after, running=(Held(start.actor_id, start.generation),))
    assert back.save(start) == [saved(start)]
    back.say(Stopped(actor_id=start.actor_id, generation=1, failed=True, cancelled=True))
    assert back.start().version == 1, "known again by that save"
    later = Datacenter(after.store)
    later.keys.mutable = after.keys.mutable
    last = Worker(later, running=(Held(start.actor_id, 2),))
    last.say(Stopped(actor_id=start.actor_id, generation=2, failed=True, cancelled=True))
    assert last.start().version == 2, "raised"


def test_a_generation_that_an_envoy_lost_is_not_begun_again() -> None:
    here = Datacenter()
    actor, worker = here.made(), Worker(here)
    worker.start()
    worker.talk.lost()
    back = Worker(here)
    assert back.start().generation == 2
    assert here.look(actor).state is ActorState.RUNNING


def test_a_start_waits_for_the_state_and_says_why_it_is_late() -> None:
    here = Datacenter()
    here.made()
    worker = Worker(here)
    worker.save(worker.start())
    worker.talk.lost()
    here.keys.outcome = UNKNOWN
    here.clock.advance(2 * THRESHOLD_MS)
    other = Worker(here, "b")
    told: list[Verdict] = []
    here.actors.ask(CallActor(target=NAME, body=b"hi"), told.append)
    here.beat("b", ms=16_000)
    assert other.link.take() == []
    reason = "the state of the actor could not be loaded: nothing was decided in time"
    assert told == [OwnerUnavailable(reason=reason, final=True)]
    here.keys.outcome = None
    here.beat("b", ms=3_000)
    assert other.start().state == b"state 1"


# Alarms


def alarmed() -> tuple[Datacenter, Worker, Start]:
    """An actor with an alarm, which has just become due."""
    here = Datacenter()
    here.made()
    worker = Worker(here)
    start = worker.start()
    here.hosting.wall_ms = lambda: ALARM_MS - 10_000
    worker.save(start, alarm_ms=ALARM_MS)
    here.beat("a", ms=2_000)
    assert worker.link.take() == []
    return here, worker, start


def test_an_alarm_is_told_again_until_a_save_clears_it() -> None:
    here, worker, start = alarmed()
    now_ms = ALARM_MS
    here.hosting.wall_ms = lambda: now_ms
    due = AlarmDue(actor_id=start.actor_id, generation=1, at_ms=ALARM_MS)
    here.beat("a", ms=5_000)
    assert worker.link.take() == [due]
    now_ms += AGAIN_MS
    here.beat("a", ms=5_000)
    assert worker.link.take() == [due]
    worker.say(Stopped(actor_id=start.actor_id, generation=1, failed=True, cancelled=True))
    again = worker.start()
    assert again.alarm_ms == ALARM_MS
    assert [word.generation for word in worker.link.take() if isinstance(word, AlarmDue)] == [2]
    worker.save(again, version=again.version)
    now_ms += 10 * AGAIN_MS
    here.beat("a", ms=5_000)
    assert worker.link.take() == []
    assert listing.next_alarm(here.store.newest()) is None


def test_an_alarm_wakes_an_actor() -> None:
    here, worker, start = alarmed()
    worker.sleep(start)
    here.beat("a", ms=5_000)
    assert worker.link.take() == []
    here.hosting.wall_ms = lambda: ALARM_MS
    here.beat("a", ms=1_000)
    again = worker.start()
    assert (again.generation, again.alarm_ms) == (2, ALARM_MS)
    assert [type(word) for word in worker.link.take()] == [AlarmDue]


def test_an_alarm_is_cleared_only_by_a_save_that_is_durable() -> None:
    here, worker, start = alarmed()
    here.keys.outcome = UNKNOWN
    assert worker.save(start, 2, 1, alarm_ms=0) == []
    worker.talk.lost()
    here.hosting.wall_ms = lambda: ALARM_MS
    here.clock.advance(2 * THRESHOLD_MS)
    here.keys.outcome = None
    other = Worker(here, "b")
    assert other.start().alarm_ms == ALARM_MS
    assert [type(word) for word in other.link.take()] == [AlarmDue]


def test_an_alarm_that_is_cleared_before_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Generations.save

    def clear_first(self: Generations, envoy: EnvoyId, message: SaveState) -> None:
        self._set_alarm(bytes.fromhex(message.actor_id), message.alarm_ms)
        right(self, envoy, message)

    monkeypatch.setattr(Generations, "save", clear_first)
    here, worker, start = alarmed()
    here.keys.outcome = UNKNOWN
    worker.save(start, 2, 1, alarm_ms=0)
    assert listing.next_alarm(here.store.newest()) is None, "and nothing would wake it"


def test_the_alarm_of_a_destroyed_actor_is_gone() -> None:
    here, worker, start = alarmed()
    here.ask(Destroy(target=NAME))
    assert listing.next_alarm(here.store.newest()) is None
    worker.say(Stopped(actor_id=start.actor_id, generation=1))


def test_a_lease_that_comes_late_stops_what_ran_under_another() -> None:
    """As after a restart of the node: its workers connect before it has its lease."""
    before = Datacenter()
    before.made()
    first = before.lease.held()
    start = Worker(before).start()
    held = (Held(start.actor_id, start.generation),)
    same = Datacenter(before.store, keys=before.keys)
    same.hosting.lease = lambda: None
    worker = Worker(same, running=held)
    assert worker.link.take() == [], "it runs on, and waits"
    same.hosting.lease = lambda: first
    told: list[Verdict] = []
    same.actors.ask(CallActor(target=start.actor_id, body=b"hi"), told.append)
    assert [type(word) for word in worker.link.take()] == [ActorRequest]
    other = Datacenter(before.store)
    other.hosting.lease = lambda: None
    worker = Worker(other, running=held)
    other.hosting.lease = lambda: b"second"
    other.beat("a", ms=1_000)
    assert worker.link.take() == [Stop(actor_id=start.actor_id, generation=1)]


def test_an_actor_that_destroys_itself_is_destroyed_even_if_it_was_to_move() -> None:
    here = Datacenter()
    actor, worker = here.made(), Worker(here)
    start = worker.start()
    worker.save(start)
    Worker(here, "b")
    worker.say(Draining())
    here.beat("a", ms=100)
    assert here.look(actor).state is ActorState.MOVING
    worker.say(Stopped(actor_id=start.actor_id, generation=start.generation, destroyed=True))
    here.beat("a", ms=3_000)
    assert (here.look(actor).state, state(here, actor)) == (ActorState.DESTROYED, None)
