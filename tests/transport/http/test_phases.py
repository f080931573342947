"""The time limit of each phase of a connection."""

import math

import pytest

from epoxy.transport.http.phases import ConnectionPhase, patience_s
from epoxy.transport.limits import HttpLimits

LIMITS = HttpLimits(idle_timeout_s=1, head_timeout_s=2, body_timeout_s=3)


@pytest.mark.parametrize(
    ("phase", "idle", "awaiting"),
    [
        (ConnectionPhase.REQUEST, 1, math.inf),
        (ConnectionPhase.HEAD, 2, 2),
        (ConnectionPhase.BODY, 3, 3),
        (ConnectionPhase.NOTHING, math.inf, math.inf),
    ],
)
def test_a_client_that_awaits_answers_is_not_idle(phase: ConnectionPhase, idle: float, awaiting: float) -> None:
    assert patience_s(phase, LIMITS, awaits_answers=False) == idle
    assert patience_s(phase, LIMITS, awaits_answers=True) == awaiting
