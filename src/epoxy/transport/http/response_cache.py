"""Answers ready to be sent: a door that finds its answer here need not look any further.

What can never change may be kept for ever: the value of a reserved name that is committed and durable. Whoever keeps
something else must drop it before anybody can know that it has changed.
"""

ANSWER_BYTES = 4 << 10
"""The longest answer kept. Beyond, copying the value costs more than looking it up."""

GENERATION_BYTES = 16 << 20
"""Of each of the two generations: together room for 150,000 short values, a hundredth of what a node may use anyway."""

ENTRY_BYTES = 160
"""What Python adds to a question and its answer: two objects, and a place in a table that is half full."""


class ReadyAnswers:
    """In two generations: what nobody asked for while one of them filled up is forgotten.

    A hot path may look into `young` itself; what it does not find there, `find` may. `served` counts the answers given
    without a detour through the door's general machinery: whoever gives them adds them up here.
    """

    def __init__(self, generation_bytes: int = GENERATION_BYTES) -> None:
        self.young: dict[bytes, bytes] = {}
        self.served = 0
        self._old: dict[bytes, bytes] = {}
        self._generation_bytes = generation_bytes
        self._young_bytes = 0

    def __len__(self) -> int:
        return len(self.young) + len(self._old.keys() - self.young.keys())

    def find(self, question: bytes) -> bytes | None:
        answer = self.young.get(question)
        if answer is None and (answer := self._old.get(question)) is not None:
            self.keep(question, answer)
        return answer

    def keep(self, question: bytes, answer: bytes) -> None:
        if len(answer) > ANSWER_BYTES or question in self.young:
            return
        size = len(question) + len(answer) + ENTRY_BYTES
        if self._young_bytes + size > self._generation_bytes:
            self._old, self.young, self._young_bytes = self.young, {}, 0
        self.young[question] = answer
        self._young_bytes += size

    def clear(self) -> None:
        """Whoever asks from now on is not to be answered by heart."""
        self.young.clear()
        self._old.clear()
        self._young_bytes = 0

    def drop(self, question: bytes) -> None:
        answer = self.young.pop(question, None)
        if answer is not None:
            self._young_bytes -= len(question) + len(answer) + ENTRY_BYTES
        self._old.pop(question, None)
