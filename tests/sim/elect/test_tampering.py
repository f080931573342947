"""A man in the middle of simulated links: what it does is refused, and what it can do anyway."""

from random import Random

import pytest

from epoxy.protocol.elect import link_session
from epoxy.protocol.elect.messages import Acceptance
from epoxy_sim.elect.tampering import TappedLink
from epoxy_sim.patching import always
from tests.protocol.elect.test_handshake import party

ENDS = (party("a"), party("b"))
VOTES = [Acceptance(epoch=epoch, node="a", candidate="b") for epoch in range(400)]


def believed(tampering: float) -> list[object]:
    link = TappedLink(Random(3))
    return [each for vote in VOTES for each in link.carry(vote, ENDS, tampering)]


def test_nothing_is_believed_that_was_not_sent_and_nothing_twice() -> None:
    assert believed(0.0) == VOTES
    heard = believed(0.5)
    assert heard == [vote for vote in VOTES if vote in heard], "in order, each once"
    assert len(VOTES) // 2 < len(heard) < len(VOTES)


def test_without_seals_forgeries_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_session, "is_sealed", always)
    assert [each for each in believed(0.5) if each not in VOTES]
