"""The undo log: history for readers, and none without them."""

from epoxy.store.mvcc import UndoLog


def test_nothing_is_recorded_without_a_reader() -> None:
    log: UndoLog[int] = UndoLog()
    assert not log.has_readers()
    log.record({b"a": 1})
    assert not log.has_readers()


def test_a_reader_sees_what_later_commits_replaced() -> None:
    log: UndoLog[int] = UndoLog()
    first = log.begin_read()
    log.record({b"a": 1})
    second = log.begin_read()
    log.record({b"a": 2})
    assert first.replaced == {b"a": 1}
    assert first.next is second
    assert second.replaced == {b"a": 2}
    assert second.next is not None
    assert second.next.replaced == {}


def test_readers_between_two_commits_share_a_record() -> None:
    log: UndoLog[int] = UndoLog()
    assert log.begin_read() is log.begin_read()


def test_history_ends_with_its_last_reader() -> None:
    log: UndoLog[int] = UndoLog()
    reader = log.begin_read()
    log.record({b"a": 1})
    assert log.has_readers()
    del reader
    assert not log.has_readers()
