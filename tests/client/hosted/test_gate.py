"""The output gate in virtual time: what leaves when, and what a save has in it."""

from collections.abc import Callable

import pytest

from epoxy.client.hosted import gate as module
from epoxy.client.hosted.gate import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, MAX_HELD, MAX_HELD_BYTES, OutputGate
from epoxy.model.envoy_messages import Saved, SaveRefused, SaveState
from tests.protocol.placement.bench import Clock


class Bench:
    """The state is a text; what leaves is what it was when it was sent."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.state = ""
        self.sent: list[SaveState] = []
        self.left: list[str] = []
        self.told: list[str] = []
        self.fenced: list[str] = []
        self.gate = OutputGate(
            10, self._compose, self.sent.append, self.clock.call_later, self.told.append, self.fenced.append
        )

    def _compose(self, number: int, version: int) -> SaveState:
        return SaveState(actor_id="a", generation=1, number=number, version=version, document=self.state.encode())

    def change(self, letter: str) -> None:
        self.state += letter
        self.gate.advance()

    def send(self) -> None:
        told = self.state
        self.gate.release(lambda: self.left.append(told), 1)

    def saved(self, number: int = 0) -> None:
        save = self.sent[-1]
        self.gate.saved(Saved(actor_id="a", generation=1, number=number or save.number, version=save.version + 1))

    def refused(self, *, fenced: bool) -> None:
        number = self.sent[-1].number
        self.gate.refused(SaveRefused(actor_id="a", generation=1, number=number, reason="so", fenced=fenced))

    def unsaved(self) -> list[str]:
        """What left, and no save that was acknowledged has it: what a crash now would take back."""
        durable = self.sent[-1] if self.gate.under_way is None else self.sent[-2] if len(self.sent) > 1 else None
        kept = durable.document.decode() if durable is not None else ""
        return [each for each in self.left if not kept.startswith(each)]


def test_what_rests_on_no_change_leaves_at_once() -> None:
    bench = Bench()
    bench.send()
    assert (bench.left, bench.sent, bench.gate.is_settled) == ([""], [], True)


def batch(bench: Bench) -> None:
    bench.change("a")
    bench.send()
    bench.change("b")
    bench.send()
    bench.change("c")


def test_one_save_is_under_way_and_the_next_has_all_that_came_meanwhile() -> None:
    bench = Bench()
    batch(bench)
    assert ([each.document for each in bench.sent], bench.left) == ([b"a"], [])
    bench.saved()
    assert ([each.document for each in bench.sent], bench.left) == ([b"a", b"abc"], ["a"])
    bench.send()
    bench.saved(number=1)
    assert bench.left == ["a"], "of an older save"
    bench.saved()
    assert (bench.left, bench.unsaved(), bench.gate.is_settled) == (["a", "ab", "abc"], [], True)
    assert [(each.number, each.version) for each in bench.sent] == [(1, 10), (2, 11)]


def at_once(_: OutputGate, then: Callable[[], None], _size: int = 0) -> None:
    then()


def all_is_saved(self: OutputGate, message: Saved) -> None:
    """What was changed while the save was under way counts as saved with it."""
    self._under_way_point = self._point
    right_saved(self, message)


right_saved = OutputGate.saved


def test_without_its_rules_an_answer_leaves_before_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(OutputGate, "release", at_once)
        bench = Bench()
        batch(bench)
        assert bench.unsaved() == ["a", "ab"]
    with monkeypatch.context() as patched:
        patched.setattr(OutputGate, "saved", all_is_saved)
        bench = Bench()
        batch(bench)
        bench.saved()
        assert bench.unsaved() == ["ab"]
        assert len(bench.sent) == 1, "and the changes made meanwhile are lost"


def test_a_fenced_gate_stays_shut() -> None:
    bench = Bench()
    batch(bench)
    bench.refused(fenced=True)
    assert (bench.fenced, bench.gate.closed, bench.gate.held_bytes) == (["so"], True, 0)
    bench.change("d")
    bench.send()
    bench.saved()
    bench.gate.send_again()
    bench.clock.advance(10 * LONGEST_PAUSE_MS)
    assert (bench.left, len(bench.sent)) == ([], 1)


def test_a_refused_save_is_tried_again_with_what_came_meanwhile() -> None:
    bench = Bench()
    batch(bench)
    pauses = []
    for _ in range(9):
        bench.refused(fenced=False)
        before, count = bench.clock.now_ms(), len(bench.sent)
        while len(bench.sent) == count:
            bench.clock.advance(FIRST_PAUSE_MS)
        pauses.append(bench.clock.now_ms() - before)
    assert pauses[:3] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS]
    assert pauses[-1] == LONGEST_PAUSE_MS
    assert bench.told == ["so"], "once"
    assert (bench.sent[-1].document, bench.sent[-1].version, bench.left) == (b"abc", 10, [])
    bench.saved()
    assert (bench.left, bench.unsaved()) == (["a", "ab"], [])
    bench.change("d")
    bench.refused(fenced=False)
    bench.gate.close()
    bench.clock.advance(10 * LONGEST_PAUSE_MS)
    assert bench.sent[-1].document == b"abcd"
    assert len(bench.told) == 2


def test_on_a_new_connection_the_save_under_way_is_sent_as_it_was() -> None:
    bench = Bench()
    bench.gate.send_again()
    assert bench.sent == []
    batch(bench)
    bench.gate.send_again()
    assert bench.sent[0] == bench.sent[1]
    assert bench.sent[0].document == b"a"


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.change("a")
    bench.gate.release(lambda: None, MAX_HELD_BYTES)
    assert not bench.gate.is_full
    bench.gate.release(lambda: None, 1)
    assert bench.gate.is_full
    bench.saved()
    assert (bench.gate.is_full, bench.gate.held_bytes) == (False, 0)
    assert MAX_HELD == 10_000
    monkeypatch.setattr(module, "MAX_HELD", 1)
    bench.change("b")
    bench.send()
    assert not bench.gate.is_full
    bench.send()
    assert bench.gate.is_full
