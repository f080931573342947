from pathlib import Path

import pytest

from tools import browser


def test_a_browser_that_is_named_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOXY_TEST_BROWSER", "/somewhere/chrome")
    assert browser.chromium() == Path("/somewhere/chrome")


def test_the_one_beside_python_comes_before_the_machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EPOXY_TEST_BROWSER", raising=False)
    machine = tmp_path / "bin"
    machine.mkdir()
    (machine / "chromium").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(machine))
    monkeypatch.setattr(browser, "CARRIED", tmp_path)
    assert browser.chromium() == machine / "chromium"
    (tmp_path / "chromium").touch(mode=0o755)
    (tmp_path / "lib").mkdir()
    assert browser.chromium() == tmp_path / "chromium"
    assert browser.environment() == {"LD_LIBRARY_PATH": str(tmp_path / "lib")}


def test_where_none_can_be_had_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("EPOXY_TEST_BROWSER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(browser, "CARRIED", tmp_path / "none")
    assert browser.main() == 1
    assert "apt install chromium" in capsys.readouterr().err
