"""Signals as calls on the event loop, until the process ends."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def handled(end: Callable[[], None], reload: Callable[[], None] | None = None) -> Iterator[None]:
    """Inside, SIGTERM and SIGINT call `end` on the loop, and SIGHUP calls `reload`, if there is one; unless it comes
    because the terminal that the process was started from is gone, which ends it as it ends any program there.
    Afterwards these signals are ignored: one more must not turn an orderly end into a failure.

    The loop's own handlers will not do: when it is closed it restores the system's, which kill. Nor does a signal mask:
    it holds for one thread, and the system delivers to another.
    """
    loop = asyncio.get_running_loop()

    calls = dict.fromkeys(ENDING, end)
    if reload is not None:
        ends_with_terminal = has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # by nohup
        calls[signal.SIGHUP] = lambda: (end if ends_with_terminal and not has_terminal() else reload)()

    def pass_on(number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(calls[signal.Signals(number)])

    for number in calls:
        signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number in calls:
            signal.signal(number, signal.SIG_IGN)


def has_terminal() -> bool:
    """Whether a terminal controls this process."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
