"""docs/protocol/http.md and docs/clients.md: their examples are run against real nodes, and the error codes are those
of the OpenAPI document."""

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import ModuleType

import pytest

from epoxy import Client, testing
from epoxy.api.http.openapi import document
from epoxy.cli.main import run
from epoxy.envoy import Actor, Worker
from tests.api.http.http_bench import FakeNode, whole_api
from tests.end_to_end.pages import ROOT, Shell, blocks, commands
from tests.end_to_end.recorder import PATIENCE_S

HTTP = ROOT / "docs" / "protocol" / "http.md"
CLIENTS = ROOT / "docs" / "clients.md"
PORT = r"\b7800\b|\b7810\b"


def port_of(node: testing.ClusterNode) -> str:
    return node.url.rpartition(":")[2]


def get(node: testing.ClusterNode, target: str) -> str:
    connection = HTTPConnection("127.0.0.1", int(port_of(node)), timeout=PATIENCE_S)
    try:
        connection.request("GET", target, headers={"Accept": "application/json"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def test_the_examples_of_the_page_about_http(tmp_path: Path) -> None:
    (_, calls), (_, record), (_, leases), (_, change), (_, error) = blocks(HTTP)
    with testing.cluster(1) as cluster:
        node = cluster[0]
        shell = Shell(tmp_path, os.environ, {PORT: port_of(node)})
        for command in [*commands(calls), *commands(leases)]:
            status, value = re.findall(r"# (\d+)(?:, .*| (.*))", command)[0]
            told = shell.run(command)
            assert told.startswith(f"HTTP/1.1 {status}"), (command, told)
            assert told.endswith(value), (command, told)
        connection = HTTPConnection("127.0.0.1", int(port_of(node)), timeout=PATIENCE_S)
        connection.request("PUT", "/v2/kv/user/ada", b"eu-west-1", {"Accept": "application/json"})
        assert json.loads(connection.getresponse().read()) == json.loads(record)
        connection.close()
        told_id, told_data = get(node, "/v2/changes?follow=false").splitlines()[:2]
        shown_id, shown_data = change.splitlines()
        assert [len(line) for line in (told_id, shown_id)] == [24, 24]
        assert json.loads(told_data.removeprefix("data: ")) == json.loads(shown_data.removeprefix("data: "))
        assert json.loads(error)["error"].keys() == json.loads(get(node, "/nowhere"))["error"].keys()


def codes_of_the_page() -> set[str]:
    """The codes in the table of errors, and those of a change of members."""
    text = HTTP.read_text("utf-8")
    rows = re.findall(r"^\| [45]\d\d \| (.*) \| \S+ \|$", text, re.MULTILINE)
    told = re.sub(r"\([^)]*\)", "", " ".join(rows))
    (members,) = re.findall(r"^\| `POST /v2/members` \|.*$", text, re.MULTILINE)
    return {*re.findall(r"`([a-z_]+)`", told), *re.findall(r"`([a-z]+_[a-z_]+)`", members)}


def codes_of_the_document() -> set[str]:
    paths = document(whole_api(FakeNode()).routes)["paths"].values()
    answers = [answer for path in paths for each in path.values() for answer in each["responses"].values()]
    headers = [answer.get("headers", {}).get("Epoxy-Error") for answer in answers]
    return {code for header in headers if header is not None for code in header["schema"]["enum"]}


def test_the_page_and_the_document_know_the_same_error_codes() -> None:
    elsewhere = {"method_not_allowed", "not_gateway", "no_gateway", "gateway_lost"}
    """Wrong methods are no operations of the document, nor are peers; what a node of several cannot pass on to its
    gateway is said of every operation."""
    definite = {"retry_after_ms", "pipeline"}
    assert codes_of_the_document() == codes_of_the_page() - elsewhere - definite


@contextmanager
def working(url: str) -> Iterator[None]:
    """A worker of the pool that the page names, in a thread of its own."""
    up, loop = threading.Event(), asyncio.new_event_loop()
    made: list[Worker] = []

    async def serve() -> None:
        worker = Worker(url, pool="chat")
        made.append(worker)

        @worker.actor("chat-room")
        async def room(actor: Actor) -> None:
            async for request in actor:
                request.respond(request.body)

        serving = asyncio.create_task(worker.serve())
        await worker.connected.wait()
        up.set()
        await serving

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert up.wait(PATIENCE_S)
        yield
    finally:
        loop.call_soon_threadsafe(made[0].drain)
        thread.join(PATIENCE_S)
        loop.close()


def test_the_examples_of_the_page_about_clients(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (_, python), (_, locks), (_, actors), (_, own_test), (_, own_actors), (_, command_line) = blocks(CLIENTS)
    names: dict[str, object] = {}
    with testing.cluster(1) as cluster:
        shell = Shell(tmp_path, os.environ, {PORT: port_of(cluster[0])})
        exec(shell.adapt(python), names)
        for attribute in re.findall(r"\br\.(\w+)", python):
            assert hasattr(names["r"], attribute), attribute
        exec(locks, names)
        assert capsys.readouterr().out.count("with the token 1") == 3
        with working(cluster[0].url):
            exec(actors, names)
        client = names["client"]
        assert isinstance(client, Client)
        client.close()
        for attribute in re.findall(r"\.(\w+)", actors.partition("#")[2].partition("\n")[0]):
            assert hasattr(names["room"], attribute), attribute

        typed, *printed = command_line.splitlines()
        assert (
            run([*typed.removeprefix("$ epoxy ").replace("user/ada", "user/bob").split(), "--url", cluster[0].url]) == 0
        )
        shown = capsys.readouterr().out.replace("user/bob", "user/ada").splitlines()
        assert [line.split()[0] for line in shown] == [line.split()[0] for line in printed]
        assert shown[0] == printed[0]

    page = ModuleType("page")
    exec(own_test, page.__dict__)
    page.test_sign_up()
    compile(own_actors, "page", "exec")  # tests/end_to_end/test_actors_page.py runs its like
