"""Delays and cuts, by a clock that jumps."""

import heapq
from collections.abc import Callable
from itertools import count

import msgspec
import pytest

from epoxy.ports import Timer
from epoxy.transport.wan.emulation import MAX_ADDED_MS, Link, LinkChange


class Ticket:
    def __init__(self) -> None:
        self.valid = True

    def cancel(self) -> None:
        self.valid = False


class JumpingClock:
    """Time passes only when it is told to."""

    def __init__(self) -> None:
        self.time_ms = 0.0
        self._later: list[tuple[float, int, Ticket, Callable[[], None]]] = []
        self._order = count()

    def now_ms(self) -> float:
        return self.time_ms

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Timer:
        ticket = Ticket()
        heapq.heappush(self._later, (self.time_ms + delay_ms, next(self._order), ticket, then))
        return ticket

    def advance(self, delay_ms: float) -> None:
        end_ms = self.time_ms + delay_ms
        while self._later and self._later[0][0] <= end_ms:
            self.time_ms, _, ticket, then = heapq.heappop(self._later)
            if ticket.valid:
                then()
        self.time_ms = end_ms


class Journey:
    """There and back again, with a diary."""

    def __init__(self, rtt_ms: dict[int, float]) -> None:
        self.clock = JumpingClock()
        self.link = Link(self.clock, rtt_ms, early_ms=0.0)
        self.diary: list[tuple[float, str]] = []

    def go(self, peer: int, name: str = "") -> None:
        left_ms = self.clock.now_ms()
        self.link.there(peer, lambda: self._arrive(peer, name, left_ms))

    def _arrive(self, peer: int, name: str, left_ms: float) -> None:
        self._note(f"{name}there")
        self.link.back(peer, self.clock.now_ms() - left_ms, lambda: self._note(f"{name}back"))

    def _note(self, what: str) -> None:
        self.diary.append((self.clock.now_ms(), what))


def test_both_ways_together_take_the_round_trip() -> None:
    journey = Journey({2: 70.5})
    journey.go(2)
    journey.clock.advance(1000)
    assert journey.diary == [(35.25, "there"), (70.5, "back")]


def test_a_late_timer_there_shortens_the_way_back() -> None:
    journey = Journey({2: 70.0})
    journey.link.back(2, 40.0, lambda: journey._note("back"))
    journey.link.back(2, 90.0, lambda: journey._note("overdue"))
    journey.clock.advance(1000)
    assert journey.diary == [(0.0, "overdue"), (30.0, "back")]


def test_timers_that_fire_early_are_made_up_for() -> None:
    journey = Journey({2: 70.0})
    journey.link = Link(journey.clock, {2: 70.0}, early_ms=0.5)
    journey.go(2)
    journey.clock.advance(1000)
    assert journey.diary == [(35.0, "there"), (70.5, "back")]


def test_a_peer_without_a_figure_is_where_it_is() -> None:
    journey = Journey({2: 70.0})
    journey.go(3)
    assert journey.diary == [(0.0, "there"), (0.0, "back")]


def test_batches_arrive_in_the_order_they_left() -> None:
    journey = Journey({2: 10.0})
    for name in "abc":
        journey.go(2, name)
    journey.clock.advance(100)
    assert [what for _, what in journey.diary] == ["athere", "bthere", "cthere", "aback", "bback", "cback"]


@pytest.mark.parametrize(
    ("cut_ms", "sends", "hears", "heard"),
    [
        (0, False, False, []),
        (5, False, False, []),
        (15, False, False, ["there"]),
        (0, False, True, []),
        (0, True, False, ["there"]),
        (15, False, True, ["there", "back"]),
        (25, False, False, ["there", "back"]),
    ],
)
def test_a_cut_swallows_what_is_on_its_way(cut_ms: float, sends: bool, hears: bool, heard: list[str]) -> None:
    journey = Journey({2: 20.0, 3: 20.0})
    if cut_ms:
        journey.go(2)
        journey.clock.advance(cut_ms)
    journey.link.cut(2, sends=sends, hears=hears)
    if not cut_ms:
        journey.go(2)
    journey.clock.advance(100)
    assert [what for _, what in journey.diary] == heard
    journey.go(3, "other ")
    journey.link.heal(2)
    journey.go(2, "healed ")
    journey.clock.advance(100)
    assert [what for _, what in journey.diary[len(heard) :]] == [
        "other there",
        "healed there",
        "other back",
        "healed back",
    ]


@pytest.mark.parametrize("near", [{}, {2: 20.0, 3: 20.0}])
def test_a_slow_link_takes_so_much_more_until_it_is_healed(near: dict[int, float]) -> None:
    journey = Journey(near)
    rtt = near.get(2, 0.0)
    journey.link.apply(LinkChange(slow={2: 100.0}))
    assert (journey.link.slowed(), journey.link.half_ms(2)) == ({"2": 100.0}, (rtt + 100) / 2)
    journey.go(2)
    journey.go(3, "other ")
    journey.clock.advance(1000)
    times = {what: at for at, what in journey.diary}
    assert (times["there"], times["back"], times["other back"]) == ((rtt + 100) / 2, rtt + 100, near.get(3, 0.0))
    journey.link.measure({2: 40.0})
    assert journey.link.half_ms(2) == 70.0, "a table that is read anew leaves it slow"
    journey.link.apply(LinkChange(slow={2: 10.0}))
    assert journey.link.half_ms(2) == 25.0, "not added up"
    journey.link.apply(LinkChange(heal=[2]))
    assert (journey.link.slowed(), journey.link.half_ms(2)) == ({}, 20.0)


@pytest.mark.parametrize("added", ["-1", str(MAX_ADDED_MS + 1), '"x"', "null", "1e999"])
def test_how_slow_a_link_may_be(added: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(f'{{"slow": {{"2": {added}}}}}', type=LinkChange)
