"""What Prometheus is told: the names of the interface, and figures that add up."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from epoxy.api.counters import BUCKETS
from epoxy.api.metrics import Gauges, Metrics, snake_case
from epoxy.model.cluster import first_epoch
from epoxy.model.messages import Behind, ConfigOk, Read, ReadOk, UpdateConfig
from epoxy.model.writes import Path
from epoxy.node.observer import Observer, Unobserved

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

INTERFACE = {
    "epoxy_proposals",
    "epoxy_proposal_duration_seconds",
    "epoxy_fast_path",
    "epoxy_slow_path",
    "epoxy_prepare",
    "epoxy_prepare_retry",
    "epoxy_ballot_bump",
    "epoxy_requests",
    "epoxy_refused",
    "epoxy_request_duration_seconds",
    "epoxy_changelog_rows",
    "epoxy_repaired_keys",
    "epoxy_replicas",
    "epoxy_txn_open",
    "epoxy_txn_term",
    "epoxy_txn_behind",
    "epoxy_txn_kept",
    "epoxy_txn_learned",
    "epoxy_peer_rtt_seconds",
    "epoxy_invariant_violations",
    "epoxy_flow_failures",
}


def samples(metrics: Metrics) -> Samples:
    families = text_string_to_metric_families(metrics.text().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_the_names_are_those_of_the_interface() -> None:
    families = text_string_to_metric_families(Metrics().text().decode())
    assert {family.name for family in families if family.name.startswith("epoxy_")} == INTERFACE


def test_proposals_by_outcome_and_path() -> None:
    metrics = Metrics()
    metrics.proposal_done("Committed", Path.FAST, 0.07)
    metrics.proposal_done("Committed", Path.FAST, 0.07)
    metrics.proposal_done("ExpectedValueDoesNotMatch", Path.SLOW, 0.3, prepares=3, retries=2, bumps=1)
    metrics.proposal_done("ConsensusFailed", None, 14.0, prepares=11, retries=10, bumps=4)
    found = samples(metrics)
    assert found["epoxy_proposals_total", (("path", "fast"), ("result", "committed"))] == 2
    assert found["epoxy_proposals_total", (("path", "slow"), ("result", "expected_value_does_not_match"))] == 1
    assert found["epoxy_proposals_total", (("path", "none"), ("result", "consensus_failed"))] == 1
    assert found["epoxy_fast_path_total", ()] == 2
    assert found["epoxy_slow_path_total", ()] == 1
    assert found["epoxy_prepare_total", ()] == 14
    assert found["epoxy_prepare_retry_total", ()] == 12
    assert found["epoxy_ballot_bump_total", ()] == 5
    assert found["epoxy_proposal_duration_seconds_count", ()] == 4
    assert found["epoxy_proposal_duration_seconds_sum", ()] == pytest.approx(14.44)


def test_requests_by_type_and_result() -> None:
    metrics = Metrics()
    metrics.request_handled("Prepare", "PrepareOk", 0.001)
    metrics.request_handled("Prepare", "HigherBallot", 0.001)
    metrics.request_handled("http_get_key", "ok", 0.0001)
    found = samples(metrics)
    assert found["epoxy_requests_total", (("request_type", "prepare"), ("result", "prepare_ok"))] == 1
    assert found["epoxy_requests_total", (("request_type", "prepare"), ("result", "higher_ballot"))] == 1
    assert found["epoxy_requests_total", (("request_type", "http_get_key"), ("result", "ok"))] == 1
    assert found["epoxy_request_duration_seconds_count", (("request_type", "prepare"),)] == 2
    assert found["epoxy_request_duration_seconds_count", (("request_type", "http_get_key"),)] == 1


def test_requests_that_came_together() -> None:
    metrics = Metrics()
    reads = [Read(key=b"k", epoch=1)] * 3
    replies = [
        ReadOk(committed=None, vote=None),
        Behind(version=1),
        ReadOk(committed=None, vote=None),
        ConfigOk(epoch=1),
    ]
    metrics.requests_handled([*reads, UpdateConfig(config=first_epoch((1,)))], replies, 0.002)
    found = samples(metrics)
    assert found["epoxy_requests_total", (("request_type", "read"), ("result", "read_ok"))] == 2
    assert found["epoxy_requests_total", (("request_type", "read"), ("result", "behind"))] == 1
    assert found["epoxy_requests_total", (("request_type", "update_config"), ("result", "config_ok"))] == 1
    assert found["epoxy_request_duration_seconds_count", (("request_type", "read"),)] == 3
    assert found["epoxy_request_duration_seconds_sum", (("request_type", "read"),)] == pytest.approx(0.006)
    assert found["epoxy_request_duration_seconds_bucket", (("le", "0.0025"), ("request_type", "read"))] == 3


@pytest.mark.parametrize(("seconds", "smallest"), [(0.0, "0.0001"), (0.1, "0.1"), (0.1001, "0.15"), (99.0, "+Inf")])
def test_a_duration_is_in_its_bucket_and_all_above(seconds: float, smallest: str) -> None:
    metrics = Metrics()
    metrics.proposal_done("Committed", Path.FAST, seconds)
    found = samples(metrics)
    bounds = [*map(str, BUCKETS), "+Inf"]
    counts = [found["epoxy_proposal_duration_seconds_bucket", (("le", bound),)] for bound in bounds]
    assert counts == [0] * bounds.index(smallest) + [1] * (len(bounds) - bounds.index(smallest))


def test_gauges_are_looked_up_when_asked() -> None:
    now = Gauges()
    metrics = Metrics(lambda: now)
    assert ("epoxy_changelog_rows", ()) not in samples(metrics), "unknown is not zero"
    now = Gauges(
        changelog_rows=7,
        repaired_keys=5,
        replicas={"active": 3, "learning": 1},
        txn_term=2,
        txn_behind=7,
        txn_kept=9,
        txn_learned=8,
        txn_open=True,
        peer_rtt_seconds={"2": 0.0714},
    )
    found = samples(metrics)
    assert found["epoxy_changelog_rows", ()] == 7
    assert found["epoxy_repaired_keys_total", ()] == 5
    assert found["epoxy_replicas", (("status", "active"),)] == 3
    assert found["epoxy_replicas", (("status", "learning"),)] == 1
    assert (found["epoxy_txn_term", ()], found["epoxy_txn_open", ()]) == (2, 1)
    assert (found["epoxy_txn_behind", ()], found["epoxy_txn_learned_total", ()]) == (7, 8)
    assert found["epoxy_txn_kept", ()] == 9
    assert found["epoxy_peer_rtt_seconds", (("peer", "2"),)] == 0.0714


def test_what_others_count_is_added() -> None:
    mine, theirs = ("http_get_key", "ok"), ("resp_get", "ok")
    metrics = Metrics(lambda: Gauges(refused={"writes_in_flight": 5}, requests={mine: 10, theirs: 3}))
    metrics.request_handled(*mine, 0.1)
    found = samples(metrics)
    assert found["epoxy_refused_total", (("limit", "writes_in_flight"),)] == 5
    assert found["epoxy_requests_total", (("request_type", "http_get_key"), ("result", "ok"))] == 11
    assert found["epoxy_requests_total", (("request_type", "resp_get"), ("result", "ok"))] == 3
    assert found["epoxy_request_duration_seconds_count", (("request_type", "http_get_key"),)] == 1


def test_violations_are_there_before_the_first() -> None:
    metrics = Metrics()
    assert samples(metrics)["epoxy_invariant_violations_total", ()] == 0
    metrics.invariant_violation("two values for one instance")
    assert samples(metrics)["epoxy_invariant_violations_total", ()] == 1


def test_both_are_observers() -> None:
    observers: list[Observer] = [Metrics(), Unobserved()]
    for observer in observers:
        observer.proposal_done("Committed", None, 0.1)
        observer.request_handled("Read", "ReadOk", 0.1)
        observer.invariant_violation("planted")
    assert isinstance(observers[0], Metrics)
    assert samples(observers[0])["epoxy_invariant_violations_total", ()] == 1


@pytest.mark.parametrize(
    ("name", "label"), [("PrepareOk", "prepare_ok"), ("http_get_key", "http_get_key"), ("Read", "read")]
)
def test_labels(name: str, label: str) -> None:
    assert snake_case(name) == label
