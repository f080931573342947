"""Times that follow from the settings, and what all nodes must have in common."""

from msgspec.structs import replace

from epoxy.protocol.elect.config import DRIFT_PERCENT, ElectTiming, fingerprint
from tests.protocol.elect.bench import config_of


def test_a_heartbeat_counts_as_recent_for_four_intervals_and_never_beyond_down_after() -> None:
    assert ElectTiming(hb_interval_ms=100, down_after_ms=1_000).fresh_ms == 400
    assert ElectTiming(hb_interval_ms=300, down_after_ms=1_000).fresh_ms == 1_000


def test_a_node_without_a_record_waits_longer_than_any_promise_by_the_drift_of_clocks() -> None:
    timing = ElectTiming(down_after_ms=1_000, election_timeout_ms=2_000)
    assert timing.rejoin_ms > 2_000 * (100 + DRIFT_PERCENT) // 100


def test_the_fingerprint_covers_name_and_timing_but_not_the_nodes() -> None:
    config = config_of("abc")
    assert fingerprint(config) == fingerprint(config_of("abcde"))
    assert fingerprint(config) != fingerprint(replace(config, cluster="other"))
    assert fingerprint(config) != fingerprint(replace(config, timing=replace(config.timing, lease_ms=701)))
