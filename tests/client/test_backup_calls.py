"""Requests of a backup, by both clients: states, blocks, their end, and refusals."""

import asyncio
from collections.abc import Iterator

import pytest

from epoxy.client import AsyncClient, Client
from epoxy.model.errors import InvalidRequest
from tests.client.fake_backup import BLOCKS, ID, FakeBackupNode


@pytest.fixture
def node() -> Iterator[FakeBackupNode]:
    with FakeBackupNode() as fake:
        yield fake


def test_a_backup_from_its_beginning_to_its_end(node: FakeBackupNode) -> None:
    with Client(node.url) as client:
        state = client.begin_backup()
        assert (state.id, state.phase, state.members[0].datacenter) == (ID, "ready", "us-east-1")
        assert [client.backup_block(ID, number) for number in range(4)] == [*BLOCKS, None]
        assert client.backup_state(ID) == state
        client.end_backup(ID)
    assert node.ended == 1


def test_one_that_is_gone_is_refused_but_may_be_ended(node: FakeBackupNode) -> None:
    with Client(node.url) as client:
        with pytest.raises(InvalidRequest, match="no_such_backup"):
            client.backup_block("00", 0)
        with pytest.raises(InvalidRequest, match="no_such_backup"):
            client.backup_state("00")
        client.end_backup("00")


def test_the_other_client_has_the_same(node: FakeBackupNode) -> None:
    async def read() -> bytes | None:
        async with AsyncClient(node.url) as client:
            state = await client.begin_backup()
            return await client.backup_block(state.id, 0)

    assert asyncio.run(read()) == BLOCKS[0]
