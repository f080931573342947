"""Answers that are kept for requests with an idempotency key, so that asking again is safe. Without IO."""

from epoxy.codec.actor_documents import KeptAnswer

MAX_KEPT = 128
"""Answers in an actor's document; the oldest go first."""

MAX_KEPT_BYTES = 4 << 10
"""Of one answer. Of a larger one it is only kept that the request was carried out."""

KEPT_MS = 3_600_000
"""An hour: clients that ask again do so within minutes."""

ANSWER_BYTES = 64
"""Of an answer in the document, beside its key, headers and body."""


class KeptAnswers:
    def __init__(self, answers: tuple[KeptAnswer, ...]) -> None:
        self._kept = {each.key: each for each in answers}
        self.bytes = sum(map(_size, answers))
        self._point: tuple[dict[str, KeptAnswer], int] | None = None

    def get(self, key: str, now_ms: int) -> KeptAnswer | None:
        kept = self._kept.get(key)
        return kept if kept is not None and _is_current(kept, now_ms) else None

    def keep(self, answer: KeptAnswer) -> None:
        """Until `undo`, or for good with the next `point`."""
        if self._point is None:
            self._point = dict(self._kept), self.bytes
        if _size(answer) - ANSWER_BYTES - len(answer.key) > MAX_KEPT_BYTES:
            answer = KeptAnswer(key=answer.key, at_ms=answer.at_ms, too_large=True)
        self._drop(answer.key)
        for key in [key for key, old in self._kept.items() if not _is_current(old, answer.at_ms)]:
            self._drop(key)
        while len(self._kept) >= MAX_KEPT:
            self._drop(next(iter(self._kept)))
        self._kept[answer.key] = answer
        self.bytes += _size(answer)

    def encoded(self) -> tuple[KeptAnswer, ...]:
        return tuple(self._kept.values())

    def point(self) -> bool:
        """Whether there are new ones since the last point."""
        changed, self._point = self._point is not None, None
        return changed

    def undo(self) -> None:
        if self._point is not None:
            self._kept, self.bytes = self._point
            self._point = None

    def _drop(self, key: str) -> None:
        old = self._kept.pop(key, None)
        if old is not None:
            self.bytes -= _size(old)


def _is_current(answer: KeptAnswer, now_ms: int) -> bool:
    """A clock that was set back makes an answer older than it is by no more than that: it is kept."""
    return now_ms - answer.at_ms < KEPT_MS


def _size(answer: KeptAnswer) -> int:
    headers = sum(len(name.encode()) + len(value.encode()) + 8 for name, value in answer.headers)
    return len(answer.key.encode()) + headers + len(answer.body) + ANSWER_BYTES
