"""What a process does about rot: a line in the log, and the end of a node that lost its votes."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from epoxy.codec.tuple import pack
from epoxy.model.errors import RottenRow, StoreFailed
from epoxy.node.process.config import StoreSettings
from epoxy.server.scrubbing import EndsSoon, Scrubbing, cannot_start, log_rot
from epoxy.store.keyspace import LAYOUT, VOTES, Keyspace
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from tests.node.bench import HandClock

VOTE = pack((LAYOUT, 1, VOTES, b"user/ada"))


class Gate:
    def __init__(self) -> None:
        self.refused = ""

    def refuse(self, reason: str) -> None:
        self.refused = reason


def scrubbing(gate: Gate, failed: list[StoreFailed]) -> Any:
    """A node with as much as that needs."""
    settings = SimpleNamespace(store=StoreSettings(scrub_days=3))
    node = SimpleNamespace(repairs=SimpleNamespace(), settings=settings, me=1, gate=gate, is_busy=False)
    store: Any = MemoryStore()
    fake: Any = node
    made = Scrubbing(fake, store, HandClock(), failed.append)
    return SimpleNamespace(node=node, routes=made.routes())


def test_the_reason_is_recorded_before_the_process_ends() -> None:
    gate, failed = Gate(), list[StoreFailed]()
    made = scrubbing(gate, failed)
    made.node.repairs.end("a vote of user/ada is damaged on the disk")
    assert gate.refused.startswith("a vote of user/ada is damaged on the disk. It takes no part any more")
    assert [str(error) for error in failed] == [gate.refused]
    assert made.node.scrubber._days == 3
    assert [route.method for route in made.routes] == ["GET", "POST"]


def test_a_refused_node_goes_on_to_say_so() -> None:
    gate, failed = Gate(), list[StoreFailed]()
    gate.refused = "before"
    scrubbing(gate, failed).node.repairs.end("a vote is damaged")
    assert (gate.refused, failed) == ("before", [])


def test_a_row_that_is_needed_to_start_is_named_and_the_reason_recorded() -> None:
    store: Any = MemoryStore()
    failed: list[StoreFailed] = []
    error = cannot_start(RottenRow(VOTE), 1, store, failed.append)
    assert isinstance(error, EndsSoon)
    assert failed == [error]
    assert str(error).startswith("a vote of user/ada is damaged on the disk, and this node cannot start.")
    assert MemberSpace(Keyspace(1), 1).refusal(store.newest()) == str(error)


def test_each_row_has_its_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "epoxy"):
        log_rot("critical", "a vote of user/ada", "this node ends")
    assert [(each.levelname, each.message, each.row) for each in caplog.records] == [  # type: ignore[attr-defined]
        ("CRITICAL", "a rotten row", "a vote of user/ada")
    ]
