"""Two datacenters over one engine: who may become the home of a name, and what a failure leaves behind."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from epoxy.actors import directory, home_changes
from epoxy.actors.datacenter_lease import WAIT_MS
from epoxy.actors.home_changes import CHANGING, NO_LEASE, HomeChange, HomeHere, Located
from epoxy.actors.homes import Homes, KnownHome, home_of
from epoxy.actors.messages import (
    Destroy,
    Elsewhere,
    Ensure,
    Exists,
    Found,
    GetActor,
    Missing,
    MoveActor,
    OwnerUnavailable,
    Question,
    Unknown,
    Verdict,
)
from epoxy.actors.relaying import Withdraw
from epoxy.actors.streams import StreamEnd
from epoxy.codec.home_records import decode_home, decode_lease, encode, home_key, reservation_key
from epoxy.model.actors import ActorEntry, ActorName, ActorState, make_id
from epoxy.model.envoy_messages import Start, Stop
from epoxy.model.homes import DatacenterLease, HomeRecord, datacenter_key
from epoxy.model.writes import ConsensusFailed, Refused, Write
from epoxy.protocol.placement.records import EnvoyId
from tests.actors.bench import HERE, NAME, THERE, Datacenter, Envoy, Keys, proposal


class Region(Datacenter):
    """One of several over the same engine and clock."""

    def __init__(self, label: int, keys: Keys, regions: "dict[int, Region]") -> None:
        super().__init__(label=label, keys=keys)
        regions[label] = self
        self.is_down = False
        self.actors._others._relay = Links(regions)

    def worker(self, key: str = "w") -> Envoy:
        return self.connect(key)

    def go(self) -> None:
        """It loses its power, and its lease ends."""
        self.is_down = True
        self.lease.stop()
        self.keys.end(datacenter_key(self.label))

    def run(self, actor: ActorEntry) -> None:
        self.hosting.running(EnvoyId("prod", "w"), actor.id, self.look(actor).generation)


class Links:
    def __init__(self, regions: dict[int, Region]) -> None:
        self._regions = regions

    def ask(
        self,
        label: int,
        question: Question,
        answered: Callable[[Verdict | None], None],
        stream: StreamEnd | None = None,  # noqa: ARG002
    ) -> Withdraw:
        region = self._regions.get(label)
        if region is None or region.is_down:
            answered(OwnerUnavailable(reason="cannot be reached"))
        else:
            region.actors.ask(question, answered, relayed=True)
        return lambda: False


def regions(count: int = 2) -> list[Region]:
    keys, found = Keys(), dict[int, Region]()
    return [Region(label, keys, found) for label in range(1, count + 1)]


def home(region: Region, name: ActorName = NAME) -> HomeRecord:
    value = region.keys.value(home_key(name)) or region.keys.value(reservation_key(name))
    assert value is not None
    return decode_home(value)


def test_a_name_whose_home_is_gone_is_taken_over_with_a_higher_epoch() -> None:
    here, there = regions()
    there.worker()
    actor = there.made()
    here_worker = here.worker()
    found = here.ask(GetActor(target=NAME))
    assert isinstance(found, Found)
    assert (found.actor.id, found.label) == (actor.id, THERE)
    there.go()
    taken = here.ensure()
    assert isinstance(taken, Found)
    assert (taken.actor.id, taken.created, taken.label) == (actor.id, False, HERE)
    record = home(here)
    assert (record.label, record.epoch, record.lease) == (HERE, 1, here.lease.held())
    assert here.changes.taken_over == 1
    here.clock.advance(10)
    (start,) = [word for word in here_worker.take() if isinstance(word, Start)]
    assert start.generation >> 32 == 1


def test_a_home_that_lives_is_never_taken_over() -> None:
    here, there = regions()
    actor = there.made()
    there.is_down = True
    assert isinstance(here.ask(GetActor(target=NAME)), OwnerUnavailable)
    assert isinstance(here.ensure(), OwnerUnavailable)
    assert (home(here).label, home(here).actor_id) == (THERE, actor.id)


def test_of_two_takers_one_wins_and_the_other_passes_on() -> None:
    here, there, third = regions(3)
    for region in (here, there, third):
        region.worker()
    actor = there.made()
    there.go()
    here.keys.late = []
    told: list[Verdict] = []
    for region in (here, third):
        region.actors.ask(GetActor(target=NAME), told.append)
    first, second = here.keys.late
    here.keys.late = None
    second()
    first()
    assert [verdict.label for verdict in told if isinstance(verdict, Found)] == [3, 3]
    assert home(here).epoch == 1
    assert here.hosting.get(actor.id.hex()) is None


def test_questions_wait_for_a_home_that_is_settled_and_not_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_changes, "MAX_WAITING", 3)
    (here,) = regions(1)
    here.worker()
    here.keys.late = []
    told: list[Verdict] = []
    for _ in range(6):
        here.actors.ask(Ensure(name=NAME, pool="web"), told.append)
    assert told == [OwnerUnavailable(reason=CHANGING)] * 2
    here.keys.late.pop()()
    assert [verdict.created for verdict in told if isinstance(verdict, Found)] == [True, False, False, False]


def test_questions_that_wait_for_a_lease_wait_side_by_side() -> None:
    """They waited one after the other, each for three seconds, so that the tenth client waited half a minute."""
    (here,) = regions(1)
    here.lease.held = lambda: None  # type: ignore[method-assign]
    told: list[Verdict] = []
    for _ in range(10):
        here.actors.ask(Ensure(name=NAME, pool="web"), told.append)
    here.clock.advance(WAIT_MS)
    assert told == [OwnerUnavailable(reason=NO_LEASE)] * 10


def test_a_worker_is_promised_nothing_beyond_the_lease() -> None:
    """It goes on for `lost_after_ms` after a ping that was answered, and its code then cleans up for a
    fifth of all that time; by then no other datacenter may be home."""
    (here,) = regions(1)
    here.worker()
    hosting, lease = here.hosting, here.lease
    assert hosting.lost_after_ms <= lease.ttl_ms / 2
    lease.stop()
    promised = 0
    while lease.held() is not None:
        here.clock.advance(500)
        if hosting.may_promise():
            promised += 1
            assert 0.8 * lease.left_ms() >= hosting.lost_after_ms
    assert promised > 0
    assert not hosting.may_promise()


def test_a_datacenter_without_workers_passes_the_question_to_one_that_has_some() -> None:
    here, there, third = regions(3)
    for region in (there, third):
        region.worker()
    there.made()
    there.go()
    found = here.ask(GetActor(target=NAME))
    assert isinstance(found, Found)
    assert found.label == 3
    assert here.changes.taken_over == 0


def test_a_fresh_name_is_made_where_workers_are() -> None:
    here, there = regions()
    there.worker()
    made = here.ensure()
    assert isinstance(made, Found)
    assert (made.label, made.created) == (THERE, True)
    assert decode_home(here.keys.values[reservation_key(NAME)]).label == THERE
    other = here.ask(Ensure(name=ActorName("prod", "hall", "x"), pool="none has it"))
    assert isinstance(other, Found)
    assert other.label == HERE


def test_without_workers_anywhere_nothing_is_taken_over() -> None:
    here, there = regions()
    there.worker()
    there.made()
    there.go()
    refused = here.ask(GetActor(target=NAME))
    assert isinstance(refused, OwnerUnavailable)
    assert refused.final
    assert home(here).label == THERE


def test_a_datacenter_that_comes_back_is_home_again_if_none_took_the_name_over() -> None:
    here, there = regions()
    there.worker()
    actor = there.made()
    first = there.lease.held()
    there.keys.end(datacenter_key(THERE))
    there.clock.advance(12_000)
    assert there.lease.held() not in (None, first)
    found = here.ask(GetActor(target=NAME))
    assert isinstance(found, Found)
    assert (found.label, found.actor.id, found.actor.epoch) == (THERE, actor.id, 1)
    assert there.look(actor).lease == there.lease.held()
    assert there.look(actor).clean is False


def test_one_that_comes_back_too_late_redirects() -> None:
    here, there = regions()
    there.worker()
    here.worker()
    actor = there.made()
    there.go()
    assert isinstance(here.ask(GetActor(target=NAME)), Found)
    there.is_down = False
    there.clock.time_ms += 30_000
    there.lease.want()
    there.clock.advance(2_000)
    assert there.lease.held() is not None
    told: list[Verdict] = []
    there.actors.ask(GetActor(target=NAME), told.append, relayed=True)
    there.actors.ask(GetActor(target=actor.id.hex()), told.append, relayed=True)
    assert told == [Elsewhere(label=HERE, epoch=1)] * 2
    found = there.ask(GetActor(target=actor.id.hex()))
    assert isinstance(found, Found)
    assert found.label == HERE


def test_an_id_whose_datacenter_is_gone_is_asked_for_everywhere() -> None:
    here, there, third = regions(3)
    for region in (there, third):
        region.worker()
    actor = there.made()
    question = GetActor(target=actor.id.hex())
    there.go()
    refused = here.ask(question)
    assert isinstance(refused, OwnerUnavailable)
    assert "ask by its name" in refused.reason
    third.ensure()
    found = here.ask(question)
    assert isinstance(found, Found)
    assert (found.actor.id, found.label) == (actor.id, 3)


def test_without_a_lease_nothing_is_served() -> None:
    (here,) = regions(1)
    here.made()
    here.keys.end(datacenter_key(HERE))
    other = encode(DatacenterLease(incarnation=b"?" * 16))
    here.keys.mutable.held[datacenter_key(HERE)] = proposal(other, 9)
    here.clock.time_ms += 25_000
    assert here.ask(GetActor(target=NAME), after_ms=5_000) == OwnerUnavailable(reason=NO_LEASE)


def test_destroyed_is_written_to_the_record_before_it_is_answered() -> None:
    here, there = regions()
    there.worker()
    here.worker()
    actor = there.made()
    there.keys.late = []
    told: list[Verdict] = []
    there.actors.ask(Destroy(target=NAME), told.append)
    assert told == []
    there.keys.late.pop()()
    (gone,) = told
    assert isinstance(gone, Found)
    assert gone.actor.state is ActorState.DESTROYED
    assert not home(here).alive
    there.keys.late = None
    reads = len(there.keys.reads)
    assert there.ask(GetActor(target=NAME)) == Missing()
    assert len(there.keys.reads) == reads, "the row is enough"
    there.go()
    assert here.ask(GetActor(target=NAME)) == Missing()
    anew = here.ensure(exclusive=True)
    assert isinstance(anew, Found)
    assert anew.created
    assert (anew.actor.id != actor.id, anew.label, home(here).epoch) == (True, HERE, 2)


def test_a_destroy_that_was_not_decided_is_finished_by_the_next_question() -> None:
    (here,) = regions(1)
    here.worker()
    here.made()
    here.keys.outcome = ConsensusFailed(reason="no majority")
    assert isinstance(here.ask(Destroy(target=NAME)), Unknown)
    assert home(here).alive
    here.keys.outcome = None
    assert here.ask(GetActor(target=NAME)) == Missing()
    assert not home(here).alive


def test_code_that_returns_ends_its_name() -> None:
    (here,) = regions(1)
    here.worker()
    actor = here.made()
    here.run(actor)
    here.hosting.stopped(EnvoyId("prod", "w"), actor.id, here.look(actor).generation, failed=False)
    assert not home(here).alive
    assert here.ask(GetActor(target=NAME)) == Missing()


def test_an_actor_moves_when_it_has_ended() -> None:
    here, there = regions()
    here_worker, there_worker = here.worker(), there.worker()
    actor = here.made()
    here.run(actor)
    generation = here.look(actor).generation
    told: list[Verdict] = []
    there.actors.ask(MoveActor(target=NAME, to=THERE), told.append)
    here.clock.advance(10)
    assert isinstance(here_worker.take()[-1], Stop)
    assert (told, home(here).label) == ([], HERE)
    there.actors.ask(GetActor(target=NAME), told.append)
    here.hosting.stopped(EnvoyId("prod", "w"), actor.id, generation, failed=False)
    assert [(each.label, each.actor.id) for each in told if isinstance(each, Found)] == [(THERE, actor.id)] * 2
    assert (home(here).label, home(here).lease) == (THERE, there.lease.held())
    there.clock.advance(10)
    (start,) = [word for word in there_worker.take() if isinstance(word, Start)]
    assert start.generation > generation
    assert here.ask(MoveActor(target=NAME, to=THERE)) == there.ask(GetActor(target=NAME))


def test_a_move_that_cannot_be_is_refused_before_anything_stops() -> None:
    here, there = regions()
    here.worker()
    actor = here.made()
    there.lease.want()
    for to, why in ((THERE, "no worker of pool 'web'"), (9, "hosts no actors now")):
        refused = here.ask(MoveActor(target=NAME, to=to))
        assert isinstance(refused, OwnerUnavailable)
        assert refused.final
        assert why in refused.reason
    there.worker()
    here.store.transact(lambda tx: directory.save(tx, replace(here.look(actor), local=True)))
    assert "cannot move" in str(here.ask(MoveActor(target=NAME, to=THERE)))
    assert here.hosting.at_home(here.look(actor))


def test_a_move_whose_write_was_not_decided_is_settled_by_the_next_question() -> None:
    here, there = regions()
    here.worker()
    there.worker()
    actor = here.made()
    here.run(actor)
    here.keys.outcome = Refused(reason="busy")
    told: list[Verdict] = []
    here.actors.ask(MoveActor(target=NAME, to=THERE), told.append)
    here.hosting.stopped(EnvoyId("prod", "w"), actor.id, here.look(actor).generation, failed=False)
    assert isinstance(told[0], Unknown)
    here.keys.outcome = None
    found = here.ask(GetActor(target=NAME))
    assert isinstance(found, Found)
    assert (found.label, found.actor.epoch) == (HERE, 1), "a late decision of the move compares, and fails"


def test_a_reservation_of_an_earlier_version_stays_with_its_member() -> None:
    here, there = regions()
    here.worker()
    here.keys.values[reservation_key(NAME)] = make_id(1, 2, THERE)
    there.is_down = True
    assert isinstance(here.ensure(), OwnerUnavailable), "it holds no lease, and may be alive"
    there.is_down = False
    made = here.ensure()
    assert isinstance(made, Found)
    assert (made.actor.id, made.label) == (make_id(1, 2, THERE), THERE)
    here.changes.members = lambda: (HERE,)
    gone = ActorName("prod", "room", "gone")
    here.keys.values[reservation_key(gone)] = make_id(3, 4, 7)
    taken = here.ensure(gone)
    assert isinstance(taken, Found)
    assert taken.label == HERE


def test_what_was_written_and_not_noted_is_found() -> None:
    """A process dies between the record and the row."""
    (here,) = regions(1)
    here.worker()
    held = here.lease.held()
    assert held is not None
    record = HomeRecord(actor_id=make_id(1, 2, HERE), label=HERE, lease=held, pool="web", input=b"in")
    here.keys.values[reservation_key(NAME)] = encode(record)
    assert isinstance(here.ensure(exclusive=True), Exists)
    found = here.ask(GetActor(target=NAME))
    assert isinstance(found, Found)
    assert (found.actor.id, found.actor.input) == (record.actor_id, b"in")


def test_leases_name_the_pools_with_workers() -> None:
    here, there = regions()
    there.worker()
    assert decode_lease(here.keys.value(datacenter_key(THERE)) or b"").pools == (("prod", "web"),)
    assert here.changes.with_workers("prod", "web") == THERE
    here.worker()
    assert here.changes.with_workers("prod", "web") == HERE
    assert here.changes.with_workers("prod", "other") is None


@pytest.mark.pure("a fault is planted in the sources")
def test_a_take_over_that_does_not_ask_for_the_lease_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of `never taken over` above is not vacuous."""
    monkeypatch.setattr(HomeChange, "_theirs", lambda self, home, _lease, _known: self._take_over(home))
    here, there = regions()
    there.worker()
    here.worker()
    actor = there.made()
    told: list[Located] = []
    here.changes.settle(NAME, None, lambda: None, told.append)
    assert isinstance(told[0], HomeHere)
    assert there.hosting.at_home(there.look(actor)), "two homes"


def change_blindly(
    self: Homes, name: ActorName, before: KnownHome, record: HomeRecord, settled: Callable[..., None]
) -> None:
    del before
    write = Write(key=home_key(name), value=encode(record), mutable=True)
    self._keys.write(write, lambda outcome: settled(home_of(outcome, first=False)))


@pytest.mark.pure("a fault is planted in the sources")
def test_two_takers_that_do_not_compare_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Homes, "change", change_blindly)
    with pytest.raises(AssertionError):
        test_of_two_takers_one_wins_and_the_other_passes_on()
