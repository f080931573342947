"""An emulated WAN between peers, in user space: every batch takes as long as between their regions, and links can be
cut and healed at run time.

The sender of a request emulates both directions, so clocks need not agree: the time of the way there is measured, and
the way back takes the rest of the round trip.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from epoxy.ports import Clock

EARLY_MS = 0.5
"""How much too early a timer fires on average: the event loop rounds to whole milliseconds."""


class Cut(Struct, frozen=True, kw_only=True):
    """Which directions of the link to one peer work."""

    sends: bool = True
    hears: bool = True


WHOLE = Cut()


class LinkChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An order to change links, in JSON. A peer in both lists is healed first."""

    heal: list[int] = []
    cut: list[int] = []
    sends: bool = False
    hears: bool = False


class Link:
    """The emulated links of one node."""

    def __init__(self, clock: Clock, rtt_ms: Mapping[int, float] | None = None, *, early_ms: float = EARLY_MS) -> None:
        """`rtt_ms` by peer; links to others have no added delay."""
        self._clock = clock
        self._early_ms = early_ms
        self._rtt_ms = dict(rtt_ms or {})
        self._cuts: dict[int, Cut] = {}

    def measure(self, rtt_ms: Mapping[int, float]) -> None:
        """The round trips from now on."""
        self._rtt_ms = dict(rtt_ms)

    def cut(self, peer: int, *, sends: bool = False, hears: bool = False) -> None:
        self._cuts[peer] = Cut(sends=sends, hears=hears)

    def heal(self, peer: int) -> None:
        self._cuts.pop(peer, None)

    def apply(self, change: LinkChange) -> None:
        for peer in change.heal:
            self.heal(peer)
        for peer in change.cut:
            self.cut(peer, sends=change.sends, hears=change.hears)

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
