"""Sessions and the owners of shards, in the memory of the process that has the data directory.

They are of this start alone: when this process ends, all others end with it. A session that is not there is a fenced
one, as in the tables of a database server.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from epoxy.model.shards import ALL_SHARDS
from epoxy.store.postgres.database import SessionRow, ShardTable

FOR_EVER_MS = float("inf")
"""The lease of a session of this process: the others have no database, and end, when it ends."""


class LocalSession(Struct):
    """`sequence`: the last stamp given when its last batch took effect."""

    id: int
    url: str
    version: str
    lease_end_ms: float
    batch: int = 0
    sequence: int = 0


class OwnedShard(Struct):
    """`owner` may name a session that is no more: the shard is free then."""

    owner: int = 0
    epoch: int = 0


class SessionTable:
    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._opened = 0
        self._sessions: dict[int, LocalSession] = {}
        self._shards = [OwnedShard() for _ in ALL_SHARDS]

    def open(self, url: str, version: str, lease_ms: float) -> int:
        self._opened += 1
        self._sessions[self._opened] = LocalSession(self._opened, url, version, self._now_ms() + lease_ms)
        return self._opened

    def keep(self, session: int) -> None:
        """Its lease never ends."""
        self._sessions[session].lease_end_ms = FOR_EVER_MS

    def find(self, session: int) -> LocalSession | None:
        """None: it is fenced."""
        return self._sessions.get(session)

    def renew(self, session: int, lease_ms: float) -> ShardTable:
        found = self._sessions.get(session)
        if found is not None and found.lease_end_ms < FOR_EVER_MS:
            found.lease_end_ms = self._now_ms() + lease_ms
        return self.table()

    def table(self) -> ShardTable:
        now_ms = self._now_ms()
        sessions = [
            SessionRow(id=each.id, url=each.url, version=each.version, left_ms=each.lease_end_ms - now_ms, fenced=False)
            for each in self._sessions.values()
        ]
        return ShardTable(
            sessions=sessions,
            owners=[self._owner(shard) for shard in ALL_SHARDS],
            epochs=[shard.epoch for shard in self._shards],
        )

    def take(self, session: int, shards: Sequence[int], dead: Sequence[int]) -> Sequence[int]:
        if session not in self._sessions:
            return ()
        now_ms = self._now_ms()
        for each in dead:
            found = self._sessions.get(each)
            if found is not None and each != session and found.lease_end_ms < now_ms:
                self.close(each)
        taken = [shard for shard in shards if not self._owner(shard)]
        for shard in taken:
            self._set_owner(shard, session)
        return taken

    def give(self, session: int, shard: int, epoch: int, to: int) -> bool:
        row = self._shards[shard]
        there = session in self._sessions and (not to or to in self._sessions)
        if not there or (row.owner, row.epoch) != (session, epoch):
            return False
        self._set_owner(shard, to)
        return True

    def close(self, session: int) -> None:
        self._sessions.pop(session, None)

    def _owner(self, shard: int) -> int:
        owner = self._shards[shard].owner
        return owner if owner in self._sessions else 0

    def _set_owner(self, shard: int, owner: int) -> None:
        row = self._shards[shard]
        row.owner = owner
        row.epoch += 1
