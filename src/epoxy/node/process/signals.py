"""Signals as calls on the event loop, up to the last yard of a process."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def answered(call: Callable[[], None]) -> Iterator[None]:
    """Within it a signal is a call; after it, nothing: one more signal must not make a failure of an orderly end.

    The loop's own handlers will not do: it puts back the system's, which kill, when it is closed. A mask is no help
    either: it holds for one thread, and the system then picks another.
    """
    loop = asyncio.get_running_loop()

    def pass_on(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(call)

    for number in SIGNALS:
        signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
