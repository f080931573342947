"""Progress where there is no terminal: a plain line on stderr now and then."""

import time

import pytest

from epoxy.cli.progress import PLAIN_SECONDS, ProgressBar


@pytest.mark.parametrize(("total", "line"), [(10, "sim: 4 of 10, slow\n"), (None, "sim: slow\n")])
def test_a_plain_line_only_after_a_while(
    total: int | None, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with ProgressBar("sim", total) as bar:
        bar.tell(3, "fast")
        now[0] += PLAIN_SECONDS
        bar.tell(4, "slow")
        bar.tell(5, "at once")
    assert capsys.readouterr() == ("", line)
