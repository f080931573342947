"""What agents tell each other. The fields of the original text come first, in its order; ours follow them."""

import enum

from msgspec import Struct

from epoxy.protocol.elect.lists import NodeList


class Role(enum.Enum):
    PRIMARY = "primary"
    REPLICA = "replica"
    CANDIDATE = "candidate"


class ServerState(enum.Enum):
    """What else a heartbeat says of its sender."""

    OPEN = "open"
    """A primary whose server takes writes."""
    READY = "ready"
    """Hears no primary, its server follows nobody: what it says of its position stays so, and it may vote."""
    DOWN = "down"
    """Its server is gone, and takes no writes for certain."""
    FRESH = "fresh"
    """Remembers nothing: it neither votes nor answers for anybody."""
    BUSY = "busy"
    """None of these."""


class Heartbeat(Struct, frozen=True, kw_only=True):
    """`epoch`: the highest its sender has voted in or followed. `leader` leads `leader_epoch`, as far as it knows.
    `history`: the epoch of the last write in its server's data. `stamp`: its clock. `echo`: the newest stamp it had
    from the receiver, as long as it stands behind the receiver as leader of `leader_epoch`; else 0. `stage` and `list`:
    which lists of nodes its sender counts, and the newest of them."""

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
    """`in_office`: the candidate is the primary, and its lease is running. It wants a new epoch, not another leader.
    `stage` and `list`: by which lists of nodes it counts its votes."""

    epoch: int
    node: str
    offset: int
    history: int
    in_office: bool
    stage: int
    list: str


class Acceptance(Struct, frozen=True, kw_only=True):
    """`candidate`: whom it is for, so that a vote that went astray is nobody's."""

    epoch: int
    node: str
    candidate: str


class Announce(Struct, frozen=True, kw_only=True):
    epoch: int
    node: str
    address: str


class Handover(Struct, frozen=True, kw_only=True):
    """A primary that has closed says who should be next, so that the others let it go first."""

    epoch: int
    node: str
    heir: str


class Counted(Struct, frozen=True, kw_only=True):
    """For a node without memory: which lists of nodes the sender counts, and which it has promised not to go behind."""

    epoch: int
    node: str
    stage: int
    lists: tuple[NodeList, ...]
    floor_generation: int
    floor_list: str


Message = Heartbeat | Offer | Acceptance | Announce | Handover | Counted
