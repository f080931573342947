"""How flows end when they raise, the same for all three runners: `driver`, `ordered_runs` and `errands`.

A flow that raises has a bug, or met one. It is ended as if it had failed, so that what waits behind it goes on and what
runs for ever is begun again; it is counted; and it is reported once, with its traceback. A failed store is the
exception: runners pass `StoreFailed` on, and the process ends without another answer.
"""

from collections import Counter
from collections.abc import Callable

from epoxy.model.errors import InvariantViolation

FLOWS = ("write", "read", "transaction", "recovery", "term_end", "learner", "steward", "mirror")
"""The names under which they are counted."""

Report = Callable[[str, Exception], None]


def propagate(_flow: str, error: Exception) -> None:
    """Where nothing reports, whatever runs the flow gets the exception itself: tests and simulations stop at it."""
    raise error


def reason_of(error: Exception) -> str:
    """For the client of a flow that raised."""
    return str(error) if isinstance(error, InvariantViolation) else f"failed at {error!r}"


class FlowFailures:
    """Of one node. `count`: by the name of the flow."""

    def __init__(self, alarm: Callable[[str], None]) -> None:
        self.count: Counter[str] = Counter(dict.fromkeys(FLOWS, 0))
        self.report: Report = propagate
        self._alarm = alarm

    def ended(self, flow: str, error: Exception, end: Callable[[], None]) -> None:
        """Call it while the exception is handled: what is logged has its traceback then. `end` gives the flow the
        result of one that failed."""
        self.count[flow] += 1
        try:
            end()
        finally:
            if isinstance(error, InvariantViolation):
                self._alarm(str(error))
            else:
                self.report(flow, error)
