"""What actors did, as their own code wrote it down: a file that all workers of a test append to, and its judge."""

import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec
from msgspec import Struct


class Step(Struct, frozen=True, kw_only=True):
    """`at_s` is on the clock that all processes of a machine share."""

    at_s: float
    pid: int
    actor: str
    """Its name and key."""
    actor_id: str
    generation: int
    what: str


decoder = msgspec.json.Decoder(Step)


class Journal:
    """Each step is one write to a file in append mode, so the lines of processes are not mixed up."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, *, actor: str, actor_id: str, generation: int, what: str) -> None:
        now_s, pid = time.monotonic(), os.getpid()
        step = Step(at_s=now_s, pid=pid, actor=actor, actor_id=actor_id, generation=generation, what=what)
        os.write(self._file, msgspec.json.encode(step) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> list[Step]:
    """In the order of time. Empty: no worker has begun."""
    if not path.exists():
        return []
    return sorted(decoder.decode_lines(path.read_bytes()), key=lambda step: step.at_s)


def overlaps(steps: Iterable[Step], stood_still: Collection[int] = ()) -> list[str]:
    """Steps of an actor's run after a later run has begun. A run is an id and a generation. Processes that
    `stood_still` longer than their lease may take one more step each, which is what is promised of them."""
    current: dict[str, tuple[str, int]] = {}
    before: dict[str, set[tuple[str, int]]] = defaultdict(set)
    late: dict[int, int] = defaultdict(int)
    found = []
    for step in steps:
        run = step.actor_id, step.generation
        if run in before[step.actor]:
            late[step.pid] += 1
            if step.pid not in stood_still or late[step.pid] > 1:
                found.append(
                    f"{step.actor}: {step.what!r} of generation {step.generation} in {step.pid} after the next"
                )
            continue
        last = current.get(step.actor)
        if last is not None and last != run:
            before[step.actor].add(last)
            if last[0] == step.actor_id and last[1] > step.generation:
                found.append(f"{step.actor}: generation {step.generation} begins after {last[1]}")
        current[step.actor] = run
    return found
