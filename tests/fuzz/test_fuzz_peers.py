"""Faults that the fuzzers of frames and of signed requests find."""

import pytest

from epoxy.codec.plain_requests import read_peer_request
from epoxy.codec.seals import Seals
from epoxy.model.errors import CodecError
from epoxy.transport.peers import auth
from epoxy.transport.peers.auth import Nonces
from epoxy.transport.peers.frames import FrameServer
from tests.fuzz.fuzz_peers import frames_target, signed_target
from tests.fuzz.planted import finding_of

pytestmark = pytest.mark.pure("plants faults in compiled modules")


def test_a_seal_that_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seals, "matches", lambda self, seal, head, body: bool(self.next(head, body)) and bool(seal))
    assert "nobody sealed it for that place" in finding_of(frames_target)


def test_a_frame_that_is_accepted_at_any_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def anywhere(self: Seals, seal: bytes, head: bytes, body: bytes) -> bool:
        for number in range(8):
            self._number = number
            if self.next(head, body) == seal:
                return True
        return False

    monkeypatch.setattr(Seals, "matches", anywhere)
    assert "nobody sealed it for that place" in finding_of(frames_target)


def test_a_body_that_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(data: bytes) -> object:
        try:
            return read_peer_request(data)
        except CodecError as error:
            raise ValueError(error) from error

    monkeypatch.setattr("epoxy.transport.peers.transport.read_peer_request", careless)
    assert "Error" in finding_of(frames_target)


def test_bytes_of_frames_that_are_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: FrameServer, exc: Exception | None) -> None:
        del exc
        self._connections.forget(self)

    monkeypatch.setattr(FrameServer, "connection_lost", careless)
    assert "or its bytes are" in finding_of(frames_target)


def test_a_signature_that_covers_no_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "request_mac", lambda secret, text, path, _body: auth.mac_of(secret, path + text, b""))
    assert "nobody signed" in finding_of(signed_target)


def test_a_request_that_is_accepted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nonces, "add", lambda *_: True)
    assert "or twice" in finding_of(signed_target)
