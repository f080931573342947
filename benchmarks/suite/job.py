"""What the load generator is asked to do, and what it tells. Both cross a pipe, as MessagePack."""

from collections.abc import Sequence
from enum import Enum
from random import Random

from msgspec import Struct

MARK = b"#the-number#"
"""Stands for the number of a key, in requests and in replies: they are cut here once, and joined by digits later."""

DIGITS = b"%012d"
"""As long as the mark, so that every length that a protocol writes down stays right."""

SMALLEST_VALUE = 16


class Wire(Enum):
    RESP = "resp"
    HTTP = "http"
    GRPC = "grpc"
    POSTGRES = "postgres"
    RESP_SUMS = "resp, sums"
    HTTP_VERSIONS = "http, versions"
    GRPC_ADDING = "grpc, adding"
    """Answers of these tell numbers."""


class Choice(Enum):
    """Whose turn it is. FRESH: an unused number. ANY: one of the first `count`, spread. OWN: of `count`, those
    of one client alone. ONE: always number 0."""

    FRESH = "fresh"
    ANY = "any"
    OWN = "own"
    ONE = "one"


class Exchange(Struct, frozen=True):
    """A request and its right answer, both with the mark in the place of the key's number. How an answer is compared
    belongs to the protocol."""

    raw: bytes
    reply: bytes


class Step(Struct, frozen=True, kw_only=True):
    exchange: Exchange
    choice: Choice
    count: int = 1


class Job(Struct, frozen=True, kw_only=True):
    """A closed loop: `clients` connections spread over `ports`, each of which takes the `steps` in turn, forever. A
    connection carries `streams` such loops at once (gRPC), or sends `pipeline` requests in one piece (RESP).

    `limit`: fresh keys to use up, and then it ends. `pause_s`: before a client asks again whose answer was wrong, a
    refusal for instance. `roots`: processes whose CPU time is counted, with their children; `database_roots`: those of
    a database behind them, counted apart.
    """

    wire: Wire
    ports: tuple[int, ...]
    steps: tuple[Step, ...]
    greeting: tuple[bytes, ...] = ()
    clients: int = 1
    streams: int = 1
    pipeline: int = 1
    first: int = 0
    limit: int | None = None
    pause_s: float = 0.0
    warm_s: float = 0.5
    seconds: float = 1.0
    roots: tuple[int, ...] = ()
    database_roots: tuple[int, ...] = ()


class Latency(Struct, frozen=True, kw_only=True):
    """Milliseconds, of the requests that succeeded; of a pipeline, those of the whole piece."""

    mean: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    most: float = 0.0


class AtNode(Struct, frozen=True, kw_only=True):
    operations: int
    latency: Latency


class Told(Struct, frozen=True, kw_only=True):
    """The numbers that answers told, outside of the window too. `again`: how many of them had been told before."""

    count: int = 0
    again: int = 0
    low: int = 0
    high: int = 0


def told(numbers: Sequence[int]) -> Told:
    if not numbers:
        return Told()
    again = len(numbers) - len(set(numbers))
    return Told(count=len(numbers), again=again, low=min(numbers), high=max(numbers))


class Outcome(Struct, frozen=True, kw_only=True):
    """Of the window alone, what ended in it; but `faults`, wrong answers by their first word, are all there were, and
    `answered` are all right ones. `unanswered` is what was still out long after. CPU times are seconds; shares are of
    all cores."""

    operations: int
    seconds: float
    latency: Latency
    nodes: tuple[AtNode, ...]
    faults: dict[str, int]
    unanswered: int
    answered: int
    server_cpu_s: float
    generator_cpu_s: float
    stolen_share: float
    others_share: float
    example: str = ""
    told: Told = Told()
    retries: int = 0
    database_cpu_s: float = 0.0

    @property
    def rate(self) -> float:
        return self.operations / self.seconds

    @property
    def failed(self) -> int:
        return sum(self.faults.values()) + self.unanswered

    @property
    def cpu_us(self) -> float:
        """Of the servers, for each operation."""
        return self.server_cpu_s / max(1, self.operations) * 1e6

    @property
    def database_us(self) -> float:
        return self.database_cpu_s / max(1, self.operations) * 1e6


def value_of(size: int, letter: bytes = b"v") -> bytes:
    """Tells whose it is: a reply with another key's value is a wrong one. The rest is noise, the same in every process,
    that no server can compress."""
    if size < SMALLEST_VALUE:
        raise ValueError(f"a value has at least {SMALLEST_VALUE} bytes, to carry its key's number")
    return MARK + letter + Random(size).randbytes(size - len(MARK) - 1)
