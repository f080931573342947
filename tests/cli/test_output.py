"""How commands print keys, values, counts and tables."""

import json

import pytest

from epoxy.cli.output import SHOWN, emit_json, emit_json_line, plural, table, text_of


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", '""'),
        (b"user/ada", "user/ada"),
        ("köln".encode(), "köln"),
        (b"two\nlines", r"two\nlines"),
        (b"\xff\x00", r"\xff\x00"),
        (b"x" * SHOWN, "x" * SHOWN),
        (b"x" * (SHOWN + 1), "x" * SHOWN + f"... ({SHOWN + 1} bytes)"),
    ],
)
def test_bytes_on_one_line(raw: bytes, text: str) -> None:
    assert text_of(raw) == text


@pytest.mark.parametrize(("count", "words"), [(0, "0 votes"), (1, "1 vote"), (1234, "1,234 votes")])
def test_plurals(count: int, words: str) -> None:
    assert plural(count, "vote") == words


def test_a_table_is_not_wrapped_in_a_pipe_and_shows_markup_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    table(("key", "value"), [("[bold]a", "x" * 120)])
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["key", "value"]
    assert row.split() == ["[bold]a", "x" * 120]


def test_a_document_and_a_line_of_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"a": [1]})
    emit_json_line({"a": [1]})
    *document, line = capsys.readouterr().out.splitlines()
    assert len(document) > 1
    assert json.loads("".join(document)) == json.loads(line) == {"a": [1]}
