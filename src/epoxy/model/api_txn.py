"""The JSON records of what a node says about its transactions: how the ordered engine is, and the last of them."""

from typing import Annotated, Literal

from msgspec import Struct

from epoxy.model.api import Count, SpelledKey, documented
from epoxy.model.writes import Path

MAX_WATCHED = 128
"""Transactions that are kept while they are watched: more than a screen shows. With all their keys as long as they may
be, 2 MiB."""

WatchLimit = Annotated[int, documented(minimum=1, maximum=MAX_WATCHED)]


class OrderedState(Struct, frozen=True, kw_only=True):
    """This node's part of the ordered engine. `state` in a word, and `meaning` in a sentence. `behind`: decisions it is
    known to have missed; `kept`: those it keeps because not all replicas have executed them, `kept_for`: the
    datacenters that lack a great deal. `in_flight`: of this node's clients, waiting or proposed. `fast_share`: of the
    commands this node proposed, decided in one round. `floor_ms`: the round trip to the nearest fast quorum, below
    which no transaction commits."""

    state: str
    open: bool
    meaning: str
    term: Count
    behind: Count
    kept: Count
    kept_for: list[str]
    in_flight: Count
    executed: Annotated[Count, documented("Of this node's clients, since it started.")]
    refused: Annotated[Count, documented("Because too many were in flight, since it started.")]
    fast_share: float | None
    floor_ms: float | None


TxnWord = Literal["committed", "condition_failed", "refused", "unknown", "under_way"]


class RecentTxn(Struct, frozen=True, kw_only=True):
    """A transaction that this node was asked for. `keys`: the first that the client may read; `more_keys`: how many it
    names beside them. `waited_ms`: until it was proposed, while its keys were claimed and earlier ones were executed;
    null: it was not, or another replica decided it. `took_ms`: until it was answered."""

    ago_ms: Count
    keys: list[SpelledKey]
    more_keys: Count
    writes: bool
    outcome: TxnWord
    reason: str
    path: Path | None
    waited_ms: float | None
    took_ms: float | None


class TransactionFeed(Struct, frozen=True, kw_only=True):
    """The newest first. A node keeps them only while it is asked for them: `watched_ms` tells since when. `left_out`:
    transactions of which the client may read no key."""

    engine: OrderedState
    transactions: list[RecentTxn]
    left_out: Count
    watched_ms: Count
