"""How a replica of the ordered engine learns what it missed: pages asked for one after the other, learned in bounded
turns of the event loop, so that local reads and votes go on meanwhile.

A replica that is far behind orders no transactions of its own: they would wait for all it has not executed. How far it
is, and since when, is there for status, metrics and log.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from epoxy.model.instances import MAX_PAGE, InstanceId, Missed, OrderedCommit
from epoxy.node.txn.replica import FAR_BEHIND
from epoxy.ports import Clock
from epoxy.protocol.txn.catchup import known_after

LEARNED_AT_ONCE = 32
"""Decisions, before others have their turn on the event loop: some milliseconds."""

NEARLY_THERE = 256
"""So many may be missing when a replica that was FAR_BEHIND orders transactions again."""

REPORTED_EVERY_MS = 10_000.0

SILENT_ROUNDS = 4
"""Time-outs of a round after which another replica is asked for the next page."""


class CatchupHost(Protocol):
    clock: Clock

    @property
    def behind(self) -> int:
        """How many instances are known to have been executed elsewhere, and not here."""

    @property
    def round_timeout_ms(self) -> float: ...

    def learn(self, commit: OrderedCommit) -> None: ...

    def ask(self, to: int, known: tuple[InstanceId, ...]) -> None:
        """For decisions beyond these."""

    def caught_up(self) -> None: ...


class CatchUp:
    def __init__(self, host: CatchupHost) -> None:
        self.report: Callable[[str], None] = lambda _: None
        """Told in words for a log when it begins, now and then, and when it is done."""
        self.is_far_behind = False
        self.is_known = False
        """Whether any of the others has said how far it is, since this process began."""
        self.learned = 0
        """Decisions that were learned in this way."""
        self._host = host
        self._commits: deque[OrderedCommit] = deque()
        self._next: tuple[int, tuple[InstanceId, ...]] | None = None
        """Whom to ask for the next page, and beyond what."""
        self._turning = False
        self._last_ms = float("-inf")
        """When a page was asked for last that has not come, or came."""
        self._asked = False
        self._begun_ms = self._reported_ms = 0.0
        self._begun_at = 0

    @property
    def is_under_way(self) -> bool:
        """Pages come in, or are expected to."""
        if self._commits:
            return True
        patience_ms = SILENT_ROUNDS * self._host.round_timeout_ms
        return self._asked and self._host.clock.now_ms() - self._last_ms < patience_ms

    def took(self, sender: int, known: tuple[InstanceId, ...], reply: Missed) -> None:
        """`known`: beyond which the page was asked for."""
        self.is_known = True
        self._asked = False
        self._commits.extend(reply.commits)
        self._next = (sender, known_after(known, reply.commits)) if reply.more and reply.commits else None
        self._ask_ahead()
        self.look()
        if self._commits and not self._turning:
            self._turning = True
            self._host.clock.call_later(0, self._turn)

    def turned(self) -> None:
        """What was under way may be of another term, and what was missed have come with a copy."""
        self._commits.clear()
        self._next, self._asked = None, False
        self.look()

    def look(self) -> None:
        """Whether this replica is far behind."""
        behind, now_ms = self._host.behind, self._host.clock.now_ms()
        if not self.is_far_behind and behind >= FAR_BEHIND:
            self.is_far_behind = True
            self._begun_ms = self._reported_ms = now_ms
            self._begun_at = self.learned
            self.report(
                f"{behind} decisions behind the others: no transactions are ordered here until they are learned"
            )
        elif self.is_far_behind and behind <= NEARLY_THERE:
            self.is_far_behind = False
            count, seconds = self.learned - self._begun_at, (now_ms - self._begun_ms) / 1000
            self.report(f"caught up: {count} decisions learned in {seconds:.1f} s; transactions are ordered here again")
            self._host.caught_up()
        elif self.is_far_behind and now_ms - self._reported_ms >= REPORTED_EVERY_MS:
            self._reported_ms = now_ms
            self.report(f"{behind} decisions behind the others, {self.learned - self._begun_at} learned so far")

    def _ask_ahead(self) -> None:
        """The next page travels while this one is learned."""
        if self._next is not None and len(self._commits) <= MAX_PAGE:
            (to, known), self._next = self._next, None
            self._asked, self._last_ms = True, self._host.clock.now_ms()
            self._host.ask(to, known)

    def _turn(self) -> None:
        """One decision that cannot be learned, by a bug, does not keep the others back."""
        self._turning = False
        try:
            for _ in range(min(LEARNED_AT_ONCE, len(self._commits))):
                self.learned += 1
                self._host.learn(self._commits.popleft())
            self._ask_ahead()
        finally:
            if self._commits:
                self._turning = True
                self._host.clock.call_later(0, self._turn)
        if not self._commits:
            self.look()
