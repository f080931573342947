"""Whole encoded answers, by the bytes of the request.

An answer that can never change may stay for ever: the value of a reserved name that is committed and durable. Any other
must be dropped before the change it misses becomes visible.
"""

ANSWER_BYTES = 4 << 10
"""The longest answer cached. Copying a longer one costs more than the lookup of its value."""

GENERATION_BYTES = 16 << 20
"""Of each of the two generations: together room for 150,000 short values, a hundredth of a node's memory."""

ENTRY_BYTES = 160
"""Python's overhead for an entry: two objects, and a place in a table that is half full."""


class ResponseCache:
    """In two generations: an entry that is not used while one of them fills up is evicted.

    A hot path may look into `young` directly; `find` looks into both. Callers count the answers they take from here in
    `served`. Entries are answers to anyone who may read them: `generation` rises whenever rights may have changed, and
    a connection that was found to have some has to be checked again.
    """

    def __init__(self, generation_bytes: int = GENERATION_BYTES) -> None:
        self.young: dict[bytes, bytes] = {}
        self.served = 0
        self.generation = 0
        self._old: dict[bytes, bytes] = {}
        self._generation_bytes = generation_bytes
        self._young_bytes = 0

    def __len__(self) -> int:
        return len(self.young) + len(self._old.keys() - self.young.keys())

    def find(self, request: bytes) -> bytes | None:
        answer = self.young.get(request)
        if answer is None and (answer := self._old.get(request)) is not None:
            self.keep(request, answer)
        return answer

    def keep(self, request: bytes, answer: bytes) -> None:
        if len(answer) > ANSWER_BYTES or request in self.young:
            return
        size = len(request) + len(answer) + ENTRY_BYTES
        if self._young_bytes + size > self._generation_bytes:
            self._old, self.young, self._young_bytes = self.young, {}, 0
        self.young[request] = answer
        self._young_bytes += size

    def rights_changed(self) -> None:
        """Connections have to show again that they may read."""
        self.generation += 1

    def clear(self) -> None:
        """Drop every cached response."""
        self.young.clear()
        self._old.clear()
        self._young_bytes = 0

    def drop(self, request: bytes) -> None:
        answer = self.young.pop(request, None)
        if answer is not None:
            self._young_bytes -= len(request) + len(answer) + ENTRY_BYTES
        self._old.pop(request, None)
