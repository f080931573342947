"""Pages and counts of keys, those of transactions among them."""

import pytest

from epoxy.model.cluster import first_epoch
from epoxy.model.marks import OWNED, handed_over
from epoxy.model.records import Proposal
from epoxy.model.transactions import OrderedValue
from epoxy.node.keys.listing import PAGE_BYTES, Listing
from epoxy.node.keys.replica import Replica
from epoxy.node.txn.transactions import shown
from epoxy.store.memory import MemoryStore
from tests.protocol.keys.harness import prop


class Values:
    """Of transactions, as far as a listing reads them."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}

    def shown(self, key: bytes, mark: Proposal) -> Proposal:
        held = self.held.get(key)
        return shown(OrderedValue(value=held, version=2) if held is not None else handed_over(mark.value or b""))


class Counts:
    """Of leases, as far as a listing asks them."""

    def __init__(self) -> None:
        self.over: set[bytes] = set()

    def shown(self, key: bytes, committed: Proposal) -> Proposal:
        return prop(None, mutable=True) if key in self.over else committed


class Place:
    def __init__(self) -> None:
        store = MemoryStore()
        self.replica = Replica(1, store, first_epoch((1, 2, 3)), print)
        self.values = Values()
        self.counts = Counts()
        self.listing = Listing(self.replica, store, self.values.shown, self.counts.shown)

    def put(self, *keys: bytes, value: bytes = b"v") -> None:
        for key in keys:
            self.replica.learn(key, prop(value, mutable=True))

    def own(self, key: bytes, value: bytes | None) -> None:
        """Give it to transactions; None: they have no value for it."""
        self.replica.learn(key, prop(OWNED))
        if value is not None:
            self.values.held[key] = value

    def keys(self, prefix: bytes = b"", after: bytes | None = None, limit: int = 10) -> list[bytes]:
        return [key for key, _ in self.listing.page(prefix, after, limit)]


def test_a_page_has_the_keys_of_its_prefix_after_another_in_their_order() -> None:
    place = Place()
    place.put(b"b/2", b"a", b"b/1", b"b/3", b"c")
    assert place.keys(b"b/") == [b"b/1", b"b/2", b"b/3"]
    assert place.keys(b"b/", after=b"b/1", limit=1) == [b"b/2"]


def test_values_of_transactions_are_shown_as_they_are_now() -> None:
    place = Place()
    place.own(b"k", b"12")
    ((key, committed),) = place.listing.page(b"", None, 10)
    assert (key, committed.value, committed.version) == (b"k", b"12", 2)


def test_a_page_ends_with_the_value_that_fills_it() -> None:
    place = Place()
    half = b"x" * (PAGE_BYTES // 8)
    keys = [b"%02d" % i for i in range(12)]
    place.put(*keys, value=half)
    assert place.keys(limit=100) == keys[:8]


@pytest.mark.parametrize(("value", "living"), [(b"1", 3), (None, 2)])
def test_a_count_leaves_out_deleted_keys_and_those_without_a_value(value: bytes | None, living: int) -> None:
    place = Place()
    place.put(b"a", b"b", b"gone")
    place.replica.learn(b"gone", prop(None, 2, mutable=True))
    place.own(b"txn", value)
    assert place.listing.count(None, 100) == (living, None)


def test_a_count_goes_on_where_it_stopped() -> None:
    place = Place()
    place.put(*(b"%02d" % i for i in range(7)))
    total, after, steps = 0, None, 0
    while True:
        found, after = place.listing.count(after, 3)
        total, steps = total + found, steps + 1
        if after is None:
            break
    assert (total, steps > 2) == (7, True)


def test_what_is_over_is_shown_as_absent() -> None:
    place = Place()
    place.put(b"a", b"b")
    place.counts.over.add(b"a")
    assert [(key, each.is_tombstone) for key, each in place.listing.page(b"", None, 9)] == [(b"a", True), (b"b", False)]
