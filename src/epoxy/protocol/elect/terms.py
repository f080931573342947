"""What an elector saves, what is reported to it of its server, and the effects it asks for."""

import enum

from msgspec import Struct

from epoxy.protocol.elect.lists import ListFloor, Lists
from epoxy.protocol.elect.messages import Message


class ElectRecord(Struct, frozen=True, kw_only=True):
    """What must survive a crash. `epoch`: the highest this node has voted in or followed; it supports no leader below
    it. `voted_for`: empty if it followed without having voted. `lists`: the lists of nodes it counts; None in a record
    of a version that could not change them. `floor`: what it has promised about lists."""

    epoch: int = 1
    voted_for: str = ""
    leader_epoch: int = 1
    leader: str = ""
    lists: Lists | None = None
    floor: ListFloor = ListFloor()


class Mode(enum.Enum):
    FENCED = "fenced"
    """Refuses writes and replicates from no server."""
    FOLLOWING = "following"
    OPEN = "open"
    QUIET = "quiet"
    """Open, and holding writes back for a handover."""


class ReplicationPosition(Struct, frozen=True, order=True):
    """How much data a server has: the epoch of its last write, then the offset. Offsets of different epochs are not
    comparable."""

    history: int = 0
    offset: int = 0


class ServerReport(Struct, frozen=True, kw_only=True):
    """What the agent saw of its server. `leader`: the node it follows. A server that is not alive is FENCED if it is
    certainly gone; one that merely does not answer may still take writes."""

    alive: bool
    mode: Mode
    leader: str = ""
    position: ReplicationPosition = ReplicationPosition()


class Send(Struct, frozen=True):
    to: str
    message: Message


class Save(Struct, frozen=True):
    """Later effects of the list wait until this is durable; if that fails, they must not happen."""

    record: ElectRecord


class Fence(Struct, frozen=True):
    pass


class Follow(Struct, frozen=True):
    leader: str


class OpenServer(Struct, frozen=True):
    """Take writes as the primary of `epoch` until `until_ms` on this machine's clock, and no longer even if no other
    order comes."""

    epoch: int
    until_ms: int


class Quiesce(Struct, frozen=True):
    """Hold writes back without refusing them, before a handover."""

    until_ms: int


Order = Fence | Follow | OpenServer | Quiesce
Effect = Send | Save | Order
