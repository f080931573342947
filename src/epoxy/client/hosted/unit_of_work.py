"""What the turns of an actor change and send: saved and let out together, or undone together. Without IO.

A turn's outputs leave when the state they rest on is saved. While a turn has changed nothing, they need not wait for
its end. After it has touched the state they do, because it may still fail, and then its changes are undone and what
rests on them never leaves. `point` in the middle of a turn (a call, `actor.save()`) makes what it did so far final.
"""

from collections.abc import Callable

from epoxy.client.hosted.answers import KeptAnswers
from epoxy.client.hosted.gate import OutputGate
from epoxy.client.hosted.link import ActorLink
from epoxy.client.hosted.state import State
from epoxy.codec.actor_documents import KeptAnswer, decode_document, encode_document
from epoxy.model.envoy_messages import SaveState, Start

Action = Callable[[], None]


class Output:
    """`dropped` is called in place of `then`, if the turn fails. `kept`: not of the turn, so it leaves in any case."""

    __slots__ = ("dropped", "kept", "size", "then")

    def __init__(self, then: Action, size: int, dropped: Action | None, *, kept: bool) -> None:
        self.then = then
        self.size = size
        self.dropped = dropped
        self.kept = kept


class UnitOfWork:
    def __init__(
        self, start: Start, link: ActorLink, refused: Callable[[str], None], fenced: Callable[[str], None]
    ) -> None:
        """Raises InvalidValue for a document that this SDK cannot read."""
        fields, kept = decode_document(start.state or b"")
        self.state = State(fields)
        self.answers = KeptAnswers(kept)
        self.alarm_ms = start.alarm_ms
        """Unix time; 0: none."""
        self.in_turn = False
        self.gate = OutputGate(start.version, self._compose, link.send, link.clock.call_later, refused, fenced)
        self._start = start
        self._alarm_point = start.alarm_ms
        self._outputs: list[Output] = []
        self._is_kept = False
        """The answer of this turn."""

    @property
    def is_touched(self) -> bool:
        return self.state.is_touched or self.alarm_ms != self._alarm_point

    def begin(self) -> None:
        self.in_turn = True
        self._is_kept = False

    def emit(
        self,
        then: Action,
        size: int = 0,
        dropped: Action | None = None,
        *,
        hold: bool = False,
        beside: bool = False,
    ) -> None:
        """`hold`: until the end of the turn in any case. `beside`: it is not the turn's."""
        if self.in_turn and (hold or self._outputs or self.is_touched):
            self._outputs.append(Output(then, size, dropped, kept=beside))
            return
        if self.is_touched:
            self.point()
        self.gate.release(then, size)

    def point(self, answer: KeptAnswer | None = None) -> None:
        """What was done so far is final: it is saved, `answer` is kept with it, and what was sent leaves then. Raises
        StateError."""
        if answer is not None and not self._is_kept:
            self.answers.keep(answer)
            self._is_kept = True
        changed = self.state.point(self.answers.bytes)
        changed = self.answers.point() or changed
        if self.alarm_ms != self._alarm_point:
            self._alarm_point, changed = self.alarm_ms, True
        if changed:
            self.gate.advance()
        outputs, self._outputs = self._outputs, []
        for each in outputs:
            self.gate.release(each.then, each.size)

    def finish(self, answer: KeptAnswer | None = None) -> None:
        """The turn has ended. Raises StateError: then it has failed."""
        self.point(answer)
        self.in_turn = False

    def fail(self) -> None:
        """The turn's changes since the last point are undone, and what it sent since is dropped."""
        self.in_turn = False
        self.state.undo()
        self.answers.undo()
        self.alarm_ms = self._alarm_point
        outputs, self._outputs = self._outputs, []
        for each in outputs:
            if each.kept:
                self.gate.release(each.then, each.size)
            elif each.dropped is not None:
                each.dropped()

    def _compose(self, number: int, version: int) -> SaveState:
        return SaveState(
            actor_id=self._start.actor_id,
            generation=self._start.generation,
            number=number,
            version=version,
            document=encode_document(self.state.encoded, self.answers.encoded()),
            alarm_ms=self._alarm_point,
        )
