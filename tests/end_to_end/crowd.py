"""Clients that work in threads of their own until somebody says that it is over."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Crowd:
    """Subclasses start the work, and each piece of work checks `_over` now and then."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def _begin(self, work: Callable[..., None], *given: object) -> None:
        self._threads.append(threading.Thread(target=work, args=given, daemon=True))
        self._threads[-1].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
