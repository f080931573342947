"""The unit: its statuses and times are those of `epoxy serve`. `make deploy-check` asks systemd itself."""

import re
from pathlib import Path

from epoxy.cli.main import cli
from epoxy.node.process.config import load
from epoxy.node.process.exits import EXIT_BUSY, EXIT_CONFIG, EXIT_STORE
from epoxy.server.listeners import DRAIN_S

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
UNIT = (FOLDER / "epoxy@.service").read_text("utf-8")
WRONG_USAGE = 2


def setting(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def test_what_fails_in_the_same_way_again_is_not_started_again() -> None:
    (prevented,) = setting("RestartPreventExitStatus")
    assert {int(status) for status in prevented.split()} == {WRONG_USAGE, EXIT_STORE, EXIT_CONFIG}
    assert EXIT_BUSY not in map(int, prevented.split()), "an address may be free again soon"
    assert setting("Restart") == ["on-failure"]
    assert int(setting("RestartSec")[0]) * int(setting("StartLimitBurst")[0]) < int(setting("StartLimitIntervalSec")[0])


def test_it_is_given_the_time_that_it_takes_to_end() -> None:
    assert setting("TimeoutStopSec") == ["30"]
    assert DRAIN_S < 30, "and some for the disk"


def test_it_runs_a_command_that_there_is() -> None:
    (start,) = setting("ExecStart")
    program, command, *rest = start.split()
    assert program.endswith("/epoxy")
    assert command in cli.list_commands(None)  # type: ignore[arg-type]
    assert rest == ["--config", "/etc/epoxy/%i.toml"]


def test_the_sample_of_settings_is_for_this_unit() -> None:
    (sample,) = FOLDER.glob("*.toml")
    settings = load(sample, environ={})
    (state,) = setting("StateDirectory")
    assert settings.node.data_dir == Path("/var/lib") / state.replace("%i", sample.stem)
    assert settings.node.datacenter == sample.stem
    assert setting("User") == setting("Group") == ["epoxy"]
    assert re.search(r"^u epoxy ", (FOLDER / "epoxy.sysusers.conf").read_text("utf-8"), re.MULTILINE)
