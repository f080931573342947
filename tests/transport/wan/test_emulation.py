"""Delays and cuts, by a clock that jumps."""

import heapq
from collections.abc import Callable
from itertools import count

import msgspec
import pytest

from epoxy.ports import Timer
from epoxy.transport.peers import auth
from epoxy.transport.peers.auth import OPERATOR, Verifier
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.wan.emulation import Link, LinkAdmin
from tests.transport.http.harness import RunningServer, with_server


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


SECRET = b"a secret of the whole cluster"
PATH = b"/v2/admin/links"
NOW_MS = 1_800_000_000_000


def order(body: bytes, *, sender: int = OPERATOR, secret: bytes = SECRET, nonce: int = 1) -> bytes:
    value, _ = auth.sign(secret, SignedHeader(sender, 1, 0, NOW_MS, nonce), PATH, body)
    return b"POST %b HTTP/1.1\r\nauthorization: %b\r\ncontent-length: %d\r\n\r\n%b" % (PATH, value, len(body), body)


def state(answer: bytes) -> object:
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2])


def test_the_operator_cuts_and_heals() -> None:
    link = Link(JumpingClock())

    async def test(server: RunningServer) -> None:
        both = await server.ask(order(b'{"cut": [2, 3]}', nonce=1))
        cut = {"sends": False, "hears": False}
        assert state(both) == {"cut": {"2": cut, "3": cut}}
        one_way = await server.ask(order(b'{"heal": [2], "cut": [3], "hears": true}', nonce=2))
        assert state(one_way) == {"cut": {"3": {"sends": False, "hears": True}}}
        assert [link.sends(2), link.hears(2), link.sends(3), link.hears(3)] == [True, True, False, True]
        assert state(await server.ask(order(b"{}", nonce=3))) == {"cut": {"3": {"sends": False, "hears": True}}}

    with_server(LinkAdmin(link, Verifier(1, SECRET, now_ms=lambda: NOW_MS), lambda: frozenset((2, 3))), test)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST /v2/admin/links HTTP/1.1\r\ncontent-length: 12\r\n\r\n" + b'{"cut": [2]}', 401),
        (order(b'{"cut": [2]}', secret=b"another"), 401),
        (order(b'{"cut": [2]}', sender=3), 403),
        (order(b'{"cut": [2, 4]}'), 404),
        (order(b'{"cut": "all"}'), 400),
        (order(b'{"cuts": [2]}'), 400),
        (order(b"cut 2"), 400),
    ],
)
def test_nobody_else_does(request_bytes: bytes, status: int) -> None:
    link = Link(JumpingClock())

    async def test(server: RunningServer) -> None:
        assert (await server.ask(request_bytes)).startswith(b"HTTP/1.1 %d " % status)

    with_server(LinkAdmin(link, Verifier(1, SECRET, now_ms=lambda: NOW_MS), lambda: frozenset((2, 3))), test)
    assert link.state() == {}
