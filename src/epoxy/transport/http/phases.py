"""What a connection reads next, and the time limit for it."""

import math
from enum import Enum, auto
from typing import assert_never

from epoxy.transport.limits import HttpLimits


class ConnectionPhase(Enum):
    REQUEST = auto()
    HEAD = auto()
    BODY = auto()
    NOTHING = auto()
    """The last request of this connection has been read, or refused. Further bytes are dropped."""


def patience_s(phase: ConnectionPhase, limits: HttpLimits, *, awaits_answers: bool) -> float:
    """`awaits_answers`: earlier requests are not answered yet."""
    match phase:
        case ConnectionPhase.REQUEST:
            return math.inf if awaits_answers else limits.idle_timeout_s
        case ConnectionPhase.HEAD:
            return limits.head_timeout_s
        case ConnectionPhase.BODY:
            return limits.body_timeout_s
        case ConnectionPhase.NOTHING:
            return math.inf
        case _:
            assert_never(phase)
