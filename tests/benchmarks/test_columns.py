"""Figures before a change and after it, side by side."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from benchmarks import columns
from benchmarks.columns import Bars, Part, Table
from benchmarks.contention import run as contention
from benchmarks.findings import Verdict
from benchmarks.machine import Conditions
from benchmarks.suite.__main__ import HOT_MARK, HOT_RESULT

SVG = "{http://www.w3.org/2000/svg}"
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


def test_a_parts_pictures_stand_beside_the_page(tmp_path: Path) -> None:
    file, page = tmp_path / "figures.json", tmp_path / "page.md"
    bars = Bars(file="b.svg", title="Races", label="a second", groups={"of two": {"ours": 30.0, "theirs": 20.0}})
    columns.save(file, {"races": replace(part("3", held=True), bars=[bars])}, before=False)
    page.write_text("<!-- x -->\n<!-- /x -->\n")
    columns.renew(file, "x", page=page)
    assert "![Races](img/b.svg)" in page.read_text()
    drawn = ElementTree.fromstring((tmp_path / "img" / "b.svg").read_text())
    widths = [float(bar.attrib["width"]) for bar in drawn.iter(f"{SVG}rect")]
    assert widths[1] / widths[0] == pytest.approx(20 / 30, rel=0.01)
    words = [each.text for each in drawn.iter(f"{SVG}text")]
    assert words == ["Races", "a second", "of two", "ours", "30", "theirs", "20"]


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
