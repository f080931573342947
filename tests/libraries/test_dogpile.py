"""dogpile.cache with its distributed lock: of many that want a value, one computes it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dogpile.cache import make_region

from tests.libraries.judge import HOST, until


def region(port: int, **arguments: Any) -> Any:
    settings = {"host": HOST, "port": port, "distributed_lock": True, "thread_local_lock": False, **arguments}
    return make_region().configure("dogpile.cache.redis", arguments=settings)


def test_one_computes(doors: Any) -> None:
    calls = 0
    guard = threading.Lock()

    def dear() -> str:
        nonlocal calls
        with guard:
            calls += 1
        time.sleep(0.05)
        return "value"

    regions = [region(port, lock_timeout=60, lock_sleep=0.01) for port in doors.ports]
    with ThreadPoolExecutor(6) as pool:
        told = list(pool.map(lambda i: regions[i % 3].get_or_create("dp/dear", dear), range(6)))
    assert told == ["value"] * 6
    assert calls == 1


def test_values(doors: Any) -> None:
    here = region(doors.port, redis_expiration_time=1)
    here.set("dp/a", {"n": 1})
    assert here.get("dp/a") == {"n": 1}
    until(lambda: not here.get("dp/a"), "over")
    forever = region(doors.port)
    forever.set_multi({"dp/d": 1, "dp/e": 2})
    assert forever.get_multi(["dp/d", "dp/e"]) == [1, 2]
    forever.delete_multi(["dp/d", "dp/e"])
    assert not forever.get("dp/e")


def test_several_that_end(doors: Any) -> None:
    here = region(doors.port, redis_expiration_time=100)
    here.set_multi({"dp/b": 1, "dp/c": 2})
    assert here.get_multi(["dp/b", "dp/c"]) == [1, 2]
