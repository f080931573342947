"""Pages of values that end, of a replica in virtual time."""

import pytest

from epoxy.model.sessions import session_key
from epoxy.model.writes import Write
from epoxy.node.keys.lease_listing import LeaseListing, ListedLease, start_of
from tests.node.keys.test_leases import HERE, SESSION, write
from tests.node.keys.virtual_wan import VirtualWan

TTL = 60_000


class Listed:
    def __init__(self) -> None:
        self.wan = VirtualWan(7)
        here = self.wan.by_name[HERE]
        self.leases = here.driver.leases
        self.listing = LeaseListing(self.leases, lambda key: here.replica.peek(key, use_cache=False))

    def put(self, *keys: bytes, ttl_ms: int = TTL, session: bytes = b"") -> None:
        for key in keys:
            ttl = 0 if session else ttl_ms
            write(self.wan, HERE, Write(key=key, value=b"of " + key, mutable=True, ttl_ms=ttl, session=session))

    def page(self, prefix: bytes = b"", after: bytes | None = None, limit: int = 10) -> list[ListedLease]:
        return self.listing.page(prefix, after, limit)[0]

    def keys(self, prefix: bytes = b"", after: bytes | None = None, limit: int = 10) -> list[bytes]:
        return [each.key for each in self.page(prefix, after, limit)]


@pytest.fixture(scope="module")
def listed() -> Listed:
    listed = Listed()
    listed.put(b"job/1", b"job/2", b"job/3", b"job", b"jobs")
    write(listed.wan, HERE, Write(key=b"job/plain", value=b"v", mutable=True))
    listed.put(session_key(SESSION), ttl_ms=90_000)
    listed.put(b"lock", session=SESSION)
    return listed


def test_only_values_that_end_are_listed_in_the_order_of_their_keys(listed: Listed) -> None:
    assert listed.keys() == [b"job", b"job/1", b"job/2", b"job/3", b"jobs", b"lock"]
    assert (listed.leases.of_clients, listed.leases.sessions) == (6, 1)


def test_a_prefix_and_a_cursor_narrow_the_page(listed: Listed) -> None:
    assert listed.keys(b"job/") == [b"job/1", b"job/2", b"job/3"]
    assert listed.keys(b"job") == [b"job", b"job/1", b"job/2", b"job/3", b"jobs"], "a key that is the prefix itself"
    assert listed.keys(b"job", after=b"job/2") == [b"job/3", b"jobs"]
    assert listed.keys(b"job/", after=b"a") == [b"job/1", b"job/2", b"job/3"]
    assert listed.keys(b"job/", after=b"job/3") == []


def test_pages_follow_each_other_until_the_end(listed: Listed) -> None:
    found: list[bytes] = []
    after: bytes | None = None
    for _ in range(4):
        page, after = listed.listing.page(b"", after, 2)
        found += [each.key for each in page]
        assert len(page) <= 2
        if after is None:
            break
    assert found == listed.keys()
    assert after is None


def test_a_row_tells_its_token_its_time_and_its_value(listed: Listed) -> None:
    first = listed.page(b"job/1")[0]
    assert (first.version, first.expiry.ttl_ms, first.is_over) == (1, TTL, False)
    assert first.remaining_ms is not None
    assert 0 < first.remaining_ms < TTL
    assert first.committed is not None
    assert first.committed.value == b"of job/1"


def test_a_value_of_a_session_has_what_is_left_of_the_session(listed: Listed) -> None:
    (lock,) = listed.page(b"lock")
    assert lock.expiry.session == SESSION
    assert lock.remaining_ms is not None
    assert TTL < lock.remaining_ms <= 90_000


def test_what_is_over_is_listed_as_such_until_its_end_is_decided() -> None:
    listed = Listed()
    listed.put(b"short", ttl_ms=2_000)
    here = listed.wan.by_name[HERE]
    count = listed.leases.counted(b"short")
    assert count is not None
    count.ends_ms = here.now_ms()
    (short,) = listed.page()
    assert short.is_over
    listed.wan.pass_ms(10_000)
    assert listed.page() == []
    assert listed.leases.of_clients == 0


def test_a_session_that_is_not_known_here_leaves_the_time_unknown() -> None:
    listed = Listed()
    listed.put(b"lock", session=SESSION)
    assert [each.remaining_ms for each in listed.page()] == [None]


@pytest.mark.parametrize(
    ("prefix", "after", "expected"),
    [
        (b"", None, (None, None)),
        (b"p", None, (b"p", b"p")),
        (b"p", b"a", (b"p", b"p")),
        (b"p", b"p", (None, b"p")),
        (b"p", b"pq", (None, b"pq")),
    ],
)
def test_where_a_page_starts(prefix: bytes, after: bytes | None, expected: tuple[bytes | None, bytes | None]) -> None:
    assert start_of(prefix, after) == expected
