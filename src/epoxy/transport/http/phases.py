"""What a connection wants next from its client, and for how long it waits."""

import math
from enum import Enum, auto
from typing import assert_never

from epoxy.transport.limits import HttpLimits


class ConnectionPhase(Enum):
    REQUEST = auto()
    HEAD = auto()
    BODY = auto()
    NOTHING = auto()
    """The last request of this connection has been read, or refused. More is dropped unread."""


def patience_s(phase: ConnectionPhase, limits: HttpLimits, *, waits_for_us: bool) -> float:
    """`waits_for_us`: earlier requests are not answered yet."""
    match phase:
        case ConnectionPhase.REQUEST:
            return math.inf if waits_for_us else limits.idle_timeout_s
        case ConnectionPhase.HEAD:
            return limits.head_timeout_s
        case ConnectionPhase.BODY:
            return limits.body_timeout_s
        case ConnectionPhase.NOTHING:
            return math.inf
        case _:
            assert_never(phase)
