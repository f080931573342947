"""Faults that the fuzzer of HTTP clients finds."""

import pytest

from epoxy.api.http.authorization import Authorization
from epoxy.codec import json_text
from epoxy.protocol.access.principal import OPEN, Principal
from epoxy.transport.http.connection import HttpConnection
from epoxy.transport.http.exchange import Stream
from epoxy.transport.http.phases import ConnectionPhase
from epoxy.transport.http.server import HttpServer
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.signed_header import Signed, SignedHeader
from tests.fuzz.fuzz_http import http_target
from tests.fuzz.planted import finding_of

pytestmark = pytest.mark.pure("plants faults in compiled modules")


def test_answers_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    advance = HttpConnection.advance

    def impatient(self: HttpConnection) -> None:
        ready = next((each for each in self._exchanges if each.answered), None)
        if ready is not None and not ready.stream_open:
            self._exchanges.remove(ready)
            self._exchanges.appendleft(ready)
        advance(self)

    monkeypatch.setattr(HttpConnection, "advance", impatient)
    assert "depend on how the bytes arrive" in finding_of(http_target)


def test_bytes_that_are_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: HttpServer) -> None:
        self._phase = ConnectionPhase.NOTHING
        self._drop_exchanges()

    monkeypatch.setattr(HttpServer, "_release", careless)
    assert "or its bytes are" in finding_of(http_target)


def test_a_second_stream_in_the_place_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(self: HttpConnection, stream: Stream) -> None:
        self._stream = stream
        self._expect(ConnectionPhase.NOTHING)
        self.advance()

    monkeypatch.setattr(HttpConnection, "attach_stream", replace)
    assert "still listens" in finding_of(http_target)


def test_text_that_is_believed_to_be_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "decode", lambda decoder, data: decoder.decode(data.decode()))
    assert "Error" in finding_of(http_target)


def test_a_signature_that_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(self: Verifier, headers: object, path: object, body: object) -> Signed:
        del headers, path, body
        return Signed(SignedHeader(1, self.me, 1, 0, 0), b"mac", self.keys.spoken)

    monkeypatch.setattr(Verifier, "verify", trusting)
    assert "an unsigned message reached the replica" in finding_of(http_target)


def test_a_token_that_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(self: Authorization, evidence: object) -> Principal | None:
        del self
        return OPEN if isinstance(evidence, bytes) and b"epx_" in evidence else None

    monkeypatch.setattr(Authorization, "_identify", trusting)
    assert "without a token reached the node" in finding_of(http_target)
