"""Two databases that are asked the same and must answer the same: the one on trial, and the one in memory."""

import asyncio
import random

from epoxy.store.shared.database import Database, ExecutedBatch, GroupCommit, SessionRow, ShardTable, Verdict
from epoxy_sim.datacenter.memory_database import DatabaseTables, MemoryDatabase, Statement
from tests.store.postgres.playing import ask

LEASE_MS = 3_600_000.0
STEPS = ("open", "renew", "take", "give", "fence", *("commit",) * 4, "flush", "again", "close", "load")


def at_once(statement: Statement) -> None:
    def play() -> None:
        statement.run()
        statement.answer()

    asyncio.get_running_loop().call_soon(play)


class Twins:
    """The same calls to both, with the same answers. Leases are an hour long, or over for an hour."""

    def __init__(self, database: Database, dice: random.Random) -> None:
        self.tables = DatabaseTables(lambda: 0.0)
        self.both: tuple[Database, Database] = (database, MemoryDatabase(self.tables, at_once))
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
            case "fence" | "flush" as name:
                await self.ask(name, session, self.dice.randrange(3))
            case "commit":
                await self.commit(session)
            case "again":
                if self.sent:
                    await self.ask("commit", self.sent[-1])
            case "load":
                await self.ask("load", [self.key() for _ in range(3)])
                await self.load_shard()
            case _ if self.dice.random() < 0.2:
                await self.ask("close_session", session)

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
        executed = await self.ask("commit", batch)
        assert isinstance(executed, ExecutedBatch)
        if executed.verdict is Verdict.DONE:
            self.sent.append(batch)
            self.sessions[session] = batch.number

    def crashed(self, numbers: dict[int, int]) -> int:
        """The real one has crashed, and has so many batches of each session. How many the one in memory loses, so that
        it has as many: some of the last that were not flushed."""
        unflushed = len(self.tables.unflushed)
        for lost in range(unflushed + 1):
            if {session.id: session.batch for session in self.tables.sessions.values()} == numbers:
                self.tables.sync()
                self.sessions = {session: numbers[session] for session in self.sessions}
                self.sent.clear()
                return lost
            if lost < unflushed:
                self.tables.undo_last()
        raise AssertionError(f"no crash leaves {numbers} of {unflushed} batches that were not flushed")

    def key(self) -> bytes:
        return b"%d" % self.dice.randrange(6)

    def compare(self) -> None:
        found = [
            (
                each.position(),
                list(each.read_range(b"", b"\xff", 1000, False, flush=True)),
                each.read_range(b"1", b"4", 2, True, flush=True),
            )
            for each in self.both
        ]
        assert found[0] == found[1]
        assert self.both[0].read_rows([b"0", b"none"], flush=True) == self.both[1].read_rows(
            [b"0", b"none"], flush=True
        )


def rounded(table: ShardTable) -> ShardTable:
    rows = [
        SessionRow(row.id, row.url, row.version, 1 if row.left_ms > 0 else -1, row.fenced) for row in table.sessions
    ]
    return ShardTable(rows, list(table.owners), list(table.epochs))
