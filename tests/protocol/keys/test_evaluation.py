"""Steps are evaluated once for each input."""

from epoxy.model.records import Proposal, ProposalId
from epoxy.model.strings import Evaluated, Steps
from epoxy.protocol.keys.evaluation import Evaluation


def test_the_same_input_has_the_same_result_however_random_the_steps_are() -> None:
    results = iter(range(10))

    def draw(_steps: Steps, _committed: Proposal | None) -> Evaluated:
        return Evaluated(value=b"%d" % next(results), replies=(), changed=True)

    evaluation = Evaluation(Steps(commands=()), draw)
    one = Proposal(value=b"x", version=1, mutable=True, proposal_id=ProposalId(1, 1))
    other = Proposal(value=b"y", version=1, mutable=True, proposal_id=ProposalId(1, 1))

    assert evaluation.on(None).value == evaluation.on(None).value == b"0"
    assert evaluation.on(one).value == evaluation.on(one).value == b"1"
    assert evaluation.on(other).value == b"2", "the same version and id, in a fold of other writes"
    assert evaluation.on(one).value == b"1"
