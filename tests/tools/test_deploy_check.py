"""`make deploy-check` with stand-ins for systemd and kubectl, which not every machine has."""

from pathlib import Path

import pytest

from tools import deploy_check


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    put(tmp_path, "systemd-analyze", "cat $3 >/dev/null 2>&1; exit 0")
    put(tmp_path, "kubectl", "cat $2/poddisruptionbudget.yaml 2>/dev/null || true")
    return tmp_path


def put(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


@pytest.mark.usefixtures("programs")
def test_what_both_accept_is_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert deploy_check.main() == 0
    assert capsys.readouterr().out.splitlines() == [
        "in order: unit of systemd",
        "in order: manifests as kubectl renders them",
    ]
    assert deploy_check.check_manifests() == 1, "of zones/, which the stand-in prints"


def test_what_systemd_says_is_passed_on(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(programs, "systemd-analyze", "echo unknown key >&2; test $1 = security && exit 1; exit 0")
    assert deploy_check.main() == 1
    assert "unknown key" in capsys.readouterr().err


def test_a_manifest_that_kubernetes_refuses_is_named(programs: Path) -> None:
    put(programs, "kubectl", "printf 'apiVersion: v1\\nkind: Service\\nmetadata: {name: a}\\nspec: {port: 1}\\n'")
    with pytest.raises(deploy_check.Fault, match="regions/us-east-1: Service a"):
        deploy_check.check_manifests()


def test_a_program_that_is_missing_is_named_with_where_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert deploy_check.main() == 1
    said = capsys.readouterr().err
    assert "no systemd-analyze here: Debian and Ubuntu: apt install systemd" in said
    assert "no kubectl here" in said
