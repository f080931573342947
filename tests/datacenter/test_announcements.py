"""What the gateway tells the other nodes, with links by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from epoxy.datacenter import announcements as module
from epoxy.datacenter.announcements import (
    CONFIG_MS,
    MAX_ENDED_SESSIONS,
    REST_MS,
    Announcements,
    Confirmations,
    replies_of,
)
from epoxy.datacenter.messages import ComeToRest, ForwardedReplies, GoOn, Received, SessionOver, Unanswerable
from epoxy.datacenter.ports import AnswerLost, NeverSent
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.messages import ConfigOk, Failed, UpdateConfig
from tests.datacenter.hands import Asked, HandLinks, the
from tests.node.bench import HandClock

REPLICA = 3


def config(epoch: int) -> ClusterConfig:
    member = ReplicaInfo(id=REPLICA, status=ReplicaStatus.ACTIVE, url="http://a")
    return ClusterConfig(epoch=epoch, coordinator_id=REPLICA, replicas=(member,))


class Bench:
    def __init__(self, *sessions: int) -> None:
        self.links, self.clock = HandLinks(*(sessions or (2, 3))), HandClock()
        self.config = config(1)
        self.undurable: list[Callable[[], None]] = []
        self.is_slow = False
        self.announcements = Announcements(
            self.links, self.clock, me=REPLICA, config=lambda: self.config, when_durable=self._when_durable
        )

    def _when_durable(self, then: Callable[[], None]) -> None:
        if self.is_slow:
            self.undurable.append(then)
        else:
            then()

    def all_know(self) -> None:
        """The configuration in force is known everywhere."""
        self.announcements.tell_config()
        while self.links.asked:
            self.links.take().reply(ConfigOk(epoch=self.config.epoch))

    def adopt(self, epoch: int, happened: list[str]) -> Callable[[], None]:
        def adopt() -> None:
            self.config = config(epoch)
            happened.append(f"adopted {epoch}")

        return adopt

    def asked(self, kind: type[Any]) -> list[Asked]:
        return [each for each in self.links.asked if isinstance(each.question, kind)]


def test_a_configuration_is_told_to_all_until_they_confirm_it() -> None:
    bench = Bench()
    done: list[None] = []
    bench.announcements.tell_config(lambda: done.append(None))
    first, second = bench.links.take(), bench.links.take()
    assert first.requests == second.requests == (UpdateConfig(config=config(1)),)
    first.reply(ConfigOk(epoch=1))
    assert not done
    second.answer(NeverSent("no link"))
    assert not done, "a node that was not reached has not confirmed"
    bench.clock.advance(CONFIG_MS)
    assert done == [None]
    bench.announcements.tick()
    again = bench.links.take()
    assert again.to == second.to
    bench.announcements.tick()
    assert bench.links.asked == [], "one question at a time"
    again.reply(ConfigOk(epoch=1))
    bench.announcements.tick()
    assert bench.links.asked == []
    assert done == [None]
    assert bench.clock.pending == []


@pytest.mark.parametrize("reply", [ConfigOk(epoch=1), Failed(reason="no")])
def test_a_node_that_stays_in_the_epoch_before_has_not_confirmed(reply: Any) -> None:
    bench = Bench(2)
    bench.all_know()
    bench.config = config(2)
    bench.announcements.tell_config()
    bench.links.take().reply(reply)
    bench.announcements.tick()
    assert len(bench.links.asked) == 1


def test_a_node_in_a_newer_epoch_has_confirmed() -> None:
    bench = Bench(2)
    bench.announcements.tell_config()
    bench.links.take().reply(ConfigOk(epoch=7))
    bench.config = config(5)
    bench.announcements.tick()
    assert bench.links.asked == []


def test_without_other_nodes_nothing_is_waited_for() -> None:
    bench = Bench()
    bench.links.sessions = set()
    happened: list[str] = []
    bench.announcements.rest_first(bench.adopt(2, happened))
    assert happened == ["adopted 2"]
    assert bench.clock.pending == []


def test_nodes_rest_before_a_configuration_is_adopted_and_go_on_with_it() -> None:
    bench = Bench()
    bench.all_know()
    happened: list[str] = []
    bench.is_slow = True
    bench.announcements.rest_first(bench.adopt(2, happened))
    one, two = bench.asked(ComeToRest)
    bench.links.asked.clear()
    one.answer(Received())
    assert happened == []
    two.answer(Received())
    assert happened == ["adopted 2"]
    assert bench.links.asked == [], "it is told when it is durable, not before"
    bench.undurable.pop()()
    told = [bench.links.take(), bench.links.take()]
    told[0].reply(ConfigOk(epoch=2))
    assert bench.links.told == []
    told[1].reply(ConfigOk(epoch=2))
    assert bench.links.told == [(2, GoOn()), (3, GoOn())]


@pytest.mark.parametrize("answer", [NeverSent("no link"), AnswerLost("gone"), Unanswerable("another release")])
def test_a_node_that_cannot_rest_is_not_waited_for(answer: Any) -> None:
    bench = Bench(2)
    happened: list[str] = []
    bench.announcements.rest_first(bench.adopt(2, happened))
    bench.links.take().answer(answer)
    assert happened == ["adopted 2"]


def test_a_node_that_is_silent_is_waited_for_a_limited_time() -> None:
    bench = Bench(2)
    happened: list[str] = []
    bench.announcements.rest_first(bench.adopt(2, happened))
    silent = bench.links.take()
    bench.clock.advance(REST_MS - 1)
    assert happened == []
    bench.clock.advance(1)
    assert happened == ["adopted 2"]
    silent.answer(Received())
    assert happened == ["adopted 2"]
    assert bench.links.told == []
    bench.clock.advance(CONFIG_MS)
    assert bench.links.told == [(2, GoOn())]


def test_a_configuration_that_comes_meanwhile_waits_for_the_one_before() -> None:
    bench = Bench(2)
    bench.all_know()
    happened: list[str] = []
    bench.announcements.rest_first(bench.adopt(2, happened))
    bench.announcements.rest_first(bench.adopt(3, happened))
    (asked,) = bench.asked(ComeToRest)
    bench.links.asked.clear()
    asked.answer(Received())
    assert happened == ["adopted 2", "adopted 3"], "both wait for one rest"
    bench.announcements.rest_first(bench.adopt(4, happened))
    assert bench.asked(ComeToRest) == []
    bench.links.take().reply(ConfigOk(epoch=3))
    assert bench.links.told == [], "rules stay at rest in between"
    bench.links.take().answer(Received())
    bench.links.take().reply(ConfigOk(epoch=4))
    assert happened[-1] == "adopted 4"
    assert bench.links.told == [(2, GoOn())]


def test_a_configuration_that_is_not_durable_is_not_told_by_the_way() -> None:
    bench = Bench(2)
    bench.all_know()
    bench.is_slow = True
    bench.announcements.rest_first(bench.adopt(2, []))
    bench.links.take().answer(Received())
    bench.announcements.tick()
    assert bench.links.asked == []


# Clients' sessions.


def session(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_sessions_that_are_over_are_told_one_after_the_other() -> None:
    bench = Bench(2)
    bench.announcements.session_over(session(1))
    bench.announcements.session_over(session(2))
    first = bench.links.take()
    assert first.question == SessionOver(session(1))
    assert bench.links.asked == []
    first.answer(Received())
    second = bench.links.take()
    assert second.question == SessionOver(session(2))
    second.answer(Received())
    assert bench.links.asked == []


def test_a_node_that_was_not_reached_is_told_again() -> None:
    bench = Bench(2)
    bench.all_know()
    bench.announcements.session_over(session(1))
    bench.links.take().answer(AnswerLost("gone"))
    assert bench.links.asked == []
    bench.announcements.tick()
    again = bench.links.take()
    assert again.question == SessionOver(session(1))
    again.answer(Received())
    bench.announcements.tick()
    assert bench.links.asked == []


def test_of_a_node_that_cannot_be_reached_only_so_much_is_kept() -> None:
    bench = Bench(2)
    for number in range(MAX_ENDED_SESSIONS + 10):
        bench.announcements.session_over(session(number))
    bench.links.take().answer(Received())
    told = bench.links.take()
    assert told.question == SessionOver(session(10)), "the oldest ten are forgotten"


def test_of_a_node_that_has_gone_nothing_is_kept() -> None:
    bench = Bench(2, 3)
    bench.announcements.session_over(session(1))
    bench.links.asked.clear()
    bench.links.sessions = {3}
    bench.announcements.tick()
    bench.links.sessions = {2, 3}
    bench.links.asked.clear()
    bench.announcements.tick()
    assert [each.to for each in bench.asked(SessionOver)] == []


def test_replies_are_those_of_a_node_that_said_something() -> None:
    assert replies_of(NeverSent("x")) is None
    assert replies_of(ForwardedReplies(b"\xff")) is None


def test_confirmations_call_once() -> None:
    clock, done = HandClock(), list[None]()
    confirmations = Confirmations([1], clock, 10.0, lambda: done.append(None))
    confirmations.add(1)
    confirmations.add(1)
    clock.advance(20)
    assert the(done) is None


# Planted faults.


def adopts_at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(Announcements, "_rest", Announcements._adopt)
    return test_nodes_rest_before_a_configuration_is_adopted_and_go_on_with_it


def tells_what_is_not_durable(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    original = Announcements.__init__

    def at_once(self: Announcements, *given: Any, **named: Any) -> None:
        original(self, *given, **{**named, "when_durable": lambda then: then()})

    monkeypatch.setattr(Announcements, "__init__", at_once)
    return test_nodes_rest_before_a_configuration_is_adopted_and_go_on_with_it


def nodes_stay_at_rest(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(Announcements, "_go_on", lambda _: None)
    return test_nodes_rest_before_a_configuration_is_adopted_and_go_on_with_it


def any_reply_confirms(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(module, "replies_of", lambda _: (ConfigOk(epoch=99),))
    return lambda: test_a_node_that_stays_in_the_epoch_before_has_not_confirmed(Failed(reason="no"))


def a_loss_confirms(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr(module, "Received", AnswerLost)
    return test_a_node_that_was_not_reached_is_told_again


FAULTS = [adopts_at_once, tells_what_is_not_durable, nodes_stay_at_rest, any_reply_confirms, a_loss_confirms]


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_caught(
    plant: Callable[[pytest.MonkeyPatch], Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = plant(monkeypatch)
    with pytest.raises((AssertionError, IndexError, ValueError)):
        check()
