"""The messages between agents. Their fields are in the order of the wire: those of the original text first."""

import enum

from msgspec import Struct

from epoxy.protocol.elect.lists import NodeList


class Role(enum.Enum):
    PRIMARY = "primary"
    REPLICA = "replica"
    CANDIDATE = "candidate"


class ServerState(enum.Enum):
    """What a heartbeat says of its sender's server."""

    OPEN = "open"
    """A primary whose server takes writes."""
    READY = "ready"
    """Hears no primary, and its server is fenced: its position does not change, and it may vote."""
    DOWN = "down"
    """Its server is gone, so it certainly takes no writes."""
    FRESH = "fresh"
    """Has no record: it neither votes nor answers a leader."""
    BUSY = "busy"
    """None of these."""


class Heartbeat(Struct, frozen=True, kw_only=True):
    """`epoch`: the highest its sender has voted in or followed. `leader` leads `leader_epoch`, as far as the sender
    knows. `history`: the epoch of the last write in its server's data. `stamp`: its clock. `echo`: the newest stamp of
    the receiver's, while the sender supports the receiver as leader of `leader_epoch`; else 0. `stage` and `list`:
    which lists of nodes the sender counts, and the newest of them."""

    epoch: int
    node: str
    role: Role
    offset: int
    leader_epoch: int
    leader: str
    history: int
    state: ServerState
    stamp: int
    echo: int
    stage: int
    list: str


class Offer(Struct, frozen=True, kw_only=True):
    """`in_office`: the candidate is the primary, its lease is running, and it wants a new epoch. `stage` and `list`: by
    which lists of nodes it counts its votes."""

    epoch: int
    node: str
    offset: int
    history: int
    in_office: bool
    stage: int
    list: str


class Acceptance(Struct, frozen=True, kw_only=True):
    """`candidate`: the node the vote is for, so that a vote delivered to another node is not counted."""

    epoch: int
    node: str
    candidate: str


class Announce(Struct, frozen=True, kw_only=True):
    epoch: int
    node: str
    address: str


class Handover(Struct, frozen=True, kw_only=True):
    """A primary that has closed its server names its successor, so that the others let it stand first."""

    epoch: int
    node: str
    heir: str


class Counted(Struct, frozen=True, kw_only=True):
    """For a node without a record: which lists of nodes the sender counts, and its floor."""

    epoch: int
    node: str
    stage: int
    lists: tuple[NodeList, ...]
    floor_generation: int
    floor_list: str


Message = Heartbeat | Offer | Acceptance | Announce | Handover | Counted
