"""`epoxy worker run`: which worker is run, with which settings, and what is said about one that is not there."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from epoxy.cli import workers
from epoxy.envoy import Worker
from tests.cli.commands import Captured, command

APP = """
from epoxy.envoy import Worker
worker = Worker("http://127.0.0.1:9", pool="chat", key="mine")
other = 5
class box:
    second = Worker("http://127.0.0.1:9")
def make():
    return worker
def none():
    return None
def crash():
    raise ValueError("no such thing")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, source in {
        "app_of_test.py": APP,
        "lacks_of_test.py": "import not_there_of_test",
        "syntax_of_test.py": "def x(:",
        "empty_of_test.py": "",
    }.items():
        (tmp_path / name).write_text(source)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in [name for name in sys.modules if name.endswith("_of_test")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("app", "status", "told"),
    [
        ("nowhere", 2, "there is no module 'nowhere' in {folder}; --app-dir names its folder"),
        ("app_of_test:nothing", 2, "app_of_test has no 'nothing'. It has: app_of_test:worker"),
        ("empty_of_test", 2, "empty_of_test has no 'worker'. It has no Worker"),
        ("app_of_test:other", 2, "app_of_test:other is no Worker, and makes none: it is int"),
        ("app_of_test:none", 2, "app_of_test:none is no Worker, and makes none: it is NoneType"),
        ("app_of_test:crash", 1, "app_of_test:crash fails: ValueError: no such thing"),
        ("lacks_of_test", 1, "lacks_of_test fails: ModuleNotFoundError: No module named 'not_there_of_test'"),
        ("syntax_of_test", 1, "syntax_of_test fails: SyntaxError: invalid syntax (syntax_of_test.py, line 1)"),
        (":worker", 2, "':worker' names no module; an example: rooms:worker"),
        (".app_of_test", 2, "'.app_of_test' names no module; an example: rooms:worker"),
        ("sub/app.py", 2, "'sub/app.py' is a file; a module is named as in an import: sub.app:worker"),
    ],
)
def test_what_is_not_there_is_told_on_one_line(
    app: str, status: int, told: str, folder: Path, capsysbinary: Captured
) -> None:
    given, out, err = command(["worker", "run", app, "--app-dir", str(folder)], capsysbinary)
    assert (given, out, err.splitlines()[-1]) == (status, "", f"epoxy: {told.format(folder=folder)}")
    ours = [line for line in err.splitlines() if "epoxy/cli" in line or "importlib" in line]
    assert ours == [], "a traceback begins in the application"


@pytest.mark.parametrize("option", ["--code-version", "--slots", "--weight"])
def test_numbers_that_no_node_takes_are_wrong_usage(option: str, folder: Path, capsysbinary: Captured) -> None:
    status, _, err = command(["worker", "run", "app_of_test", "--app-dir", str(folder), option, "9" * 20], capsysbinary)
    assert (status, err.count("\n")) == (2, 1)
    assert f"Invalid value for '{option}'" in err


def test_a_worker_or_what_makes_one_is_found(folder: Path) -> None:
    found = [workers.load(f"app_of_test{name}", folder) for name in ("", ":worker", ":make", ":box.second")]
    assert [each.key for each in found[:3]] == ["mine"] * 3
    assert found[3].key.startswith("worker-")


def run_with(folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Captured, *words: str) -> Worker:
    served: list[Worker] = []

    async def serve(worker: Worker, _supervisor: int | None) -> None:
        served.append(worker)

    monkeypatch.setattr(workers, "serve", serve)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("EPOXY_URL", raising=False)
    arguments = ["worker", "run", "app_of_test", "--app-dir", str(folder), *words]
    status, _, err = command(arguments, capsysbinary)
    assert (status, err) == (0, "")
    return served[0]


def test_options_take_the_place_of_what_the_code_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Captured
) -> None:
    plain = run_with(folder, monkeypatch, capsysbinary)
    assert (plain.key, plain._protocol.hello.pool) == ("mine", "chat")
    token = folder / "token"
    token.write_text("epx_secret\n")
    given = ["--url", "https://node:1", "--pool", "p", "--namespace", "n", "--slots", "3", "--weight", "2"]
    given += ["--code-version", "7", "--worker-key", "k", "--token-file", str(token)]
    worker = run_with(folder, monkeypatch, capsysbinary, *given)
    hello = worker._protocol.hello
    assert (hello.pool, hello.namespace, hello.slots, hello.weight, hello.version) == ("p", "n", 3, 2, 7)
    assert (worker._address, worker.key) == ("wss://node:1/v2/envoys/connect", "k")
    assert worker._token.value() == "Bearer epx_secret"


def test_one_that_is_started_anew_has_a_key_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: Captured
) -> None:
    """The one before it runs until its actors have moved."""
    assert run_with(folder, monkeypatch, capsysbinary, "--supervised", "9").key.startswith("mine-")


def test_a_wrong_address_is_wrong_usage(folder: Path, capsysbinary: Captured) -> None:
    words = ["worker", "run", "app_of_test", "--app-dir", str(folder), "--url", "ftp://x"]
    status, _, err = command(words, capsysbinary)
    assert (status, err[:38]) == (2, "epoxy: 'ftp://x' is no address of a no")
