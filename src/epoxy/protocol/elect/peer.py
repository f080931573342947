"""What an elector knows of another node, all of it from heartbeats."""

from epoxy.protocol.elect.messages import Heartbeat, Role, ServerState
from epoxy.protocol.elect.terms import ReplicationPosition


class ElectPeer:
    """What it has reported since this agent started."""

    def __init__(self) -> None:
        self.heartbeat: Heartbeat | None = None
        self.at_ms = 0
        self.was_fresh = False
        """Whether it has ever reported that it has no record."""
        self.was_new = False
        """The same, or that it has seen no election yet."""
        self.has_joined = False
        """Whether it has ever reported that it has a record."""
        self.has_led = False
        self.lists_ms: int | None = None
        """When it last sent the lists that count, to this node without a record."""
        self.answered_ms: int | None = None
        """When the latest heartbeat was sent that it has answered to this node as the current leader."""

    def heard(self, heartbeat: Heartbeat, now_ms: int) -> None:
        self.heartbeat, self.at_ms = heartbeat, now_ms
        self.was_fresh = self.was_fresh or not self.has_record
        self.has_joined = self.has_joined or self.has_record
        self.has_led = self.has_led or heartbeat.role is Role.PRIMARY
        self.was_new = self.was_new or self.was_fresh or heartbeat.epoch == 1

    def heartbeat_within(self, within_ms: int, now_ms: int) -> Heartbeat | None:
        return self.heartbeat if now_ms - self.at_ms < within_ms else None

    @property
    def has_record(self) -> bool:
        return self.heartbeat is not None and self.heartbeat.state is not ServerState.FRESH

    @property
    def position(self) -> ReplicationPosition:
        heartbeat = self.heartbeat
        return ReplicationPosition(heartbeat.history, heartbeat.offset) if heartbeat else ReplicationPosition()
