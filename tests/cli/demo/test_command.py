"""`epoxy demo` on the command line: help, mistakes and interrupts."""

from pathlib import Path

import pytest

from epoxy.cli.demo import control
from epoxy.cli.demo.control import DemoOrder, DemoReply
from epoxy.cli.main import run


def test_an_order_that_is_interrupted_is_carried_out_all_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Path, __: DemoOrder) -> DemoReply:
        raise KeyboardInterrupt

    monkeypatch.setattr(control, "find", lambda **_: Path("1234.sock"))
    monkeypatch.setattr(control, "ask", interrupt)
    assert run(["demo", "add", "us-west-2"]) == 130
    assert "interrupted; the demo still carries out the order" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--regions", "4"], "'4' is not one of '3', '5', '7', '9'"),
        (["--nodes", "5"], "5 is not in the range 1<=x<=4"),
        (["--nodes", "2"], "--nodes 2 needs --store postgres: a node with the embedded store has its disk for itself"),
        (["--store", "sqlite"], "'sqlite' is not one of 'embedded', 'postgres'"),
        (["--port-base", "80"], "80 is not in the range 1024<=x<="),
        (["kil", "eu-west-1"], "unknown command 'kil'. Did you mean kill?"),
        (["kill"], "Missing argument 'REGION'"),
        (["slow", "a", "b"], "Missing argument 'MS'"),
        (["slow", "a", "b", "0"], "0.0 is not in the range 0<x<=2000"),
        (["slow", "a", "b", "nan"], "nan is not in the range 0<x<=2000"),
        (["race", "a"], "Missing argument 'OTHER'"),
        (["ps"], "no demo is running; `epoxy demo` starts one"),
        (["ps", "--port-base", "9"], "no demo is running at --port-base 9"),
    ],
)
def test_mistakes_are_one_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert told in err


@pytest.mark.parametrize(
    "words", [[], *([verb] for verb in ("ps", "kill", "revive", "pause", "resume", "cut", "heal", "slow", "race"))]
)
def test_help_with_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", *words, "-h"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(" ".join(["Usage: epoxy demo", *words]))
    assert "epoxy demo" in told.split("Example")[1]


@pytest.mark.parametrize("verb", ["kill", "revive", "pause", "resume"])
def test_an_order_for_one_node(verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[DemoOrder] = []

    def take(_: Path, order: DemoOrder) -> DemoReply:
        sent.append(order)
        return DemoReply(done=True, lines=["done"], demo={})

    monkeypatch.setattr(control, "find", lambda **_: Path("1234.sock"))
    monkeypatch.setattr(control, "ask", take)
    assert run(["demo", verb, "eu-west-1", "gateway"]) == 0
    assert run(["demo", verb, "eu-west-1"]) == 0
    assert [(order.verb, order.region, order.node) for order in sent] == [
        (verb, "eu-west-1", "gateway"),
        (verb, "eu-west-1", ""),
    ]
    assert capsys.readouterr().out == "done\ndone\n"
