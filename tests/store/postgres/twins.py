"""Two databases that are asked the same and must answer the same: the one on trial, and the one in memory."""

import asyncio
import random

from epoxy.store.postgres.database import Database, GroupCommit, Reached, SessionRow, ShardTable, Verdict
from epoxy_sim.datacenter.memory_database import DatabaseTables, MemoryDatabase, Statement
from tests.store.postgres.playing import ask

LEASE_MS = 3_600_000.0
STEPS = ("open", "renew", "take", "give", "fence", "commit", "commit", "commit", "again", "close", "load")


def at_once(statement: Statement) -> None:
    def play() -> None:
        statement.run()
        statement.answer()

    asyncio.get_running_loop().call_soon(play)


class Twins:
    """The same calls to both, with the same answers. Leases are an hour long, or over for an hour."""

    def __init__(self, database: Database, dice: random.Random) -> None:
        self.both: tuple[Database, Database] = (database, MemoryDatabase(DatabaseTables(lambda: 0.0), at_once))
        self.dice = dice
        self.sent: list[GroupCommit] = []
        self.sessions: dict[int, int] = {}
        """With the number of the last batch."""

    async def ask(self, name: str, *args: object) -> object:
        real, expected = [await ask(getattr(each, name), *args) for each in self.both]
        assert self.comparable(real) == self.comparable(expected), (name, args)
        return real

    def comparable(self, answer: object) -> object:
        """Without what may differ."""
        return rounded(answer) if isinstance(answer, ShardTable) else answer

    async def step(self) -> None:
        session = self.dice.choice([*self.sessions, 99])
        match self.dice.choice(STEPS):
            case "open":
                opened_now = await self.ask("open_session", "u", "v", self.dice.choice([LEASE_MS, -LEASE_MS]))
                assert isinstance(opened_now, int)
                self.sessions[opened_now] = 0
            case "renew":
                await self.ask("renew", session, self.dice.choice([LEASE_MS, -LEASE_MS]))
            case "take":
                others = [each for each in self.sessions if each != session]
                await self.ask("take", session, sorted(self.dice.sample(range(6), 3)), others)
            case "give":
                shard, to = self.dice.randrange(6), self.dice.choice([0, *self.sessions])
                await self.ask("give", session, shard, self.dice.randrange(1, 6), to)
            case "fence":
                await self.ask("fence", session, self.dice.randrange(3))
            case "commit":
                await self.commit(session)
            case "again":
                if self.sent:
                    await self.ask("commit", self.sent[-1])
            case "close":
                if self.dice.random() < 0.2:
                    await self.ask("close_session", session)
            case _:
                await self.ask("load", [self.key() for _ in range(3)])
                await self.load_shard()

    async def load_shard(self) -> None:
        await self.ask("load_shard", self.dice.randrange(-1, 4))

    async def commit(self, session: int) -> None:
        keys = [b"%d" % number for number in self.dice.sample(range(6), 5)]
        batch = GroupCommit(
            session=session,
            number=self.sessions.get(session, 0) + 1,
            config_epoch=self.dice.randrange(3),
            rows=[(key, self.dice.randbytes(3), self.dice.randrange(4)) for key in keys[:3]],
            deleted=keys[3:],
            stamped=[[(b"z", b"s", b"v")] * self.dice.randrange(1, 3) for _ in range(self.dice.randrange(3))],
            counts=self.dice.random() < 0.8,
            next_config_epoch=self.dice.choice([0] * 20 + [1, 2]),
        )
        reached = await self.ask("commit", batch)
        assert isinstance(reached, Reached)
        if reached.verdict is Verdict.DONE:
            self.sent.append(batch)
            self.sessions[session] = batch.number

    def key(self) -> bytes:
        return b"%d" % self.dice.randrange(6)

    def compare(self) -> None:
        found = [
            (each.position(), list(each.read_range(b"", b"\xff", 1000, False)), each.read_range(b"1", b"4", 2, True))
            for each in self.both
        ]
        assert found[0] == found[1]
        assert self.both[0].read_rows([b"0", b"none"]) == self.both[1].read_rows([b"0", b"none"])


def rounded(table: ShardTable) -> ShardTable:
    rows = [
        SessionRow(row.id, row.url, row.version, 1 if row.left_ms > 0 else -1, row.fenced) for row in table.sessions
    ]
    return ShardTable(rows, list(table.owners), list(table.epochs))
