"""Names with alarms whose home is gone are taken over without a question, by one datacenter after the other."""

import pytest

from epoxy.actors import orphans
from epoxy.actors.messages import GetActor
from epoxy.actors.orphans import HomelessNames, Orphans, name_in
from epoxy.codec.home_records import encode, reservation_key
from epoxy.model.actors import RESERVATION_KEYS, ActorEntry
from epoxy.model.homes import StateRecord, state_key
from epoxy.model.records import Proposal
from tests.actors.bench import NAME, proposal
from tests.actors.test_home_changes import Region, home, regions

LOOK_MS = 10_000


class Heirs:
    """Each region looks for names without a home."""

    def __init__(self, *found: Region) -> None:
        self.regions = found
        self.orphans = [Orphans(each.changes, each.keys, each.clock, self.names, each.actors.settle) for each in found]
        for each in self.orphans:
            each.start()

    def names(self, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]:
        keys = self.regions[0].keys
        held = {key: proposal(value) for key, value in keys.values.items()} | keys.mutable.held
        beyond = [key for key in sorted(held) if key.startswith(prefix) and (after is None or key > after)]
        return [(key, held[key]) for key in beyond[:limit]]

    def look(self, *turns: Region) -> None:
        for region in turns:
            region.beat(*(["w"] if region.hosting.sessions else []), ms=LOOK_MS)


def set_alarm(region: Region, actor: ActorEntry, alarm_ms: int = 99) -> None:
    region.keys.values[state_key(actor.id)] = encode(StateRecord(generation=1, number=1, alarm_ms=alarm_ms))


def test_a_name_with_an_alarm_is_taken_over_without_being_asked_for() -> None:
    here, there = regions()
    here.worker()
    there.worker()
    ringing, quiet, silent = (there.made(key) for key in ("lobby", "quiet", "silent"))
    set_alarm(here, ringing)
    set_alarm(here, quiet, alarm_ms=0)
    heirs = Heirs(here)
    heirs.look(here, here, here)
    assert home(here).label == there.label, "its home lives"
    there.go()
    heirs.look(here, here, here)
    assert [home(here, each.name).label for each in (ringing, quiet, silent)] == [1, 2, 2]


def test_the_next_in_the_circle_takes_it_and_the_one_after_that_if_it_does_not() -> None:
    first, second, third = regions(3)
    for region in (first, second, third):
        region.worker()
    actor = second.made()
    set_alarm(first, actor)
    heirs = Heirs(first, third)
    second.go()
    heirs.look(first)
    assert home(first).label == 2, "it is the third's turn"
    heirs.look(third)
    assert home(first).label == 3


def test_one_whose_turn_passes_is_replaced() -> None:
    first, second, third = regions(3)
    for region in (first, second, third):
        region.worker()
    set_alarm(first, second.made())
    heirs = Heirs(first)
    second.go()
    heirs.look(first, first, first)
    assert home(first).label == 1, "the third was silent"


def test_a_datacenter_takes_its_own_names_again_under_its_new_lease() -> None:
    (here,) = regions(1)
    here.worker()
    actor = here.made()
    set_alarm(here, actor)
    heirs = Heirs(here)
    here.keys.end(b"\xff/datacenter/\x00\x01")
    heirs.look(here, here, here)
    assert here.lease.held() == home(here).lease
    assert here.hosting.at_home(here.look(actor))


def test_pools_without_workers_here_are_left_until_there_are_some() -> None:
    here, there = regions()
    there.worker()
    set_alarm(here, there.made())
    here.lease.want()
    heirs = Heirs(here)
    there.go()
    heirs.look(here, here, here)
    assert home(here).label == 2
    here.worker()
    heirs.look(here, here, here)
    assert home(here).label == 1


def test_names_are_looked_through_in_pages_and_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "PAGE", 2)
    monkeypatch.setattr(orphans, "AT_ONCE", 3)
    here, there = regions()
    here.worker()
    there.worker()
    made = [there.made(str(number)) for number in range(9)]
    for actor in made:
        set_alarm(here, actor)
    there.go()
    here.keys.late = []
    heirs = Heirs(here)
    here.beat("w", ms=1_000)
    assert len(here.keys.late) == 3
    while here.keys.late:
        here.keys.late.pop()()
    here.keys.late = None
    assert {home(here, actor.name).label for actor in made} == {1}
    assert heirs.orphans[0]._under_way == 0


def test_names_are_in_their_keys() -> None:
    assert name_in(reservation_key(NAME), RESERVATION_KEYS) == NAME


def test_names_without_a_home_are_told_until_they_are_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "PAGE", 2)
    monkeypatch.setattr(orphans, "MAX_SHOWN", 2)
    here, there = regions()
    here.worker()
    there.worker()
    gone = [there.made(key) for key in ("a", "b", "c")]
    here.made("mine")
    told: list[HomelessNames] = []
    (found,) = Heirs(here).orphans
    found.homeless(told.append)
    here.clock.advance(1)
    assert told.pop().count == 0
    there.go()
    found.homeless(told.append)
    found.homeless(told.append)
    here.clock.advance(1)
    first, second = told
    assert first is second, "they share one look"
    assert (first.count, [(name.key, record.label) for name, record in first.first]) == (3, [("a", 2), ("b", 2)])
    told.clear()
    here.ask(GetActor(target=gone[0].name))
    found.homeless(told.append)
    here.clock.advance(1)
    assert told.pop().count == 2
