"""A plugin of pytest that runs inside redis-py's suite, in an environment without Epoxy. It changes no test; it notes
what each sends and how it ends, and empties the store between tests by SCAN and DEL, because a node has no FLUSHDB.

SHIM_NOTES names the file for notes, a line of JSON for each test; SHIM_FLUSH is set where FLUSHDB is to be replaced;
SHIM_LEFT_OUT names a file of tests that are not run.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.asyncio.connection
import redis.connection

CONTAINERS = (
    "ACL",
    "CLIENT",
    "CLUSTER",
    "COMMAND",
    "CONFIG",
    "FUNCTION",
    "LATENCY",
    "MEMORY",
    "MODULE",
    "OBJECT",
    "SCRIPT",
    "SLOWLOG",
    "XGROUP",
)
FLUSHES = ("FLUSHDB", "FLUSHALL")

sent: set[str] = set()
"""By the test that runs."""


def name_of(arguments: tuple[Any, ...]) -> str:
    """With its second word, where the first alone says nothing."""
    texts = (each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in arguments[:2])
    words = " ".join(texts).upper().split()
    return ":".join(words[:2]) if words[0] in CONTAINERS else words[0]


def noting(inner: Callable[..., Any]) -> Callable[..., Any]:
    def pack(self: Any, *arguments: Any) -> Any:
        sent.add(name_of(arguments))
        return inner(self, *arguments)

    return pack


def emptied(url: str) -> bool:
    with redis.Redis.from_url(url) as client:
        for key in list(client.scan_iter(count=512)):
            client.delete(key)
    return True


def pytest_configure(config: pytest.Config) -> None:
    url = config.getoption("--redis-url")
    serializer: Any = redis.connection.PythonRespSerializer
    serializer.pack = noting(serializer.pack)
    connection: Any = redis.asyncio.connection.AbstractConnection
    connection.pack_command = noting(connection.pack_command)
    if "SHIM_FLUSH" in os.environ:
        replace_flush(url)


def replace_flush(url: str) -> None:
    plain: Any = redis.Redis.execute_command
    waited: Any = redis.asyncio.Redis.execute_command

    def execute(self: Any, *arguments: Any, **options: Any) -> Any:
        return emptied(url) if arguments[0] in FLUSHES else plain(self, *arguments, **options)

    async def execute_async(self: Any, *arguments: Any, **options: Any) -> Any:
        return emptied(url) if arguments[0] in FLUSHES else await waited(self, *arguments, **options)

    redis.Redis.execute_command = execute  # type: ignore[method-assign]
    redis.asyncio.Redis.execute_command = execute_async  # type: ignore[method-assign]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = os.environ.get("SHIM_LEFT_OUT")
    if named:
        left_out = set(Path(named).read_text("utf-8").splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]


def pytest_runtest_logstart() -> None:
    sent.clear()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that is skipped or breaks in its setup has no call."""
    if report.when == "teardown" or (report.when == "setup" and report.passed):
        return
    crash = getattr(report.longrepr, "reprcrash", None)
    message = str(crash.message if crash else report.longrepr or "").strip().splitlines()
    note = {
        "test": report.nodeid,
        "outcome": report.outcome,
        "sent": sorted(sent),
        "message": " ".join(message[:3])[:300],
    }
    with Path(os.environ["SHIM_NOTES"]).open("a", encoding="utf-8") as notes:
        notes.write(json.dumps(note) + "\n")
