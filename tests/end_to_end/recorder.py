"""What clients of a real cluster ask and are told, written down for the same judge that the simulator has."""

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from epoxy import Client, EpoxyError, ImmutableKey, VersionMismatch
from epoxy_sim.history import (
    Absent,
    Add,
    Delete,
    Failed,
    Found,
    Immutable,
    Kind,
    Lost,
    Mismatch,
    Missing,
    Operation,
    Outcome,
    Put,
    Read,
    Reserve,
    Same,
    Touch,
    Unknown,
    Won,
    check_optimistic_read,
    encode_lines,
)
from epoxy_sim.linearizability import Linearizable, check

PATIENCE_S = 60.0
"""For something that takes a fraction of a second. Only a cluster that stands still uses it up."""

PROCESS_S = 180.0
"""For a process from its start to its end, or a hundred answers: for one thing after the other."""


LIMIT = 1_000_000
"""Configurations that the judge looks at for one key. Three faults at a time in five regions left 175 writes of unknown
outcome on one key, and it took 330,000 to find their order."""


class Recorder:
    """Threads share one. Times are the numbers of a counter: two events never have the same."""

    def __init__(self) -> None:
        self.history: list[Operation] = []
        self.answered: Counter[str] = Counter()
        self.errors: list[str] = []
        """Of clients that were told that something failed, or heard nothing."""
        self._ids, self._clock = itertools.count(1), itertools.count(1)
        self._changed = threading.Condition()

    def run(self, who: str, client: Client, key: bytes, kind: Kind) -> Outcome:
        return self.note(who, key, kind, lambda: perform(client, key, kind, self.errors))

    def note(self, who: str, key: bytes, kind: Kind, ask: Callable[[], Outcome]) -> Outcome:
        number, invoked = next(self._ids), next(self._clock)
        outcome = ask()
        # What is not known may still happen, so it has not returned.
        returned = None if isinstance(outcome, Unknown) else next(self._clock)
        with self._changed:
            self.history.append(
                Operation(
                    id=number, client=who, key=key, kind=kind, invoked=invoked, returned=returned, outcome=outcome
                )
            )
            if not isinstance(outcome, Unknown | Failed):
                self.answered[who] += 1
            self._changed.notify_all()
        return outcome

    def wait_for(self, condition: Callable[[], bool], words: str) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PROCESS_S), f"{words}: not in {PROCESS_S:.0f} s; {self.answered}"

    def more(self, count: int, names: Iterable[str]) -> None:
        """Until each of these clients has been answered `count` more times."""
        goals = {name: self.answered[name] + count for name in names}
        self.wait_for(
            lambda: all(self.answered[name] >= goal for name, goal in goals.items()),
            f"{count} more answers at {list(goals)}",
        )

    def keys(self) -> list[bytes]:
        return list(dict.fromkeys(operation.key for operation in self.history))


def perform(client: Client, key: bytes, kind: Kind, errors: list[str]) -> Outcome:
    """A definite failure has had no effect; anything else may."""
    try:
        return ask(client, key, kind)
    except VersionMismatch as error:
        return Mismatch(version=error.version)
    except ImmutableKey as error:
        return Immutable(version=error.version)
    except EpoxyError as error:
        errors.append(f"{type(error).__name__}: {error}")
        return Failed() if error.definite else Unknown()


def ask(client: Client, key: bytes, kind: Kind) -> Outcome:
    match kind:
        case Reserve(value=value):
            told = client.reserve(key, value)
            if told.won:
                return Won(version=told.version)
            if told.agreed:
                return Same(version=told.version)
            return Lost(value=told.value, version=told.version, mutable=told.mutable)
        case Put(value=value, if_version=expected):
            return Won(version=client.put(key, value, if_version=expected).version)
        case Delete(if_version=expected):
            gone = client.delete(key, if_version=expected)
            return Won(version=gone.version) if gone.deleted else Missing(version=gone.version)
        case Add(amount=amount):
            made = client.add(key, amount)
            return Won(version=made.version, value=b"%d" % made.number)
        case Touch():
            raise NotImplementedError("no end-to-end workload touches")
        case Read(linearizable=linearizable):
            found = client.read(key, read="linearizable" if linearizable else "optimistic")
            if found.value is None:
                return Absent(version=found.version)
            return Found(value=found.value, version=found.version, mutable=found.mutable)


def judge(history: list[Operation], folder: Path) -> int:
    """The number of keys judged. A history that is not right is kept as a file that the checker can read again."""
    wrong = [verdict.explain() for verdict in check(history, limit=LIMIT) if not isinstance(verdict, Linearizable)]
    stale = (operation for operation in history if isinstance(operation.kind, Read) and not operation.kind.linearizable)
    wrong += [words for read in stale if (words := check_optimistic_read(history, read)) is not None]
    if wrong:
        kept = folder / "history.jsonl"
        kept.write_bytes(encode_lines(history))
        raise AssertionError("\n\n".join([f"{len(history)} operations, kept in {kept}", *wrong]))
    return len({operation.key for operation in history})
