"""What an elector remembers, what it is told of its server, and what it asks for."""

import enum

from msgspec import Struct

from epoxy.protocol.elect.lists import ListFloor, Lists
from epoxy.protocol.elect.messages import Message


class ElectRecord(Struct, frozen=True, kw_only=True):
    """What must survive a crash. `epoch` is the highest this node has voted in or followed: it has promised to stand
    behind nobody below it. `voted_for` is empty if it followed without having voted. `lists`: under which lists of
    nodes it was made; None in a record of before there was a way to change them. `floor`: what was promised about
    lists."""

    epoch: int = 1
    voted_for: str = ""
    leader_epoch: int = 1
    leader: str = ""
    lists: Lists | None = None
    floor: ListFloor = ListFloor()


class Mode(enum.Enum):
    FENCED = "fenced"
    """Refuses writes and follows nobody."""
    FOLLOWING = "following"
    OPEN = "open"
    QUIET = "quiet"
    """Open, and holding writes back for a handover."""


class ReplicationPosition(Struct, frozen=True, order=True):
    """How much a server has: the epoch of its last write, then the offset. Offsets of different epochs count different
    things."""

    history: int = 0
    offset: int = 0


class ServerReport(Struct, frozen=True, kw_only=True):
    """What the agent saw of its server. `leader` is whom it follows. A server that is not alive is FENCED if it is gone
    for certain; one that merely does not answer may still take writes."""

    alive: bool
    mode: Mode
    leader: str = ""
    position: ReplicationPosition = ReplicationPosition()


class Send(Struct, frozen=True):
    to: str
    message: Message


class Save(Struct, frozen=True):
    """Nothing behind it in a list of effects may happen before this is durable; if it cannot be, nothing may."""

    record: ElectRecord


class Fence(Struct, frozen=True):
    pass


class Follow(Struct, frozen=True):
    leader: str


class OpenServer(Struct, frozen=True):
    """Take writes as the primary of `epoch`, until the clock of this machine says `until_ms`, and not a moment longer
    even if no other order comes."""

    epoch: int
    until_ms: int


class Quiesce(Struct, frozen=True):
    """Hold writes back without refusing them: a handover is about to begin."""

    until_ms: int


Order = Fence | Follow | OpenServer | Quiesce
Effect = Send | Save | Order
