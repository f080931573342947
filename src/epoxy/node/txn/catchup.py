"""How a replica of the ordered engine learns decisions it missed: it asks for one page after the other, and learns them
in bounded turns of the event loop, so that local reads and votes go on meanwhile.

A replica that is far behind proposes no transactions of its own: they would wait for all it has not executed.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from epoxy.model.instances import MAX_PAGE, InstanceId, Missed, OrderedCommit
from epoxy.node.txn.replica import FAR_BEHIND
from epoxy.ports import Clock
from epoxy.protocol.txn.catchup import known_after

LEARNED_AT_ONCE = 32
"""Decisions in one turn of the event loop: some milliseconds."""

NEARLY_THERE = 256
"""Decisions that may be missing when a replica that was FAR_BEHIND proposes transactions again."""

REPORTED_EVERY_MS = 10_000.0

SILENT_ROUNDS = 4
"""Time-outs of a round after which another replica is asked for the next page."""


class CatchupHost(Protocol):
    clock: Clock

    @property
    def behind(self) -> int:
        """Instances that other replicas have executed and this one has not, as far as it knows."""

    @property
    def round_timeout_ms(self) -> float: ...

    def learn(self, commit: OrderedCommit) -> None: ...

    def ask(self, to: int, known: tuple[InstanceId, ...]) -> None:
        """Ask for decisions after these."""

    def caught_up(self) -> None: ...


class CatchUp:
    def __init__(self, host: CatchupHost) -> None:
        self.report: Callable[[str], None] = lambda _: None
        """Called with a line for the log: at the beginning, every REPORTED_EVERY_MS, and at the end."""
        self.is_far_behind = False
        self.is_known = False
        """Whether another replica has told how far it has executed, since this process began."""
        self.learned = 0
        """Decisions learned from pages."""
        self._host = host
        self._commits: deque[OrderedCommit] = deque()
        self._next: tuple[int, tuple[InstanceId, ...]] | None = None
        """The replica to ask for the next page, and the slots after which it begins."""
        self._turning = False
        self._last_ms = float("-inf")
        """When the last page was asked for."""
        self._asked = False
        self._begun_ms = self._reported_ms = 0.0
        self._begun_at = 0

    @property
    def is_under_way(self) -> bool:
        """Whether a page is being learned, or is still expected."""
        if self._commits:
            return True
        patience_ms = SILENT_ROUNDS * self._host.round_timeout_ms
        return self._asked and self._host.clock.now_ms() - self._last_ms < patience_ms

    def took(self, sender: int, known: tuple[InstanceId, ...], reply: Missed) -> None:
        """`known`: the slots after which the page begins."""
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
        """Pages under way may be of another term, and a copy may have brought what was missed."""
        self._commits.clear()
        self._next, self._asked = None, False
        self.look()

    def look(self) -> None:
        """Check whether this replica is far behind, or was and is no longer."""
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
        """An exception in one decision must not stop the others."""
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
