"""What answers are made of, for people and for programs that read JSON.

Apart from those who fill them in, which are compiled, as records cannot be.
"""

from msgspec import UNSET, Struct, UnsetType

from epoxy.model.writes import Path, Source
from epoxy.transport.http.response import Problem


class Record(Struct, frozen=True, kw_only=True):
    """A committed key for people and for programs that read JSON. `value_base64` is exact; `value` is the same as text,
    if it is text."""

    key: str
    value: str | None
    value_base64: bytes | None
    version: int
    mutable: bool
    deleted: bool
    mine: bool | UnsetType = UNSET
    path: Path | UnsetType = UNSET
    source: Source | UnsetType = UNSET
    engine: str | UnsetType = UNSET
    """`transactions` for a key that belongs to them, which has no versions."""


class ConflictRecord(Struct, frozen=True, kw_only=True):
    """Not written, because of what is there."""

    error: Problem
    committed: Record | None


class Page(Struct, frozen=True, kw_only=True):
    keys: list[Record]
    next: str | None
