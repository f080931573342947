"""Which start of a store is heard.

A replica whose store went back in time has forgotten votes and promises, and may vote against what it agreed to. Its
own disk cannot show that, so the others remember, durably, the last start of each store and the highest position it
reported, and compare at every connection:

    a lower counter                             an older copy was started after a newer start
    the same counter with another nonce         two copies of one store were started
    a start from below the position on record   the log was shortened, or an older copy restored
    a running store below its own position      the snapshot of a running machine was resumed

The store compares as well, with what the others say they remember of it: positions rise between two messages, and only
the store itself knows its own at that moment. A store that is behind refuses itself for good, durably, because peers
that know less would admit it after a restart.

A start votes once the peers that have recorded it make, with it, a slow quorum, and none of them knows better. That
leaves one case open: the only witness of what was lost is away, and every peer that answers was away all the while.
With `strict` n - slow + 1 others must have recorded it. Of three members that is all, and closes it; of five the one
that is left out may be the witness (decision 0047).
"""

import enum
from collections.abc import Set

from epoxy.model.cluster import ClusterConfig
from epoxy.model.incarnation import Greeting, Incarnation, Sighting
from epoxy.model.quorum import quorums


class StoreRefusal(enum.Enum):
    """Why a start of a store is refused."""

    OLD_COPY = "old copy"
    """A later start of the same store is on record."""
    CLONE = "clone"
    """Another process was started from a copy of the same store."""
    SHORTENED = "shortened"
    """The store reported more than it holds now."""


def refusal_of(known: Sighting | None, greeting: Greeting) -> StoreRefusal | None:
    """Compare a start with what is on record of its store. `known` must be what this node told the greeter, or was
    recorded before it spoke: the position of a running store rises all the time."""
    start = greeting.incarnation
    if known is None or known.store != start.store:
        return None
    if known.counter > start.counter:
        return StoreRefusal.OLD_COPY
    if known.counter < start.counter:
        return StoreRefusal.SHORTENED if start.base < known.position else None
    if known.nonce != start.nonce:
        return StoreRefusal.CLONE
    return StoreRefusal.SHORTENED if greeting.position < known.position else None


def sighting(known: Sighting | None, start: Incarnation, position: int) -> Sighting:
    """What to remember of a start that is not behind. The position of an earlier start is below its base."""
    if known is not None and (known.store, known.counter, known.nonce) == (start.store, start.counter, start.nonce):
        position = max(position, known.position)
    return Sighting(store=start.store, counter=start.counter, nonce=start.nonce, position=max(position, start.base))


def is_cleared(config: ClusterConfig, me: int, recorded_by: Set[int], *, strict: bool = False) -> bool:
    """Whether a start may vote, once these peers have recorded it. In a joint epoch both sides count."""
    groups = (config.active,) if config.previous is None else (config.previous, config.active)
    return all(has_enough(group, me, recorded_by, config, strict=strict) for group in groups)


def has_enough(
    members: tuple[int, ...], me: int, recorded_by: Set[int], config: ClusterConfig, *, strict: bool
) -> bool:
    sizes = quorums(len(members), config.quorum_policy)
    others = len(recorded_by & set(members) - {me})
    if strict:
        return others >= min(sizes.n - sizes.slow + 1, sizes.n - (me in members))
    return others + (me in members) >= sizes.slow
