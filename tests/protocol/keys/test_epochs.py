"""An offer made in the old epoch is still an offer when the new epoch carries it on."""

from epoxy.model.messages import AcceptOk, PrepareOk, StaleEpoch
from epoxy.model.writes import Committed, Write
from epoxy.protocol.effects import Answer
from epoxy.protocol.keys.proposer import propose
from tests.protocol.keys.harness import EXPIRED, KEY, B, Bench, Scripted, config_of, own

TWO = config_of(epoch=2)


def test_a_write_carried_on_by_itself_in_a_new_epoch_is_mine_and_is_written_once() -> None:
    """Its own classic vote of the old epoch is what the new epoch's recovery finds at home, and must finish."""
    bench = Bench()
    events: list[Scripted] = [
        EXPIRED,
        Answer(B, PrepareOk(vote=None)),
        own,
        Answer(B, StaleEpoch(config=TWO)),
        Answer(B, PrepareOk(vote=None)),
        own,
        Answer(B, AcceptOk()),
    ]
    outcome = bench.run(propose(Write(key=KEY, value=b"mine", mutable=True, if_version=0), bench.context()), *events)
    assert bench.state.committed is not None
    assert bench.state.committed.value == b"mine"
    assert isinstance(outcome, Committed), outcome
    assert outcome.mine
