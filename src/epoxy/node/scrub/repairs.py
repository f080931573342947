"""What is done about rotten rows: one that others hold too is repaired from a quorum of them, one that can be made
again is dropped, and one that only this replica knew ends the node. `store.row_kinds` says which is which.

Until a row is repaired every read of it raises, so nothing that rests on it leaves: no reply to a peer, no page, no
answer to a client.
"""

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import assert_never

from epoxy.codec.txn_json import quoted
from epoxy.model.errors import RottenRow
from epoxy.model.writes import ReadFailed, ReadOutcome
from epoxy.node.keys.changelog_gc import SWEPT_BYTES, SWEPT_ROWS, ChangelogGc
from epoxy.node.keys.driver import Driver
from epoxy.ports import Clock, Store, StoreCut
from epoxy.store.member_rows import MemberSpace
from epoxy.store.row_kinds import UNKNOWN, Remedy, Row, RowKind, row_of
from epoxy.store.txn_rows import OrderedSpace

AT_ONCE = 8
"""Keys that are read from others at the same time: rot comes in pages of many rows, and clients go on meanwhile."""

AGAIN_MS, LONGEST_PAUSE_MS = 1_000.0, 60_000.0
"""Before a repair is tried again because no quorum was there; doubled each time."""

SWEEP_MS = 20.0
"""Between two parts of a changelog that is truncated, which take some 3 ms of the event loop each."""

MAX_LISTED = 100
"""Rows that a report lists."""

NOT_ELSEWHERE = "no other replica has this key: the key of the row itself may be what was changed"
NOT_FOUND = "it is not found where it was read: the key of a row was changed"
CONTRADICTS = "what the others have does not fit this replica's own vote"


class Repairs:
    """Of one replica. `report` is called with a level (`error`, `info`, `critical`), the row in words, and what happens
    to it; `end` once, when the node must end for good, with the reason."""

    def __init__(self, driver: Driver, store: Store, space: MemberSpace, gc: ChangelogGc, clock: Clock) -> None:
        self._driver = driver
        self._gc = gc
        self._store = store
        self._space = space
        self._clock = clock
        self.report: Callable[[str, str, str], None] = lambda _level, _row, _words: None
        self.end: Callable[[str], None] = lambda _: None
        self.first: Callable[[Callable[[], None]], None] = lambda then: then()
        """What must be done before rows may be written here, whatever their keys are."""
        self.rotten: dict[bytes, Row] = {}
        """By row, those that are not repaired."""
        self.found: Counter[RowKind] = Counter()
        self.repaired = 0
        self.reason = ""
        """Why the node ends; empty if it does not."""
        self._noticed: set[bytes] = set()
        self._waiting: deque[bytes] = deque()
        self._reading = 0
        self._tries: Counter[bytes] = Counter()
        self._written: list[bytes] = []
        self._replacing = False

    def noticed(self, key: bytes) -> None:
        """A read met a rotten row, perhaps in the middle of a transaction: it is looked at in the next turn."""
        if key not in self.rotten and key not in self._noticed:
            self._noticed.add(key)
            self._clock.call_later(0, partial(self.first, partial(self._look, key)))

    def listed(self) -> list[str]:
        """The rows that are not repaired, in words."""
        return [in_words(row) for row in list(self.rotten.values())[:MAX_LISTED]]

    def _look(self, key: bytes) -> None:
        row = self._row(key)
        is_there = self._is_there(key)
        self._noticed.discard(key)  # not before it was read, which is noticed again
        if is_there or (is_there is False and self._may_be_deleted(row)):
            return  # written or deleted meanwhile
        self.rotten[key] = row
        self.found[row.kind] += 1
        if is_there is False and row.remedy is not Remedy.REFUSE:
            self._end(row, NOT_FOUND)
        elif row.remedy is Remedy.END:
            self._end(row, row.remedy.value)
        else:
            self.report("error", in_words(row), row.remedy.value)
            self._mend(key)

    def _may_be_deleted(self, row: Row) -> bool:
        """A row of the changelog is deleted by truncating it alone: a later one that no lookup finds has a damaged key,
        cannot be cleared, and would stop every stream of changes there."""
        if row.kind is RowKind.CHANGELOG:
            return row.name <= self._driver.replica.keyspace.truncated(self._store.newest())
        return row.remedy in (Remedy.DROP, Remedy.RENEW)

    def _row(self, key: bytes) -> Row:
        """A cached value where none was ever cached is a promise whose key was changed."""
        replica = self._driver.replica
        row = row_of(key, replica.me)
        is_known = row.kind is not RowKind.CACHE or replica.keyspace.any_cached(self._store.newest())
        return row if is_known else UNKNOWN

    def _is_there(self, key: bytes) -> bool | None:
        """None: it is rotten."""
        try:
            return self._store.newest().get(key) is not None
        except RottenRow:
            return None

    def _end(self, row: Row, words: str) -> None:
        if not self.reason:
            self.reason = f"{in_words(row)} is damaged on the disk; {words}"
            self.report("critical", in_words(row), words)
            self.end(self.reason)

    # Remedies

    def _mend(self, key: bytes) -> None:
        if self.reason or key not in self.rotten:
            return
        row = self.rotten[key]
        try:
            self._apply(key, row)
        except RottenRow:
            # Another row that this one needs is rotten, too, and has its own remedy.
            self._again(key)

    def _apply(self, key: bytes, row: Row) -> None:
        match row.remedy:
            case Remedy.RESTORE:
                self._restore(key, row)
            case Remedy.TRUNCATE:
                self._truncate(key, row)
            case Remedy.DROP:
                self._store.put({key: None}, None)
                self._mended(key)
            case Remedy.RENEW:
                self._store.put({key: self._renewed(row)}, None)
                self._mended(key)
            case Remedy.REFUSE | Remedy.END:
                pass
            case _:
                assert_never(row.remedy)

    def _renewed(self, row: Row) -> bytes | None:
        if row.kind is RowKind.CACHES:
            return b""
        if row.kind is RowKind.EXPIRY:
            return self._driver.replica.keyspace.expiry_row(self._store.newest(), row.name)[1]
        if row.kind is RowKind.TXN_EXPIRY:
            return OrderedSpace(self._driver.replica.me).index_row(self._store.newest(), row.name)[1]
        return self._space.first_kept(self._store.newest(), self._store.newest_stamp())

    def _truncate(self, key: bytes, row: Row) -> None:
        """A few rows at a time. None go while the changelog is still being measured."""
        gone = self._gc.remove(row.name, SWEPT_ROWS, SWEPT_BYTES)
        if self._is_there(key) is False:
            self._mended(key)
        elif gone:
            self._clock.call_later(SWEEP_MS, partial(self._mend, key))
        else:
            self._again(key)

    def _restore(self, key: bytes, row: Row) -> None:
        if self._reading >= AT_ONCE:
            self._waiting.append(key)
            return
        self._reading += 1
        try:
            self._driver.read_from_others(row.name, partial(self._read, key, row))
        except RottenRow:
            self._reading -= 1
            raise

    def _read(self, key: bytes, row: Row, outcome: ReadOutcome) -> None:
        self._reading -= 1
        if self._waiting:
            self._clock.call_later(0, partial(self._mend, self._waiting.popleft()))
        if isinstance(outcome, ReadFailed):
            self._again(key)
        elif outcome.committed is None:
            self._end(row, NOT_ELSEWHERE)
        else:
            try:
                fits = self._driver.replica.restore(row.name, outcome.committed)
            except RottenRow:
                self._again(key)
                return
            if fits:
                self._mended(key)
            else:
                self._end(row, CONTRADICTS)

    def _again(self, key: bytes) -> None:
        """Nothing is forgotten and nothing guessed while no quorum is there."""
        pause_ms = min(LONGEST_PAUSE_MS, AGAIN_MS * 2.0 ** min(self._tries[key], 16))
        self._tries[key] += 1
        self._clock.call_later(pause_ms, partial(self._mend, key))

    def _mended(self, key: bytes) -> None:
        """Written, and on its way to the tree. Until it is there, reads of the rows beside it meet the rotten one."""
        self._written.append(key)
        self._clock.call_later(0, self._replace)

    def _replace(self) -> None:
        """A cut makes a checkpoint: one for all rows that were written by then."""
        if self._written and not self._replacing:
            keys, self._written = self._written, []
            self._replacing = True
            self._store.cut(partial(self._replaced, keys))

    def _replaced(self, keys: list[bytes], cut: StoreCut) -> None:
        cut.close()
        self._replacing = False
        for key in keys:
            row = self.rotten.pop(key)
            self.repaired += 1
            self._tries.pop(key, None)
            self.report("info", in_words(row), "repaired")
        self._replace()


def in_words(row: Row) -> str:
    if row.kind is RowKind.CHANGELOG:
        return f"{row.kind.value}, {row.name.hex()}"
    return f"{row.kind.value} of {quoted(row.name)}" if row.name else row.kind.value
