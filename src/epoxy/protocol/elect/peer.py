"""What an elector knows of another node, all of it from heartbeats."""

from epoxy.protocol.elect.messages import Heartbeat, Role, ServerState
from epoxy.protocol.elect.terms import ReplicationPosition


class ElectPeer:
    def __init__(self) -> None:
        self.heartbeat: Heartbeat | None = None
        self.at_ms = 0
        self.was_fresh = False
        """Whether it has said, in this life of ours, that it remembers nothing."""
        self.was_new = False
        """The same, or that it has not seen an election yet."""
        self.has_joined = False
        """Whether it has said, in this life of ours, that it remembers something."""
        self.has_led = False
        self.told_ms: int | None = None
        """When it said, to a node without memory, which lists count."""
        self.answered_ms: int | None = None
        """The latest of our heartbeats that it answered for us as the leader we are now."""

    def heard(self, heartbeat: Heartbeat, now_ms: int) -> None:
        self.heartbeat, self.at_ms = heartbeat, now_ms
        self.was_fresh = self.was_fresh or heartbeat.state is ServerState.FRESH
        self.has_joined = self.has_joined or heartbeat.state is not ServerState.FRESH
        self.has_led = self.has_led or heartbeat.role is Role.PRIMARY
        self.was_new = self.was_new or self.was_fresh or heartbeat.epoch == 1

    def said_lately(self, now_ms: int, within_ms: int) -> Heartbeat | None:
        return self.heartbeat if self.heartbeat is not None and now_ms - self.at_ms < within_ms else None

    @property
    def remembers(self) -> bool:
        return self.heartbeat is not None and self.heartbeat.state is not ServerState.FRESH

    @property
    def position(self) -> ReplicationPosition:
        return (
            ReplicationPosition(self.heartbeat.history, self.heartbeat.offset)
            if self.heartbeat is not None
            else ReplicationPosition()
        )
