"""The JSON records of values that end, as a replica lists them."""

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from epoxy.model.api import Count, Engine, Milliseconds, SessionId, SpelledKey, Version, documented


class LeaseRow(Struct, frozen=True, kw_only=True):
    """A value that ends. Its version is the fencing token."""

    key: SpelledKey
    version: Version
    remaining: Annotated[
        Milliseconds | None,
        documented("What is left by this replica's count, of its own time or of its session's; null: not known here."),
    ]
    ttl: Annotated[Milliseconds | UnsetType, documented("The time to live it was given, if it has one of its own.")] = (
        UNSET
    )
    session: Annotated[SessionId | UnsetType, documented("The session that it ends with.")] = UNSET
    over: Annotated[bool, documented("The time is over by this replica's count, and the end is not decided yet.")]
    value: Annotated[str | None, documented("The beginning of the value, if it is UTF-8 and known here.")]
    value_bytes: Count
    cut: Annotated[bool, documented("The value is longer than what is shown of it.")]
    engine: Annotated[Engine | UnsetType, documented("Of a key that belongs to transactions.")] = UNSET


class LeaseTotals(Struct, frozen=True, kw_only=True):
    """Of this replica. `ended`: ends that this process proposed and that were decided; `late_ms`: how long ago the
    value that waits longest should have been ended by it."""

    leases: Count
    sessions: Count
    ended: Count
    late_ms: float


class LeasePage(Struct, frozen=True, kw_only=True):
    """`next` is what `after` takes for the next page; null: this was the last. `totals` only for a client that may read
    every key."""

    leases: list[LeaseRow]
    next: str | None
    totals: LeaseTotals | None
