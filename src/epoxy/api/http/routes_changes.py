"""The changelog as server-sent events: first what there is, then what comes.

A reader is never sent more than it takes. Between two writes only its cursor is kept, so a slow reader falls behind in
the changelog and takes no memory; the transport closes the connection of a reader that stops.
"""

from collections.abc import Sequence

import msgspec

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import ApiCall, record
from epoxy.api.http.event_feeds import EVENTS, EventFeed, EventFeeds
from epoxy.api.http.inputs import BadRequest, flag, fragment, shown
from epoxy.api.http.routes import Parameter, Route, RouteAnswer, refusal
from epoxy.codec.tuple import STAMP_BYTES
from epoxy.model.access import Access
from epoxy.model.api import ChangeEvent, ChangesGone, Cursor, Flag, KeyPart
from epoxy.model.errors import RottenRow
from epoxy.model.marks import is_owned
from epoxy.model.records import ChangelogEntry

MAX_STREAMS = 64
"""Every commit wakes each of them. Sixty-four are the dashboards and followers of a team, not its customers."""

BATCH_ROWS = 16
BATCH_BYTES = 1 << 20
"""Rows read in one turn of the event loop, fewer if those before them were long: a few milliseconds to encode."""

GONE = (
    "the changes that come next after this cursor are no longer kept: "
    "follow from now (after=now), and then read the keys (GET /v2/kv)"
)


class Changes:
    """All readers of one node."""

    def __init__(self, node: Backend) -> None:
        self._node = node
        self._feeds: EventFeeds[ChangeFeed] = EventFeeds(node.access, MAX_STREAMS, "changes")

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/changes",
                handler=self.get,
                kind="http_get_changes",
                access=Access.READ,
                operation="getChanges",
                summary="What this replica learned, as it learns it",
                parameters=(
                    Parameter("after", Cursor, "The id of the last event seen, or now."),
                    Parameter("Last-Event-ID", Cursor, "The same, and it wins.", place="header"),
                    Parameter("prefix", KeyPart, "Only keys that begin with this."),
                    Parameter("follow", Flag, "Whether to wait for what comes.", "true"),
                ),
                answers={
                    200: RouteAnswer("Server-sent events.", {EVENTS.decode(): ChangeEvent}),
                    410: refusal("What comes next after this cursor is no longer kept.", "cursor_gone"),
                    429: refusal("Too many streams are open.", "too_many_streams"),
                },
                head=False,
            )
        ]

    def get(self, call: ApiCall) -> None:
        given = call.parameters()
        asked = self._cursor(given.get(b"after", b""))
        cursor = self._cursor(call.request.headers.get(b"last-event-id", b"")) or asked
        prefix = fragment(given, b"prefix")
        follow = flag(given, b"follow", b"true")
        if not self._feeds.has_room(call):
            return
        if is_gone(self._node, cursor):
            call.fail(410, "cursor_gone", GONE)
            return
        self._feeds.add(ChangeFeed(self._node, cursor, prefix, follow, call))

    def close(self) -> None:
        """The node stops. Readers come back with their cursors."""
        self._feeds.close()

    def _cursor(self, text: bytes) -> bytes | None:
        if not text:
            return None
        if text == b"now":
            return newest(self._node)
        try:
            cursor = bytes.fromhex(text.decode("ascii"))
        except ValueError:
            cursor = b""
        if len(cursor) != STAMP_BYTES:
            message = f"a cursor is {2 * STAMP_BYTES} hexadecimal digits, or now, not '{shown(text)}'"
            raise BadRequest(400, "bad_parameter", message)
        return cursor


class ChangeFeed(EventFeed):
    """One reader. It is sent what it may read of the changes; its cursor moves past the others."""

    def __init__(self, node: Backend, cursor: bytes | None, prefix: bytes, follow: bool, call: ApiCall) -> None:
        super().__init__(call)
        self._node = node
        self._cursor = cursor
        self._prefix = prefix
        self._follow = follow
        self._batch = BATCH_ROWS
        self._awake = False
        self.stream.on_drain(self._wake)
        self.follow(node.on_change(self._wake))
        self._wake()

    def alive(self) -> bytes:
        """Also moves the reader's cursor past what its prefix left out: browsers do not show an event without data."""
        position = b"id: %s\n" % self._cursor.hex().encode() if self._cursor is not None else b""
        return b": alive\n%s\n" % position

    def _wake(self) -> None:
        """In a later turn of the event loop: the change is answered first, and many changes wake once."""
        if not self._awake and not self.over:
            self._awake = True
            self.loop.call_soon(self._send)

    def _send(self) -> None:
        """As much as the reader takes, at most a batch, so that other readers have their turn."""
        self._awake = False
        if self.over or not self.stream.writable:
            return
        try:
            self._send_batch()
        except RottenRow:
            # The reader comes back with its cursor, which is gone when the changelog is truncated.
            self.close()

    def _send_batch(self) -> None:
        if is_gone(self._node, self._cursor):
            self.stream.write(b"event: gone\ndata: %s\n\n" % msgspec.json.encode(ChangesGone(message=GONE)))
            self.close()
            return
        wanted = self._batch
        rows = self._node.changes(self._cursor, wanted)
        self._batch = next_batch(rows)
        if not self._pour(rows):
            return
        if len(rows) == wanted:
            self._wake()
        elif not self._follow:
            self.close()

    def _pour(self, rows: Sequence[tuple[bytes, ChangelogEntry]]) -> bool:
        """Whether the reader took them all. Giving a key to transactions is no change of a value, and is not sent."""
        for cursor, entry in rows:
            if not self.stream.writable:
                return False
            self._cursor = cursor
            is_wanted = entry.key.startswith(self._prefix) and self.principal.may_read(entry.key)
            if is_wanted and not is_owned(entry.committed):
                self.stream.write(event(cursor, entry))
        return True


def next_batch(rows: Sequence[tuple[bytes, ChangelogEntry]]) -> int:
    """As many rows as make BATCH_BYTES, if the next ones are as long as these."""
    size = sum([len(entry.committed.value or b"") for _, entry in rows])
    return max(1, min(BATCH_ROWS, len(rows) * BATCH_BYTES // size)) if size else BATCH_ROWS


def is_gone(node: Backend, cursor: bytes | None) -> bool:
    """Whether something that comes after this cursor is no longer kept."""
    return cursor is not None and cursor < node.changes_gone()


def event(cursor: bytes, entry: ChangelogEntry) -> bytes:
    """JSON has no line breaks of its own, so one data line is enough. A decision of several writes is one change: its
    last value, and the versions it made."""
    committed = entry.committed
    data = msgspec.json.encode(record(entry.key, committed, first_version=committed.version - len(committed.folded)))
    return b"id: %s\ndata: %s\n\n" % (cursor.hex().encode(), data)


def newest(node: Backend) -> bytes | None:
    """The cursor of the last row. Found by halving: cursors are numbers, and for each one it is known whether there is
    more beyond it. Eighty looks, once for a stream."""
    if not node.changes(None, 1):
        return None
    low, high = 0, (1 << 8 * STAMP_BYTES) - 1
    while low < high:
        middle = (low + high) // 2
        if node.changes(middle.to_bytes(STAMP_BYTES, "big"), 1):
            low = middle + 1
        else:
            high = middle
    return low.to_bytes(STAMP_BYTES, "big")
