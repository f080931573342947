"""What an agent of elect says of itself and of the others, and what a node passes on of it to its pages."""

from typing import Annotated

from msgspec import Struct

from epoxy.model.api import documented


class NodeStatus(Struct, frozen=True, kw_only=True):
    """One node as this agent sees it. `seen_ms`: how long ago its last heartbeat arrived; None: never."""

    id: str
    server: str
    control: str
    priority: int
    role: str
    state: str
    epoch: int
    history: int
    offset: int
    seen_ms: int | None


class AgentStatus(Struct, frozen=True, kw_only=True):
    cluster: str
    node: str
    primary: str | None
    primary_address: str | None
    epoch: int
    leader_epoch: int
    leader: str
    role: str
    state: str
    lease_ms: int
    quorum: int
    min_replicas_to_write: int
    switches: int
    guard: bool
    """Whether the watchdog process runs."""
    nodes: tuple[NodeStatus, ...]
    handing: str | None = None
    """The heir of a handover that is under way."""
    generation: int = 0
    """Of the newest list of nodes that is counted."""
    joining: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    """During a change: the nodes that only the new or only the old list has. Nodes without a record count as joining.
    Empty when the change is over."""
    implausible: int = 0
    """Messages ignored because of an epoch far above all that was seen."""
    refused_orders: int = 0
    """Orders that were not signed with the secret, came too late, or were given before."""
    primary_ms: int | None = None
    """For how long this agent has known that primary, in that epoch, to take writes; None: there is none."""
    voted_for: str = ""
    """Whom this agent's own vote of `epoch` is for; empty: it has given none."""


class ElectAgent(Struct, frozen=True, kw_only=True):
    """One agent of the setting `console.elect`. `status` null: it did not answer, and `trouble` says why."""

    address: str
    status: AgentStatus | None
    trouble: str = ""


class ElectView(Struct, frozen=True, kw_only=True):
    """What the agents say that this node is told to ask. Without agents in its file the list is empty."""

    now: Annotated[float, documented("When they were asked, in seconds since 1970, by the clock of this node.")]
    agents: tuple[ElectAgent, ...]
