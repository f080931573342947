"""Files of round trips: JSON or CSV, as people and tools write them.

Four forms are read. In JSON an object of objects, `{"a": {"b": 12.5}}`, or a matrix,
`{"regions": ["a", "b"], "rtt_ms": [[0, 12.5], [12.5, 0]]}`. In CSV a matrix with the regions in its first line and its
first column, or lines of pairs under `from,to,rtt_ms`. What is wrong is said with its line, or in JSON with the pair.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Any

from epoxy.model.errors import InvalidRequest, InvalidValue
from epoxy.model.round_trips import MAX_RTT_MS, Pair, RoundTrips, check_names

MAX_ROUND_TRIPS_BYTES = 64 << 10
"""Of a file. 15 regions with names of 64 characters make 225 pairs, which take 34 KiB in the longest form."""

PAIRS = ("from", "to")
SHOWN = 32
"""Characters of a cell that an error quotes."""

Cells = list[tuple[int, list[str]]]
"""The lines of a CSV file that are not empty, with their numbers."""


def decode(data: bytes) -> RoundTrips:
    """Raises InvalidValue."""
    if len(data) > MAX_ROUND_TRIPS_BYTES:
        raise InvalidValue(f"more than {MAX_ROUND_TRIPS_BYTES >> 10} KiB are too long for a table of round trips")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidValue(f"line {data[: error.start].count(10) + 1}: not UTF-8") from error
    if not text.strip():
        raise InvalidValue("there is nothing in it; JSON or CSV with round trips is wanted")
    try:
        return of_json(text) if text.lstrip()[0] in "{[" else of_csv(text)
    except InvalidRequest as error:
        raise InvalidValue(str(error)) from error


def of_json(text: str) -> RoundTrips:
    try:
        found = json.loads(text, object_pairs_hook=members, parse_int=float)
    except json.JSONDecodeError as error:
        raise InvalidValue(f"line {error.lineno}: not JSON: {error.msg}, column {error.colno}") from error
    except RecursionError as error:
        raise InvalidValue("arrays or objects are nested too deep") from error
    if not isinstance(found, dict):
        raise InvalidValue('an object is wanted: {"a": {"b": 12.5}}, or {"regions": [...], "rtt_ms": [[...]]}')
    if "rtt_ms" in found:
        return of_matrix(found)
    for here, row in found.items():
        if not isinstance(row, dict):
            raise InvalidValue(f"{short(here)}: an object with round trips to other regions is wanted, not {told(row)}")
    regions = list(dict.fromkeys([*found, *(there for row in found.values() for there in row)]))
    pairs = {(here, there): number(here, there, trip) for here, row in found.items() for there, trip in row.items()}
    return RoundTrips(regions, pairs)


def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of an object. A name that is there twice would hide a round trip."""
    found = dict(pairs)
    if len(found) < len(pairs):
        once = list(found)
        twice = next(name for at, (name, _) in enumerate(pairs) if at >= len(once) or once[at] != name)
        raise InvalidValue(f"{short(twice)} is in one object twice")
    return found


def of_matrix(found: dict[str, Any]) -> RoundTrips:
    regions, rows = found.get("regions"), found["rtt_ms"]
    if not isinstance(regions, list) or not all(isinstance(name, str) for name in regions):
        raise InvalidValue("regions: a list of names is wanted beside rtt_ms")
    check_names(regions)
    if not isinstance(rows, list) or len(rows) != len(regions):
        raise InvalidValue(f"rtt_ms: a list of {len(regions)} rows is wanted, one for each region")
    pairs: dict[Pair, float] = {}
    for here, row in zip(regions, rows, strict=True):
        if not isinstance(row, list) or len(row) != len(regions):
            raise InvalidValue(f"rtt_ms of {short(here)}: a list of {len(regions)} numbers is wanted")
        for there, trip in zip(regions, row, strict=True):
            if trip is not None:
                pairs[here, there] = number(here, there, trip)
    return RoundTrips(regions, pairs)


def number(here: str, there: str, trip: object) -> float:
    """True and False are no numbers, although Python takes them for some."""
    if isinstance(trip, bool) or not isinstance(trip, int | float):
        raise InvalidValue(f"{short(here)} to {short(there)}: {told(trip)} is not a number")
    return in_range(f"{short(here)} to {short(there)}", float(trip))


def in_range(where: str, trip: float) -> float:
    """As the table checks it, with the place."""
    if trip < 0:
        raise InvalidValue(f"{where}: {trip:g} is negative")
    if not trip <= MAX_RTT_MS:  # true of NaN, too
        raise InvalidValue(f"{where}: {trip:g} is no round trip in milliseconds; at most {MAX_RTT_MS:,.0f} is")
    return trip


def of_csv(text: str) -> RoundTrips:
    lines = list(cells_of(text))
    (first, head), *rows = lines
    if tuple(cell.lower() for cell in head[:2]) == PAIRS:
        return of_pairs(rows)
    regions = head[1:]
    if not regions:
        raise InvalidValue(f"line {first}: neither JSON nor CSV: names of regions are wanted, separated by commas")
    check_names(regions)
    pairs: dict[Pair, float] = {}
    for line, (here, *trips) in rows:
        if here not in regions:
            raise InvalidValue(f"line {line}: region {short(here)} is not in line {first}, which names them")
        if len(trips) > len(regions):
            raise InvalidValue(f"line {line}: {len(trips)} round trips, and line {first} names {len(regions)} regions")
        for there, cell in zip(regions, trips, strict=False):
            keep(pairs, line, (here, there), cell)
    return RoundTrips(regions, pairs)


def of_pairs(rows: Cells) -> RoundTrips:
    pairs: dict[Pair, float] = {}
    for line, row in rows:
        if len(row) != len(PAIRS) + 1:
            raise InvalidValue(f"line {line}: from, to and a round trip are wanted, and there are {len(row)} cells")
        keep(pairs, line, (row[0], row[1]), row[2])
    return RoundTrips(list(dict.fromkeys(name for pair in pairs for name in pair)), pairs)


def keep(pairs: dict[Pair, float], line: int, pair: Pair, cell: str) -> None:
    """An empty cell says nothing: the other direction may."""
    if not cell:
        return
    where = f"line {line}: {short(pair[0])} to {short(pair[1])}"
    if pair in pairs:
        raise InvalidValue(f"{where} is there twice")
    try:
        pairs[pair] = in_range(where, float(cell))
    except ValueError as error:
        raise InvalidValue(f"{where}: {short(cell)} is not a number") from error


def cells_of(text: str) -> Iterator[tuple[int, list[str]]]:
    """A spreadsheet in a language with decimal commas separates by semicolons."""
    head = text.lstrip().splitlines()[0]
    mark = next((mark for mark in ";\t" if mark in head), ",")
    lines = csv.reader(text.splitlines(), delimiter=mark)
    try:
        for row in lines:
            cells = [cell.strip().replace(",", "." if mark == ";" else ",") for cell in row]
            if any(cells):
                yield lines.line_num, trimmed(cells)
    except csv.Error as error:
        raise InvalidValue(f"line {lines.line_num}: {error}") from error


def trimmed(cells: Sequence[str]) -> list[str]:
    """Without empty cells at the end."""
    last = max(at for at, cell in enumerate(cells) if cell)
    return list(cells[: last + 1])


def short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def told(value: object) -> str:
    return short(value) if isinstance(value, str) else short(json.dumps(value))[1:-1]
