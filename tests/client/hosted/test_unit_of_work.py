"""What a turn changed and sent is saved and let out together, or undone together."""

from collections.abc import Callable

import pytest

from epoxy.client.hosted.answers import KeptAnswers
from epoxy.client.hosted.state import State
from epoxy.client.hosted.unit_of_work import UnitOfWork
from epoxy.codec.actor_documents import KeptAnswer, decode_document
from epoxy.model.envoy_messages import Saved, SaveState
from epoxy.model.errors import DocumentTooLarge
from epoxy.model.homes import MAX_DOCUMENT_BYTES
from tests.client.hosted.bench import START, Link

ANSWER = KeptAnswer(key="k", at_ms=0, body=b"so")


class Bench:
    def __init__(self) -> None:
        self.link = Link()
        self.left: list[str] = []
        self.dropped: list[str] = []
        self.work = UnitOfWork(START, self.link, self.left.append, self.left.append)

    def emit(self, what: str, *, beside: bool = False, hold: bool = False) -> None:
        self.work.emit(lambda: self.left.append(what), 1, lambda: self.dropped.append(what), beside=beside, hold=hold)

    def saved(self) -> None:
        save = self.link.of(SaveState)[-1]
        self.work.gate.saved(Saved(actor_id="01aa", generation=7, number=save.number, version=save.version + 1))


def test_a_turn_that_has_changed_nothing_need_not_wait_for_its_end() -> None:
    bench = Bench()
    bench.work.begin()
    bench.emit("early")
    assert bench.left == ["early"]
    bench.work.state["n"] = 1
    bench.emit("late")
    bench.work.finish()
    assert bench.left == ["early"]
    bench.saved()
    assert bench.left == ["early", "late"]


def failed_turn() -> Bench:
    bench = Bench()
    bench.work.begin()
    bench.work.state["n"] = 1
    bench.work.alarm_ms = 9
    bench.emit("of the turn")
    bench.emit("of a stream", beside=True)
    bench.work.fail()
    return bench


def test_a_turn_that_fails_leaves_nothing_behind() -> None:
    bench = failed_turn()
    assert (dict(bench.work.state), bench.work.alarm_ms, bench.work.is_touched) == ({}, 0, False)
    assert (bench.left, bench.dropped, bench.link.sent) == (["of a stream"], ["of the turn"], [])


def test_a_point_in_the_middle_of_a_turn_is_final() -> None:
    bench = Bench()
    bench.work.begin()
    bench.work.state["n"] = 1
    bench.emit("first")
    bench.work.point()
    bench.work.state["n"] = 2
    bench.emit("second")
    bench.work.fail()
    bench.saved()
    assert (bench.work.state["n"], bench.left, bench.dropped) == (1, ["first"], ["second"])
    assert len(bench.link.of(SaveState)) == 1


def test_what_is_sent_between_turns_rests_on_what_was_changed_there() -> None:
    bench = Bench()
    bench.work.state["n"] = 1
    bench.emit("so")
    assert bench.left == []
    bench.saved()
    assert bench.left == ["so"]


def test_an_alarm_alone_is_saved() -> None:
    bench = Bench()
    bench.work.begin()
    bench.work.alarm_ms = 9
    bench.work.finish()
    assert [each.alarm_ms for each in bench.link.of(SaveState)] == [9]


def answered(bench: Bench) -> tuple[dict[str, bytes], tuple[KeptAnswer, ...]]:
    """What is durable when the answer of an idempotent request leaves: a crash then must find both."""
    bench.work.begin()
    bench.work.state["n"] = 1
    bench.emit("answer", hold=True)
    bench.work.finish(ANSWER)
    while not bench.left:
        bench.saved()
    return decode_document(bench.link.of(SaveState)[-1].document)


def test_a_kept_answer_is_in_the_save_of_its_changes() -> None:
    assert answered(Bench()) == ({"n": b"\x01"}, (ANSWER,))


def keep_later(self: UnitOfWork, answer: KeptAnswer | None = None) -> None:
    """With the next change, whenever that is."""
    right_finish(self)
    if answer is not None:
        self.answers.keep(answer)


right_finish: Callable[..., None] = UnitOfWork.finish


def test_an_answer_that_is_kept_later_could_be_lost_behind_its_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnitOfWork, "finish", keep_later)
    assert answered(Bench()) == ({"n": b"\x01"}, ()), "the request would be carried out again"


def test_an_answer_that_left_with_a_point_is_kept_with_it() -> None:
    bench = Bench()
    bench.work.begin()
    bench.emit("answer", hold=True)
    assert bench.left == []
    bench.work.point(ANSWER)
    bench.work.fail()
    assert bench.work.answers.get("k", 0) == ANSWER
    bench.saved()
    assert bench.left == ["answer"]


def test_too_large_a_change_fails_the_turn_with_its_kept_answer() -> None:
    bench = Bench()
    bench.work.begin()
    for name in "ab":
        bench.work.state[name] = bytes(MAX_DOCUMENT_BYTES // 2)
    bench.emit("answer", hold=True)
    with pytest.raises(DocumentTooLarge):
        bench.work.finish(ANSWER)
    bench.work.fail()
    assert (dict(bench.work.state), bench.work.answers.encoded(), bench.link.sent) == ({}, (), [])
    assert bench.dropped == ["answer"]


@pytest.mark.parametrize("rule", [(State, "undo"), (KeptAnswers, "undo")])
def test_each_undo_is_needed(monkeypatch: pytest.MonkeyPatch, rule: tuple[type, str]) -> None:
    monkeypatch.setattr(*rule, lambda _: None)
    bench = Bench()
    bench.work.begin()
    bench.work.state["n"] = 1
    bench.work.answers.keep(ANSWER)
    bench.work.fail()
    assert bench.work.is_touched or bench.work.answers.encoded()
