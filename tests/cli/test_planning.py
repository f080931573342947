"""`epoxy plan`, as a stranger uses it: choices, files of round trips, and mistakes."""

import re
from pathlib import Path

import pytest

from epoxy.cli import planning
from epoxy.cli.demo.plan import REGIONS
from epoxy.transport.wan import aws
from tests.cli.commands import Captured, command, in_json

ROOT = Path(__file__).parents[2]
OURS = "from,to,rtt_ms\noslo,lima,190.5\noslo,perth,310\nlima,perth,280\n"


@pytest.fixture
def ours(tmp_path: Path) -> str:
    file = tmp_path / "ours.csv"
    file.write_text(OURS)
    return str(file)


def rows(out: str) -> dict[str, list[str]]:
    """Of the first table: the cells of a line by its first word."""
    head, *lines = out.partition("\nregion ")[2].partition("\n\n")[0].splitlines()
    assert "commit floor" in head
    cells = [re.split(r" {2,}", line.strip()) for line in lines]
    return {row[0]: row[1:] for row in cells}


def test_three_regions(capsysbinary: Captured) -> None:
    status, out, _ = command(["plan", *REGIONS[3]], capsysbinary)
    assert status == 0
    assert out.startswith("3 regions: 1 may fail, and writes go on.\nA fresh key commits with 2 of 3")
    assert rows(out)["us-east-1"] == ["70.5 ms", "141.0 ms", "70.5 ms", "70.5 ms"]
    assert rows(out)["ap-northeast-1"] == ["152.4 ms", "304.8 ms", "152.4 ms", "222.9 ms"]
    assert rows(out)["mean"] == ["97.8 ms", "144.8 ms"]
    assert re.search(r"eu-west-1 +204\.4 ms \(us-east-1\) +unavailable", out)
    assert re.search(r"us-west-1 us-west-2 +88\.4 ms +127\.3 ms +2", out)
    assert "  us-east-1       ############# 70.5\n                  ............. leader 70.5\n" in out


def test_the_floors_are_those_that_the_pages_print() -> None:
    """README shows what `epoxy demo` prints of three regions, the page of benchmarks five."""
    readme = re.findall(r"^ +(\S+) +http://\S+ +\S+ +(\d+) ms", (ROOT / "README.md").read_text("utf-8"), re.M)
    three = [(name, str(round(aws.floor_ms(name, REGIONS[3])))) for name in REGIONS[3]]
    assert readme == three
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8").partition("| region | floor, ms | p50 |")[2]
    five = [(name, f"{aws.floor_ms(name, REGIONS[5]):.1f}") for name in REGIONS[5]]
    assert re.findall(r"^\| (\S+-\d) \| ([\d.]+) \|", page, re.M)[:5] == five


def test_without_a_word_three_choices_of_the_demo(capsysbinary: Captured) -> None:
    status, out, _ = command(["plan"], capsysbinary)
    assert status == 0
    assert re.findall(r"^(\d) regions:", out, re.M) == ["3", "5", "7"]
    assert "epoxy plan -h" in out
    _, found = in_json(["plan"], capsysbinary)
    assert [[row["region"] for row in each["regions"]] for each in found["plans"]] == [
        list(REGIONS[size]) for size in (3, 5, 7)
    ]


def test_a_number_alone_looks_for_the_best(capsysbinary: Captured) -> None:
    status, out, _ = command(["plan", "--add", "3"], capsysbinary)
    assert status == 0
    assert "Choices that were compared" in out
    _, found = in_json(["plan", "--add", "3"], capsysbinary)
    assert [row["region"] for row in found["regions"]] == found["additions"][0]["regions"]


def test_failures(capsysbinary: Captured) -> None:
    _, out, _ = command(["plan", *REGIONS[3], "--down", "us-east-1"], capsysbinary)
    assert out.startswith("3 regions, us-east-1 down: none more may fail.")
    assert rows(out)["us-east-1"] == ["down"]
    assert rows(out)["eu-west-1"][0] == "204.4 ms"
    down = ["--down", "us-east-1", "--down", "eu-west-1"]
    status, out, _ = command(["plan", *REGIONS[3], *down], capsysbinary)
    assert status == 0
    assert "unavailable. 2 must be up" in out
    assert rows(out)["ap-northeast-1"] == ["unavailable"]
    seven = [word for name in REGIONS[7][:3] for word in ("--down", name)]
    _, out, _ = command(["plan", ",".join(REGIONS[7]), *seven], capsysbinary)
    assert "each write takes two" in out
    assert rows(out)["eu-central-1"][0].endswith("(slow path)")


def test_policies_differ(capsysbinary: Captured) -> None:
    _, found = in_json(["plan", *REGIONS[5], "--policy", "fast-paxos"], capsysbinary)
    assert (found["fast_quorum"], found["regions"][0]["floor_ms"]) == (4, 113.0)


def test_own_round_trips(ours: str, capsysbinary: Captured) -> None:
    status, out, _ = command(["plan", "--rtt", ours], capsysbinary)
    assert status == 0
    assert rows(out)["perth"] == ["280.0 ms", "560.0 ms", "280.0 ms", "470.5 ms"]
    _, found = in_json(["plan", "--rtt", ours, "oslo"], capsysbinary)
    assert (found["replicas"], found["additions"][0]["regions"]) == (1, ["lima", "perth"])
    status, out, _ = command(["plan", "--rtt", ours, "oslo"], capsysbinary)
    assert (status, "leader 0.0" in out, "one more" in out) == (0, False, False)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["us-est-1"], "epoxy: unknown region 'us-est-1'. Did you mean us-west-1 or us-east-1? There are: us-west-1,"),
        (["us-east-1", "us-east-1"], "region us-east-1 is given twice"),
        (["us-east-1", "--down", "eu-west-1"], "region 'eu-west-1' cannot be down"),
        (["us-east-1", "--add", "9"], "9 regions cannot be added: the table has 8 that are not chosen"),
        (["--add", "0"], "no regions are chosen"),
        (["--down", "us-east-1"], "no regions are chosen"),
        (["--add", "16"], "Invalid value for '--add'"),
        (["--policy", "x"], "'x' is not one of 'optimal', 'fast-paxos'"),
        (["--rtt", "nowhere.csv"], "nowhere.csv: no such file or directory"),
        (["--rtt", "."], ".: is a directory"),
    ],
)
def test_mistakes(words: list[str], told: str, capsysbinary: Captured) -> None:
    status, out, err = command(["plan", *words], capsysbinary)
    assert (status, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (",oslo,lima\noslo,0,-3\n", "line 2: 'oslo' to 'lima': -3 is negative"),
        (",oslo,lima\noslo,0,\n", "the round trip between oslo and lima is missing"),
        ('{"oslo": {"lima": "far"}}', "'oslo' to 'lima': 'far' is not a number"),
    ],
)
def test_a_file_with_a_mistake_is_named(text: str, told: str, tmp_path: Path, capsysbinary: Captured) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    assert command(["plan", "--rtt", str(file)], capsysbinary) == (2, "", f"epoxy: {file}: {told}\n")


def test_the_examples_of_the_help_are_files_that_are_read(tmp_path: Path, capsysbinary: Captured) -> None:
    """The forms of the help text, cut out of it."""
    _, out, _ = command(["plan", "-h"], capsysbinary)
    form = out.partition("one direction is enough:\n")[2].partition("\n\n")[0].splitlines()
    left = [line.removeprefix("    CSV    ").strip().partition("  ")[0] for line in form[:4]]
    right = [line.rpartition("  ")[2].removeprefix("or   ").strip() for line in form[:3]]
    texts = ["\n".join(left), "\n".join(right), *(line.replace("JSON", "").strip() for line in form[4:])]
    assert len(texts) == 4
    for text in texts:
        file = tmp_path / "form"
        file.write_text(text)
        status, found, err = command(["plan", "--rtt", str(file), "oslo", "lima"], capsysbinary)
        assert (status, err) == (0, ""), text
        assert rows(found)["oslo"][0] == "190.5 ms"


def test_the_examples_of_the_page_work(capsysbinary: Captured) -> None:
    page = (ROOT / "docs" / "console.md").read_text("utf-8")
    examples = re.findall(r"^    epoxy (plan [^#\n]+)", page, re.M)
    assert len(examples) == 4
    for example in examples:
        status, out, err = command(example.split(), capsysbinary)
        assert (status, err) == (0, ""), example
        assert "us-" in out


def test_bars_are_finer_where_a_terminal_draws_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planning.bar(50.0, 100.0, planning.FULL) == "█" * 20
    assert planning.bar(51.0, 100.0, planning.FULL) == "█" * 20 + "▍"
    assert planning.bar(50.0, 100.0, planning.PLAIN) == "#" * 20
    assert planning.bar(0.0, 0.0, planning.PLAIN) == ""
    assert not planning.draws_blocks()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert planning.draws_blocks()
