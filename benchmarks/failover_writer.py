"""A client that writes all the time through a Sentinel client and records what was acknowledged."""

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

TIMEOUT_S = 0.25
"""A server that is stopped holds its clients for so long. Short, so that what is measured is the failover."""

WAIT_MS = 200
RETRY_S = 0.005


class Writer:
    """The client's own retries are off: their pauses, of seconds, would be measured instead of the failover.

    While it is entered, it writes one key after the other. `acked`: those that so many replicas had, by the server's
    own count; `answered`: those that it said OK to. `gaps_s`: pauses between two OKs, longest last when sorted."""

    def __init__(self, sentinels: Sequence[tuple[str, int]], service: str, *, replicas: int = 1) -> None:
        self.acked: list[str] = []
        self.answered: list[str] = []
        self.gaps_s: list[float] = []
        self.errors = 0
        self._replicas = replicas
        self._over = threading.Event()
        self._last_s: float | None = None
        once: dict[str, Any] = {"socket_timeout": TIMEOUT_S, "retry": Retry(NoBackoff(), 0)}
        sentinel = Sentinel(list(sentinels), sentinel_kwargs=once, **once)  # type: ignore[no-untyped-call]
        self._master: Any = sentinel.master_for(service)  # type: ignore[no-untyped-call]
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            try:
                self._write(f"w:{number}")
            except (redis.RedisError, MasterNotFoundError, OSError):
                self.errors += 1
                time.sleep(RETRY_S)

    def _write(self, key: str) -> None:
        self._master.set(key, key)
        now_s = time.monotonic()
        if self._last_s is not None:
            self.gaps_s.append(now_s - self._last_s)
        self._last_s = now_s
        self.answered.append(key)
        if self._replicas and self._master.wait(self._replicas, WAIT_MS) >= self._replicas:
            self.acked.append(key)

    def missing(self, port: int, keys: Sequence[str]) -> list[str]:
        with redis.Redis(port=port, decode_responses=True) as server:
            return [key for key, value in zip(keys, server.mget(keys), strict=True) if value is None] if keys else []
