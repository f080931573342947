from importlib.metadata import requires
from types import SimpleNamespace

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from epoxy.codec.tuple import pack
from epoxy.model.errors import ConfigError
from epoxy.protocol.placement import ring, rows
from epoxy.protocol.placement.records import EnvoyPool
from epoxy.protocol.placement.ring import POSITION_BYTES, position, positions


def test_positions_are_pinned() -> None:
    """What another version of the hash would put elsewhere, an expiry would not find again."""
    assert int.from_bytes(position("rivet-envoy-test-key", 0), "big") == 105079023209375360134079412738210681470


def test_a_hash_that_puts_envoys_elsewhere_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    ring.check_hash()

    def another_hash(data: bytes, seed: int) -> bytes:
        return xxhash.xxh3_128_digest(data, seed=seed + 1)

    monkeypatch.setattr(ring, "xxhash", SimpleNamespace(xxh3_128_digest=another_hash, VERSION="9.0"))
    with pytest.raises(ConfigError, match=r"xxhash 9\.0: .* requirements/run\.txt pins"):
        ring.check_hash()


def test_the_installed_hash_is_the_one_the_package_demands() -> None:
    demanded = [each for each in requires("epoxydb") or [] if each.startswith("xxhash")]
    assert demanded == [f'xxhash=={xxhash.VERSION}; extra == "server"']


def test_positions_are_those_of_their_seeds_and_differ() -> None:
    found = positions("envoy-1", 0, 64)
    assert found == [position("envoy-1", i) for i in range(64)]
    assert len(set(found)) == 64
    assert {len(each) for each in found} == {POSITION_BYTES}
    assert positions("envoy-1", 8, 10) == found[8:10]


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20), st.integers(0, 2**31 - 1))
def test_rows_spelled_by_hand_are_those_of_the_tuple_layer(namespace: str, key: str, version: int) -> None:
    assert rows.envoy_rows(namespace, key) == pack((rows.ROOT, rows.ENVOY, namespace, key))
    pool = EnvoyPool(namespace, "web")
    for place in (position(key, 0), b"\x00\xff" * 8, bytes(16), b"\xff" * 16):
        row = rows.hash_row(pool, version, place, key)
        assert rows.owner(row, rows.version_rows(rows.HASH, pool, version)) == key
        assert rows.last_name(row, rows.version_rows(rows.HASH, pool, version)) == key
        assert rows.version_of(row, rows.pool_rows(rows.HASH, pool)) == version
