"""A cache of the states of the keys that a replica worked on last."""

from typing import Final

from epoxy.model.records import KeyState, Proposal

GENERATION_KEYS = 4096
"""A key is needed again within a round trip: at 10,000 commits a second and 200 ms, 2,000 keys are under way."""

LARGEST_VALUE = 4096
"""So two generations take 64 MiB at the very most, and some 8 MiB with short values."""


class PlainState:
    """The state of a key as its rows have it: the committed record and the vote, each empty if there is none. There is
    no promise, and what is committed may be overwritten by a plain request."""

    __slots__ = ("record", "version", "vote")

    def __init__(self, record: bytes, vote: bytes, version: int) -> None:
        """`version`: of the record; 0 without one."""
        self.record = record
        self.vote = vote
        self.version = version


FRESH_ROWS: Final = PlainState(b"", b"", 0)


class KeyStateCache:
    """Two generations: when the younger is full, it replaces the older. A state that is too large is not kept, and
    older states of its key are dropped: an entry is always the newest state. One that plain requests have made is kept
    as they left it; for all others the rows tell it."""

    def __init__(self) -> None:
        self._young: dict[bytes, KeyState | PlainState] = {}
        self._old: dict[bytes, KeyState | PlainState] = {}

    def get(self, key: bytes) -> KeyState | None:
        state = self.entry(key)
        return None if isinstance(state, PlainState) else state

    def entry(self, key: bytes) -> KeyState | PlainState | None:
        state = self._young.get(key)
        return state if state is not None else self._old.get(key)

    def put(self, key: bytes, state: KeyState) -> None:
        if is_large(state.committed) or (state.vote is not None and is_large(state.vote.proposal)):
            self.drop(key)
        else:
            self._keep(key, state)

    def put_plain(self, key: bytes, state: PlainState) -> None:
        if len(state.record) > LARGEST_VALUE or len(state.vote) > LARGEST_VALUE:
            self.drop(key)
        else:
            self._keep(key, state)

    def drop(self, key: bytes) -> None:
        self._young.pop(key, None)
        self._old.pop(key, None)

    def clear(self) -> None:
        self._young, self._old = {}, {}

    def _keep(self, key: bytes, state: KeyState | PlainState) -> None:
        self._young[key] = state
        if len(self._young) >= GENERATION_KEYS:
            self._old, self._young = self._young, {}


def is_large(proposal: Proposal | None) -> bool:
    return proposal is not None and proposal.value is not None and len(proposal.value) > LARGEST_VALUE
