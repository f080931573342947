"""Whether this node reaches a quorum. Without one it refuses at once what it could only fail later, and definitely:
nothing of it was put forward."""

from collections.abc import Callable

from epoxy.model.cluster import ClusterConfig, both_sides
from epoxy.model.transactions import TxnRefused
from epoxy.model.writes import ReadFailed, Refused
from epoxy.node.timing import Links

LOST_MS = 1_500.0
"""Without a word of a peer that owes an answer, or to which there is no connection. A process that restarts is back
sooner, a round trip takes a fifth of it, and clients are told within two and a half seconds."""

WORDS = "too few of the other replicas are within reach; try again, or at another node"
NO_QUORUM = Refused(reason=WORDS, no_quorum=True)
TXN_WITHOUT_QUORUM = TxnRefused(reason=WORDS, no_quorum=True)
READ_WITHOUT_QUORUM = ReadFailed(reason=WORDS)


class QuorumWatch:
    """`is_lost` is as old as the last `look`. `refused`: requests turned away without a quorum."""

    def __init__(self, me: int, config: Callable[[], ClusterConfig], links: Links) -> None:
        self._me = me
        self._config = config
        self._links = links
        self.is_lost = False
        self.refused = 0

    def refuses(self) -> bool:
        """Whether a request that needs a quorum must be refused. While one answers, this costs nothing."""
        if not self.is_lost or not self.look():
            return False
        self.refused += 1
        return True

    def look(self) -> bool:
        """Whether no quorum is within reach."""
        config = self._config()
        answering = {voter for voter in config.voters if voter == self._me or self.answers(voter)}
        sides = config.sides
        reached = len(answering) >= config.quorums.slow if sides is None else both_sides(sides, answering)
        self.is_lost = not reached
        return self.is_lost

    def answers(self, peer: int) -> bool:
        """Whether a peer counts as there: it was heard a moment ago, or owes nothing for long."""
        links = self._links
        if links.silent_ms(peer) <= LOST_MS:
            return True
        return links.reachable(peer) and links.waited_ms(peer) <= LOST_MS
