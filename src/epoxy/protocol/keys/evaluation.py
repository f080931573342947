"""Steps of a write, evaluated where it is folded.

A script need not be deterministic, and reads the clock. But the same writes on the same base must always make the same
proposal: by its ids a home knows that its own fold was decided, and what it answers. So the steps are evaluated once
for each input, and the result is kept.
"""

from collections.abc import Callable

from epoxy.model.records import Proposal
from epoxy.model.strings import Evaluated, Steps

Evaluate = Callable[[Steps, Proposal | None], Evaluated]


class Evaluation:
    """Of one write. At most a few inputs: one for each version that its home tried to build on."""

    __slots__ = ("_evaluate", "_known", "_steps")

    def __init__(self, steps: Steps, evaluate: Evaluate) -> None:
        self._steps = steps
        self._evaluate = evaluate
        self._known: list[tuple[Proposal | None, Evaluated]] = []

    def on(self, committed: Proposal | None) -> Evaluated:
        for seen, result in self._known:
            if seen == committed:
                return result
        result = self._evaluate(self._steps, committed)
        self._known.append((committed, result))
        return result
