from epoxy.placement.ring import POSITION_BYTES, position, positions


def test_positions_are_pinned() -> None:
    """What another version of the hash would put elsewhere, an expiry would not find again."""
    assert int.from_bytes(position("rivet-envoy-test-key", 0), "big") == 105079023209375360134079412738210681470


def test_positions_are_those_of_their_seeds_and_differ() -> None:
    found = positions("envoy-1", 0, 64)
    assert found == [position("envoy-1", i) for i in range(64)]
    assert len(set(found)) == 64
    assert {len(each) for each in found} == {POSITION_BYTES}
    assert positions("envoy-1", 8, 10) == found[8:10]
