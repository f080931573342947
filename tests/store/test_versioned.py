"""The map in memory: order, and views that keep their moment."""

from epoxy.store.versioned import MapView, VersionedMap


def test_ranges_are_in_order_after_any_change() -> None:
    rows = VersionedMap({b"b": b"1"})
    assert rows.range(b"", b"z", limit=9) == [(b"b", b"1")]
    rows.apply({b"c": b"2", b"a": b"3", b"b": None})
    assert rows.range(b"", b"z", limit=9) == [(b"a", b"3"), (b"c", b"2")]
    assert rows.range(b"", b"z", limit=1, reverse=True) == [(b"c", b"2")]
    assert rows.range(b"b", b"b", limit=1) == []


def test_a_view_keeps_its_moment() -> None:
    rows = VersionedMap({b"a": b"1", b"b": b"2"})
    view = MapView(rows)
    rows.apply({b"a": b"9", b"b": None, b"c": b"3"})
    rows.apply({b"a": b"10"})
    assert [view.get(key) for key in (b"a", b"b", b"c")] == [b"1", b"2", None]
    assert view.range(b"", b"z", limit=9) == [(b"a", b"1"), (b"b", b"2")]
    assert view.changed == {b"a": b"1", b"b": b"2", b"c": None}


def test_clearing_an_absent_key_changes_nothing() -> None:
    rows = VersionedMap({})
    view = MapView(rows)
    rows.apply({b"a": None})
    assert not view.has_changed({b"a"}, ((b"", b"z"),))
    rows.apply({b"a": b"1"})
    assert view.has_changed({b"a"}, ())
    assert view.has_changed(set(), ((b"a", b"b"),))
