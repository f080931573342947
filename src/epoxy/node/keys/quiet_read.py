"""A linearizable read of a key that is not being written: a quorum is asked once, and all it knows of is committed.

The nearest quorum is asked first, and the other voters as well if one of it fails or does not answer in time. The rules
are those of `protocol.keys.reader`. Anything else is left to the flow (`reader.resume_linearizable`): a vote in flight,
a new epoch, too few answers, two electorates.
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
        super().__init__(driver, "read", plan, len(plan.asked) + len(plan.spare) - plan.slow, answered)
        self._key = key
        self._replies: dict[int, ReadOk] = {}
        self._unasked = plan.spare

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
        replies, plan = self._replies, self._plan
        replies[sender] = reply
        if len(replies) >= plan.slow:
            self._close()
            committed = newest_of(replies.values())
            votes = in_flight(replies, version_of(committed), plan.config)
            if votes:
                self._driver.writers.saw(self._key, votes)
                self._go_on(resume_linearizable(self._key, plan.ctx, replies, None))
            else:
                self._finish(ReadResult(committed=committed, source=Source.QUORUM))
        return True

    def _expired(self) -> None:
        if self._is_open and self._unasked:
            self._driver.silence()
            self._ask_rest()
        else:
            super()._expired()

    def _count_out(self, sender: int, reply: Reply) -> None:
        super()._count_out(sender, reply)
        if self._is_open and self._unasked:
            self._ask_rest()

    def _ask_rest(self) -> None:
        """Ask the voters beyond the nearest quorum, within the same round."""
        replicas, self._unasked = self._unasked, ()
        request = self._request
        assert request is not None
        self._close()
        self._open(replicas, request, self._plan.timing.round_timeout_ms)

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
