"""docs/recipes.md: each recipe is run as it stands there, and then in the situation that it is for."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epoxy import Client, testing
from tests.end_to_end.pages import ROOT, Shell, blocks, commands

RECIPES = ROOT / "docs" / "recipes.md"


@pytest.fixture(scope="module")
def cluster() -> Iterator[testing.Cluster]:
    with testing.cluster(3) as cluster:
        yield cluster


@pytest.fixture
def shell(cluster: testing.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    node = cluster[0]
    port = node.url.rpartition(":")[2]
    environment = dict(os.environ) | {"EPOXY_URL": node.url}
    return Shell(tmp_path, environment, {r"\b7800\b": port, r"\b7801\b": str(node.resp_port)})


def under(heading: str, *, python: bool) -> list[str]:
    shells = ("curl ", "redis-cli ", "epoxy ")
    return [text for title, text in blocks(RECIPES) if title == heading and text.startswith(shells) is not python]


def recipe(heading: str, shell: Shell) -> dict[str, Any]:
    """The names of a recipe after it was run, its commands, too."""
    names: dict[str, Any] = {}
    for text in (*under("Recipes", python=True), *under(heading, python=True)):
        exec(shell.adapt(text), names)
    return names


def told(heading: str, shell: Shell) -> list[str]:
    return [shell.run(command) for text in under(heading, python=False) for command in commands(text)]


def test_every_recipe_is_run_here() -> None:
    headings = [title for title, _ in blocks(RECIPES)]
    assert list(dict.fromkeys(headings)) == [
        "Recipes",
        "A lock with fencing",
        "Leader of a job",
        "Idempotency keys",
        "A rate limit",
        "Unique user names",
    ]


def test_a_lock_with_fencing(shell: Shell) -> None:
    names = recipe("A lock with fencing", shell)
    client, write, ledger = names["client"], names["write"], names["ledger"]
    with client.lock("ledger", ttl=30) as mine:
        token = mine.token
        write(token, "mine")
    with client.lock("ledger", ttl=30) as another:
        write(another.token, "another's")
        with pytest.raises(names["StaleToken"]):
            write(token, "late")
    assert [row[0] for row in ledger.execute("SELECT text FROM entries")] == [
        "rent, 900",
        "bread, 4",
        "mine",
        "another's",
    ]
    ledger.close()
    echoed, put, taken, deleted = told("A lock with fencing", shell)
    assert echoed.startswith("as holder ")
    assert put.startswith("HTTP/1.1 201")
    assert (taken, deleted) == ("OK\n", "1\n")
    client.close()


def test_leader_of_a_job(shell: Shell) -> None:
    names = recipe("Leader of a job", shell)
    assert names["done"][0] == names["done"][2]
    began, over = threading.Event(), threading.Event()
    tokens: list[int] = []

    def first(lock: Any) -> bool:
        tokens.append(lock.token)
        began.set()
        return not over.wait(20)

    def second(lock: Any) -> bool:
        tokens.append(lock.token)
        return False

    leads = [threading.Thread(target=names["lead"], args=("both", work)) for work in (first, second)]
    leads[0].start()
    assert began.wait(20)
    leads[1].start()
    over.set()
    for thread in leads:
        thread.join()
    assert tokens[0] < tokens[1]
    names["client"].close()


def test_idempotency_keys(shell: Shell) -> None:
    names = recipe("Idempotency keys", shell)
    once, client = names["once"], names["client"]
    assert names["paid"] == ["900"]

    def act() -> bytes:
        with pytest.raises(names["InProgress"]):
            once("order-2", lambda: b"twice")
        return b"ok"

    assert once("order-2", act) == b"ok"

    def dies() -> bytes:
        raise OSError("died")

    with pytest.raises(OSError, match="died"):
        once("order-3", dies, working=0.3)
    wait_until_absent(client, "idempotency/order-3")
    assert once("order-3", lambda: b"second") == b"second"
    client.close()


def wait_until_absent(client: Client, key: str) -> None:
    while client.get(key, read="linearizable") is not None:
        pass


def test_a_rate_limit(shell: Shell) -> None:
    names = recipe("A rate limit", shell)
    client, allowed = names["client"], names["allowed"]
    assert [allowed("bea", limit=1, window=0.5) for _ in range(2)] == [True, False]
    wait_until_absent(client, "rate/bea")
    assert allowed("bea", limit=1, window=0.5)
    assert told("A rate limit", shell) == ["1"]
    assert 50 < client.get("rate/bob").ttl <= 60
    client.close()


def test_unique_user_names(shell: Shell) -> None:
    names = recipe("Unique user names", shell)
    assert told("Unique user names", shell) == ["OK\n", ""]
    assert not names["sign_up"]("Bob", "account-9")
    names["client"].close()
