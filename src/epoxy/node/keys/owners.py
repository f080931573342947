"""Owner hints: where the writes of a contended key are folded, as far as this replica knows.

A hint is volatile, and safety does not depend on it: any replica may propose at any time. It follows from traffic. A
replica that decided a key twice within a second is taken for its owner; a hint that is not confirmed ends by itself.
"""

from typing import TypeVar

T = TypeVar("T")

HINT_MS = 3_000.0
"""How long a hint is believed. Each answer of the owner renews it."""

TWICE_MS = 1_000.0
"""A replica that won two rounds of a key within this time is its owner."""

MAX_KEYS = 4_096
"""Keys with a hint, and keys with one win; the oldest are forgotten."""

SHARE_WRITES, MOST = 32, 2 / 3
"""Writes after which an owner looks where they come from, and the share from which on another replica should own the
key. Above a half, or of two regions with even shares each would send the other the key by chance."""


class Owners:
    def __init__(self, me: int) -> None:
        self._me = me
        self._hints: dict[bytes, tuple[int, float]] = {}
        self._wins: dict[bytes, tuple[int, float]] = {}
        self._shares: dict[bytes, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._hints)

    def of(self, key: bytes, now_ms: float) -> int | None:
        """The owner of a key, if that is another replica."""
        hint = self._hints.get(key)
        if hint is None:
            return None
        owner, until_ms = hint
        if now_ms >= until_ms:
            del self._hints[key]
            return None
        return owner

    def concern(self, key: bytes) -> bool:
        """Whether anything is known of the key here: a hint, or where its writes come from."""
        return key in self._hints or key in self._shares

    def won(self, key: bytes, home: int, now_ms: float) -> None:
        """A decision of a key that was written before, whose home is this. One of this replica ends the hint."""
        if home == self._me:
            self._wins.pop(key, None)
            return
        before = self._wins.get(key)
        if before is not None and before[0] == home and now_ms - before[1] <= TWICE_MS:
            self.believe(key, home, now_ms)
        keep(self._wins, key, (home, now_ms))

    def believe(self, key: bytes, owner: int, now_ms: float) -> None:
        if owner == self._me:
            self.forget(key)
        else:
            keep(self._hints, key, (owner, now_ms + HINT_MS))

    def forget(self, key: bytes) -> None:
        self._hints.pop(key, None)
        self._wins.pop(key, None)

    def counts(self, key: bytes) -> bool:
        """Whether this replica has folded writes of this key with others, and looks where they come from."""
        return key in self._shares

    def folded(self, key: bytes, homes: list[int]) -> int:
        """Who should fold the next writes: this replica, unless most writes of late came from another one."""
        shares = self._shares.get(key)
        if shares is None:
            shares = {}
            keep(self._shares, key, shares)
        for home in homes:
            shares[home] = shares.get(home, 0) + 1
        total = sum(shares.values())
        if total < SHARE_WRITES:
            return self._me
        self._shares[key] = {}
        busiest = max(shares, key=shares.__getitem__)
        return busiest if shares[busiest] > MOST * total else self._me


def keep(table: dict[bytes, T], key: bytes, value: T) -> None:
    """Insert as the youngest; the oldest makes room."""
    table.pop(key, None)
    if len(table) >= MAX_KEYS:
        del table[next(iter(table))]
    table[key] = value
