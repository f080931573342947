"""Faults that the fuzzer of agents' links finds."""

import pytest

from epoxy.codec.seals import Seals
from epoxy.protocol.elect import epochs, link_session
from epoxy.protocol.elect.handshake import HandshakeRefused
from epoxy.protocol.elect.link_session import AcceptorSession
from tests.fuzz.fuzz_agents import agents_target
from tests.fuzz.planted import finding_of


def test_frames_without_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_session, "is_sealed", lambda _, frame: len(frame) == 2)
    assert "was not sealed for that place" in finding_of(agents_target)


def test_seals_without_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unnumbered(Seals):
        def next(self, head: bytes, body: bytes) -> bytes:
            self._number = 0
            return super().next(head, body)

    monkeypatch.setattr(link_session, "Seals", Unnumbered)
    assert "was not sealed for that place" in finding_of(agents_target)


def test_messages_before_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    conclude = AcceptorSession.conclude

    def trusting(self: AcceptorSession, frame: list[bytes]) -> None:
        try:
            conclude(self, frame)
        except HandshakeRefused:
            self._seals, self.sender = Seals(b""), "a"

    monkeypatch.setattr(AcceptorSession, "conclude", trusting)
    monkeypatch.setattr(link_session, "is_sealed", lambda _, frame: len(frame) == 2)
    assert finding_of(agents_target) != ""


def test_any_epoch_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "is_possible", lambda _: True)
    monkeypatch.setattr(epochs, "is_plausible", lambda *_: True)
    assert "made another save epoch" in finding_of(agents_target)
