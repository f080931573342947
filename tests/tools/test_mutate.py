"""The random changes of `make mutate`: which there are, that each is one, and that one which nobody notices is told."""

import ast
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tools.mutate import __main__ as command
from tools.mutate.changes import Change, changes
from tools.mutate.judge import Found, Step, Tree, diff, limits
from tools.mutate.rooms import ROOMS, Room, own_tests, sources

ROOT = Path(__file__).resolve().parents[2]


def made(source: str) -> dict[str, list[str]]:
    """By kind, what becomes of the source."""
    found: dict[str, list[str]] = {}
    for change in changes("x.py", source):
        found.setdefault(change.kind, []).append(change.made(source))
    return found


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        ("if a:\n    b\n", "negate", ["if not (a):\n    b\n"]),
        ("x = 1 if a else 2\n", "negate", ["x = 1 if not (a) else 2\n"]),
        ("a < b\n", "compare", ["a <= b\n"]),
        ("a not in b\n", "compare", ["a in b\n"]),
        ("x = a and b and c\n", "both", ["x = a or b and c\n", "x = a and b or c\n"]),
        ("x = 41\n", "number", ["x = (41 + 1)\n"]),
        ("x = True\n", "switch", ["x = False\n"]),
        ("x = a - b\n", "sum", ["x = a + b\n"]),
        ("a.b = c\n", "drop", ["pass\n"]),
        ("a += 1\n", "drop", ["pass\n"]),
        ("f(x)\n", "drop", ["pass\n"]),
        ("def f():\n    return a\n", "result", ["def f():\n    return None\n"]),
        ("def f():\n    return a == b\n", "result", ["def f():\n    return not (a == b)\n"]),
        ("'ä'; x = a < b\n", "compare", ["'ä'; x = a <= b\n"]),
    ],
)
def test_kinds(source: str, kind: str, expected: list[str]) -> None:
    assert made(source)[kind] == expected


@pytest.mark.parametrize(
    "source",
    [
        'raise Bad(f"{a + 1} of {b}")\n',
        "assert a < b\n",
        "_log.warning('x', 1)\n",
        "def f(a: Literal[1] = 2) -> Annotated[int, 3]: ...\n",
        '"""Words."""\n',
        "class A(Struct, frozen=True): ...\n",
        "MAX_BYTES = 16 << 20\n",
        "if TYPE_CHECKING:\n    import a\n",
        "def f():\n    return None\n",
    ],
)
def test_words_and_types_are_left_alone(source: str) -> None:
    assert made(source) == {}


def test_every_change_of_our_own_sources_is_one_and_can_be_read() -> None:
    for path in sources(ROOT, "protocol/keys"):
        text = (ROOT / path).read_text("utf-8")
        right = ast.dump(ast.parse(text))
        for change in changes(str(path), text):
            assert ast.dump(ast.parse(change.made(text))) != right


def test_a_seed_draws_the_same_again_and_never_the_same_twice() -> None:
    first, again, other = (command.drawn(ROOT, "protocol/keys", 40, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) == 40
    assert len({change.kind for change in first}) > 4


def test_all_rooms_have_sources_and_tests() -> None:
    for room in ROOMS.values():
        assert sources(ROOT, room.name), room.name
        for path in (*room.tests, *room.more):
            assert (ROOT / path).exists(), path
    assert own_tests(ROOT, ROOMS["protocol/keys"], Path("src/epoxy/protocol/keys/acceptor.py")) == [
        "tests/protocol/keys/test_acceptor.py"
    ]


# A tree of three lines, and tests for one of its two functions.

SOURCE = "def checked(a: int) -> bool:\n    return a > 3\n\n\ndef unchecked(a: int) -> bool:\n    return a > 3\n"
TEST = "from epoxy.toy.it import checked\n\ndef test_it():\n    assert checked(4) and not checked(3)\n"
TOY = Room(name="toy", tests=("tests/toy",))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    origin = tmp_path / "origin"
    for path, text in {
        "src/epoxy/__init__.py": "",
        "src/epoxy/toy/__init__.py": "",
        "src/epoxy/toy/it.py": SOURCE,
        "tests/toy/test_it.py": TEST,
        "pytest.ini": "[pytest]\n",
    }.items():
        (origin / path).parent.mkdir(parents=True, exist_ok=True)
        (origin / path).write_text(text)
    return Tree(origin, tmp_path / "copy")


def test_what_is_tested_is_noticed_and_what_is_not_survives(tree: Tree) -> None:
    times = tree.times(TOY, 120.0)
    compared = [change for change in changes("src/epoxy/toy/it.py", SOURCE) if change.kind == "compare"]
    found = [tree.judge(TOY, change, limits(times, 10.0)) for change in compared]
    assert [each.by for each in found] == ["its own tests", None]
    assert {(each.was, each.became) for each in found} == {("return a > 3", "return a >= 3")}
    assert (tree.root / "src/epoxy/toy/it.py").read_text() == SOURCE, "the copy is whole again"


def test_tests_that_fail_unchanged_can_notice_nothing(tree: Tree) -> None:
    (tree.root / "tests/toy/test_it.py").write_text("def test_it():\n    assert False\n")
    with pytest.raises(RuntimeError, match="toy: the room's tests does not pass unchanged"):
        tree.times(TOY, 120.0)


def test_what_hangs_is_ended(tree: Tree) -> None:
    forever = Step(name="x", command=(sys.executable, "-c", "import threading; threading.Event().wait()"))
    assert tree.passes(forever, 0.2) is None


def test_survivors_are_shown_and_make_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    (change, *_) = command.drawn(ROOT, "protocol/keys", 1, 3)
    shown = diff(change.path, "a\n", "b\n")
    lost = Found(room="protocol/keys", change=change, by=None, seconds=1.0, was="a", became="b", diff=shown)
    seen = replace(lost, by="sim per-key")
    assert command.report([lost, seen], as_json=False) == 1
    told = capsys.readouterr().out
    assert f"--- {change.path}" in told
    assert "| protocol/keys | 2 | 1 | 0 | 1 |" in told
    assert command.report([seen], as_json=True) == 0


def test_what_may_survive_is_still_there() -> None:
    """A verdict on a line that is gone says nothing any more."""
    for path, was, _ in command.known():
        assert was in [line.strip() for line in (ROOT / path).read_text("utf-8").splitlines()], (path, was)


def test_an_unknown_room_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        command.main(["cellar"])
    assert refused.value.code == 2
    assert "there is no room 'cellar'" in capsys.readouterr().err


def test_a_change_is_made_where_it_was_found() -> None:
    change = Change(path="x.py", kind="number", line=1, start=4, end=5, before="1", after="(1 + 1)")
    with pytest.raises(AssertionError, match="not the one"):
        change.made("y = 2")
