"""Scrapes become series: gauges stay, counters go on, and what was not there has no value."""

from tests.monitoring.scraping import CLOCK, Phase, Scrape, seen_in, series


def said(ready: float, writes: float, clock: float, at_s: float) -> Scrape:
    samples = {("epoxy_ready", ()): ready, ("epoxy_writes_total", (("path", "fast"),)): writes, (CLOCK, ()): clock}
    return Scrape(at_s, samples, ("epoxy_writes_total",))


BEFORE = Phase(10, {"a": said(1, 5, 1_000, 1_000)}, {"a": said(1, 8, 1_002, 1_001)})
LOST = Phase(60, {"a": None}, {"a": None})
NAMES = {"epoxy_ready", "epoxy_writes_total", CLOCK}


def test_gauges_stay_and_counters_go_on() -> None:
    assert series([BEFORE], {"epoxy_ready", "epoxy_writes_total"}) == {
        'up{instance="a",job="epoxy"}': "1.000000+0.000000x9",
        'epoxy_ready{instance="a",job="epoxy"}': "1.000000+0.000000x9",
        'epoxy_writes_total{path="fast",instance="a",job="epoxy"}': "8.000000+3.000000x9",
    }


def test_a_clock_keeps_its_distance_to_the_time_of_the_scrape() -> None:
    found = series([BEFORE, BEFORE], {CLOCK})
    assert found[f'{CLOCK}{{instance="a",job="epoxy"}}'] == "1.000000+60.000000x9 601.000000+60.000000x9"


def test_a_node_that_does_not_answer_has_no_values() -> None:
    found = series([BEFORE, LOST], {"epoxy_ready"})
    assert found['up{instance="a",job="epoxy"}'] == "1.000000+0.000000x9 0.000000+0.000000x59"
    assert found['epoxy_ready{instance="a",job="epoxy"}'] == "1.000000+0.000000x9 _x60"


def test_a_node_that_is_not_scraped_yet_is_not_down() -> None:
    later = Phase(5, {"b": said(1, 0, 0, 0)}, {"b": said(1, 0, 0, 0)})
    assert series([BEFORE, later], set())['up{instance="b",job="epoxy"}'] == "_x10 1.000000+0.000000x4"


def test_a_counter_that_began_anew_does_not_go_on_backwards() -> None:
    anew = Phase(5, {"a": said(1, 9, 0, 0)}, {"a": said(1, 2, 0, 0)})
    assert series([anew], {"epoxy_writes_total"}) == {
        'up{instance="a",job="epoxy"}': "1.000000+0.000000x4",
        'epoxy_writes_total{path="fast",instance="a",job="epoxy"}': "2.000000+0.000000x4",
    }


def test_what_was_seen() -> None:
    seen = seen_in([BEFORE, LOST])
    assert seen["epoxy_writes_total"] == [{"path": "fast", "job": "epoxy", "instance": "a"}]
    assert seen.keys() == NAMES | {"up"}
