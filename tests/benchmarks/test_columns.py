"""Figures before a change and after it, side by side."""

from pathlib import Path

import pytest

from benchmarks import columns
from benchmarks.columns import Part, Table
from benchmarks.contention import run as contention
from benchmarks.findings import Verdict
from benchmarks.machine import Conditions
from benchmarks.suite.__main__ import HOT_MARK, HOT_RESULT

CALM = Conditions(seconds=7, busy_share=0.2, others_share=0.1, stolen_share=0.0, fsync_ms=(0.1, 0.2))


def part(found: str, *, held: bool, claim: str = "claim", commit: str = "abc") -> Part:
    verdict = Verdict(claim=claim, wanted="at most 5", found=found, held=held)
    shown = Table(title=f"Table of {commit}", head=["a"], rows=[["1"]])
    return Part(when="today", commit=commit, conditions=CALM, verdicts=[verdict], tables=[shown])


def test_one_run_has_one_column() -> None:
    shown = columns.text({"races": part("3", held=True)})
    assert "| what | must | found | held |" in shown
    assert "| claim | at most 5 | 3 | yes |" in shown
    assert "| races | today, abc | 7 s |" in shown


def test_before_and_after_stand_side_by_side_and_after_is_judged(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    columns.save(file, {"races": part("9", held=False), "loops": part("8", held=False, claim="gone")}, before=True)
    columns.save(file, {"races": part("3", held=True, commit="def")}, before=False)
    shown = "\n".join(columns.sections(columns.load(file), ["loops", "races", "unknown"]))
    assert "| what | must | before | after | held |" in shown
    assert "| claim | at most 5 | 9 | 3 | yes |" in shown
    assert "| gone | at most 5 | 8 |  | **no** |" in shown
    assert "Table of def" in shown
    assert shown.index("gone") < shown.index("claim"), "in the order that was asked for"


def test_one_part_can_be_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    columns.save(file, {"races": part("3", held=True), "loops": part("4", held=True)}, before=False)
    columns.save(file, {"races": part("2", held=True)}, before=False)
    after = columns.load(file).after
    assert [after[name].verdicts[0].found for name in ("races", "loops")] == ["2", "4"]


def test_the_page_is_renewed_between_its_marks(tmp_path: Path) -> None:
    file, page = tmp_path / "figures.json", tmp_path / "page.md"
    columns.save(file, {"races": part("3", held=True)}, before=False)
    page.write_text("before\n<!-- x -->\nold\n<!-- /x -->\nafter\n")
    columns.renew(file, "x", page=page)
    text = page.read_text()
    assert text.startswith("before\n<!-- x -->\n")
    assert text.endswith("<!-- /x -->\nafter\n")
    assert "old" not in text
    with pytest.raises(ValueError, match="no place"):
        columns.renew(file, "y", page=page)


@pytest.mark.parametrize(("mark", "result"), [(contention.MARK, contention.RESULT), (HOT_MARK, HOT_RESULT)])
def test_the_manual_has_a_place_for_both(mark: str, result: Path) -> None:
    page = columns.PAGE.read_text("utf-8")
    assert page.count(f"<!-- {mark} -->\n") == page.count(f"<!-- /{mark} -->\n") == 1
    assert columns.load(result).before, "what was measured before the change stays"
