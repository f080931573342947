"""A process that uses a simulated disk, moved by hand."""

from collections import deque
from collections.abc import Callable


class HandUser:
    """What waits for the disk goes on when the test says so."""

    def __init__(self, error: OSError | None = None) -> None:
        self.waiting: deque[Callable[[], None]] = deque()
        self.failures: list[str] = []
        self.error = error

    def wait_for_disk(self, then: Callable[[], None]) -> None:
        self.waiting.append(then)

    def soon(self, then: Callable[[], None]) -> None:
        self.waiting.appendleft(then)

    def delay(self, then: Callable[[], None]) -> None:
        self.waiting.append(then)

    def disk_error(self) -> OSError | None:
        return self.error

    def disk_failed(self, reason: str) -> None:
        self.failures.append(reason)

    def sync(self) -> None:
        """Until nothing waits any more."""
        while self.waiting:
            self.waiting.popleft()()
