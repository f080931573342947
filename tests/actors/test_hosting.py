"""The life of actors: created, started, moved, lost, failed, destroyed; and a process that dies in between."""

from functools import partial

import pytest

from epoxy.actors import directory, listing, placing
from epoxy.actors.conversation import Conversation
from epoxy.actors.messages import CallActor, Destroy, GetActor, Missing, OwnerUnavailable, Responded, Unknown, Verdict
from epoxy.codec.tuple import pack
from epoxy.model.actors import ActorEntry, ActorName, ActorState
from epoxy.model.envoy_messages import ActorRequest, EnvoyHello, Held, Ping, Rejected, Response, Start, Stop, Welcome
from epoxy.model.errors import RottenRow
from epoxy.model.homes import HomeRecord
from epoxy.protocol.placement import rows
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool, KeyInUse
from epoxy.store.memory import MemoryStore
from epoxy_sim.disk.rot import RottingStore
from tests.actors.bench import NAME, Datacenter, Envoy

THRESHOLD_MS = PlacementConfig().eligible_threshold_ms


def envoy(key: str) -> EnvoyId:
    return EnvoyId("prod", key)


def slots(here: Datacenter, key: str) -> int:
    return rows.slots(here.store.newest(), envoy(key))


def run(here: Datacenter, actor: ActorEntry, key: str) -> ActorEntry:
    here.hosting.running(envoy(key), actor.id, here.look(actor).generation)
    return here.look(actor)


def starts(session: Envoy) -> list[str]:
    return [word.key for word in session.take() if isinstance(word, Start)]


def test_an_envoy_is_welcomed_with_its_limits() -> None:
    here = Datacenter()
    session = here.connect("a")
    (welcome,) = session.heard
    assert welcome == Welcome(datacenter="here", ping_every_ms=2_500, lost_after_ms=8_000)


def test_an_actor_is_started_where_it_is_placed_and_runs_when_its_envoy_says_so() -> None:
    here = Datacenter()
    session = here.connect("a")
    actor = here.made()
    assert (actor.state, actor.envoy_key, actor.generation) == (ActorState.STARTING, "a", 1)
    (start,) = session.take()
    expected = Start(actor_id=actor.id.hex(), generation=1, namespace="prod", name="room", key="lobby")
    assert start == expected
    assert run(here, actor, "a").state is ActorState.RUNNING
    assert slots(here, "a") == 1


def test_without_an_envoy_an_actor_waits_for_one() -> None:
    here = Datacenter()
    actor = here.made()
    assert actor.state is ActorState.PENDING
    session = here.connect("a")
    assert starts(session) == ["lobby"]
    assert here.look(actor).envoy_key == "a"


def test_an_actor_waits_for_room() -> None:
    here = Datacenter()
    session = here.connect("a", slots=1)
    first, second = here.made("1"), here.made("2")
    assert (first.state, second.state) == (ActorState.STARTING, ActorState.PENDING)
    here.ask(Destroy(target=first.id.hex()))
    here.beat("a", ms=2_000)
    assert here.look(second).envoy_key is None, "the first has not ended yet"
    here.hosting.stopped(envoy("a"), first.id, 1, failed=False)
    here.clock.advance(1)
    assert here.look(second).envoy_key == "a"
    assert [type(word) for word in session.take()] == [Start, Stop, Start]


def test_an_actor_that_ends_by_itself_is_gone() -> None:
    here = Datacenter()
    here.connect("a")
    actor = run(here, here.made(), "a")
    here.hosting.stopped(envoy("a"), actor.id, 1, failed=False)
    assert here.ask(GetActor(target=NAME)) == Missing()
    assert slots(here, "a") == 0


def test_an_actor_that_fails_is_started_again_after_a_pause_that_grows() -> None:
    """Starting shows nothing: one that fails soon after it is started waits longer each time."""
    here = Datacenter()
    here.connect("a")
    actor = run(here, here.made(), "a")
    pauses = []
    for _ in range(8):
        before = here.look(actor)
        here.hosting.stopped(envoy("a"), actor.id, before.generation, failed=True)
        assert here.look(actor).state is ActorState.PENDING
        pauses.append(here.look(actor).not_before_ms - here.placement.now_ms())
        here.beat("a", ms=62_000)
        assert here.look(actor).generation == before.generation + 1
        run(here, actor, "a")
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    here.beat("a", ms=directory.STEADY_MS)
    here.hosting.stopped(envoy("a"), actor.id, here.look(actor).generation, failed=True)
    assert here.look(actor).not_before_ms - here.placement.now_ms() == 1_000, "it ran for a while"


def test_an_actor_that_its_worker_cancelled_need_not_wait() -> None:
    here = Datacenter()
    here.connect("a")
    actor = run(here, here.made(), "a")
    here.hosting.stopped(envoy("a"), actor.id, 1, failed=True, cancelled=True)
    assert (here.look(actor).state, here.look(actor).generation) == (ActorState.STARTING, 2)


def test_a_pool_without_room_keeps_no_other_namespace_waiting() -> None:
    here = Datacenter()
    here.ensure(ActorName("a-namespace-before", "room", "x"))
    actor = here.made()
    session = here.connect("a")
    assert starts(session) == ["lobby"]
    assert here.look(actor).state is ActorState.STARTING


def test_the_next_actor_of_a_name_starts_when_the_last_one_has_ended() -> None:
    here = Datacenter()
    first, second = here.connect("a"), here.connect("b")
    old = run(here, here.made(), str(here.made().envoy_key))
    session, other = (first, second) if old.envoy_key == "a" else (second, first)
    session.take(), other.take()
    here.ask(Destroy(target=NAME))
    assert session.take() == [Stop(actor_id=old.id.hex(), generation=1)]
    new = here.made()
    assert new.id != old.id
    here.beat("a", "b", ms=5_000)
    assert here.look(new).state is ActorState.PENDING
    told: list[Verdict] = []
    here.actors.ask(CallActor(target=NAME, body=b""), told.append)
    here.beat("a", "b", ms=16_000)
    reason = "the last actor of this name was destroyed and has not ended yet on its worker"
    assert told == [OwnerUnavailable(reason=reason, final=True)]
    here.ask(Destroy(target=NAME))
    newest = here.made()
    here.beat("a", "b", ms=2_000)
    assert here.look(newest).state is ActorState.PENDING, "nor does the one after that"
    here.hosting.stopped(envoy(str(old.envoy_key)), old.id, 1, failed=False)
    here.clock.advance(1)
    assert here.look(newest).state is ActorState.STARTING
    assert here.hosting.get(old.id.hex()) is None
    assert slots(here, "a") + slots(here, "b") == 1


def test_an_actor_that_was_destroyed_ends_with_its_envoy_too() -> None:
    here = Datacenter()
    first = here.connect("a")
    run(here, here.made(), "a")
    here.hosting.disconnected(envoy("a"), first)
    here.ask(Destroy(target=NAME))
    new = here.made()
    second = here.connect("b")
    here.beat("b", ms=THRESHOLD_MS // 2)
    assert starts(second) == []
    here.beat("b", ms=THRESHOLD_MS)
    assert starts(second) == ["lobby"]
    assert here.look(new).envoy_key == "b"
    assert slots(here, "a") == 0


def test_a_worker_that_still_runs_what_was_destroyed_is_told_again() -> None:
    here = Datacenter()
    first = here.connect("a")
    old = run(here, here.made(), "a")
    here.hosting.disconnected(envoy("a"), first)
    here.ask(Destroy(target=NAME))
    back = here.connect("a", running=(Held(old.id.hex(), 1),))
    assert back.take() == [Stop(actor_id=old.id.hex(), generation=1)]
    here.hosting.running(envoy("a"), old.id, 1)
    assert back.take() == [Stop(actor_id=old.id.hex(), generation=1)]
    here.connect("a")
    assert slots(here, "a") == 0, "it has it no more"


def test_words_about_the_past_do_not_count() -> None:
    here = Datacenter()
    session = here.connect("a")
    actor = here.made()
    session.take()
    here.hosting.stopped(envoy("b"), actor.id, 1, failed=False)
    here.hosting.stopped(envoy("a"), actor.id, 2, failed=False)
    here.hosting.running(envoy("a"), actor.id, 2)
    assert here.look(actor).state is ActorState.STARTING
    assert session.take() == [Stop(actor_id=actor.id.hex(), generation=2)]


def test_the_actors_of_a_lost_envoy_go_to_another() -> None:
    here = Datacenter()
    first, second = here.connect("a"), here.connect("b")
    actors = [here.made(str(i)) for i in range(70)]
    for actor in actors:
        run(here, actor, str(here.look(actor).envoy_key))
    lost = [actor for actor in actors if here.look(actor).envoy_key == "a"]
    first.take(), second.take()
    here.hosting.disconnected(envoy("a"), first)
    here.beat("b", ms=THRESHOLD_MS + 2_000)
    assert {here.look(actor).envoy_key for actor in actors} == {"b"}
    assert sorted(starts(second)) == sorted(actor.name.key for actor in lost)
    assert (slots(here, "a"), slots(here, "b")) == (0, 70)
    assert listing.lost(here.store.newest(), 9) == []


def test_an_envoy_that_comes_back_in_time_keeps_its_actors() -> None:
    here = Datacenter()
    session = here.connect("a")
    kept, dropped = run(here, here.made("1"), "a"), run(here, here.made("2"), "a")
    gone = run(here, here.made("3"), "a")
    here.hosting.disconnected(envoy("a"), session)
    here.ask(Destroy(target=gone.id.hex()))
    here.clock.advance(3_000)
    held = (Held(kept.id.hex(), 1), Held(gone.id.hex(), 1))
    back = here.connect("a", running=held)
    words = back.take()
    assert [word.actor_id for word in words if isinstance(word, Start)] == [dropped.id.hex()]
    assert [word.actor_id for word in words if isinstance(word, Stop)] == [gone.id.hex()]
    here.beat("a", ms=THRESHOLD_MS + 1_000)
    assert here.look(kept).state is ActorState.RUNNING


def test_a_second_connection_takes_the_place_of_the_first() -> None:
    here = Datacenter()
    first = here.connect("a")
    here.connect("a")
    assert first.closed
    here.hosting.disconnected(envoy("a"), first)
    assert envoy("a") in here.hosting.sessions


def test_a_key_whose_process_is_connected_but_silent_is_waited_for() -> None:
    """Its host may have lost its power: nothing closes the connection then, and the one that comes back is another."""
    here = Datacenter()
    here.connect("a", incarnation="host/1")
    with pytest.raises(KeyInUse, match="is in use by host/1, which is connected; give each") as refused:
        here.connect("a", incarnation="host/2")
    assert not refused.value.retry
    here.clock.advance(THRESHOLD_MS * 2 // 3)
    with pytest.raises(KeyInUse, match=r"host/1, which is connected but silent; .* within 10 s$") as waits:
        here.connect("a", incarnation="host/2")
    assert waits.value.retry
    here.clock.advance(THRESHOLD_MS)
    here.connect("a", incarnation="host/2")


@pytest.mark.parametrize("rtt_ms", [-1, 2**63])
def test_a_round_trip_that_cannot_be_is_refused(rtt_ms: int) -> None:
    """It ended the connection with a traceback, or was shown as it was."""
    here, session = Datacenter(), Envoy()
    talk = Conversation(here.hosting, session)
    talk.heard(EnvoyHello(namespace="prod", pool="web", envoy_key="a"))
    talk.heard(Ping(sent_ms=1, rtt_ms=rtt_ms))
    assert session.closed
    assert any(isinstance(word, Rejected) and "rtt_ms" in word.message for word in session.take())


def test_an_actor_moves_off_a_draining_envoy_only_when_it_has_stopped() -> None:
    here = Datacenter()
    first = here.connect("a")
    actor = run(here, here.made(), "a")
    second = here.connect("b")
    first.take()
    assert here.hosting.drain(envoy("a"))
    here.clock.advance(1)
    assert here.look(actor).state is ActorState.MOVING
    assert first.take() == [Stop(actor_id=actor.id.hex(), generation=1)]
    assert starts(second) == []
    here.hosting.stopped(envoy("a"), actor.id, 1, failed=False)
    assert here.look(actor).envoy_key == "b"
    assert starts(second) == ["lobby"]
    assert not here.hosting.drain(envoy("nobody"))


def test_a_drain_goes_on_after_a_restart() -> None:
    before = Datacenter()
    before.connect("a")
    actor = run(before, before.made(), "a")
    before.placement.drain(envoy("a"))
    after = Datacenter(before.store)
    session = after.connect("a", running=(Held(actor.id.hex(), 1),))
    assert [type(word) for word in session.take()] == [Stop]
    assert after.look(actor).state is ActorState.MOVING


def test_a_drain_has_a_limit_and_goes_on_as_actors_end() -> None:
    here = Datacenter()
    first = here.connect("a")
    actors = [run(here, here.made(str(i)), "a") for i in range(placing.MOVES_AT_ONCE + 8)]
    here.connect("b")
    first.take()
    here.hosting.drain(envoy("a"))
    here.beat("a", "b", ms=2_000)
    stops = [word for word in first.take() if isinstance(word, Stop)]
    assert len(stops) == placing.MOVES_AT_ONCE
    for stop in stops:
        here.hosting.stopped(envoy("a"), bytes.fromhex(stop.actor_id), stop.generation, failed=False)
    here.clock.advance(0)
    rest = [word for word in first.take() if isinstance(word, Stop)]
    assert len(rest) == len(actors) - len(stops), "without waiting for a tick"


def test_an_envoy_that_says_goodbye_is_gone_at_once() -> None:
    here = Datacenter()
    first = here.connect("a")
    actor = run(here, here.made(), "a")
    second = here.connect("b")
    here.hosting.leave(envoy("a"), second)
    assert here.look(actor).envoy_key == "a", "not said by its own connection"
    here.hosting.leave(envoy("a"), first)
    here.clock.advance(1)
    assert first.closed
    assert here.look(actor).envoy_key == "b"


def test_hot_envoys_give_some_away_if_that_is_wanted() -> None:
    here = Datacenter(config=PlacementConfig(rebalance_at_once=3, sweep_every_s=1))
    first = here.connect("a")
    for i in range(20):
        run(here, here.made(str(i)), "a")
    here.connect("b")
    first.take()
    here.beat("a", "b", ms=2_000)
    assert len([word for word in first.take() if isinstance(word, Stop)]) == 3


def test_a_pool_without_envoys_is_not_rebalanced(monkeypatch: pytest.MonkeyPatch) -> None:
    """An envoy that is gone leaves nothing in memory: a pool may see any number of them, each with a key of its own."""
    looked: list[EnvoyPool] = []

    def look(_view: object, pool: EnvoyPool, *_limits: int) -> list[object]:
        looked.append(pool)
        return []

    monkeypatch.setattr(placing, "excesses", look)
    here = Datacenter(config=PlacementConfig(rebalance_at_once=3, sweep_every_s=1))
    session = here.connect("a")
    here.beat("a", ms=2_000)
    assert set(looked) == {EnvoyPool("prod", "web")}
    here.hosting.leave(envoy("a"), session)
    looked.clear()
    here.beat(ms=3_000)
    assert looked == []


def test_slots_are_counted_when_actors_start_if_they_are_not_reserved() -> None:
    here = Datacenter(config=PlacementConfig(reserve_slots=False))
    here.connect("a")
    actor = here.made()
    assert slots(here, "a") == 0
    run(here, actor, "a")
    run(here, actor, "a")
    assert slots(here, "a") == 1
    here.ask(Destroy(target=NAME))
    here.hosting.stopped(envoy("a"), actor.id, 1, failed=False)
    assert slots(here, "a") == 0


def test_a_new_process_finishes_what_the_last_one_left() -> None:
    """Whether its start arrived is not known, so a generation that was begun is ended before the next one: the numbers
    of its saves must not be used twice."""
    before = Datacenter()
    before.connect("a")
    placed, waiting = before.made("1"), before.made("2")
    before.store.transact(lambda tx: directory.release(tx, before.look(waiting), failed=False, now_ms=0))
    after = Datacenter(before.store)
    session = after.connect("a")
    assert [type(word) for word in session.heard] == [Welcome, Stop, Start]
    assert starts(session) == ["2"]
    after.hosting.stopped(envoy("a"), placed.id, 1, failed=False)
    assert starts(session) == ["1"]
    assert after.look(placed).generation == 2


def test_an_expiry_that_was_not_followed_up_is() -> None:
    before = Datacenter()
    before.connect("a")
    actor = run(before, before.made(), "a")
    before.placement.expire(envoy("a"))
    after = Datacenter(before.store)
    session = after.connect("b")
    assert starts(session) == ["lobby"]
    assert after.look(actor).generation == 2


def test_requests_wait_for_the_actor_and_then_for_its_answer() -> None:
    here = Datacenter()
    session = here.connect("a")
    actor = here.made()
    told: list[Verdict] = []
    here.actors.ask(CallActor(target=NAME, body=b"hi"), told.append)
    session.take()
    run(here, actor, "a")
    (asked,) = session.take()
    assert isinstance(asked, ActorRequest)
    assert (asked.actor_id, asked.generation, asked.body) == (actor.id.hex(), 1, b"hi")
    here.hosting.calls.heard(envoy("b"), Response(request_id=asked.request_id, body=b"not mine"))
    assert told == []
    here.hosting.calls.heard(envoy("a"), Response(request_id=asked.request_id, body=b"ho"))
    here.hosting.calls.heard(envoy("a"), Response(request_id=asked.request_id, body=b"twice"))
    assert told == [Responded(body=b"ho")]
    assert len(here.hosting.calls) == 0


def test_when_a_node_stops_only_requests_that_an_actor_has_are_answered() -> None:
    here = Datacenter()
    session = here.connect("a")
    actor = run(here, here.made(), "a")
    session.take()
    given: list[Verdict] = []
    here.actors.ask(CallActor(target=NAME, body=b"hi"), given.append)
    (asked,) = session.take()
    assert isinstance(asked, ActorRequest)
    waiting: list[Verdict] = []
    here.made("elsewhere")  # its envoy never says that it runs
    session.take()
    here.actors.ask(CallActor(target=ActorName("prod", "room", "elsewhere"), body=b""), waiting.append)
    here.hosting.last_call()
    late: list[Verdict] = []
    here.actors.ask(CallActor(target=actor.id.hex(), body=b""), late.append)
    refused = OwnerUnavailable(reason="the node is stopping")
    assert (given, waiting, late, session.take()) == ([], [refused], [refused], [])
    here.hosting.calls.heard(envoy("a"), Response(request_id=asked.request_id, body=b"ho"))
    assert given == [Responded(body=b"ho")]


def test_a_request_that_nobody_answers_ends_as_what_it_is() -> None:
    here = Datacenter()
    waiting: list[Verdict] = []
    here.made("nowhere")
    here.actors.ask(CallActor(target=ActorName("prod", "room", "nowhere"), body=b""), waiting.append)
    here.clock.advance(15_001)
    reason = "no worker of pool 'web' in here, which owns the name, had room for the actor"
    assert waiting == [OwnerUnavailable(reason=reason, final=True)]
    session = here.connect("a")
    lost: list[Verdict] = []
    actor = run(here, here.made("x"), "a")
    here.actors.ask(CallActor(target=actor.id.hex(), body=b""), lost.append)
    here.hosting.disconnected(envoy("a"), session)
    assert lost == [Unknown(reason="the envoy was lost before it answered")]


def test_a_request_that_the_code_never_saw_was_definitely_not_done() -> None:
    here = Datacenter()
    session = here.connect("a")
    run(here, here.made(), "a")
    session.take()
    told: list[Verdict] = []
    for _ in range(2):
        here.actors.ask(CallActor(target=NAME, body=b""), told.append)
    first, second = (word for word in session.take() if isinstance(word, ActorRequest))
    refusal = Response(request_id=first.request_id, body=b"the actor is stopping", error=True, refused=True)
    here.hosting.calls.heard(envoy("a"), refusal)
    here.hosting.calls.heard(envoy("a"), Response(request_id=second.request_id, body=b"oh", error=True))
    assert told == [Responded(body=b"oh", error=True)]
    here.beat("a", ms=15_001)
    unseen = OwnerUnavailable(reason="the actor is stopping; it did not see the request", final=True)
    assert told[1:] == [unseen]


def test_an_actor_that_thinks_has_longer_than_one_that_does_not_start() -> None:
    here = Datacenter()
    here.connect("a")
    thinking: list[Verdict] = []
    run(here, here.made(), "a")
    here.actors.ask(CallActor(target=NAME, body=b""), thinking.append)
    here.beat("a", ms=29_000)
    here.clock.advance(999)
    assert thinking == []
    here.clock.advance(1)
    assert thinking == [Unknown(reason="no answer in time")]
    assert len(here.hosting.calls) == 0


def test_the_requests_of_an_actor_that_is_destroyed_end_with_it() -> None:
    here = Datacenter()
    here.connect("a")
    told: list[Verdict] = []
    actor = run(here, here.made(), "a")
    here.actors.ask(CallActor(target=NAME, body=b""), told.append)
    here.ask(Destroy(target=NAME))
    assert told == [Unknown(reason="the actor was destroyed")]
    assert actor.is_alive


def test_pages_are_in_the_order_of_names_and_go_on() -> None:
    here = Datacenter()
    for key in ("c", "a", "b", "d"):
        here.made(key)
    here.ask(Destroy(target=ActorName("prod", "room", "b")))
    page = here.hosting.page("prod", None, None, 2)
    assert [actor.name.key for actor in page] == ["a", "c"]
    rest = here.hosting.page("prod", "room", page[-1].id.hex(), 2)
    assert [actor.name.key for actor in rest] == ["d"]
    assert here.hosting.page("prod", "hall", None, 2) == here.hosting.page("test", None, None, 2) == []


def test_a_rotten_record_stops_its_actor_alone() -> None:
    """Lists leave it out; whatever names it is told."""
    store = RottingStore(MemoryStore(), set())
    names = [(key, ActorName("ns", "room", key.hex())) for key in (b"a", b"b")]
    homes = [(name, HomeRecord(actor_id=key, label=1, pool="p", create_ts=1)) for key, name in names]
    actors = [store.transact(partial(directory.adopt, name=name, record=record, fresh=True)) for name, record in homes]
    store.rot([directory.ACTOR + pack((b"a",))])
    due, _ = listing.waiting(store.newest(), 2, 9)
    assert due == actors[1:]
    assert listing.page(store.newest(), "ns", None, None, 9) == actors[1:]
    with pytest.raises(RottenRow):
        directory.named(store.newest(), actors[0].name)
