"""Copies keys between members: packs pages as a source, and learns from pages of others.

A page is packed or learned in one turn of the event loop, a few milliseconds, with other work between two of them.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, assert_never

from epoxy.codec.plain_requests import PlainRequest
from epoxy.model.cluster import CHANGE_REQUEST_KEY, CONFIG_KEY
from epoxy.model.errors import RottenRow, StoreUnavailable
from epoxy.model.members import ChangelogRead, MemberReply, SnapshotRead
from epoxy.model.messages import Failed
from epoxy.model.records import KeyState
from epoxy.node.keys.changelog_gc import ChangelogGc
from epoxy.node.keys.replica import Replica
from epoxy.node.members.config_record import change_request
from epoxy.ports import Clock, Store, Timer, Transaction
from epoxy.protocol.members.effects import (
    Changing,
    CopyEffect,
    Followed,
    GiveWay,
    Keep,
    LoadProgress,
    Repair,
    Summarise,
)
from epoxy.protocol.members.learner import is_changing
from epoxy.runtime.flow import Done
from epoxy.store.member_rows import MemberSpace

R = TypeVar("R")

LONGEST_REST_MS = 10_000.0
"""A cap, because a disk that stalls makes a page seem like a minute's work."""

SERVING_SHARE = 0.15
"""Of a source's time while its clients write, encoding not counted. A page blocks the event loop for a few
milliseconds, so it is sent later, and the learner asks for the next one later."""

LONGEST_WAIT_MS = 200.0
"""For a page that is ready: well within the time-out of the learner."""


class Pace:
    """Limits the share of this replica's time that a copy takes: after some work it rests."""

    def __init__(self, clock: Clock) -> None:
        self.page_ms = 0.0
        """The cost of a page beyond what the clock shows: a simulated clock stands still meanwhile."""
        self._clock = clock
        self._busy_ms = 0.0
        self._timer: Timer | None = None
        self._then: Callable[[], None] | None = None

    def timed(self, work: Callable[[], R]) -> R:
        begun_ms = self._clock.now_ms()
        result = work()
        self._busy_ms += self._clock.now_ms() - begun_ms
        return result

    def give_way(self, share: float, then: Callable[[], None]) -> None:
        rest_ms = min(LONGEST_REST_MS, (self.page_ms + self._busy_ms) * (1 / share - 1))
        self._busy_ms = 0.0
        self.rest(rest_ms, then)

    def rest(self, delay_ms: float, then: Callable[[], None]) -> None:
        self._then = then
        self._timer = self._clock.call_later(delay_ms, self._rested)

    def end_rest(self) -> bool:
        """Go on at once: in a new configuration there may be something else to do. False: it was not resting."""
        if self._then is None or self._timer is None:
            return False
        self._timer.cancel()
        self.rest(0, self._then)
        return True

    def _rested(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()


class KeySync:
    def __init__(self, replica: Replica, store: Store, space: MemberSpace, clock: Clock) -> None:
        self._replica = replica
        self._store = store
        self._space = space
        self._clock = clock
        self.pace = Pace(clock)
        self.gc = ChangelogGc(replica, store, space, clock)
        self.copied = 0
        """Keys that pages of others have brought, while members change."""
        self.repaired = 0
        """Keys that were found missing, or behind, in quiet times."""
        self.followed: set[int] = set()
        """Sources whose tail was reached in the change under way. A copy made before it may be old."""
        self._commits = 0
        """Since the last page was asked for."""
        replica.short_watchers.append((self._committed, self._committed_plain))

    # As a source

    def serve(self, work: Callable[[Transaction], MemberReply], answered: Callable[[MemberReply], None]) -> None:
        """The page leaves when it is durable, and later still while clients write and the epoch is not joint."""
        begun_ms = self._clock.now_ms()
        reply = whole_or_failed(self._store, work)
        is_free = self._replica.config.is_joint or not self._commits
        wait_ms = 0.0 if is_free else (self._clock.now_ms() - begun_ms) * (1 / SERVING_SHARE - 1)
        self._commits = 0
        self._store.when_durable(partial(self._leave, min(LONGEST_WAIT_MS, wait_ms), partial(answered, reply)))

    def _leave(self, wait_ms: float, answer: Callable[[], None]) -> None:
        if wait_ms:
            self._clock.call_later(wait_ms, answer)
        else:
            answer()

    def page(self, tx: Transaction, request: SnapshotRead | ChangelogRead) -> MemberReply:
        reply: MemberReply
        if isinstance(request, SnapshotRead):
            reply = self._space.snapshot_page(tx.snapshot, request)
        else:
            reply = self._space.changelog_page(tx.snapshot, request)
        self.gc.served(request, reply)
        return reply

    # As a learner

    def is_changing(self) -> bool:
        try:
            request = change_request(self._replica.newest(CHANGE_REQUEST_KEY))
        except RottenRow:
            return True  # it may be: a copy is more than a comparison
        return is_changing(self._replica.config, request)

    def sources(self, tx: Transaction) -> tuple[int, ...]:
        """Replicas that need not be copied in the joint epoch."""
        return tuple(sorted(self.followed)) if self.is_changing() else self._space.sources(tx.snapshot)

    def perform(self, effect: CopyEffect, done: Done) -> None:
        match effect:
            case Changing():
                done(self.is_changing())
            case LoadProgress():
                done(self._store.transact(lambda tx: self._space.progress(tx, effect.source)))
            case Summarise():
                done(self.pace.timed(lambda: self._store.transact(lambda tx: self._space.stretch(tx, effect.after))))
            case Keep():
                self._learn(effect, self._note_progress(effect), partial(self._copied, done))
            case Repair():
                self._learn(effect, lambda _: None, partial(self._repaired, done))
            case GiveWay():
                self.pace.give_way(effect.share, partial(done, None))
            case Followed():
                self.followed.add(effect.source)
                done(None)
            case _:
                assert_never(effect)

    def _committed(self, key: bytes, _before: KeyState, _after: KeyState) -> None:
        self._commits += 1
        if key == CONFIG_KEY and not is_changing(self._replica.config, None):
            self.followed.clear()

    def _committed_plain(self, _request: PlainRequest) -> bool:
        self._commits += 1
        return True

    def _note_progress(self, effect: Keep) -> Callable[[Transaction], None]:
        """Written in the transaction of the entries, so that one is never there without the other."""
        return lambda tx: self._space.set_progress(tx, effect.source, effect.progress)

    def _learn(self, effect: Keep | Repair, beside: Callable[[Transaction], None], done: Callable[[int], None]) -> None:
        self.pace.timed(lambda: self._replica.learn_owned(effect.entries, beside, done))

    def _copied(self, done: Done, news: int) -> None:
        self.copied += news
        done(news)

    def _repaired(self, done: Done, news: int) -> None:
        self.repaired += news
        done(news)


def whole_or_failed(store: Store, work: Callable[[Transaction], MemberReply]) -> MemberReply:
    """A page that meets a rotten row, or a database that is away, is not sent, not even in part: the reader would count
    the row as absent."""
    try:
        return store.transact(work)
    except (RottenRow, StoreUnavailable) as error:
        return Failed(reason=str(error))
