"""The cluster as one node sees it: asked because a client looks, answered at once, and old when it is not heard."""

from collections.abc import Callable

import msgspec
import pytest

from epoxy.model.api_world import MeasuredLink, MemberFigures, MemberReport, WorldLink
from epoxy.model.members import Figures, FiguresRead, MemberReply, MemberRequest
from epoxy.model.messages import Failed
from epoxy.node import world as module
from epoxy.node.world import ASK_EVERY_MS, FRESH_MS, OLD_MS, WorldView, links_of
from tests.node.service_bench import World as NodeBench
from tests.protocol.keys.harness import A, B, C

Answered = Callable[[MemberReply], None]


class Bench:
    def __init__(self) -> None:
        self.bench = NodeBench()
        self.bench.links.rtts = {B: 70.0, C: 150.0}
        self.asked: list[tuple[int, Answered]] = []
        self.view = WorldView(self.bench.node, self._ask)

    def _ask(self, to: int, request: MemberRequest, answered: Answered) -> None:
        assert isinstance(request, FiguresRead)
        self.asked.append((to, answered))

    def pass_ms(self, by_ms: float) -> None:
        self.bench.clock.advance(by_ms)

    def answer(self, replica: int, p50_ms: float = 75.0) -> None:
        (answered,) = [answered for to, answered in self.asked if to == replica]
        figures = MemberFigures(state="active", p50_ms=p50_ms, floor_ms=70.0)
        links = [MeasuredLink(to=A, rtt_ms=72.0, reachable=True), MeasuredLink(to=C, rtt_ms=200.0, reachable=True)]
        answered(Figures(report=msgspec.json.encode(MemberReport(figures=figures, links=links))))
        self.asked = [each for each in self.asked if each[0] != replica]


def test_a_look_is_answered_at_once_with_what_is_known() -> None:
    bench = Bench()
    world = bench.view.look()
    assert (world.id, world.datacenter, world.available, world.tolerated_failures) == (A, "dc-1", True, 1)
    assert (world.replicas, world.slow_quorum, world.fast_quorum) == (3, 2, 2)
    me, other, _ = world.members
    assert (me.reachable, me.old, me.age_s, me.state) == (True, False, 0.0, "serves clients")
    assert me.figures.floor_ms == 70.0
    assert (other.old, other.age_s, other.figures) == (True, None, MemberFigures())
    assert sorted(to for to, _ in bench.asked) == [B, C]
    bench.answer(B)
    bench.pass_ms(FRESH_MS)
    heard = bench.view.look().members[1]
    assert (heard.old, heard.figures.p50_ms, heard.state) == (False, 75.0, "serves clients")


def test_members_are_asked_once_a_second_however_many_clients_look() -> None:
    bench = Bench()
    for _ in range(100):
        bench.view.look()
        bench.pass_ms(1)
    assert sorted(to for to, _ in bench.asked) == [B, C]
    bench.answer(B)
    bench.pass_ms(ASK_EVERY_MS)
    bench.view.look()
    assert sorted(to for to, _ in bench.asked) == [B, C], "a member whose answer is awaited is not asked again"
    assert len(bench.asked) == 2


def test_without_a_look_nothing_is_asked_and_nothing_measured() -> None:
    bench = Bench()
    bench.pass_ms(60_000)
    assert bench.asked == []
    assert not bench.view.window.is_on
    bench.view.look()
    bench.answer(B)
    bench.answer(C)
    assert bench.view.window.is_on
    bench.pass_ms(60_000)
    assert bench.asked == []
    assert not bench.view.window.is_on


def test_figures_that_are_not_renewed_are_marked_as_old() -> None:
    bench = Bench()
    bench.view.look()
    bench.answer(B)
    bench.pass_ms(OLD_MS)
    assert not bench.view.look().members[1].old
    bench.pass_ms(FRESH_MS)
    member = bench.view.look().members[1]
    assert (member.old, member.age_s, member.figures.p50_ms) == (True, (OLD_MS + FRESH_MS) / 1000, 75.0)


def test_a_view_that_never_finds_anything_old_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault."""
    monkeypatch.setattr(module, "OLD_MS", 1e12)
    with pytest.raises(AssertionError):
        test_figures_that_are_not_renewed_are_marked_as_old()


def test_a_member_out_of_reach_is_told_in_words_and_not_asked() -> None:
    bench = Bench()
    bench.bench.links.silent.add(C)
    world = bench.view.look()
    assert [to for to, _ in bench.asked] == [B]
    gone = world.members[2]
    assert (gone.reachable, gone.state) == (False, "not reachable from dc-1: gone")
    assert (world.tolerated_failures, world.available) == (0, True)
    bench.bench.links.silent.add(B)
    bench.pass_ms(FRESH_MS)
    world = bench.view.look()
    assert (world.tolerated_failures, world.available) == (-1, False)


@pytest.mark.parametrize(
    "reply", [Failed(reason="answered 400"), Figures(report=b"{"), Figures(report=b'{"links":[]}')]
)
def test_what_cannot_be_read_is_silence(reply: MemberReply) -> None:
    bench = Bench()
    bench.view.look()
    for _, answered in bench.asked:
        answered(reply)
    bench.asked.clear()
    bench.pass_ms(ASK_EVERY_MS)
    assert bench.view.look().members[1].age_s is None
    assert sorted(to for to, _ in bench.asked) == [B, C], "it is asked again"


def test_a_member_that_does_not_serve_says_why() -> None:
    bench = Bench()
    bench.view.look()
    (answered,) = [answered for to, answered in bench.asked if to == B]
    report = MemberReport(figures=MemberFigures(state="confirming", reason="others must confirm its store"))
    answered(Figures(report=msgspec.json.encode(report)))
    bench.pass_ms(FRESH_MS)
    assert bench.view.look().members[1].state == "others must confirm its store"


def test_what_a_node_tells_another_switches_its_measuring_on() -> None:
    bench = Bench()
    told = msgspec.json.decode(bench.view.told(), type=MemberReport)
    assert bench.view.window.is_on
    assert told.figures.tolerated_failures == 1
    assert [(link.to, link.rtt_ms, link.reachable) for link in told.links] == [(B, 70.0, True), (C, 150.0, True)]


def test_every_pair_that_an_end_has_measured_is_a_link() -> None:
    def report(*links: tuple[int, float | None, bool]) -> MemberReport:
        measured = [MeasuredLink(to=to, rtt_ms=rtt_ms, reachable=is_up) for to, rtt_ms, is_up in links]
        return MemberReport(figures=MemberFigures(), links=measured)

    reports = {A: report((B, 70.0, True), (C, None, False)), B: report((A, 72.0, True))}
    assert links_of([A, B, C], reports) == [
        WorldLink(a=A, b=B, rtt_ms=71.0, reachable=True),
        WorldLink(a=A, b=C, rtt_ms=None, reachable=False),
    ]
    one_way = {A: report((B, 70.0, True)), B: report((A, None, False))}
    assert links_of([A, B], one_way) == [WorldLink(a=A, b=B, rtt_ms=70.0, reachable=False)]
