"""Logs: lines for a person on a terminal, JSON for everybody else."""

import io
import json
import logging

import pytest

from epoxy.node.process import logs
from epoxy.node.process.logs import LOGGER, ProgressLog


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def failure() -> Exception:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        return error


def test_json_has_one_object_a_line_with_the_facts() -> None:
    stream = io.StringIO()
    logs.set_up(stream=stream)
    LOGGER.info("started", extra={"replica": 1, "resp": None, "address": object})
    LOGGER.warning("replica %d is\nunreachable", 2)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("at").endswith("+00:00")
    assert first == {
        "level": "info", "event": "started", "replica": 1, "resp": None, "address": "<class 'object'>",
    }  # fmt: skip
    assert (second["level"], second["event"]) == ("warning", "replica 2 is\nunreachable")


def test_json_puts_a_traceback_into_its_line() -> None:
    stream = io.StringIO()
    logs.set_up(stream=stream)
    LOGGER.error("a bug", exc_info=failure())
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: two\nlines" in json.loads(line)["error"]


@pytest.mark.parametrize("name", ["at", "level", "event", "error"])
def test_a_fact_cannot_pass_for_what_every_line_has(name: str) -> None:
    stream = io.StringIO()
    logs.set_up(stream=stream)
    LOGGER.error("true", extra={name: "false"}, exc_info=failure())
    line = json.loads(stream.getvalue())
    assert line["event"] == "true"
    assert "false" not in (line["at"], line["level"], line["error"])


@pytest.mark.parametrize("value", [b"\xff", float("nan"), {1: 2}, "\ud800"])
def test_facts_that_json_does_not_have_are_logged_all_the_same(value: object) -> None:
    stream = io.StringIO()
    logs.set_up(stream=stream)
    LOGGER.info("odd", extra={"value": value})
    assert json.loads(stream.getvalue())["event"] == "odd"


def test_a_person_gets_a_line_with_the_facts_behind() -> None:
    stream = Terminal()
    logs.set_up(stream=stream)
    LOGGER.info("started", extra={"replica": 1, "http": "127.0.0.1:7800"})
    LOGGER.warning("careful")
    LOGGER.error("a bug", exc_info=failure())
    started, careful, bug, *trace = stream.getvalue().splitlines()
    assert started[12:] == " info    started  replica=1 http=127.0.0.1:7800"
    assert careful[12:] == " warning careful"
    assert bug[12:] == " error   a bug"
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-2:] == ["ValueError: two", "lines"]


def test_levels_and_children() -> None:
    stream = io.StringIO()
    logs.set_up("warning", stream)
    LOGGER.info("quiet")
    logging.getLogger("epoxy.transport.peers.peer").info("quiet, too")
    logging.getLogger("epoxy.transport.peers.peer").warning("loud")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["loud"]


def test_set_up_twice_speaks_once() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.set_up(stream=first)
    logs.set_up(stream=second)
    LOGGER.info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_tracebacks_of_one_kind_are_few_and_the_rest_is_counted() -> None:
    now = 0.0
    stream = io.StringIO()
    logs.set_up(stream=stream)
    LOGGER.handlers[0].filters[:] = [logs.LimitTracebacks(lambda: now)]
    for _ in range(1000):
        LOGGER.error("a request's handler failed", exc_info=failure())
        LOGGER.warning("no traceback")
    LOGGER.error("another event", exc_info=failure())
    told = [json.loads(line)["event"] for line in stream.getvalue().splitlines()]
    assert told.count("a request's handler failed") == logs.TRACEBACKS
    assert told.count("no traceback") == 1000
    assert told[-1] == "another event"
    now = logs.TRACEBACKS_S
    LOGGER.error("a request's handler failed", exc_info=failure())
    LOGGER.error("a request's handler failed", exc_info=failure())
    first, second = [json.loads(line) for line in stream.getvalue().splitlines()[-2:]]
    assert first["suppressed"] == 1000 - logs.TRACEBACKS
    assert "suppressed" not in second


def test_long_work_is_told_at_its_beginning_now_and_then_and_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    tell = ProgressLog("work", lambda: now[0])
    with caplog.at_level("INFO", logger="epoxy"):
        for done in range(1, 101):
            now[0] += 0.2
            tell(done, 100)
    assert [vars(record)["done"] for record in caplog.records] == [1, 26, 51, 76, 100]
