"""What is counted of redis-py's suite: by the commands a test sends, and by what a Valkey makes of it."""

import pytest

from tools.redis_py_suite import reasons
from tools.redis_py_suite.report import Note, Report
from tools.redis_py_suite.scope import concerns
from tools.redis_py_suite.shim import name_of


def note(test: str, outcome: str, *sent: str, message: str = "") -> Note:
    return Note(test=f"tests/test_commands.py::{test}", outcome=outcome, sent=list(sent), message=message)


def report(*pairs: tuple[Note, Note | None]) -> Report:
    return Report(version="8", judged=[judged for judged, _ in pairs], seen=[seen for _, seen in pairs if seen])


@pytest.mark.parametrize(
    ("sent", "ours"),
    [
        (["HELLO", "SET", "GET"], True),
        (["CLIENT:SETINFO", "EVALSHA", "SCRIPT:LOAD"], True),
        (["SET", "LPUSH"], False),
        (["CLIENT:KILL"], False),
        (["HELLO", "CLIENT:SETINFO"], False),
        ([], False),
    ],
)
def test_a_test_is_told_by_what_it_sends(sent: list[str], ours: bool) -> None:
    assert concerns(sent) is ours


def test_commands_with_subcommands_have_both_words() -> None:
    sent = (("get", "k"), ("CLIENT LIST",), ("SCRIPT", "LOAD", "x"), (b"PING",))
    assert [name_of(each) for each in sent] == ["GET", "CLIENT:LIST", "SCRIPT:LOAD", "PING"]


def test_verdicts() -> None:
    counted = report(
        (note("good", "passed", "SET"), note("good", "passed", "SET")),
        (note("bad", "passed", "SET"), note("bad", "failed", "SET", message="unknown")),
        (note("broken", "failed", "SET"), note("broken", "failed", "SET")),
        (note("list", "passed", "LPUSH"), None),
        (note("mock", "passed"), note("mock", "passed")),
        (note("newer", "skipped"), note("newer", "skipped")),
        (note("list later", "failed", "SET"), note("list later", "failed", "SET", "LPUSH")),
    )
    told = {test.rpartition("::")[2]: verdict for test, verdict in counted.verdicts.items()}
    assert told == {
        "good": "passed",
        "bad": "failed",
        "broken": "fails at a Valkey too",
        "list": "not concerned",
        "mock": "not concerned",
        "newer": "skipped",
        "list later": "not concerned",
    }
    assert counted.share == 0.5


def test_a_failure_without_a_reason_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = [(note(f"good{i}", "passed", "GET"), note(f"good{i}", "passed", "GET")) for i in range(9)]
    failed = note("test_rename[pool]", "failed", "RENAME", message="unknown command 'RENAME'")
    counted = report(*passed, (note("test_rename[pool]", "passed", "RENAME"), failed))
    monkeypatch.setattr(reasons, "REASONS", ())
    assert not counted.good()
    assert "UNEXPLAINED: unknown command 'RENAME'" in counted.text()
    monkeypatch.setattr(reasons, "REASONS", ((r"'RENAME'", "two keys"),))
    again = report(*passed, (note("test_rename[pool]", "passed", "RENAME"), failed))
    assert again.good()
    assert "| two keys | `test_rename` |" in again.page()


def test_too_few_are_seen() -> None:
    few = report(
        (note("a", "passed", "GET"), note("a", "passed", "GET")),
        (note("b", "passed", "GET"), note("b", "failed", "GET")),
    )
    assert not few.good()
    assert "1 of 2 tests that concern strings pass (50.0%)" in few.summary()
