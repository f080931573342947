"""Carries are taken at most once, whatever the network does.

A write that is refused leaves no trace in the decisions of its key. If the Carry that brought it came again, it would
be evaluated again, and could take effect after its client was told that it had none. So a Carry is numbered by its
sender, and addressed to one life (process) of its receiver.
"""

from epoxy.model.messages import Carry
from epoxy.model.shards import KEY_SHARDS
from epoxy.ports import Dice
from epoxy.protocol.keys.carrying import NO_LIFE

MAX_SENDERS = 256
"""Lives of other replicas whose numbers are kept. With one more, this process begins a new life."""


MAX_LIVES = 64 * (KEY_SHARDS + 1)
"""All shards of as many replicas as a cluster has."""

WINDOW = 1024
"""Numbers of a sender below its newest that are told apart."""


class CarryNumbers:
    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._life = 0
        self._sent = 0
        self._lives: dict[tuple[int, int], int] = {}
        """By replica and shard: a datacenter may have several processes, each with some shards."""
        self._newest_lives: dict[int, int] = {}
        self._received: dict[tuple[int, int], tuple[int, int]] = {}
        """For each life of another replica the newest number, and a bit for each one below it that was taken."""

    @property
    def life(self) -> int:
        if not self._life:
            self._life = self._dice.nonce()
        return self._life

    def next(self) -> int:
        self._sent += 1
        return self._sent

    def life_of(self, replica: int, shard: int) -> int:
        """As it was told last of this shard, or of any; NO_LIFE: not known, so the first Carry to it is declined and
        tells it."""
        return self._lives.get((replica, shard)) or self._newest_lives.get(replica, NO_LIFE)

    def met(self, replica: int, shard: int, life: int) -> None:
        """Note the life it told. That of the shard is kept only where a replica has several."""
        newest = self._newest_lives.setdefault(replica, life)
        if life != newest or (replica, shard) in self._lives:
            self._lives[replica, shard] = life
        if life != newest and len(self._lives) == MAX_LIVES:
            self._lives.clear()
        self._newest_lives[replica] = life

    def is_for_me(self, home: int, carry: Carry) -> bool:
        """Whether this Carry is for this process. If not, this process takes no copy of it."""
        if carry.receiver == self.life and (home, carry.sender) not in self._received:
            if len(self._received) >= MAX_SENDERS:
                self._received.clear()
                self._life = 0
            else:
                self._received[home, carry.sender] = 0, 0
        return carry.receiver == self.life

    def is_new(self, home: int, carry: Carry) -> bool:
        """Whether this is its first copy. Carries may overtake each other; one that is older than the window may have
        been taken, and is not taken."""
        newest, taken = self._received[home, carry.sender]
        ahead = carry.number - newest
        if ahead > 0:
            kept = taken << ahead if ahead < WINDOW else 0
            self._received[home, carry.sender] = carry.number, (kept | 1) & (1 << WINDOW) - 1
            return True
        bit = 1 << -ahead
        if -ahead >= WINDOW or taken & bit:
            return False
        self._received[home, carry.sender] = newest, taken | bit
        return True
