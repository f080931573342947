"""The scripts of differential.txt, run here and by a real Valkey or Redis: the same replies, and the same errors."""

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from epoxy.model.strings import Fault, Register, Reply, SimpleString, Steps
from epoxy.protocol.strings.evaluation import evaluate
from epoxy.scripting.scripts import LuaScripts
from tools.programs import valkey_server

SOURCES = Path(__file__).with_name("differential.txt").read_text("utf-8").strip().split("\n---\n")
START_S = 30.0
OURS = partial(evaluate, run_script=LuaScripts().run)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["redis.Redis"]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path_factory.mktemp("valkey"))]
    process = subprocess.Popen([str(valkey_server()), *words], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    try:
        deadline = time.monotonic() + START_S
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait()


def words_of(error: str) -> str:
    """Without code, product, and where it was: releases differ in these."""
    return re.sub(r"^ERR |\b(Redis|Valkey) | script: .*$", "", error)


def plain(reply: Reply) -> object:
    if isinstance(reply, SimpleString):
        return reply.text.encode()
    if isinstance(reply, Fault):
        return words_of(reply.text)
    return [plain(each) for each in reply] if isinstance(reply, tuple) else reply


def of_client(reply: Any) -> object:
    return [of_client(each) for each in reply] if isinstance(reply, list) else reply


@pytest.mark.parametrize("source", SOURCES)
def test_the_same_reply(server: "redis.Redis", source: str) -> None:
    server.flushall()
    try:
        theirs = of_client(server.eval(source, 1, "k", "a", "12"))
    except redis.ResponseError as error:
        theirs = words_of(str(error))
    steps = Steps(
        commands=((b"EVAL", source.encode(), b"1", b"k", b"a", b"12"),), now_ms=int(time.time() * 1000), seed=7
    )
    (ours,) = OURS(steps, Register(value=None)).replies
    assert plain(ours) == theirs
