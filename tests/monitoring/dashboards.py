"""The dashboards that are shipped, as far as they name metrics."""

import re
from typing import Any

import msgspec

from tests.house.test_house import ROOT

FILE = ROOT / "deploy" / "grafana" / "epoxy.json"

LABEL_VALUES = re.compile(r"label_values\((.*), \w+\)")


def dashboard() -> dict[str, Any]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Any])


def expressions(found: dict[str, Any]) -> list[str]:
    """Of all panels, and of the lists that one chooses from."""
    told = [target["expr"] for panel in found["panels"] for target in panel.get("targets", ())]
    for variable in found["templating"]["list"]:
        query = variable["query"]
        if isinstance(query, dict) and (chosen := LABEL_VALUES.fullmatch(query["query"])):
            told.append(chosen[1])
    return told
