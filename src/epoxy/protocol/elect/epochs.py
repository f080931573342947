"""Which epochs of other nodes are believed.

An election raises the epoch by one, and there are 2**63. A node that reports an epoch far beyond all elections that can
have been is faulty; if it were followed, a few such messages would use up the epochs, and elections would end for ever.
An epoch is believed if it is possible (`LAST_EPOCH`), and

1. at most the one this process started with, plus AWAY for the elections before it started, plus one for each
   millisecond since; or
2. reported, now, by a majority of the other nodes of a list that counts, and by two at least. One list is enough: those
   who join in a change know no epoch yet, and the old list's majority is all there is to learn it from.

Safety does not depend on it: a message that is not believed is a lost message. Liveness does: by rule 1 a node that was
away for 136 years with an election a second learns the present epoch from any other; by rule 2 from a majority, however
long it was away, and however it came to be so far behind. What one faulty node can add in a process's life is bounded
by rule 1, whatever the number of its messages: it takes 2**31 restarts to use the epochs up.
"""

from collections.abc import Mapping

from epoxy.protocol.elect.lists import Lists, generation_of
from epoxy.protocol.elect.messages import Counted, Heartbeat, Message, Offer

LAST_EPOCH = (1 << 63) - 1
"""Far below what the wire can carry (2**64 - 1), so that a number with its highest bit set is never an epoch."""

AWAY = 1 << 32
"""Elections that can have been before this process started: one a second for 136 years."""

MOST_CHANGES = 1 << 20
"""Changes of the list of nodes that a node can have missed. An operator makes each of them."""


class EpochBound:
    """Of one process of the node `me`. `epoch`: the one it starts with."""

    def __init__(self, me: str, epoch: int, now_ms: int) -> None:
        self._me = me
        self._epoch = epoch
        self._since_ms = now_ms
        self._reported: dict[str, int] = {}
        """The latest epoch of each node, believed or not."""

    def admits(self, message: Message, lists: Lists, now_ms: int) -> bool:
        epoch = epoch_of(message)
        self._reported[message.node] = epoch
        if not is_possible(epoch) or generation_in(message) > lists.generation + MOST_CHANGES:
            return False
        if is_plausible(epoch, self._epoch, now_ms - self._since_ms):
            return True
        if not is_common(epoch, self._reported, lists, self._me):
            return False
        self._epoch, self._since_ms = epoch, now_ms
        return True


def epoch_of(message: Message) -> int:
    """The highest in it."""
    return max(message.epoch, message.leader_epoch) if isinstance(message, Heartbeat) else message.epoch


def generation_in(message: Message) -> int:
    """The highest number of a list in it."""
    if isinstance(message, Counted):
        return max(generation_of(message.stage), message.floor_generation)
    return generation_of(message.stage) if isinstance(message, Heartbeat | Offer) else 0


def is_possible(epoch: int) -> bool:
    return epoch <= LAST_EPOCH


def is_plausible(epoch: int, start: int, elapsed_ms: int) -> bool:
    """Rule 1. Every election takes a save to disk and a round trip: fewer than one in a millisecond."""
    return epoch <= start + AWAY + elapsed_ms


def is_common(epoch: int, reported: Mapping[str, int], lists: Lists, me: str) -> bool:
    """Rule 2."""
    having = {node for node, theirs in reported.items() if epoch <= theirs <= LAST_EPOCH}
    others = [each.ids - {me} for each in lists.counted]
    return any(len(each & having) >= max(2, len(each) // 2 + 1) for each in others)
