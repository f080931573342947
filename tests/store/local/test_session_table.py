"""Sessions in memory. That they answer as those of a server is in `test_database_client.py`."""

from epoxy.store.local.session_table import SessionTable


def test_a_session_that_is_kept_is_neither_renewed_nor_over() -> None:
    now_ms = 0.0
    table = SessionTable(lambda: now_ms)
    kept, other = table.open("a", "1", 10.0), table.open("b", "1", 10.0)
    table.keep(kept)
    assert table.take(kept, [1], []) == [1]
    now_ms = 1e12
    table.renew(kept, 10.0)
    now_ms = 2e12
    assert table.take(other, [1], [kept]) == []
    assert table.take(kept, [2], [other]) == [2]
    assert [row.id for row in table.table().sessions] == [kept]


def test_ids_are_not_used_twice() -> None:
    table = SessionTable(lambda: 0.0)
    first = table.open("a", "1", 10.0)
    table.close(first)
    assert table.open("a", "1", 10.0) == first + 1
    assert table.find(first) is None
