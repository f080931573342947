"""Two regions reserve one fresh name at the same moment: exactly one wins, and the other is told who.

The demo sends both requests itself, from two threads that wait for each other, so that the times of both are of one
clock and no browser's queue of connections is in them.
"""

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from epoxy.client import Client
from epoxy.model.errors import EpoxyError, InvalidRequest, OutcomeUnknown
from epoxy.model.records import MAX_KEY_BYTES

RACE_S = 15.0
"""For each of the two: above the ten seconds after which a node answers that the outcome is unknown."""

PREFIX = "race/"
"""Before a fresh name, so that races are found together."""


SHOWN_LETTERS = 64
"""Of the value that a name has already: what a region is called, and any other client's value up to a line."""

PATHS = {"fast": "in one round trip", "slow": "in more than one round trip", "local": "without asking another region"}


class Racer(Struct, frozen=True, kw_only=True):
    """One request: `began_ms` and `ended_ms` since the start of the race. `outcome`: "won"; "taken", and `value` says
    by whom; "refused": it did nothing; "unknown". `floor_ms`: what a fresh name takes at least from there."""

    region: str
    outcome: Literal["won", "taken", "refused", "unknown"]
    began_ms: float
    ended_ms: float
    value: str = ""
    path: str = ""
    floor_ms: float | None = None
    message: str = ""

    @property
    def took_ms(self) -> float:
        return self.ended_ms - self.began_ms


class Race(Struct, frozen=True, kw_only=True):
    """`winner`: the region whose name it is now; None: neither request is known to have decided it."""

    key: str
    racers: list[Racer]
    winner: str | None


class Lane(Struct, frozen=True, kw_only=True):
    region: str
    open: Callable[[], Client]
    floor_ms: float | None


def fresh_name() -> str:
    return f"{PREFIX}{secrets.token_hex(4)}"


def run(key: str, lanes: Sequence[Lane]) -> Race:
    """Each region reserves `key` with its own name as the value."""
    if not key or len(key.encode()) > MAX_KEY_BYTES:
        raise InvalidRequest(f"a name has 1 to {MAX_KEY_BYTES} bytes")
    line = threading.Barrier(len(lanes), timeout=RACE_S)
    began: list[float] = []

    def lane(each: Lane) -> Racer:
        with each.open() as client:
            warm(client)
            line.wait()
            started = time.monotonic()
            began.append(started)
            return raced(client, key, each, started)

    with ThreadPoolExecutor(len(lanes)) as pool:
        racers = list(pool.map(lane, lanes))
    start = min(began)
    return judged(key, [placed(racer, start) for racer in racers])


def warm(client: Client) -> None:
    """Opens the connection before the race. A region that does not answer is found out in it."""
    try:
        client.status()
    except EpoxyError:
        return


def raced(client: Client, key: str, lane: Lane, started: float) -> Racer:
    """With times of the clock, still."""
    outcome: Literal["won", "taken", "refused", "unknown"]
    value = path = message = ""
    try:
        told = client.reserve(key, lane.region)
        outcome = "won" if told.won else "taken"
        value, path = cut(told.value), told.path.value
    except EpoxyError as error:
        outcome = "unknown" if isinstance(error, OutcomeUnknown) else "refused"
        message = str(error)
    return Racer(
        region=lane.region,
        outcome=outcome,
        began_ms=started * 1000,
        ended_ms=time.monotonic() * 1000,
        value=value,
        path=path,
        floor_ms=lane.floor_ms,
        message=message,
    )


def cut(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    return text if len(text) <= SHOWN_LETTERS else f"{text[:SHOWN_LETTERS]}..."


def printable(line: str) -> str:
    """Names and values are any client's: none of their letters may steer the terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


def placed(racer: Racer, start_s: float) -> Racer:
    """With times since the start of the race."""
    start_ms = start_s * 1000
    return replace(racer, began_ms=round(racer.began_ms - start_ms, 1), ended_ms=round(racer.ended_ms - start_ms, 1))


def judged(key: str, racers: list[Racer]) -> Race:
    """An answer "won" decides it; so does one that names the other's value, if the other does not know its outcome."""
    won = [racer.region for racer in racers if racer.outcome == "won"]
    told = [racer.value for racer in racers if racer.outcome == "taken"]
    return Race(key=key, racers=racers, winner=next(iter((*won, *told)), None))


def in_words(race: Race) -> list[str]:
    head = f"{race.winner} has {race.key} now, in the whole world and for ever."
    if race.winner is None:
        head = f"It is not known who has {race.key}, if anyone: neither region told a winner."
    lines = [head, *(f"  {racer.region:<15} {of_racer(racer)}" for racer in race.racers)]
    return [printable(line) for line in lines]


def of_racer(racer: Racer) -> str:
    floor = f" (its floor: {racer.floor_ms:.0f} ms)" if racer.floor_ms is not None else ""
    took = f"after {racer.took_ms:.0f} ms{floor}"
    match racer.outcome:
        case "won":
            return f"won {took}, {PATHS.get(racer.path, racer.path)}"
        case "taken":
            return f"was told {took} that {racer.value} has it"
        case "refused":
            return f"did not take part: {racer.message}"
        case "unknown":
            return f"does not know its outcome {took}: {racer.message}"
