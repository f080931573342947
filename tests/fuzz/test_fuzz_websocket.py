"""Faults that the fuzzer of workers finds."""

import pytest

from epoxy.actors.conversation import Conversation
from epoxy.actors.hosting import Hosting
from epoxy.api.http.envoy_session import EnvoySession
from epoxy.codec import json_text
from epoxy.model.envoy_messages import FromEnvoy, Ping
from epoxy.protocol.placement.records import EnvoyId
from epoxy.transport.http.websocket import WebSocket
from tests.fuzz.fuzz_websocket import websocket_target
from tests.fuzz.planted import finding_of

pytestmark = pytest.mark.pure("plants faults in compiled modules")


def test_messages_that_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "decode", lambda decoder, data: decoder.decode(data))
    assert "Error" in finding_of(websocket_target)


def test_a_worker_that_needs_no_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Conversation._take

    def trusting(self: Conversation, message: FromEnvoy) -> None:
        if self.envoy is None and isinstance(message, Ping):
            self._hosting._store.transact(lambda tx: tx.set(b"pinged", b"1"))
        else:
            take(self, message)

    monkeypatch.setattr(Conversation, "_take", trusting)
    assert "without an accepted hello changed the store" in finding_of(websocket_target)


def test_a_session_that_outlives_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Hosting, envoy: EnvoyId, session: EnvoySession) -> None:
        del self, envoy, session

    monkeypatch.setattr(Hosting, "disconnected", forgetful)
    assert "still a session" in finding_of(websocket_target)


def test_an_end_that_is_told_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    eof = WebSocket.eof_received

    def hasty(self: WebSocket) -> bool:
        if self._listener is not None:
            self._listener.lost()
        return eof(self)

    monkeypatch.setattr(WebSocket, "eof_received", hasty)
    assert "was told 2 times" in finding_of(websocket_target)
