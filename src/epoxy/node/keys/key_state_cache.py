"""A cache of the states of the keys that a replica worked on last."""

from epoxy.model.records import KeyState, Proposal

GENERATION_KEYS = 4096
"""A key is needed again within a round trip: at 10,000 commits a second and 200 ms, 2,000 keys are under way."""

LARGEST_VALUE = 4096
"""So two generations take 64 MiB at the very most, and some 8 MiB with short values."""


class KeyStateCache:
    """Two generations: when the younger is full, it replaces the older. A state that is too large is not kept, and
    older states of its key are dropped: an entry is always the newest state."""

    def __init__(self) -> None:
        self._young: dict[bytes, KeyState] = {}
        self._old: dict[bytes, KeyState] = {}

    def get(self, key: bytes) -> KeyState | None:
        state = self._young.get(key)
        return state if state is not None else self._old.get(key)

    def put(self, key: bytes, state: KeyState) -> None:
        if is_large(state.committed) or (state.vote is not None and is_large(state.vote.proposal)):
            self._young.pop(key, None)
            self._old.pop(key, None)
            return
        self._young[key] = state
        if len(self._young) >= GENERATION_KEYS:
            self._old, self._young = self._young, {}


def is_large(proposal: Proposal | None) -> bool:
    return proposal is not None and proposal.value is not None and len(proposal.value) > LARGEST_VALUE
