import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from epoxy.cli.main import run

SMALL = ["bench", "placement", "--envoys", "20", "--placements", "200"]


def test_the_report_has_tables_promises_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "pools.svg"
    status = run([*SMALL, "--svg", str(picture)])
    out = capsys.readouterr().out
    assert "Max over mean, by virtual nodes" in out
    assert "Bounded load" in out
    assert (status == 0) == ("BROKEN" not in out)
    root = ElementTree.parse(picture).getroot()
    assert len(root.findall("{*}circle")) == 16


def test_the_report_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status = run([*SMALL, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [len(table["rows"]) for table in told["tables"]] == [6, 4, 4, 6, 4]
    assert (status == 0) == all(check["kept"] for check in told["checks"])


def test_the_pace_of_a_real_store(capsys: pytest.CaptureFixture[str]) -> None:
    run(["bench", "placement", "--pace", "30", "--placements", "300", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [(pace["envoys"], pace["stale"]) for pace in told["paces"]] == [(30, False), (30, True)]
    assert all(pace["found"] == 1.0 for pace in told["paces"])
    assert told["paces"][1]["most_scanned"] <= 18
