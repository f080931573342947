"""An emulated WAN between peers, in user space: every batch takes as long as between their regions, and links can be
cut, slowed and healed at run time.

The sender of a request emulates both directions, so clocks need not agree: the time of the way there is measured, and
the way back takes the rest of the round trip.
"""

from collections.abc import Callable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from epoxy.ports import Clock

EARLY_MS = 0.5
"""How much too early a timer fires on average: the event loop rounds to whole milliseconds."""


MAX_ADDED_MS = 2_000
"""By which the round trip of a link can be made longer: more than two hops over satellites in a high orbit."""

AddedMs = Annotated[float, Meta(ge=0, le=MAX_ADDED_MS)]


class Cut(Struct, frozen=True, kw_only=True):
    """Which directions of the link to one peer work."""

    sends: bool = True
    hears: bool = True


WHOLE = Cut()


class LinkChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order to change links, in JSON. A peer in several of them is healed first. `slow`: by peer, how many
    milliseconds its round trip takes more than it would; 0: none."""

    heal: list[int] = []
    cut: list[int] = []
    slow: dict[int, AddedMs] = {}
    sends: bool = False
    hears: bool = False


class Link:
    """The emulated links of one node."""

    def __init__(self, clock: Clock, rtt_ms: Mapping[int, float] | None = None, *, early_ms: float = EARLY_MS) -> None:
        """`rtt_ms` by peer; links to others have no added delay."""
        self._clock = clock
        self._early_ms = early_ms
        self._distances_ms: Mapping[int, float] = {}
        self._added_ms: dict[int, float] = {}
        self._rtt_ms: dict[int, float] = {}
        """What a round trip takes: both of the above."""
        self._cuts: dict[int, Cut] = {}
        self.measure(rtt_ms or {})

    def measure(self, rtt_ms: Mapping[int, float]) -> None:
        """The round trips from now on; links that were slowed stay that much slower."""
        self._distances_ms = dict(rtt_ms)
        self._add_up()

    def slow(self, peer: int, added_ms: float) -> None:
        self._added_ms[peer] = added_ms
        if not added_ms:
            del self._added_ms[peer]
        self._add_up()

    def _add_up(self) -> None:
        peers = self._distances_ms.keys() | self._added_ms.keys()
        self._rtt_ms = {peer: self._distances_ms.get(peer, 0.0) + self._added_ms.get(peer, 0.0) for peer in peers}

    def cut(self, peer: int, *, sends: bool = False, hears: bool = False) -> None:
        self._cuts[peer] = Cut(sends=sends, hears=hears)

    def heal(self, peer: int) -> None:
        self._cuts.pop(peer, None)
        self.slow(peer, 0.0)

    def apply(self, change: LinkChange) -> None:
        for peer in change.heal:
            self.heal(peer)
        for peer in change.cut:
            self.cut(peer, sends=change.sends, hears=change.hears)
        for peer, added_ms in change.slow.items():
            self.slow(peer, added_ms)

    def sends(self, peer: int) -> bool:
        return self._cuts.get(peer, WHOLE).sends

    def hears(self, peer: int) -> bool:
        return self._cuts.get(peer, WHOLE).hears

    def there(self, peer: int, arrive: Callable[[], None]) -> None:
        """Call `arrive` after half the round trip, unless the link is cut at either end of that time."""
        if not self._cuts and not self._rtt_ms:
            arrive()
        elif self.sends(peer):
            self._carry(self._rtt_ms.get(peer, 0.0) / 2, lambda: arrive() if self.sends(peer) else None)

    def back(self, peer: int, there_ms: float, arrive: Callable[[], None]) -> None:
        """Call `arrive` after the rest of the round trip, of which the way there took `there_ms`."""
        if not self._cuts and not self._rtt_ms:
            arrive()
        elif self.hears(peer):
            rtt_ms = self._rtt_ms.get(peer, 0.0)
            rest_ms = rtt_ms - there_ms + self._early_ms if rtt_ms else 0.0
            self._carry(rest_ms, lambda: arrive() if self.hears(peer) else None)

    def half_ms(self, peer: int) -> float:
        """What one way takes."""
        return self._rtt_ms.get(peer, 0.0) / 2

    def _carry(self, delay_ms: float, arrive: Callable[[], None]) -> None:
        if delay_ms > 0:
            self._clock.call_later(delay_ms, arrive)
        else:
            arrive()

    def state(self) -> dict[str, Cut]:
        return {str(peer): cut for peer, cut in sorted(self._cuts.items())}

    def slowed(self) -> dict[str, float]:
        return {str(peer): added_ms for peer, added_ms in sorted(self._added_ms.items())}
