"""A table of round trips between regions, complete and within bounds."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from epoxy.model.errors import InvalidRequest

MAX_REGIONS = 15
"""Of a table. Clusters of 9 are the largest that are measured; their choice from 15 is computed in milliseconds."""

MAX_NAME = 64
"""Characters of a region's name: three times the longest of the large clouds."""

MAX_RTT_MS = 60_000.0
"""Two hundred times the way around the Earth. What is longer is a mistake of the unit."""

CLOSE = 0.5
"""How alike a name must be to come first in the list of those there are; difflib's measure, from 0 to 1."""

Pair = tuple[str, str]


class RoundTrips:
    """`pairs`: milliseconds from the first region to the second. One direction is enough; if both are given they may
    differ, as measurements do. Of a region to itself nothing need be said. Raises InvalidRequest, naming the pair."""

    def __init__(self, regions: Sequence[str], pairs: Mapping[Pair, float]) -> None:
        check_names(regions)
        for (here, there), trip in pairs.items():
            self._check(here, there, trip, regions)
        self.regions = tuple(regions)
        self._ms = {(here, there): complete(pairs, here, there) for here in regions for there in regions}

    @staticmethod
    def _check(here: str, there: str, trip: float, regions: Sequence[str]) -> None:
        for name in (here, there):
            if name not in regions:
                raise InvalidRequest(unknown_region(name, regions))
        if not 0 <= trip <= MAX_RTT_MS:  # false of NaN, too
            raise InvalidRequest(f"{here} to {there}: {trip:g} is no round trip; from 0 to {MAX_RTT_MS:,.0f} ms are")

    def ms(self, here: str, there: str) -> float:
        """Raises KeyError for a region that is not in the table."""
        return self._ms[here, there]

    def to_others(self, here: str, among: Iterable[str]) -> list[float]:
        return [self._ms[here, there] for there in among if there != here]

    def check(self, regions: Sequence[str]) -> None:
        """Raises InvalidRequest unless all are in the table, and each is named once."""
        for name in regions:
            if name not in self.regions:
                raise InvalidRequest(unknown_region(name, self.regions))
        if twice := doubled(regions):
            raise InvalidRequest(f"region {twice} is given twice")


def complete(pairs: Mapping[Pair, float], here: str, there: str) -> float:
    trip = pairs.get((here, there), pairs.get((there, here)))
    if trip is None and here != there:
        raise InvalidRequest(f"the round trip between {here} and {there} is missing")
    return 0.0 if trip is None else trip


def check_names(regions: Sequence[str]) -> None:
    if not 1 <= len(regions) <= MAX_REGIONS:
        raise InvalidRequest(f"a table of round trips has 1 to {MAX_REGIONS} regions, not {len(regions)}")
    for name in regions:
        if not (0 < len(name) <= MAX_NAME and name.isprintable() and name == name.strip() and "," not in name):
            rule = f"it has 1 to {MAX_NAME} printable characters, no comma, and no blank at its ends"
            raise InvalidRequest(f"{name[: MAX_NAME + 1]!r} is no name of a region: {rule}")
    if twice := doubled(regions):
        raise InvalidRequest(f"region {twice} is in the table twice")


def doubled(names: Sequence[str]) -> str:
    """The first that is there twice; empty: none is."""
    return next((name for at, name in enumerate(names) if name in names[:at]), "")


def unknown_region(name: str, known: Sequence[str]) -> str:
    """Those with a similar name come first."""
    close = get_close_matches(name[:MAX_NAME], known, n=2, cutoff=CLOSE)
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    there_are = ", ".join([*close, *(each for each in known if each not in close)])
    return f"unknown region {name[:MAX_NAME]!r}.{meant} There are: {there_are}"
