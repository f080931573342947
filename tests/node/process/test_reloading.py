"""Files that are read again: on a signal, and when they have changed."""

import logging
from pathlib import Path

import pytest

from epoxy.model.errors import ConfigError
from epoxy.node.process import reloading
from epoxy.node.process.reloading import Reloading
from tests.transport.http.harness import run, until


class Part:
    def __init__(self, path: Path) -> None:
        path.write_text("0")
        self.files = (path,)
        self.value = 0

    def reload(self) -> str:
        text = self.files[0].read_text()
        if not text.isdigit():
            raise ConfigError(f"{text!r} is no number")
        before, self.value = self.value, int(text)
        return f"{before} to {self.value}" if before != self.value else ""


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Part:
    monkeypatch.setattr(reloading, "LOOK_S", 0.001)
    return Part(tmp_path / "file")


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.message, getattr(record, "number", getattr(record, "detail", ""))) for record in caplog.records]


def test_a_change_is_read_without_a_signal(part: Part, caplog: pytest.LogCaptureFixture) -> None:
    looks = []

    async def story() -> None:
        watching = Reloading({"number": part}, lambda: looks.append(1))
        watching.start()
        part.files[0].write_text("7")
        await until(lambda: part.value == 7)
        watching.stop()

    with caplog.at_level(logging.INFO, "epoxy"):
        run(story())
    assert told(caplog) == [("reloaded", "0 to 7")]
    assert looks


def test_files_that_changed_before_they_were_watched_are_read(part: Part) -> None:
    """Between a start that reads certificates and the watch a data directory may be migrated, for minutes."""

    async def story() -> None:
        part.files[0].write_text("7")
        watching = Reloading({"number": part})
        watching.start()
        await until(lambda: part.value == 7)
        watching.stop()

    run(story())


def test_files_that_could_not_be_used_are_tried_again(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a certificate that is valid a minute from now, while the file stays the same."""
    monkeypatch.setattr(reloading, "RETRY_LOOKS", 3)
    usable: list[bool] = []
    read = Part.reload

    def reload(part: Part) -> str:
        if not usable:
            raise ConfigError("not yet")
        return read(part)

    monkeypatch.setattr(Part, "reload", reload)

    async def story() -> None:
        watching = Reloading({"number": part})
        watching.start()
        part.files[0].write_text("7")
        await until(lambda: watching.failures >= 3)
        usable.append(True)
        await until(lambda: part.value == 7)
        watching.stop()

    run(story())


def test_a_signal_is_answered_with_one_line_and_a_bad_file_with_one_more(
    part: Part, caplog: pytest.LogCaptureFixture
) -> None:
    watching = Reloading({"number": part})
    with caplog.at_level(logging.INFO, "epoxy"):
        for text in ("3", "3", "x", "x", "y", "4", "y"):
            part.files[0].write_text(text)
            watching.reload()
    assert part.value == 4
    assert watching.failures == 4
    bad = "not reloaded: what was read before stays in force"
    assert told(caplog) == [
        ("reloaded", "0 to 3"),
        ("reloaded", "unchanged"),
        (bad, "'x' is no number"),
        ("reloaded", "failed"),
        ("reloaded", "failed"),
        (bad, "'y' is no number"),
        ("reloaded", "failed"),
        ("reloaded", "3 to 4"),
        (bad, "'y' is no number"),
        ("reloaded", "failed"),
    ]


def test_a_planted_fault_a_bad_file_that_ends_the_node_is_found(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rule of `_reload`, the exception reaches the loop."""
    part.files[0].write_text("half a fi")
    Reloading({"number": part}).reload()
    monkeypatch.setattr(Reloading, "_reload", lambda self, name: self._parts[name].reload())
    with pytest.raises(ConfigError):
        Reloading({"number": part}).reload()
