"""A whole run of elections as data: the cluster, its network, and what breaks when."""

import enum

from msgspec import Struct

from epoxy.protocol.elect.config import ElectTiming


class Kind(enum.Enum):
    CRASH = "crash"
    """The machine: agent and server. Disks survive, clocks begin again."""
    WIPE = "wipe"
    """The same, and the disks are lost with everything on them."""
    AGENT_CRASH = "agent-crash"
    """The server goes on without its agent."""
    AGENT_END = "agent-end"
    """The agent is asked to end: it hands over first."""
    SERVER_CRASH = "server-crash"
    HANG = "hang"
    """The server does not answer, and does nothing; its agent does."""
    PAUSE = "pause"
    """Nothing runs; mail and timers arrive when it is over."""
    PARTITION = "partition"
    ONE_WAY = "one-way"
    """What the target sends is lost; it hears everything."""
    APART = "apart"
    """The first target and the others named do not hear each other; all others hear everything."""
    SILENT = "silent"
    """The agents of the first target and of the others named do not hear each other; their servers do."""
    CRASH_ON_VOTE = "crash-on-vote"
    """The agent dies right behind its next vote for another, and is back at once."""
    DISK_FULL = "disk-full"
    """What the agent must remember cannot be saved."""
    HANDOVER = "handover"
    """Not a fault: an operator asks for a planned failover."""


class ElectFault(Struct, frozen=True, kw_only=True):
    """`target`: the nodes it strikes, from 1; 0 is the primary of that moment. It ends by itself."""

    at_ms: int
    kind: Kind
    target: tuple[int, ...]
    for_ms: int = 0


class ElectWeather(Struct, frozen=True, kw_only=True):
    """`loss`: of messages whose connection breaks under them. `slow_order`: of orders that the server takes long to
    carry out. `tampering`: of encoded messages that a man in the middle changes, repeats, leaves out or adds to."""

    delay_us: int = 500
    jitter: float = 1.0
    loss: float = 0.0
    slow_order: float = 0.0
    tampering: float = 0.0


class Roll(Struct, frozen=True, kw_only=True):
    """An operator gives all nodes another list, one after the other. `nodes`: those on the list, from 1. `order`: the
    order of restarts, `gap_ms` apart. `stay`: a node that leaves the list is not stopped before the end."""

    at_ms: int
    nodes: tuple[int, ...]
    order: tuple[int, ...]
    gap_ms: int
    min_replicas: int
    stay: bool


class ElectPlan(Struct, frozen=True, kw_only=True):
    """`begun`: the nodes start with the records of a cluster that has run before. `stranger`: a process without the
    secret sends messages to all nodes. `odd`: the node whose file lists only the first three; 0 is none. `sync_ms`: how
    long a whole copy of the data takes. `n`: the nodes of the first list; `rolls`: the lists that follow it."""

    seed: int
    n: int
    timing: ElectTiming
    min_replicas: int
    priorities: tuple[int, ...]
    weather: ElectWeather
    skew: tuple[float, ...]
    begun: bool
    stranger: bool
    odd: int
    sync_ms: int
    pace_ms: int
    faults_end_ms: int
    faults: tuple[ElectFault, ...]
    encoded: bool
    rolls: tuple[Roll, ...] = ()
    babble_ms: int = 0
    """When all nodes hear the last epoch there is from every other, and a smaller impossible one from one node; 0 is
    never."""
    ahead: int = 0
    """The epoch that all nodes but the last begin with; the last was away since epoch 1. 0: all begin with 1."""

    @property
    def size(self) -> int:
        return len(self.faults) + len(self.rolls)
