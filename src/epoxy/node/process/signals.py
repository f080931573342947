"""Signals as calls on the event loop, until the process ends."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def handled(call: Callable[[], None]) -> Iterator[None]:
    """Inside, a signal calls `call` on the loop. Afterwards signals are ignored: one more must not turn an orderly end
    into a failure.

    The loop's own handlers will not do: when it is closed it restores the system's, which kill. Nor does a signal mask:
    it holds for one thread, and the system delivers to another.
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
