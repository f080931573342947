"""A process that holds a lock until it is killed: `python -m benchmarks.leases.holder DOOR PORT KEY TTL`.

It prints "held", and, right after a renewal is acknowledged, "renewed" and the time just before that was sent, on the
clock that all processes of a machine share.
"""

import random
import sys
import time

from benchmarks.leases.doors import DOORS
from epoxy.client import Client
from epoxy.client.lease_flow import MARGIN, MOST_MARGIN_S

LOCK = "lock"
"""The door of the Python client, beside those of DOORS."""

LOOK_S = 0.001
BEFORE = 0.1, 0.4
"""Of the time to live, between taking and renewing: holders that began together do not end together."""


def say(words: str) -> None:
    print(words, flush=True)


def hold(name: str, port: int, key: str, ttl_s: float) -> None:
    door = DOORS[name](port)
    if not door.take(key, ttl_s):
        raise SystemExit(f"error: {key} is another's")
    say("held")
    time.sleep(ttl_s * random.uniform(*BEFORE))
    sent_s = time.monotonic()
    door.renew()
    say(f"renewed {sent_s!r}")


def hold_lock(port: int, key: str, ttl_s: float) -> None:
    """The lock renews itself, in a thread: what is left rises then."""
    lock = Client(f"http://127.0.0.1:{port}").lock(key, ttl=ttl_s, wait=0).acquire()
    say("held")
    left_s = lock.remaining
    while (now_left_s := lock.remaining) <= left_s:
        left_s = now_left_s
        time.sleep(LOOK_S)
    believed_s = ttl_s - min(ttl_s * MARGIN, MOST_MARGIN_S)
    say(f"renewed {time.monotonic() + lock.remaining - believed_s!r}")


def main() -> None:
    name, port, key, ttl = sys.argv[1:]
    if name == LOCK:
        hold_lock(int(port), key, float(ttl))
    else:
        hold(name, int(port), key, float(ttl))
    time.sleep(3600)


if __name__ == "__main__":
    main()
