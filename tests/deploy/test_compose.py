"""compose.yaml: judged by the schema of the Compose specification, and its settings by Epoxy itself."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from epoxy.cli.demo.plan import PORT_BASE
from epoxy.model.errors import ConfigError
from epoxy.node.process.config import load
from epoxy.transport.wan.aws import REGIONS

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
TEXT = (DEPLOY / "compose.yaml").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
NODES = {name: service for name, service in COMPOSE["services"].items() if "environment" in service}


def judged(path: Path) -> subprocess.CompletedProcess[str]:
    words = ["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


def test_it_is_what_the_specification_allows() -> None:
    told = judged(DEPLOY / "compose.yaml")
    assert told.returncode == 0, told.stdout


def test_a_planted_fault_is_seen(tmp_path: Path) -> None:
    planted = tmp_path / "compose.yaml"
    planted.write_text(TEXT.replace("stop_grace_period:", "stop_grace:"))
    told = judged(planted)
    assert told.returncode == 1
    assert "stop_grace" in told.stdout


@pytest.mark.parametrize("name", NODES)
def test_a_service_is_the_member_of_its_name(name: str) -> None:
    settings = load(DEPLOY / "compose" / "epoxy.toml", environ=NODES[name]["environment"])
    assert settings.node.datacenter == name
    assert name in REGIONS
    assert settings.wan.emulate
    assert [member.url for member in settings.cluster.members] == [f"http://{each}:7800" for each in NODES]


def test_a_service_without_its_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"node\.id"):
        load(DEPLOY / "compose" / "epoxy.toml", environ={})


def test_ports_are_those_of_the_demo_and_of_this_machine_alone() -> None:
    ports = [service["ports"] for service in NODES.values()]
    assert ports == [
        [f"127.0.0.1:{PORT_BASE + 10 * i}:7800", f"127.0.0.1:{PORT_BASE + 10 * i + 1}:7801"] for i in range(len(NODES))
    ]


def test_every_service_has_a_volume_of_its_own_and_no_privileges() -> None:
    assert len(NODES) == 3
    for name, service in NODES.items():
        assert service["volumes"] == ["secret:/run/epoxy:ro", f"{name}:/var/lib/epoxy"]
    for service in COMPOSE["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert "privileged" not in service
        assert "cap_add" not in service
