"""What the first process does when another one ends."""

from epoxy.store.local.session_table import SessionTable
from epoxy.store.shared.database import GroupCommit, Verdict
from tests.store.local.linked import linked, until
from tests.store.postgres.playing import ask, played
from tests.store.postgres.twins import LEASE_MS


@played
async def test_the_shards_of_a_process_that_ends_are_free_at_once() -> None:
    async with linked() as link:
        table: SessionTable = link.database.table
        first = table.open("http://first", "1", LEASE_MS)
        session = await ask(link.client.open_session, "http://other", "1", LEASE_MS)
        assert await ask(link.client.take, session, [1, 2], []) == [1, 2]
        assert await ask(link.database.take, first, [1, 2], [session]) == []
        link.client.close()
        await until(lambda: link.lost == ["server"])
        assert await ask(link.database.take, first, [1, 2], []) == [1, 2]
        assert (await ask(link.database.commit, GroupCommit(session, 1, 0))).verdict is Verdict.FENCED


@played
async def test_one_of_the_two_connections_is_enough_to_end_it() -> None:
    async with linked() as link:
        session = await ask(link.client.open_session, "http://other", "1", LEASE_MS)
        link.sockets[1].close()
        await until(lambda: "server" in link.lost)
        assert link.database.table.find(session) is None


@played
async def test_the_end_of_a_process_is_told_once() -> None:
    async with linked() as link:
        link.server.end()
        link.server.end()
        await until(lambda: "client" in link.lost)
        assert link.lost.count("server") == 1


@played
async def test_a_cut_of_a_process_that_ends_is_closed() -> None:
    async with linked() as link:
        cut = await ask(link.client.cut)
        assert len(link.server._cuts) == 1
        (there,) = link.server._cuts.values()
        link.server.end()
        failures: list[Exception] = []
        there.read(lambda view: view.get(b"a"), lambda _: None, failures.append)
        assert len(failures) == 1
        cut.close()
