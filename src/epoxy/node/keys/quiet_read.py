"""A linearizable read of a key that nobody is writing: a quorum is asked once, and all it knows of is committed.

As for writes (`uncontended.py`), that is nearly every one, so it is told once more, as callbacks that pass one object
along, with the rules of `keys.reader`. Whatever else happens is left to the flow (`reader.resume_linearizable`):
a vote in flight, a new epoch, too few answers, two electorates.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from epoxy.model.errors import StoreFailed
from epoxy.model.messages import Read, ReadOk, Reply, Request, StaleEpoch
from epoxy.model.writes import ReadFailed, ReadOutcome, ReadResult, Source
from epoxy.node.keys.uncontended import RoundPlan
from epoxy.ports import Timer
from epoxy.protocol.keys.reader import in_flight, linearizable, newest_of, next_version, resume_linearizable
from epoxy.protocol.keys.rounds import missing_before
from epoxy.runtime.flow_failures import reason_of

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver


class QuietRead:
    """One read. What is heard after it was answered, or left, counts for nothing."""

    def __init__(
        self, driver: "Driver", key: bytes, standing: RoundPlan, answered: Callable[[ReadOutcome], None]
    ) -> None:
        self.driver = driver
        self._standing = standing
        self.answered = answered
        self._request = Read(key=key, epoch=standing.epoch)
        # Who has said what: a handful at most, and one sender counts once.
        self._heard_of: list[int] = []
        self._replies: list[ReadOk] = []
        self._refused: list[int] = []
        self._helped: list[int] = []
        self._timer: Timer | None = None
        self._is_open = False

    def start(self) -> None:
        standing, driver = self._standing, self.driver
        if standing.config.is_joint:
            driver.reading(linearizable(self._request.key, standing.ctx), self.answered)
            return
        self._is_open = True
        self._timer = driver.clock.call_later(standing.asked_ms, self._expired)
        requests = (self._request,)
        try:
            for replica in standing.asked:
                self._ask(replica, requests)
        except Exception as error:
            self._broke(error)

    def _ask(self, replica: int, requests: tuple[Request, ...]) -> None:
        """Own messages never touch the network."""
        heard = partial(self._heard, replica)
        if replica == self._standing.ctx.me:
            self.driver.replica.handle(requests, heard)
        else:
            self.driver.transport.send(replica, requests, heard)

    def _heard(self, sender: int, reply: Reply) -> None:
        if not self._is_open:
            return
        try:
            if isinstance(reply, ReadOk):
                self._count(sender, reply)
            elif not self._help(sender, reply):
                self._count_out(sender, reply)
        except Exception as error:
            self._broke(error)

    def _count(self, sender: int, reply: ReadOk) -> None:
        if sender in self._heard_of:
            return
        self._heard_of.append(sender)
        replies, standing = self._replies, self._standing
        replies.append(reply)
        if len(replies) < standing.slow:
            return
        committed = newest_of(replies)
        if in_flight(replies, next_version(committed), standing.config):
            self._leave_it(replies, None)
        else:
            self._close()
            self.answered(ReadResult(committed=committed, source=Source.QUORUM))

    def _help(self, sender: int, reply: Reply) -> bool:
        """A replica that missed a change of members is told of it, once, with the question again."""
        missing = missing_before(reply, self._standing.ctx, self._request, None)
        if missing is None or sender in self._helped:
            return False
        self._helped.append(sender)
        self._ask(sender, (missing, self._request))
        return True

    def _count_out(self, sender: int, reply: Reply) -> None:
        if sender not in self._refused:
            self._refused.append(sender)
        if isinstance(reply, StaleEpoch):
            self._leave_it(None, reply)
        elif len(self._standing.asked) - len(self._refused) < self._standing.slow:
            self._leave_it(None, None)

    def _expired(self) -> None:
        if self._is_open:
            self._leave_it(None, None)

    def _close(self) -> None:
        self._is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _broke(self, error: Exception) -> None:
        """A bug; but its client must not wait for nothing. What raises after the answer is not the
        read's."""
        if not self._is_open or isinstance(error, StoreFailed):
            self._close()
            raise error
        self._close()
        failed = ReadFailed(reason=reason_of(error))
        self.driver.failures.ended("read", error, partial(self.answered, failed))

    def _leave_it(self, replies: list[ReadOk] | None, news: StaleEpoch | None) -> None:
        """To the flow, which knows what to do next."""
        self._close()
        self.driver.reading(resume_linearizable(self._request.key, self._standing.ctx, replies, news), self.answered)
