"""What expressions name is found in them, and what no scrape has is told."""

import pytest

from tests.monitoring.promql import Matcher, Selector, named, unseen

SEEN = {
    "epoxy_ready": [{"job": "epoxy", "instance": "a"}],
    "epoxy_refused_total": [{"job": "epoxy", "instance": "a", "limit": limit} for limit in ("no_quorum", "reads")],
    "epoxy_sync_seconds_bucket": [{"job": "epoxy", "instance": "a", "le": "0.1"}],
}


def test_metrics_matchers_and_labels() -> None:
    expression = """
        histogram_quantile(0.99, sum by (instance, le) (rate(epoxy_sync_seconds_bucket{job=~"epoxy.*"}[5m])))
        > 1e3 and on (job) (epoxy_ready offset 5m == bool 1)
    """
    found = named(expression)
    assert found.selectors == (
        Selector("epoxy_sync_seconds_bucket", (Matcher("job", "=~", "epoxy.*"),)),
        Selector("epoxy_ready"),
    )
    assert found.labels == {"instance", "le", "job"}


@pytest.mark.parametrize(
    "expression",
    [
        "epoxy_ready == 0",
        'sum(rate(epoxy_refused_total{limit=~"no_quorum|reads"}[$__rate_interval]))',
        'epoxy_refused_total{limit!="x", instance=~"$instance"} unless on (instance) epoxy_ready',
        "count without (le) (epoxy_sync_seconds_bucket)",
    ],
)
def test_what_is_there_is_found(expression: str) -> None:
    assert unseen(expression, SEEN) == []


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("epoxy_redy == 0", ["epoxy_redy"]),
        ("epxoy_ready == 0", ["epxoy_ready"]),
        ("sum by (instance) (epoxy_ready_total)", ["epoxy_ready_total", "instance"]),
        ('epoxy_refused_total{limit="writes"}', ["epoxy_refused_total{limit=writes}"]),
        ('epoxy_refused_total{limit=~"no_quorum|writes"}', ["epoxy_refused_total{limit=~no_quorum|writes}"]),
        ('epoxy_ready{datacenter="x"}', ["epoxy_ready{datacenter=x}"]),
        ('epoxy_ready{datacenter=~"$all"}', ["epoxy_ready{datacenter=~$all}"]),
        ("sum by (instant) (epoxy_ready)", ["instant"]),
    ],
)
def test_what_is_not_there_is_told(expression: str, wrong: list[str]) -> None:
    assert unseen(expression, SEEN) == wrong


def test_what_is_no_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="not understood"):
        named("epoxy_ready ? 1")
