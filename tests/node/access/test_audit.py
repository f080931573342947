"""The audit log: what is written, what is counted instead, and how large it can get."""

import logging
import os
import stat
import threading
from pathlib import Path

import msgspec
import pytest

from epoxy.node.access.audit import (
    AUDIT_FILE,
    MAX_TEXT,
    MAX_WAITING,
    REFUSALS,
    REFUSALS_S,
    AuditLog,
    LineBudget,
    audit_of,
    before,
)
from epoxy.node.access.guesses import Guesses
from epoxy.node.process.config import AccessSettings
from epoxy.protocol.access.tokens import token_of
from tests.node.service_bench import settings_of


def lines_of(path: Path) -> list[dict[str, object]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.mark.parametrize(("file", "lines"), [("audit.jsonl", 0), ("missing/audit.jsonl", 1), ("", 1)])
def test_a_file_that_cannot_be_written_is_said_at_the_start(
    tmp_path: Path, file: str, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(1)
    audit_of(msgspec.structs.replace(settings, access=AccessSettings(audit_file=tmp_path / file)))
    assert caplog.messages == ["the audit log cannot be written"] * lines


def test_an_act_is_one_line_of_json_that_only_its_owner_reads(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", wall=lambda: 1_700_000_000.25)
    log.record("POST /v2/members", name="root", address="10.0.0.1:4000", target="7", detail="eu-west-1")
    log.record("AUTH", name="", address="[::1]:9", outcome="refused")
    log.close()
    assert lines_of(tmp_path / "audit.jsonl") == [
        {
            "at": "2023-11-14T22:13:20.250+00:00",
            "act": "POST /v2/members",
            "outcome": "done",
            "name": "root",
            "address": "10.0.0.1:4000",
            "target": "7",
            "detail": "eu-west-1",
        },
        {"at": "2023-11-14T22:13:20.250+00:00", "act": "AUTH", "outcome": "refused", "name": "", "address": "[::1]:9"},
    ]
    assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600
    assert log.counts == {"done": 1, "refused": 1}
    assert log.lost == 0


def test_what_a_client_chooses_breaks_no_line(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.record("AUTH", name='a\n{"act":"forged"}\ud800', address="x", target="t" * 10_000, outcome="refused")
    log.close()
    (line,) = lines_of(tmp_path / "audit.jsonl")
    assert line["name"] == 'a\n{"act":"forged"}?'
    assert line["target"] == "t" * (MAX_TEXT - 3) + "..."


def test_a_token_that_is_said_in_place_of_a_name_is_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = token_of(bytes(range(224, 256)))
    log = AuditLog(tmp_path / "audit.jsonl")
    log.record("AUTH", name=token, address="x", target=f"name={token}&x", detail=token[:30], outcome="refused")
    log.close()
    (line,) = lines_of(tmp_path / "audit.jsonl")
    assert (line["name"], line["target"], line["detail"]) == ("epx_...", "name=epx_...&x", "epx_...")
    Guesses().wrong("10.0.0.1:1", token)
    assert vars(caplog.records[-1])["grant"] == "epx_..."


def test_a_flood_of_refusals_is_counted_and_an_act_in_it_is_written(tmp_path: Path) -> None:
    now = Hands()
    log = AuditLog(tmp_path / "audit.jsonl", now=now)
    for _ in range(REFUSALS + 500):
        log.record("AUTH", name="x", address="6.6.6.6:1", outcome="refused")
        log.close()  # Lets the thread write, so that the queue of lines is not what limits here.
    log.record("members add", name="root", address="10.0.0.1:1")
    now.at = REFUSALS_S
    log.record("AUTH", name="x", address="6.6.6.6:1", outcome="refused")
    log.close()
    lines = lines_of(tmp_path / "audit.jsonl")
    assert [line["act"] for line in lines] == ["AUTH"] * REFUSALS + ["members add", "AUTH"]
    assert lines[REFUSALS]["suppressed"] == 500
    assert "suppressed" not in lines[-1]
    assert log.counts == {"refused": REFUSALS + 501, "done": 1}


def test_the_file_is_rotated_and_two_of_them_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, max_bytes=1_000)
    for number in range(100):
        log.record("act", name=f"n{number}", address="")
        log.close()
        assert path.stat().st_size <= 1_000
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.jsonl", "audit.jsonl.1"]
    kept = [line["name"] for each in (before(path), path) for line in lines_of(each)]
    assert kept == [f"n{number}" for number in range(100 - len(kept), 100)]
    assert len(kept) > 10


def test_a_disk_that_fails_is_told_once_and_the_lines_that_are_missing_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "gone"
    log = AuditLog(folder / "audit.jsonl")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            log.record("act", name="root", address="")
            log.close()
    assert [record.message for record in caplog.records] == ["the audit log cannot be written"]
    assert log.lost == 3
    folder.mkdir()
    log.record("act", name="root", address="")
    log.close()
    (line,) = lines_of(folder / "audit.jsonl")
    assert line["lost"] == 3


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log.record("first", name="root", address="")
    log.close()
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    log.record("second", name="root", address="")
    log.close()
    monkeypatch.undo()
    log.record("third", name="root", address="")
    log.close()
    assert [(line["act"], line.get("lost")) for line in lines_of(path)] == [("first", None), ("third", 1)]


def test_a_disk_that_hangs_holds_neither_the_caller_nor_more_than_so_many_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real = os.fsync

    def hanging(descriptor: int) -> None:
        begun.set()
        go_on.wait()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", hanging)
    log = AuditLog(tmp_path / "audit.jsonl")
    log.record("first", name="root", address="")
    begun.wait()
    for number in range(MAX_WAITING + 5):
        log.record(f"act {number}", name="root", address="")
    assert log.lost == 5
    go_on.set()
    log.close()
    assert len(lines_of(tmp_path / "audit.jsonl")) == MAX_WAITING + 1
    assert all(thread.name != "epoxy-audit" for thread in threading.enumerate())


def test_without_a_file_acts_are_counted() -> None:
    log = AuditLog()
    log.record("act", name="root", address="")
    log.close()
    assert log.counts == {"done": 1}


def test_the_file_is_in_the_data_directory_or_where_the_settings_say(tmp_path: Path) -> None:
    node = msgspec.structs.replace(settings_of(1).node, data_dir=tmp_path)
    settings = msgspec.structs.replace(settings_of(1), node=node)
    assert audit_of(settings).path == tmp_path / AUDIT_FILE
    elsewhere = AccessSettings(audit_file=tmp_path / "elsewhere")
    assert audit_of(msgspec.structs.replace(settings, access=elsewhere)).path == tmp_path / "elsewhere"


def test_a_budget_is_full_again_after_its_time() -> None:
    now = Hands()
    budget = LineBudget(2, 10, now)
    assert [budget.take() for _ in range(4)] == [True, True, False, False]
    now.at = 9.9
    assert not budget.take()
    now.at = 10
    assert budget.take()
    assert budget.beyond() == 3
    assert budget.beyond() == 0
