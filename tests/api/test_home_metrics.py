"""Whether a datacenter may host actors, how often it lost its lease, and what it took over."""

from epoxy.api.home_metrics import HomeMetrics
from epoxy.api.metrics import Metrics
from epoxy.model.homes import datacenter_key
from tests.actors.test_home_changes import regions


def test_a_lease_and_a_take_over_are_counted() -> None:
    here, there = regions()
    metrics = Metrics()
    metrics.include(HomeMetrics(here.changes))
    text = metrics.text().decode()
    assert "epoxy_home_lease_held 0.0" in text
    assert "epoxy_home_lease_wanted 0.0" in text
    here.worker()
    there.worker()
    there.made()
    there.go()
    here.ensure()
    here.keys.end(datacenter_key(1))
    here.clock.advance(15_000)
    text = metrics.text().decode()
    for line in ("lease_held 1.0", "lease_wanted 1.0", "lease_losses_total 1.0", "takeovers_total 1.0"):
        assert f"epoxy_home_{line}" in text
