"""Messages and outcomes in plain words."""

from typing import Any

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
    Carry,
    CarryAnswers,
    CarryOk,
    Commit,
    CommitOk,
    ConfigOk,
    Failed,
    HigherBallot,
    Inspect,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    StaleCommit,
)
from epoxy.model.records import FRESH, KeyState, Proposal, ProposalId, Vote
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NothingToDelete,
    Path,
    ReadFailed,
    ReadResult,
    Source,
    VersionMismatch,
)
from epoxy_sim.playground.cards import card, changes_in_words, outcome_in_words

ADA = Proposal(value=b"ada", version=1, mutable=False, proposal_id=ProposalId(1, 7))
FAST = Vote(proposal=ADA, ballot=fast_ballot(1), epoch=1)
KEY: dict[str, Any] = {"key": b"k", "epoch": 1}


@pytest.mark.parametrize(
    ("freight", "title", "detail", "tone"),
    [
        ([Accept(**KEY, ballot=fast_ballot(1), proposal=ADA)], "Vote for 'ada'?", "fast round, version 1", "ask"),
        ([Accept(**KEY, ballot=Ballot(2, 3), proposal=ADA)], "Vote for 'ada'?", "ballot (2,C), version 1", "ask"),
        (
            [Prepare(**KEY, ballot=Ballot(2, 3), base=0)],
            "Promise ballot (2,C)?",
            "and tell me your vote, on top of version 0",
            "ask",
        ),
        ([Commit(**KEY, proposal=ADA)], "Decided: 'ada'", "version 1", "tell"),
        (
            [Commit(**KEY, proposal=ADA), Read(**KEY)],
            "What do you have?",
            "the committed value, and the vote; before it: Decided: 'ada'",
            "ask",
        ),
        (
            [Carry(**KEY, sender=1, receiver=2, number=1, writes=())],
            "Write this with yours",
            "0 carried to the owner",
            "ask",
        ),
        ([CarryAnswers(key=b"k", owner=1, answers=())], "Your carried writes are done", "0 answered", "tell"),
        ([Inspect(key=b"k")], "Inspect", "Inspect", "ask"),
        (AcceptOk(), "Yes: voted", "the vote is on disk", "yes"),
        (PrepareOk(vote=None), "Yes: promised", "my vote: none", "yes"),
        (PrepareOk(vote=FAST), "Yes: promised", "my vote: 'ada' (fast round)", "yes"),
        (CommitOk(), "Learned", "the decision is on disk", "yes"),
        (ReadOk(committed=None, vote=FAST), "Committed: nothing", "my vote: 'ada' (fast round)", "yes"),
        (AlreadyCommitted(committed=ADA), "No: 'ada' is decided", "version 1", "no"),
        (HigherBallot(ballot=fast_ballot(1)), "No: I voted for another one", "fast round", "no"),
        (HigherBallot(ballot=Ballot(3, 2)), "No: I promised (3,B)", "ballot (3,B)", "no"),
        (Behind(version=2), "No: I missed a version", "I am at version 2; send me the decision first", "no"),
        (StaleCommit(version=2), "I know a newer one", "version 2", "no"),
        (CarryOk(), "Taken", "", "yes"),
        (CarryOk(declined=(ProposalId(1, 7),)), "Taken", "1 declined", "yes"),
        (Failed(reason="connection refused"), "No answer", "connection refused", "no"),
        (ConfigOk(epoch=2), "ConfigOk", "ConfigOk epoch 2", "tell"),
    ],
)
def test_cards(freight: object, title: str, detail: str, tone: str) -> None:
    made = card(freight)
    assert (made.title, made.detail, made.tone) == (title, detail, tone)
    assert made.kind == type(freight[-1] if isinstance(freight, list) else freight).__name__


def test_changes() -> None:
    voted = KeyState(vote=FAST)
    promised = KeyState(vote=FAST, promised=Ballot(2, 3))
    done = KeyState(committed=ADA)
    assert changes_in_words("B", FRESH, voted) == ["B votes for 'ada' (fast round)."]
    assert changes_in_words("B", voted, promised) == ["B promises ballot (2,C): it will answer no to every lower one."]
    assert changes_in_words("B", promised, done) == ["B commits 'ada' as version 1."]
    assert changes_in_words("B", done, done) == []
    assert promised.promised > NO_BALLOT


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Committed(proposal=ADA, mine=True, path=Path.FAST), "'ada' is committed, version 1, by your write (fast)"),
        (
            Committed(proposal=ADA, mine=False, path=Path.LOCAL),
            "'ada' is committed, version 1, by an equal write (local)",
        ),
        (ExpectedValueDoesNotMatch(committed=ADA, path=Path.FAST), "taken already, with 'ada'"),
        (ImmutableKey(committed=ADA, path=Path.FAST), "'ada' was reserved: it stays for ever"),
        (VersionMismatch(committed=None, path=Path.FAST), "nothing written; the key has nothing"),
        (NothingToDelete(committed=None, path=Path.FAST), "nothing written; the key has nothing"),
        (ConsensusFailed(reason="too busy"), "outcome unknown: too busy"),
        (ReadFailed(reason="no quorum"), "no answer: no quorum"),
        (ReadResult(committed=ADA, source=Source.LOCAL), "the key has 'ada', version 1"),
    ],
)
def test_outcomes(outcome: object, words: str) -> None:
    assert outcome_in_words(outcome) == words  # type: ignore[arg-type]
