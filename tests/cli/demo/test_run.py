"""Opening the console's page; tests/end_to_end/test_demo.py runs whole demos."""

import webbrowser
from contextlib import ExitStack
from pathlib import Path

import pytest

from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.run import Demo, DemoOptions, open_page


class Window(webbrowser.BaseBrowser):
    def __init__(self) -> None:
        super().__init__("window")
        self.opened: list[str] = []

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:  # noqa: ARG002
        self.opened.append(url)
        return True


def test_a_page_is_opened_where_there_is_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window()
    monkeypatch.setattr(webbrowser, "get", lambda: window)
    assert open_page("http://h:1/ui")
    assert window.opened == ["http://h:1/ui"]
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser("w3m"))
    assert not open_page("http://h:1/ui"), "it would take the terminal from the demo"

    def none() -> webbrowser.BaseBrowser:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)
    assert not open_page("http://h:1/ui")


@pytest.mark.parametrize(("as_json", "there_is_one"), [(False, True), (False, False), (True, False)])
def test_a_demo_opens_its_console_or_says_where_it_is(
    cluster: DemoCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    as_json: bool,
    there_is_one: bool,
) -> None:
    opened: list[str] = []

    def browser(url: str) -> bool:
        opened.append(url)
        return there_is_one

    options = DemoOptions(
        regions=3,
        port_base=None,
        wan=True,
        auth=False,
        folder=Path("d"),
        command=None,
        as_json=as_json,
        open_console=True,
    )
    monkeypatch.setattr(cluster, "start", lambda *_: None)
    with ExitStack() as stack:
        Demo(cluster, options, browser).start(stack)
    told = capsys.readouterr()
    assert opened == [cluster.plan.console]
    assert (f"No browser was found here; open {cluster.plan.console} in one.\n" in told.err) is not there_is_one
    assert cluster.plan.console in told.out
    assert told.out.startswith("{" if as_json else f"Console: {cluster.plan.console}\n")
