"""Loading ahead of a rule."""

import pytest

from epoxy.model.ballot import Ballot
from epoxy.model.records import FRESH, Expiry, KeyState, Proposal, ProposalId
from epoxy.model.shards import shard_of
from epoxy.store.keyspace import Keyspace
from epoxy.store.shared.row_shards import RowShards
from tests.store.conformance import raised
from tests.store.shared.shared_bench import REPLICA, Life, SharedServer


@pytest.fixture
def server() -> SharedServer:
    server = SharedServer()
    server.tables.rows.apply({b"k%d" % index: b"%d" % index for index in range(9)})
    return server


@pytest.fixture
def life(server: SharedServer) -> Life:
    return Life(server)


def load(life: Life, name: str, *rows: bytes) -> None:
    life.store.load(rows, lambda: life.heard.append(name))


def read_without_the_database(life: Life, *rows: bytes) -> list[bytes | None]:
    life.database.is_reachable = False
    found = [life.store.newest().get(row) for row in rows]
    life.database.is_reachable = True
    return found


def test_the_rows_of_a_tick_are_one_query(life: Life) -> None:
    assert life.store.loads_ahead
    load(life, "1 and 2", b"k1", b"k2")
    load(life, "2 and 3", b"k2", b"k3", b"k3")
    assert life.under_way() == ["load"]
    load(life, "3 and 4", b"k3", b"k4")
    load(life, "5", b"k5")
    assert life.under_way() == ["load"], "one at a time"
    life.step()
    assert life.heard == ["1 and 2", "2 and 3"]
    assert life.under_way() == ["load"], "of all that was wanted meanwhile"
    life.step()
    assert life.heard == ["1 and 2", "2 and 3", "3 and 4", "5"]
    assert life.under_way() == []
    assert read_without_the_database(life, *[b"k%d" % index for index in range(1, 6)]) == [b"1", b"2", b"3", b"4", b"5"]


def test_what_is_near_is_not_asked_for(life: Life) -> None:
    assert not life.store.is_near([b"k1"])
    load(life, "first", b"k1", b"fresh")
    life.run()
    assert life.store.is_near([b"k1", b"fresh", b"a system row"])
    assert not life.store.is_near([b"k1", b"k2"])
    life.store.put({b"k2": b"pending"}, None)
    life.heard.clear()
    load(life, "near", b"k1", b"k2", b"fresh", b"a system row")
    assert life.heard == ["near"]
    assert read_without_the_database(life, b"k1", b"k2", b"fresh", b"a") == [b"1", b"pending", None, None]


def test_it_is_asked_for_again_while_the_database_is_away(life: Life) -> None:
    load(life, "1", b"k1")
    for _ in range(3):
        life.statement().lose()
        assert (life.heard, life.under_way()) == ([], [])
        life.rest()
    life.step()
    assert life.heard == ["1"]
    assert read_without_the_database(life, b"k1") == [b"1"]


def test_rows_of_other_owners_are_not_kept(server: SharedServer) -> None:
    life = Life(server, shards=(shard_of(b"k1"),))
    assert shard_of(b"k1") != shard_of(b"k2")
    load(life, "both", b"k1", b"k2")
    life.run()
    assert life.heard == ["both"]
    server.tables.rows.apply({b"k2": b"theirs"})
    assert life.store.newest().get(b"k2") == b"theirs"
    assert read_without_the_database(life, b"k1") == [b"1"]


def test_a_row_asked_for_before_its_shard_was_owned_is_not_kept(server: SharedServer) -> None:
    life = Life(server, shards=())
    load(life, "early", b"k1")
    early = life.statement()
    early.run()
    server.tables.rows.apply({b"k1": b"theirs"})
    life.store.own((shard_of(b"k1"),), lambda: None)
    early.answer()
    assert life.heard == ["early"]
    assert life.store.newest().get(b"k1") == b"theirs"


def test_a_row_that_is_dropped_before_its_use_is_read(server: SharedServer) -> None:
    life = Life(server, cache_bytes=0)
    load(life, "all", *[b"k%d" % index for index in range(9)])
    life.run()
    assert [life.store.newest().get(b"k%d" % index) for index in range(9)] == [b"%d" % index for index in range(9)]


def test_a_rule_that_raises_does_not_stop_the_others(life: Life) -> None:
    life.store.load([b"k1"], lambda: raised(ZeroDivisionError()))
    load(life, "2", b"k2")
    with pytest.raises(ZeroDivisionError):
        life.run()
    life.run()
    assert life.heard == ["2"]


def test_rows_that_a_rule_writes_are_among_those_that_are_loaded() -> None:
    """So that a batch need not ask what it replaces."""
    space, expiry = Keyspace(REPLICA), Expiry(ttl_ms=1000, since=1)
    committed = Proposal(value=b"v", version=1, mutable=True, proposal_id=ProposalId(1, 1), expiry=expiry)
    after = KeyState(committed=committed, promised=Ballot(1, 1))
    life = Life(SharedServer(), layout=RowShards(REPLICA))
    life.store.load(space.rows_of(b"key"), lambda: None)
    life.run()
    rows, entry = space.changes(life.store.newest(), b"key", FRESH, after)
    assert len(rows) == 3
    life.store.put(rows, entry)
    assert life.under_way() == ["commit"]
