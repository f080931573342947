"""Traces are short enough to be read: records in a few words, one line for a round."""

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import first_epoch
from epoxy.model.messages import Prepare, PrepareOk
from epoxy.model.records import KeyState, Proposal, ProposalId, Settled, Vote
from epoxy_sim.simulation import Failure
from epoxy_sim.trace_format import condense, say, until_blamed

MINE = Proposal(value=b"x", version=2, mutable=True, proposal_id=ProposalId(1, 0xABCDE))


def test_records_in_a_few_words() -> None:
    assert say(Ballot(3, 2)) == "(3,B)"
    assert say(NO_BALLOT) == "none"
    assert say(MINE) == "'x' v2 of A#bcde"
    assert say(Vote(ballot=Ballot(2, 3), proposal=MINE, epoch=1)) == "'x' v2 of A#bcde at (2,C)"
    assert say(KeyState()) == "nothing"
    assert say(Prepare(key=b"k", epoch=1, ballot=Ballot(2, 1), base=1)) == "Prepare ballot (2,A) base 1"
    assert say(PrepareOk(vote=None)) == "PrepareOk"


def test_a_fold_names_its_writes_oldest_first() -> None:
    folded = (ProposalId(2, 7), ProposalId(1, 8))
    fold = Proposal(value=b"x", version=5, mutable=True, proposal_id=ProposalId(1, 9), folded=folded, proposer=3)
    assert say(fold) == "'x' v3-5 of B#0007, A#0008, A#0009 by C"
    assert say(Settled(5, ProposalId(1, 9), folded)) == "v3-5 B#0007, A#0008, A#0009"
    assert say(Settled(5, ProposalId(1, 9))) == "v5 A#0009"


def test_a_later_epoch_is_shown() -> None:
    assert say(Prepare(key=b"k", epoch=4, ballot=Ballot(2, 1), base=1)) == "Prepare epoch 4 ballot (2,A) base 1"
    assert say(first_epoch((1, 2, 4))) == "epoch 1 of ABD"


def test_long_values_are_counted() -> None:
    assert "21 bytes" in say(Proposal(value=b"x" * 21, version=1, mutable=False, proposal_id=ProposalId(1, 1)))
    assert "tombstone" in say(Proposal(value=None, version=1, mutable=True, proposal_id=ProposalId(1, 1)))


def test_a_late_verdict_hides_what_happened_after_the_blamed_operation() -> None:
    trace = ["c1 asks A, operation 4: x", "noise", "c1 is told, operation 4: y", "c2 asks A, operation 44: z"]
    late = Failure(rule="linearizability", detail="none of these can follow:\n  #4 c1 read")
    assert until_blamed(trace, late) == trace[:3]
    assert until_blamed(trace, Failure(rule="agreement", detail="#4 c1")) == trace
    assert until_blamed(trace, Failure(rule="linearizability", detail="#9 c1")) == trace


def test_a_round_is_one_line_and_a_loss_stands_at_its_message() -> None:
    trace = [
        "     0.300 ms  B -> A: Accept x",
        "     0.300 ms  B -> A: lost",
        "     0.300 ms  B -> C: Accept x",
        "     0.400 ms  B -> C: Accept x",
        "     0.500 ms  B <- C: AcceptOk",
        "     0.500 ms  C -> B: lost",
        "     0.500 ms  C -> A: lost",
    ]
    assert condense(trace) == [
        "     0.300 ms  B -> A (lost), C: Accept x",
        "     0.400 ms  B -> C: Accept x",
        "     0.500 ms  B <- C: AcceptOk (lost)",
        "     0.500 ms  C -> A: lost",
    ]
