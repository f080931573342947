"""What every system has in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path

from msgspec import Struct

from benchmarks.suite.job import MARK, Exchange, Job, Outcome, Wire
from benchmarks.suite.processes import Memory, disk_bytes, memory, tree

Speak = Callable[[bytes, bytes], Exchange]
"""Key and value in, request and right answer out."""


Generate = Callable[[Job], Outcome]
"""Runs the load generator."""


class Operation(Enum):
    """CREATE: if there is no such key, durably. PUT: whatever is there. GET: from whoever is asked. GET_NOW: nothing
    older than the last acknowledged write, wherever that was made. ADD: one to the number that is there."""

    CREATE = "create"
    PUT = "put"
    GET = "get"
    GET_NOW = "get now"
    ADD = "add"


LOADED_TAIL = b"-%03d"
"""Behind the number of a key that was loaded. Systems that are loaded with many keys in one request count here."""


def loaded_key(tail: int = 0) -> bytes:
    return b"bench/loaded/" + MARK + LOADED_TAIL % tail


class Door(Struct, frozen=True, kw_only=True):
    """One way of asking a system. `ports`: all nodes that take requests, the best one first. `connections`: how many
    all clients share; without it each has one of its own."""

    wire: Wire
    ports: tuple[int, ...]
    speak: Mapping[Operation, Speak]
    greetings: Mapping[Operation, tuple[bytes, ...]]
    connections: int | None = None

    def greeting(self, operation: Operation) -> tuple[bytes, ...]:
        return self.greetings.get(operation, ())


LOAD_S = 900.0
"""For all keys that anybody is loaded with: many times what it takes."""


def check_loaded(name: str, outcome: Outcome, wanted: int) -> None:
    """RuntimeError: some are missing."""
    if outcome.operations != wanted or outcome.failed:
        raise RuntimeError(f"{name}: {outcome.operations} of {wanted} keys loaded: {outcome.example}")


class System(ABC):
    """Processes of its own in a folder of its own, from `start` to `stop`."""

    name: str
    folder: Path

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """Also what was started only half."""

    @property
    @abstractmethod
    def version(self) -> str: ...

    @property
    @abstractmethod
    def roots(self) -> tuple[int, ...]:
        """Processes, without their children."""

    @property
    def database_roots(self) -> tuple[int, ...]:
        """Processes of a database that it shares with others, whose CPU time is counted apart."""
        return ()

    @property
    @abstractmethod
    def doors(self) -> Mapping[str, Door]: ...

    @abstractmethod
    def load(self, keys: int, generate: Generate) -> str:
        """Put so many keys there, the fastest way there is, and say which. It runs, before and afterwards."""

    def numbers(self, keys: int) -> int:
        """How many numbers those keys have."""
        return keys

    def memory(self) -> Memory:
        return memory(tree(self.roots))

    def disk_bytes(self) -> int:
        return disk_bytes(self.folder)
