"""Every alert rule fires on scrapes of nodes that have the trouble it is for, and none does before that."""

import re
from pathlib import Path

import pytest

from epoxy.api.metrics import Metrics
from tests.house.test_docs import anchors
from tests.house.test_house import ROOT
from tests.monitoring import dashboards
from tests.monitoring.alert_rules import FILE, AlertRule, fires_as_expected, rules_in, run_promtool, told_words
from tests.monitoring.promql import unseen
from tests.monitoring.scraping import Key, Phase, Scrape, seen_in
from tests.monitoring.troubles import Trouble, of_a_cluster, of_a_shared_database
from tests.node.service_bench import World

RULES = rules_in(FILE.read_text("utf-8"))


def test_every_alert_fires_when_it_should_and_at_no_other_time(tmp_path: Path) -> None:
    """And everything that rules and dashboards name is there. One test: the nodes are started once."""
    troubles = [*of_a_cluster(tmp_path / "cluster"), *of_a_shared_database(tmp_path / "datacenter")]
    complaint = fires_as_expected(FILE, troubles, tmp_path)
    assert not complaint, complaint
    assert {rule.alert for rule in RULES} - {alert for each in troubles for alert in each.alerts} == set()
    words = told_words(FILE, troubles, tmp_path)
    assert {rule.alert for rule in RULES if f'alertname="{rule.alert}"' not in words} == set()
    assert "<error" not in words, "a template that cannot be filled in"
    seen = seen_in([each for trouble in troubles for each in trouble.phases])
    named = [*[rule.expr for rule in RULES], *dashboards.expressions(dashboards.dashboard())]
    assert {expression: unseen(expression, seen) for expression in named if unseen(expression, seen)} == {}


def test_promtool_finds_no_fault() -> None:
    done = run_promtool("check", "rules", "--lint=all", "--lint-fatal", FILE)
    assert (done.returncode, done.stderr) == (0, "")


def test_promtool_finds_no_fault_in_the_metrics() -> None:
    told = Metrics(World(3).node).text().decode()
    assert run_promtool("check", "metrics", given=told).stderr == ""
    wrong = told.replace("# HELP epoxy_ready 1 while clients are served, else 0\n", "")
    assert "epoxy_ready no help text" in run_promtool("check", "metrics", given=wrong).stderr


def test_the_manual_names_all_rules_and_no_others() -> None:
    assert len({rule.alert for rule in RULES}) == len(RULES)
    manual = (ROOT / "docs" / "operating.md").read_text("utf-8")
    assert set(re.findall(r"`(Epoxy[A-Z]\w+)`", manual)) == {rule.alert for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.alert)
def test_an_alert_says_what_is_wrong_and_what_to_do(rule: AlertRule) -> None:
    assert rule.labels.keys() == {"severity"}
    assert rule.labels["severity"] in ("warning", "critical")
    assert rule.annotations.keys() == {"summary", "description", "runbook_url"}
    assert "{{ $labels." in rule.annotations["summary"], "it names the node"
    page, _, anchor = rule.annotations["runbook_url"].partition("#")
    assert anchor in anchors((ROOT / page).read_text("utf-8"))


def unready_node() -> Trouble:
    ready, unready = (Scrape(0.0, {("epoxy_ready", ()): value}, ()) for value in (1.0, 0.0))
    phases = [Phase(minutes, {"a": said}, {"a": said}) for minutes, said in ((30, ready), (120, unready))]
    return Trouble("not ready", phases, {"EpoxyNotReady": {"a"}})


def refused(reason: str, *, times: int, peer_up: int) -> Scrape:
    samples: dict[Key, float] = {
        ("epoxy_stores_refused_total", (("reason", reason),)): float(times),
        ("epoxy_peer_up", (("peer", "2"),)): float(peer_up),
    }
    return Scrape(0.0, samples, ())


@pytest.mark.parametrize(
    ("reason", "peer_up", "alerts"),
    [
        ("starting", 1, {}),
        ("still_running", 1, {}),
        ("another_store", 1, {}),
        ("another_store", 0, {"EpoxyStoreRefused": {"a"}, "EpoxyPeerAway": {"a"}}),
    ],
    ids=["a restart", "a restart after a crash", "a member that was replaced", "a disk lost"],
)
def test_refused_stores_are_no_news_once_all_members_are_there(
    reason: str, peer_up: int, alerts: dict[str, set[str]], tmp_path: Path
) -> None:
    before, after = refused(reason, times=0, peer_up=1), refused(reason, times=1, peer_up=peer_up)
    phases = [Phase(30, {"a": before}, {"a": before}), Phase(120, {"a": after}, {"a": after})]
    assert fires_as_expected(FILE, [Trouble(reason, phases, alerts)], tmp_path) == ""


def test_a_release_that_does_not_say_its_version_is_seen_by_its_peers(tmp_path: Path) -> None:
    new = (("version", "0.2.0"), ("wire", "5"))
    alone = Scrape(0.0, {("epoxy_build_info", new): 1.0}, ())
    mixed = Scrape(0.0, {**alone.samples, ("epoxy_peer_build_info", (("peer", "2"), ("version", "0.1"))): 1.0}, ())
    phases = [Phase(30, {"a": alone}, {"a": alone}), Phase(120, {"a": mixed}, {"a": mixed})]
    assert fires_as_expected(FILE, [Trouble("half done", phases, {"EpoxyVersionsDiffer": {""}})], tmp_path) == ""


def planted(folder: Path, right: str, wrong: str) -> Path:
    text = FILE.read_text("utf-8")
    assert right in text
    made = folder / "rules.yml"
    made.write_text(text.replace(right, wrong), "utf-8")
    return made


def test_a_rule_that_fires_is_seen(tmp_path: Path) -> None:
    assert fires_as_expected(FILE, [unready_node()], tmp_path) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("epoxy_ready == 0", "epoxy_redy == 0"),
        ("epoxy_ready == 0", "epoxy_ready < 0"),
        ("epoxy_ready == 0\n        for: 5m", "epoxy_ready == 0\n        for: 5h"),
        ("epoxy_ready == 0", "epoxy_ready >= 0"),
        ("epoxy_quorum_lost == 1", "epoxy_ready == 0"),
    ],
    ids=["misspelt", "never", "too late", "always", "another one"],
)
def test_a_rule_that_does_not_fire_or_fires_too_often_is_seen(right: str, wrong: str, tmp_path: Path) -> None:
    assert "FAILED" in fires_as_expected(planted(tmp_path, right, wrong), [unready_node()], tmp_path)


def test_a_misspelt_metric_or_label_is_seen(tmp_path: Path) -> None:
    seen = seen_in(unready_node().phases)
    rules = {rule.alert: rule.expr for rule in rules_in(planted(tmp_path, "epoxy_ready", "epoxy_redy").read_text())}
    assert unseen(rules["EpoxyNotReady"], seen) == ["epoxy_redy"]
    assert unseen(RULES[1].expr, seen) == []
    assert unseen('epoxy_ready{datacentre="a"}', seen) == ["epoxy_ready{datacentre=a}"]


def test_a_template_that_cannot_be_filled_in_is_seen(tmp_path: Path) -> None:
    made = planted(tmp_path, "{{ $labels.instance }} runs and", "{{ humanize $labels }} runs and")
    assert "<error" in told_words(made, [unready_node()], tmp_path)
    assert "a runs and serves no clients" in told_words(FILE, [unready_node()], tmp_path)
