"""A linearizable read of a key that is not being written: a quorum is asked once, and all it knows of is committed.

The rules are those of `protocol.keys.reader`. Anything else is left to the flow (`reader.resume_linearizable`): a vote
in flight, a new epoch, too few answers, two electorates.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from epoxy.model.messages import AlreadyCommitted, Read, ReadOk, Reply, StaleEpoch
from epoxy.model.writes import ReadFailed, ReadOutcome, ReadResult, Source
from epoxy.node.keys.direct_round import DirectRound, RoundPlan
from epoxy.protocol.keys.effects import Flow
from epoxy.protocol.keys.reader import in_flight, linearizable, newest_of, resume_linearizable, version_of

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver


class QuietRead(DirectRound[ReadOutcome]):
    def __init__(self, driver: "Driver", key: bytes, plan: RoundPlan, answered: Callable[[ReadOutcome], None]) -> None:
        super().__init__(driver, "read", plan, len(plan.asked) - plan.slow, answered)
        self._key = key
        self._senders: list[int] = []
        self._replies: list[ReadOk] = []

    def start(self) -> None:
        plan = self._plan
        try:
            if plan.config.is_joint:
                self._go_on(linearizable(self._key, plan.ctx))
            else:
                self._open(plan.asked, Read(key=self._key, epoch=plan.epoch), plan.asked_ms)
        except Exception as error:
            self._broke(error)

    def _counted(self, sender: int, reply: Reply) -> bool:
        if not isinstance(reply, ReadOk):
            return False
        if sender in self._senders:
            return True
        self._senders.append(sender)
        replies, plan = self._replies, self._plan
        replies.append(reply)
        if len(replies) >= plan.slow:
            self._close()
            committed = newest_of(replies)
            if in_flight(replies, version_of(committed), plan.config):
                self._go_on(resume_linearizable(self._key, plan.ctx, replies, None))
            else:
                self._finish(ReadResult(committed=committed, source=Source.QUORUM))
        return True

    def _failure(self, reason: str) -> ReadOutcome:
        return ReadFailed(reason=reason)

    def _leave(self, news: AlreadyCommitted | StaleEpoch | None) -> None:
        changed = news if isinstance(news, StaleEpoch) else None
        self._go_on(resume_linearizable(self._key, self._plan.ctx, None, changed))

    def _go_on(self, flow: Flow[ReadOutcome]) -> None:
        """From now on the flow's runner answers."""
        answered, self._answered = self._answered, None
        assert answered is not None
        self._driver.run_read(flow, answered)
