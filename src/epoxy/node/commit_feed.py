"""Commits of this replica, for readers of its changelog and for caches: announced when they are durable."""

from collections.abc import Callable
from functools import partial

from epoxy.codec.plain_requests import PlainRequest
from epoxy.model.records import ChangelogEntry, KeyState
from epoxy.node.keys.replica import Replica
from epoxy.ports import Store
from epoxy.protocol.members.retention import commit_of


class CommitFeed:
    def __init__(self, replica: Replica, store: Store) -> None:
        self._keyspace = replica.keyspace
        self._store = store
        self._listeners: list[Callable[[], None]] = []
        self._overwrite_listeners: list[Callable[[bytes], None]] = []
        self._announcing = self._more = False
        self._catching_up = self._more_of_others = False
        replica.short_watchers.append((self._committed, self._committed_plain))

    def changes(self, after: bytes | None, limit: int) -> list[tuple[bytes, ChangelogEntry]]:
        """Rows of the changelog behind the cursor `after`, or from the oldest that is kept."""
        begin = after if after is not None else self.gone()
        return self._keyspace.changelog(self._store.durable(), begin, limit)

    def newest_changes(self, before: bytes | None, limit: int) -> list[tuple[bytes, ChangelogEntry]]:
        """As `changes`, the newest first, from the one before this cursor on."""
        return self._keyspace.changelog(self._store.durable(), self.gone(), limit, newest_first=True, before=before)

    def gone(self) -> bytes:
        """The cursor of the newest row that is no longer kept."""
        return self._keyspace.truncated(self._store.durable())

    def kept(self) -> int:
        """How many commits are kept: the difference of two numbers, so that a scrape of metrics reads no rows."""
        return self._store.newest_stamp() - commit_of(self.gone())

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """`listener` is called when `changes` may have more; returns the function that ends that."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    def on_overwrite(self, listener: Callable[[bytes], None]) -> None:
        """`listener` is called with a key before the first reader is shown a newer version of it."""
        self._overwrite_listeners.append(listener)

    def _committed(self, key: bytes, before: KeyState, _after: KeyState) -> None:
        self._note(key, overwrites=before.committed is not None)

    def _committed_plain(self, request: PlainRequest) -> bool:
        self._note(request.key, overwrites=request.version > 1)
        return True

    def _note(self, key: bytes, *, overwrites: bool) -> None:
        """One announcement for many commits: listeners read on from where they are. It is made even if nothing listens
        yet: a listener that comes before the sync does not find this commit in `changes`, and needs the call."""
        if overwrites:
            self._store.when_durable(partial(self._overwritten, key), urgent=False)
        if self._announcing:
            self._more = True
        else:
            self._announce_when_durable()

    def others_committed(self) -> None:
        """Another node of this datacenter has added to the changelog, durably. Listeners are called when it is found
        there."""
        if self._catching_up:
            self._more_of_others = True
        else:
            self._catching_up, self._more_of_others = True, False
            self._store.catch_up(self._caught_up)

    def _caught_up(self) -> None:
        """What was added since `catch_up` was called may need another call."""
        self._catching_up = False
        if self._more_of_others:
            self.others_committed()
        for listener in list(self._listeners):
            listener()

    def _overwritten(self, key: bytes) -> None:
        for listener in self._overwrite_listeners:
            listener(key)

    def _announce_when_durable(self) -> None:
        self._announcing, self._more = True, False
        self._store.when_durable(self._announce, urgent=False)

    def _announce(self) -> None:
        """Commits since `when_durable` was called may need another sync, and then another announcement."""
        self._announcing = False
        if self._more:
            self._announce_when_durable()
        for listener in list(self._listeners):
            listener()
