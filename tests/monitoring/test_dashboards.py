"""The dashboard is one that Grafana loads; that its metrics exist, test_alerts.py sees on real nodes."""

from tests.monitoring.dashboards import dashboard, expressions
from tests.monitoring.promql import named

COLUMNS = 24
UNITS = {"short", "s", "bytes", "percentunit", "reqps", "wps", "ops", "cps", "rowsps"}


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_panel_shows_something_and_says_what() -> None:
    for panel in dashboard()["panels"]:
        assert panel["title"]
        assert (panel["type"] == "row") == (not panel.get("targets"))
        assert panel["type"] in ("row", "table") or panel["fieldConfig"]["defaults"]["unit"] in UNITS


def test_every_expression_is_of_the_chosen_nodes() -> None:
    """A panel without the variables would mix clusters."""
    for expression in expressions(dashboard()):
        for selector in named(expression).selectors:
            chosen = {matcher.label: matcher.value for matcher in selector.matchers}
            assert chosen in ({"job": "$job", "instance": "$instance"}, {"job": "$job"}, {}), expression
            assert chosen or expression == "epoxy_ready"
