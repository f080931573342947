"""The body of a request that its handler reads while it arrives. Its connection is read no further while enough of it
waits, so that a slow handler slows its client down."""

from collections import deque
from collections.abc import Callable

BUFFER_BYTES = 64 << 10
"""Waits for its handler; with more, the connection is not read. One read of a socket may exceed it, by 256 KiB."""


def ignore() -> None:
    """No reader yet."""


class RequestBody:
    """`taken` is called when the handler has read some."""

    __slots__ = ("_pieces", "_taken", "is_complete", "on_more", "size")

    def __init__(self, taken: Callable[[int], None]) -> None:
        self._taken = taken
        self._pieces: deque[bytes] = deque()
        self.size = 0
        """Bytes that wait."""
        self.is_complete = False
        """All of it has arrived."""
        self.on_more: Callable[[], None] = ignore
        """Called when there is more to read, or no more to come."""

    @property
    def is_full(self) -> bool:
        return self.size >= BUFFER_BYTES

    @property
    def is_over(self) -> bool:
        """All of it has arrived and was read."""
        return self.is_complete and not self._pieces

    def read(self, limit: int) -> bytes:
        """At most so many bytes; none, if none wait."""
        pieces, size = [], 0
        while self._pieces and size < limit:
            piece = self._pieces.popleft()
            if size + len(piece) > limit:
                self._pieces.appendleft(piece[limit - size :])
                piece = piece[: limit - size]
            pieces.append(piece)
            size += len(piece)
        self.size -= size
        if size:
            self._taken(size)
        return b"".join(pieces)

    def arrived(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size += len(piece)
        self.on_more()

    def finish(self) -> None:
        self.is_complete = True
        self.on_more()

    def drop(self) -> None:
        """What has not been read is not needed."""
        self._pieces.clear()
        self.size = 0
        self.on_more = ignore
