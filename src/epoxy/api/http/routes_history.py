"""Versions of one key, as far as this replica's changelog has them.

The changelog is in the order of commits, not of keys, so it is looked through from its newest row back, a few
milliseconds at a time, and not for ever: this is for people who look at a key.
"""

import asyncio
from collections.abc import Callable, Sequence

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import key_of, number
from epoxy.api.http.permissions import check_read
from epoxy.api.http.routes import JSON, KEY, OTHER_PATH, Parameter, Route, RouteAnswer, overloaded, refusal
from epoxy.codec.txn_json import quoted
from epoxy.model.access import Access
from epoxy.model.api import MAX_LIMIT, HistoryRow, KeyHistory, Limit
from epoxy.model.errors import RottenRow
from epoxy.model.marks import is_owned
from epoxy.model.records import ChangelogEntry

PREFIX_BYTES = len("/v2/history/")

MAX_HISTORIES = 4
"""Under way at a time, for all clients."""

MAX_LOOKED_AT = 20_000
"""Rows of the changelog: a sixth of a second, measured with values of 64 bytes."""

FIRST_ROWS, MOST_ROWS = 16, 256
BATCH_BYTES = 1 << 20
"""Rows read in one turn of the event loop: few, until it is known how long they are."""

DEFAULT_CHANGES = 50

SHOWN_BYTES = 1024
"""Of each value: a thousand changes of a key are a megabyte then."""


class HistoryRoutes:
    def __init__(self, node: Backend) -> None:
        self._node = node
        self._under_way = 0

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/history/{key}",
                handler=self.get,
                kind="http_get_history",
                access=Access.READ,
                operation="getHistory",
                local=True,
                summary="The versions of a key that this replica's changelog has",
                parameters=(KEY, Parameter("limit", Limit, "Changes at most.", DEFAULT_CHANGES)),
                answers={
                    200: RouteAnswer("Its changes, the newest first.", {JSON: KeyHistory}),
                    400: refusal("The request is outside the contract.", "bad_key"),
                    404: OTHER_PATH,
                    429: overloaded(),
                },
            )
        ]

    def get(self, call: ApiCall) -> None:
        limit = number(call.parameters(), b"limit", low=1, high=MAX_LIMIT) or DEFAULT_CHANGES
        key = key_of(call.request.path[PREFIX_BYTES:])
        check_read(call.principal, key)
        if self._under_way >= MAX_HISTORIES:
            call.overloaded(f"{MAX_HISTORIES} histories are under way already")
            return
        self._under_way += 1
        HistoryWalk(self._node, call, key, limit, self._ended).step()

    def _ended(self) -> None:
        self._under_way -= 1


class HistoryWalk:
    """Through the changelog, for one request; ends when the client leaves."""

    def __init__(self, node: Backend, call: ApiCall, key: bytes, limit: int, ended: Callable[[], None]) -> None:
        self._node = node
        self._call = call
        self._key = key
        self._limit = limit
        self._ended = ended
        self._found: list[HistoryRow] = []
        self._before: bytes | None = None
        self._looked_at = 0
        self._batch = FIRST_ROWS
        self._left = False
        call.exchange.when_client_leaves(self._leave)

    def _leave(self) -> None:
        self._left = True

    def step(self) -> None:
        if self._left:
            self._ended()
            return
        try:
            rows = self._node.newest_changes(self._before, self._batch)
        except RottenRow as rot:
            self._ended()
            self._call.fail(503, "rotten_row", f"{rot}; it is being repaired", retry_after_ms=RETRY_AFTER_MS)
            return
        self._looked_at += len(rows)
        self._found += [self._row(cursor, entry) for cursor, entry in rows if self._is_wanted(entry)]
        is_end = len(rows) < self._batch
        if is_end or len(self._found) >= self._limit or self._looked_at >= MAX_LOOKED_AT:
            self._answer(complete=is_end or len(self._found) >= self._limit)
            return
        self._before, self._batch = rows[-1][0], next_batch(rows)
        asyncio.get_running_loop().call_soon(self.step)

    def _is_wanted(self, entry: ChangelogEntry) -> bool:
        return entry.key == self._key and not is_owned(entry.committed)

    def _row(self, cursor: bytes, entry: ChangelogEntry) -> HistoryRow:
        committed = entry.committed
        value, expiry = committed.value, committed.expiry
        return HistoryRow(
            cursor=cursor.hex(),
            version=committed.version,
            first_version=committed.version - len(committed.folded),
            value_base64=value[:SHOWN_BYTES] if value is not None else None,
            size=len(value or b""),
            mutable=committed.mutable,
            deleted=committed.is_tombstone,
            writer=self._node.datacenter_of(committed.proposal_id.replica_id),
            ttl=expiry.ttl_ms if expiry is not None and expiry.ttl_ms else None,
            session=expiry.session.hex() if expiry is not None and expiry.session else None,
        )

    def _answer(self, *, complete: bool) -> None:
        self._ended()
        changes = self._found[: self._limit]
        self._call.json(
            200, KeyHistory(key=quoted(self._key), changes=changes, looked_at=self._looked_at, complete=complete)
        )


def next_batch(rows: Sequence[tuple[bytes, ChangelogEntry]]) -> int:
    """As many rows as make BATCH_BYTES, if the next ones are as long as these."""
    size = sum([len(entry.committed.value or b"") for _, entry in rows])
    return max(1, min(MOST_ROWS, len(rows) * BATCH_BYTES // size)) if size else MOST_ROWS
