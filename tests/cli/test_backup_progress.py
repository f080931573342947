"""The progress of a backup, where there is no terminal: a line for each phase."""

import msgspec
import pytest

from epoxy.cli.backup_progress import BackupProgress
from epoxy.model.api_backups import BackupState
from tests.client.fake_backup import STATE


def state(phase: str) -> BackupState:
    return msgspec.convert(STATE | {"phase": phase}, BackupState)


def test_each_phase_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with BackupProgress(quiet=False) as progress:
        for phase in ("settling", "settling", "executing", "cutting"):
            progress.gathering(state(phase))
        progress.copying(state("ready"), 2, 1 << 20)
        progress.copying(state("ready"), 2, 1 << 20)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["settling", "executing", "cutting", "copying"]


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with BackupProgress(quiet=True) as progress:
        progress.gathering(state("settling"))
        progress.copying(state("ready"), 2, 1 << 20)
    assert capsys.readouterr().err == ""
