"""What a key's replicas hold, in sentences: each case that a person who looks at a key can meet."""

from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.model.api import ReplicaView
from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot
from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.errors import RottenRow
from epoxy.model.marks import OWNED, mark_of
from epoxy.model.messages import Inspected
from epoxy.model.records import Expiry, Proposal, ProposalId, Vote
from epoxy.protocol.keys.explanation import explain, seconds, shown

THREE = first_epoch((1, 2, 3))
FIVE = first_epoch((1, 2, 3, 4, 5))


def proposal(version: int = 1, value: bytes | None = b"mine", *, home: int = 1, **more: Any) -> Proposal:
    given = {"mutable": True, **more}
    return Proposal(value=value, version=version, proposal_id=ProposalId(home, 7), **given)


def vote(of: Proposal, ballot: Ballot | None = None, epoch: int = 1) -> Vote:
    return Vote(proposal=of, ballot=ballot or fast_ballot(of.proposal_id.replica_id), epoch=epoch)


def view(replica: int, committed: Proposal | None = None, **more: Any) -> ReplicaView:
    given = {"lineage": (), "promised": NO_BALLOT, "vote": None, "cached": None, "changelog": (), **more}
    return ReplicaView(id=replica, datacenter=f"dc-{replica}", held=Inspected(epoch=1, committed=committed, **given))


def silent(replica: int, reason: str = "no answer in time") -> ReplicaView:
    return ReplicaView(id=replica, datacenter=f"dc-{replica}", held=None, reason=reason)


def told(*views: ReplicaView, config: ClusterConfig = THREE, remaining_ms: int | None = None) -> list[tuple[str, str]]:
    return [(each.kind, each.text) for each in explain(views, config, remaining_ms)]


def test_nothing_is_known() -> None:
    ((kind, text),) = told(view(1), view(2), view(3))
    assert kind == "info"
    assert text.startswith("No replica that answered knows this key: it is free.")


def test_committed_everywhere() -> None:
    newest = proposal(4)
    assert told(*(view(i, newest) for i in (1, 2, 3))) == [("good", "Version 4 is 'mine', held by 3 of 3 replicas.")]


def test_a_name_that_is_taken_for_ever() -> None:
    ((kind, text),) = told(*(view(i, proposal(mutable=False)) for i in (1, 2, 3)))
    assert kind == "good"
    assert text.startswith("Taken for ever, as 'mine', held by 3 of 3 replicas: each of them answers reads")
    legacy = Proposal(value=b"old", version=0, mutable=False, proposal_id=ProposalId(0, 0))
    assert "a value of the first layout" in told(view(1, legacy), view(2, legacy), view(3, legacy))[0][1]


def test_committed_at_some_and_others_learn_it() -> None:
    (what, behind) = told(view(1, proposal(4)), view(2, proposal(3)), view(3))
    assert what == ("info", "Version 4 is 'mine', held by 1 of 3 replicas.")
    assert behind[0] == "info"
    assert behind[1].startswith(
        "dc-2 and dc-3 have not got it yet. That is no fault: a replica learns it from the others"
    )


def test_a_vote_without_a_decision() -> None:
    """In five regions, where one vote beside the writer's own is too few."""
    write = vote(proposal(1, b"eu", home=2))
    first, under_way = told(view(1, vote=write), view(2, vote=write), *(view(i) for i in (3, 4, 5)), config=FIVE)
    assert first[1].startswith("No replica that answered has a committed value.")
    kind, text = under_way
    assert kind == "warn"
    assert text.startswith("A write of 'eu' from dc-2 is under way, with the votes of dc-1 and dc-2:")
    assert "one round trip needs 3 of 5" in text
    assert "or dc-2 died. Nothing is blocked by that: the next read or write" in text


def test_votes_that_are_enough_and_not_yet_known() -> None:
    write = vote(proposal(2, b"eu", home=2))
    kind, text = told(view(1, proposal()), view(2, proposal(), vote=write), view(3, proposal(), vote=write))[-1]
    assert kind == "info"
    assert "enough to decide it in one round trip. dc-2 has not told the others yet" in text


def test_split_votes() -> None:
    one, other = vote(proposal(1, b"a", home=1)), vote(proposal(1, b"b", home=2))
    kind, text = told(view(1, vote=one), view(2, vote=other), view(3))[-1]
    assert kind == "warn"
    assert text.startswith("Split votes: dc-1 for 'a' from dc-1; dc-2 for 'b' from dc-2. Two writers met")


def test_a_promise_above_the_vote_is_a_slow_round() -> None:
    write = vote(proposal(1, b"a", home=1))
    (_, under_way, slow) = told(view(1, vote=write, promised=Ballot(2, 3)), view(2), view(3, promised=Ballot(2, 3)))
    assert under_way == ("warn", "A write of 'a' from dc-1 is under way, with the vote of dc-1.")
    assert slow[0] == "warn"
    assert slow[1].startswith("A slow round of dc-3 ((2,3), promised by dc-1 and dc-3)")
    assert "takes two round trips. Votes come next. Earlier votes alone decide nothing any more." in slow[1]
    assert "If dc-3 died, another one overtakes it" in slow[1]


def test_votes_of_a_slow_round() -> None:
    ballot = Ballot(3, 2)
    write = vote(proposal(1, b"a"), ballot)
    (_, under_way, slow) = told(view(1, vote=write, promised=ballot), view(2, promised=ballot), view(3))
    assert under_way[1] == "A write of 'a' from dc-1 is under way, with the vote of dc-1."
    assert "dc-1 voted in it; 2 votes decide." in slow[1]


def test_votes_that_no_longer_matter() -> None:
    old = vote(proposal(2, b"a"))
    texts = [text for _, text in told(view(1, proposal(3)), view(2, proposal(3)), view(3, proposal(1), vote=old))]
    assert "A vote at dc-3 is about what was decided meanwhile, and over." in texts
    sealed = replace(THREE, epoch=4, sealed=2)
    texts = [text for _, text in told(view(1, vote=vote(proposal(1))), view(2), view(3), config=sealed)]
    assert texts[-1].startswith("A vote at dc-1 is of an epoch whose members have changed since")


def test_replicas_that_did_not_answer() -> None:
    (who, enough, *_) = told(view(1, proposal()), view(2, proposal()), silent(3))
    assert who == ("warn", "Without an answer: dc-3 (no answer in time).")
    assert enough == ("info", "2 of 3 replicas answered, and 2 are enough to read and write it.")
    (who, short, *_) = told(view(1, proposal()), silent(2, ""), silent(3, "cut"))
    assert who[1] == "Without an answer: dc-2 (no reason), dc-3 (cut)."
    assert short[0] == "bad"
    assert "Only 1 of 3 replicas answered, and 2 are needed" in short[1]
    assert [kind for kind, _ in told(silent(1), silent(2), silent(3))] == ["warn", "bad"]


def test_a_rotten_row() -> None:
    """The reason is that of the real error."""
    (rotten, enough, *_) = told(view(1, proposal()), view(2, proposal()), silent(3, str(RottenRow(b"k"))))
    assert rotten[0] == "bad"
    assert rotten[1].startswith("The row of this key is damaged on the disk of dc-3")
    assert enough[1].startswith("2 of 3 replicas answered")


def test_a_key_of_transactions() -> None:
    owned = Proposal(value=OWNED, version=1, mutable=False, proposal_id=ProposalId(1, 7))
    ((kind, text),) = told(*(view(i, owned) for i in (1, 2, 3)))
    assert (kind, "This key belongs to transactions, for ever" in text) == ("info", True)
    mark = Proposal(value=mark_of(proposal(9)), version=10, mutable=False, proposal_id=ProposalId(1, 7))
    assert "up to version 9." in told(*(view(i, mark) for i in (1, 2, 3)))[0][1]


def test_a_tombstone() -> None:
    gone = proposal(5, None)
    assert told(*(view(i, gone) for i in (1, 2, 3))) == [
        ("good", "Deleted at version 5, held by 3 of 3 replicas: it has no value, and its next version is higher.")
    ]


@pytest.mark.parametrize(
    ("expiry", "left", "expected"),
    [
        (Expiry(ttl_ms=30_000, since=2), 12_500, "It ends in 12.5 s by the count of this replica (time to live 30 s"),
        (Expiry(ttl_ms=30_000, since=2), 0, "Its time to live of 30 s is over by the count of this replica"),
        (Expiry(ttl_ms=120_000, since=2), None, "It has a time to live of 2 min, given at version 2."),
        (Expiry(ttl_ms=0, since=2, session=bytes(16)), None, f"It ends with session {'00' * 16}, by a decision"),
    ],
)
def test_a_value_that_ends(expiry: Expiry, left: int | None, expected: str) -> None:
    newest = proposal(2, expiry=expiry)
    kind, text = told(*(view(i, newest) for i in (1, 2, 3)), remaining_ms=left)[-1]
    assert (kind, text.startswith(expected)) == ("info", True), text


def test_an_owner_and_writes_that_wait() -> None:
    fold = proposal(9, folded=(ProposalId(1, 1), ProposalId(3, 2)), proposer=2)
    texts = told(view(1, fold, owner=2, waiting=5), view(2, fold, waiting=1), view(3, fold, owner=2))
    assert texts[1][1].startswith("3 writes that waited for each other were decided together: dc-2 took the key from")
    assert "from version 6 to 9 in one decision" in texts[1][1]
    assert (texts[2][0], "dc-2 wrote the key last and owns it for now" in texts[2][1]) == ("info", True)
    assert "dc-1 and dc-3 carry writes of their clients there" in texts[2][1]
    assert texts[3] == ("warn", "5 writes wait at dc-1 for the round that is under way.")
    assert texts[4] == ("warn", "1 write waits at dc-2 for the round that is under way.")


def test_values_and_times_in_words() -> None:
    assert shown(None) == "a deletion"
    assert shown(b"") == "an empty value"
    assert shown(b"\xff\x00") == "2 bytes that are no text"
    assert shown(b"a\nb") == "3 bytes of text"
    assert shown(b"x" * 5000) == f"'{'x' * 40}...' (5,000 bytes)"
    assert [seconds(ms) for ms in (999, 1500, 59_999, 60_000, 7_200_000)] == [
        "0.999 s",
        "1.5 s",
        "60 s",
        "1 min",
        "120 min",
    ]
