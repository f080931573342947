"""Sessions and the owners of shards, in the memory of the process that has the data directory.

They are of this start alone: when this process ends, all others end with it. A session that is not there is a fenced
one, as in the tables of a database server.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from epoxy.model.shards import ALL_SHARDS
from epoxy.store.shared.database import SessionRow, ShardTable


class LocalSession(Struct):
    """`sequence`: the last stamp given when its last batch took effect. `is_kept`: of this process, without which the
    others have no database: its lease is always as if it was just renewed."""

    id: int
    url: str
    version: str
    lease_ms: float
    renewed_ms: float
    is_kept: bool = False
    batch: int = 0
    sequence: int = 0

    def left_ms(self, now_ms: float) -> float:
        return self.lease_ms if self.is_kept else self.renewed_ms + self.lease_ms - now_ms


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
        self._sessions[self._opened] = LocalSession(self._opened, url, version, lease_ms, self._now_ms())
        return self._opened

    def keep(self, session: int) -> None:
        """Its lease never ends."""
        self._sessions[session].is_kept = True

    def find(self, session: int) -> LocalSession | None:
        """None: it is fenced."""
        return self._sessions.get(session)

    def renew(self, session: int, lease_ms: float) -> ShardTable:
        found = self._sessions.get(session)
        if found is not None:
            found.lease_ms, found.renewed_ms = lease_ms, self._now_ms()
        return self.table()

    def table(self) -> ShardTable:
        now_ms = self._now_ms()
        sessions = [
            SessionRow(id=each.id, url=each.url, version=each.version, left_ms=each.left_ms(now_ms), fenced=False)
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
            if found is not None and each != session and found.left_ms(now_ms) < 0:
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
