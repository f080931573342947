"""docs/actors.md: its actors are one file that two workers run, its commands are run, and each example is asked."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.sync.client import connect

from epoxy import Client, EpoxyError, Which
from epoxy.cli.demo.cluster import DemoCluster
from tests.end_to_end.pages import ROOT, Shell, blocks, commands
from tests.end_to_end.recorder import PATIENCE_S
from tests.end_to_end.world import until

PAGE = ROOT / "docs" / "actors.md"
BLOCKS = blocks(PAGE)
FIRST = "The first one, in two minutes"

OF_THE_FILE = (FIRST, "Turns", "State", "Alarms", "Requests", "WebSockets", "Calling others")
"""Headings whose Python is the file of the workers, but for what a client does."""


def python_blocks(heading: str) -> list[str]:
    words = ("from ", "import ", "@worker", "worker =")
    return [text for title, text in BLOCKS if title == heading and text.startswith(words)]


def shell_blocks(heading: str) -> list[str]:
    return [text for title, text in BLOCKS if title == heading and text.startswith(("curl ", "epoxy "))]


def test_every_block_of_the_page_is_used_here() -> None:
    used = [text for heading in OF_THE_FILE for text in python_blocks(heading)]
    used += [text for heading in (FIRST, "Asking again", "Operating") for text in shell_blocks(heading)]
    used += [text for title, text in BLOCKS if title in ("Testing",) or text.startswith(("cart = ", "const socket"))]
    assert [text for _, text in BLOCKS if text not in used] == []


@pytest.fixture(scope="module")
def places(trio: DemoCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the page's file, with a worker of it in the first two regions."""
    folder = tmp_path_factory.mktemp("page")
    text = "\n".join(block for heading in OF_THE_FILE for block in python_blocks(heading))
    (folder / "counter.py").write_text(text)
    (command,) = (each for block in shell_blocks(FIRST) for each in commands(block) if each.startswith("epoxy worker"))
    words = [sys.executable, "-m", *command.split()[:-1]]
    started = [subprocess.Popen([*words, node.url], cwd=folder) for node in trio.nodes[:2]]
    try:
        for node in trio.nodes[:2]:
            with node.client() as client:
                until(lambda: len(client.actors.envoys(pool="demo")) == 1, "a worker of the pool")
        yield folder
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def shell(places: Path, trio: DemoCluster) -> Shell:
    ports = {rf"\b{7800 + 10 * i}\b": node.url.rpartition(":")[2] for i, node in enumerate(trio.nodes)}
    return Shell(places, {**os.environ, "EPOXY_URL": trio.nodes[0].url}, ports)


@pytest.fixture
def client(trio: DemoCluster, places: Path) -> Iterator[Client]:
    assert places.exists()
    with trio.nodes[0].client() as client:
        yield client


def told(client: Client, name: str, key: str, **asked: Any) -> Any:
    answer = client.actors.fetch(Which(name=name, key=key), pool="demo", **asked)
    assert answer.status == 200, answer
    return msgspec.json.decode(answer.body)


def test_the_first_one(shell: Shell, trio: DemoCluster) -> None:
    asked = [each for block in shell_blocks(FIRST) for each in commands(block) if each.startswith("curl")]
    here = trio.nodes[0].datacenter
    counted = [msgspec.json.decode(shell.run(command)) for command in asked]
    assert counted == [{"counter": "visits", "count": count, "in": here} for count in (1, 2)]


def test_a_function_and_a_local_state(client: Client) -> None:
    assert client.actors.request(Which(name="echo", key="wall"), b"hello", pool="demo") == b"wall heard hello"
    session = Which(name="session", key="ada")
    assert [client.actors.request(session, b"", pool="demo") for _ in range(2)] == [b"1", b"2"]


def test_state_and_the_client(client: Client) -> None:
    (asked,) = (text for _, text in BLOCKS if text.startswith("cart = "))
    names: dict[str, Any] = {"client": client, "Which": Which}
    exec(asked, names)
    assert (names["answer"].status, msgspec.json.decode(names["answer"].body)) == (200, {"apples": 3})
    assert told(client, "cart", "ada", method="PUT", path="/pears", body=b"1") == {"apples": 3, "pears": 1}
    assert told(client, "cart", "ada", method="DELETE", path="/apples") == {"pears": 1}
    gone = client.actors.fetch(names["cart"], method="DELETE", path="/apples")
    assert (gone.status, gone.body) == (404, b"no such item\n")
    with pytest.raises(EpoxyError, match="ValueError"):
        client.actors.fetch(names["cart"], method="PUT", path="/plums", body=b"many")
    assert told(client, "cart", "ada", method="GET") == {"pears": 1}


def test_alarms(client: Client) -> None:
    told(client, "reminder", "tea", body=b"drink it")
    until(lambda: bool(told(client, "reminder", "tea", method="GET")["rang"] == 1), "the alarm has rung")


def test_streams(client: Client) -> None:
    answer = client.actors.fetch(Which(name="export", key="all"), body=b"x" * 300_000, pool="demo")
    assert answer.body == b"bytes\n300000\n"
    assert answer.headers["content-type"] == "text/csv"


@pytest.mark.usefixtures("places")
def test_websockets(trio: DemoCluster) -> None:
    (line,) = (text for _, text in BLOCKS if text.startswith("const socket"))
    address = line.split('"')[1].replace("7810", trio.nodes[1].url.rpartition(":")[2])
    with connect(address) as one, connect(address.replace("ada", "bob")) as other:
        assert one.recv(PATIENCE_S) == other.recv(PATIENCE_S) == "[]"
        one.send("hello")
        assert one.recv(PATIENCE_S) == other.recv(PATIENCE_S) == '[{"by": "name=ada", "text": "hello"}]'


def test_calls(client: Client) -> None:
    assert told(client, "account", "ada", path="/take", body=b"10") == {"balance": 10}
    order = msgspec.json.encode({"to": "bob", "amount": 3, "id": "order-1"})
    for _ in range(2):
        assert told(client, "account", "ada", path="/pay", body=order) == {"balance": 7}
    assert told(client, "account", "bob") == {"balance": 3}
    refused = client.actors.fetch(Which(name="account", key="bob"), path="/pay", body=order.replace(b"3", b"30"))
    assert (refused.status, told(client, "account", "bob")) == (409, {"balance": 3})


def test_asking_again(shell: Shell) -> None:
    answers = [shell.run(command) for block in shell_blocks("Asking again") for command in commands(block)]
    assert len(set(answers)) == 1
    assert msgspec.json.decode(answers[0])["count"] == 1


def test_operating(shell: Shell, client: Client) -> None:
    told(client, "counter", "visits")
    answers = [shell.run(command) for block in shell_blocks("Operating") for command in commands(block)]
    assert len(answers) == 5
    assert client.actors.get(Which(name="counter", key="visits")) is None


def test_testing(places: Path) -> None:
    (block,) = (text for title, text in BLOCKS if title == "Testing")
    names: dict[str, Any] = {}
    exec((places / "counter.py").read_text("utf-8"), names)
    exec(block, names)
    names["test_a_counter_survives_its_worker"]()
