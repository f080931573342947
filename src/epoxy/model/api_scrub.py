"""The JSON record of `/v2/scrub`: a part of `api.py`."""

from typing import Literal

from msgspec import Struct

from epoxy.model.api import Count


class ScrubReport(Struct, frozen=True, kw_only=True):
    """Of the round under way, or of the last one. `rows_expected`: as many as the round before had; null: not known
    yet. Times are in seconds since 1970. `unrepaired`: rotten rows for which no quorum of the others has been found
    yet, or which only this node has."""

    state: Literal["off", "idle", "running", "paused"]
    rows: Count
    bytes: Count
    rows_expected: Count | None
    begun_at: float | None
    last_ended_at: float | None
    every_days: Count
    rotten_found: Count
    repaired: Count
    unrepaired: list[str]
