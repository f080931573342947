"""Faults that the fuzzer of an agent's clients finds."""

import pytest

from epoxy.agent import sentinel_server
from epoxy.codec import resp
from epoxy.protocol.elect import operator_orders
from tests.fuzz.fuzz_sentinel import sentinel_target
from tests.fuzz.planted import finding_of


def test_orders_that_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_orders, "is_repeated", lambda *_: False)
    assert "carried out" in finding_of(sentinel_target)


def test_orders_that_are_not_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_orders, "is_proof", lambda *_: True)
    assert "carried out" in finding_of(sentinel_target)


@pytest.mark.pure("plants a fault in a compiled module")
def test_words_that_end_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resp, "error", lambda text: b"-%b\r\n" % text.encode())
    assert finding_of(sentinel_target) != ""


def test_replies_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentinel_server, "MAX_UNREAD_BYTES", 1 << 30)
    monkeypatch.setattr("tests.fuzz.fuzz_sentinel.MOST_UNREAD", 4 << 10)
    assert "for a client that does not read" in finding_of(sentinel_target)
