"""Faults that the fuzzer of Redis clients finds."""

from collections.abc import Callable
from typing import Any

import pytest

from epoxy.api.resp import connection as connection_module
from epoxy.api.resp.connection import RespConnection
from epoxy.api.resp.reply_queue import Promise
from epoxy.codec import resp
from epoxy.codec.resp import CommandReader
from epoxy.protocol.access.principal import OPEN
from tests.fuzz.fuzz_resp import resp_target
from tests.fuzz.planted import finding_of

pytestmark = pytest.mark.pure("plants faults in compiled modules")


def test_replies_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: RespConnection, promised: Promise, reply: bytes) -> None:
        if self._transport is not None:
            self._held -= promised.weight
            self._slots.remove(promised)
            self._transport.write(reply)
            self._schedule()

    monkeypatch.setattr(RespConnection, "_filled", at_once)
    assert "answers depend on how the bytes arrive" in finding_of(resp_target)


def test_commands_before_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    run = RespConnection._run

    def trusting(self: RespConnection, command: Any, arguments: Any) -> bytes | None:
        if len(arguments) > 2:
            self.principal = OPEN
        return run(self, command, arguments)

    monkeypatch.setattr(RespConnection, "_run", trusting)
    assert "without a token reached the node" in finding_of(resp_target)


def test_bytes_lost_between_two_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = CommandReader.feed

    def careless(self: CommandReader, data: bytes) -> list[list[bytes]]:
        commands = feed(self, data)
        if self._pieces and self._pieces[-1].endswith(b"\r"):
            self._pieces[-1] = self._pieces[-1][:-1] + b"\n"
        return commands

    monkeypatch.setattr(CommandReader, "feed", careless)
    assert "answers depend on how the bytes arrive" in finding_of(resp_target)


@pytest.mark.parametrize(
    ("name", "wrong", "found"),
    [
        ("error", lambda text: b"-%b\r\n" % text.encode(), "cannot be read|depend|incomplete"),
        ("integer", lambda number: b":%d\n" % number, "cannot be read|incomplete"),
    ],
)
def test_malformed_replies(
    name: str, wrong: Callable[[Any], bytes], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resp, name, wrong)
    told = finding_of(resp_target)
    assert any(words in told for words in found.split("|")), told


def test_an_exception_in_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "shown", lambda key: key.decode())
    told = finding_of(resp_target)
    assert "internal error" in told or "UnicodeDecodeError" in told
