"""The alert rules that are shipped, and what promtool makes of them on series of scrapes."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.house.test_house import ROOT
from tests.monitoring.promql import named
from tests.monitoring.scraping import series
from tests.monitoring.troubles import Trouble
from tools.promtool import promtool

FILE = ROOT / "deploy" / "prometheus" / "epoxy.rules.yml"
PROMTOOL_S = 120.0


class AlertRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    alert: str
    expr: str
    labels: dict[str, str]
    annotations: dict[str, str]
    lasts: str = msgspec.field(name="for", default="0m")


class RuleGroup(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    rules: list[AlertRule]


class RuleFile(Struct, frozen=True, forbid_unknown_fields=True):
    groups: list[RuleGroup]


def rules_in(text: str) -> list[AlertRule]:
    return [rule for group in msgspec.yaml.decode(text, type=RuleFile).groups for rule in group.rules]


def run_promtool(*words: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [promtool(), *words], input=given, capture_output=True, text=True, check=False, timeout=PROMTOOL_S
    )


def try_rules(rules: Path, tests: list[object], folder: Path) -> str:
    """What promtool complains of."""
    file = folder / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}), "utf-8")
    done = run_promtool("test", "rules", file)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def fires_as_expected(rules: Path, troubles: Sequence[Trouble], folder: Path) -> str:
    """What promtool complains of: empty, if after each trouble those alerts fire that should, and no others, and
    before it none."""
    return try_rules(rules, [case_of(trouble, metrics_in(rules)) for trouble in troubles], folder)


def told_words(rules: Path, troubles: Sequence[Trouble], folder: Path) -> str:
    """The labels and annotations of all that fires, as promtool prints those which it did not expect."""
    tests = [
        {
            "name": trouble.name,
            "interval": "1m",
            "input_series": input_series(trouble, metrics_in(rules)),
            "alert_rule_test": [
                {"eval_time": f"{last_minute(trouble)}m", "alertname": alert, "exp_alerts": []}
                for alert in trouble.alerts
            ],
        }
        for trouble in troubles
    ]
    return try_rules(rules, list(tests), folder)


def metrics_in(rules: Path) -> set[str]:
    return {selector.metric for rule in rules_in(rules.read_text("utf-8")) for selector in named(rule.expr).selectors}


def input_series(trouble: Trouble, names: set[str]) -> list[dict[str, str]]:
    return [{"series": name, "values": values} for name, values in series(trouble.phases, names).items()]


def last_minute(trouble: Trouble) -> int:
    return sum(each.minutes for each in trouble.phases) - 1


def case_of(trouble: Trouble, names: set[str]) -> object:
    before, *_ = trouble.phases
    first, last = f"{before.minutes - 1}m", f"{last_minute(trouble)}m"
    strict = firing(f'alertname!~"{"|".join(sorted(trouble.beside))}"')
    expected = [(alert, instance) for alert, instances in trouble.alerts.items() for instance in instances]
    exact = [sample(*each) for each in expected if each[0] not in trouble.beside]
    return {
        "name": trouble.name,
        "interval": "1m",
        "input_series": input_series(trouble, names),
        "promql_expr_test": [
            {"expr": strict, "eval_time": first, "exp_samples": []},
            {"expr": strict, "eval_time": last, "exp_samples": exact},
            *[
                {
                    "expr": firing(f'alertname="{alert}", instance="{instance}"'),
                    "eval_time": last,
                    "exp_samples": [sample(alert, instance)],
                }
                for alert, instance in expected
                if alert in trouble.beside
            ],
        ],
    }


def firing(matchers: str) -> str:
    return f'group by (alertname, instance) (ALERTS{{alertstate="firing", {matchers}}})'


def sample(alert: str, instance: str) -> dict[str, str | int]:
    """An alert that is for a whole cluster has no instance."""
    place = f', instance="{instance}"' if instance else ""
    return {"labels": f'{{alertname="{alert}"{place}}}', "value": 1}
