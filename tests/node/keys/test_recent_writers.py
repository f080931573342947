"""Which replica was writing a key when it was read, and for how long that is believed."""

from epoxy.model.ballot import Ballot
from epoxy.model.records import FRESH, KeyState
from epoxy.node.keys.recent_writers import MAX_KEYS, REMEMBERED_MS, RecentWriters
from tests.node.bench import HandClock
from tests.protocol.keys.harness import KEY, B, C, D, fast_vote, prop, vote_at

OF_B = fast_vote(prop(b"b", by=B, mutable=True))


def noted() -> tuple[RecentWriters, HandClock]:
    clock = HandClock()
    writers = RecentWriters(clock)
    writers.saw(KEY, {C: OF_B})
    return writers, clock


def test_a_writer_that_was_seen_is_remembered_for_a_while() -> None:
    writers, clock = noted()
    assert (writers.of(KEY), writers.of(b"another")) == (B, None)
    clock.advance(REMEMBERED_MS)
    assert writers.of(KEY) == B
    clock.advance(1)
    assert writers.of(KEY) is None


def test_of_several_the_highest_ballot_is_the_likeliest_to_win() -> None:
    writers, _ = noted()
    writers.saw(KEY, {C: OF_B, D: vote_at(prop(b"b", by=B, mutable=True), Ballot(2, D))})
    assert writers.of(KEY) == D


def test_commits_renew_it_and_tell_of_another_writer() -> None:
    writers, clock = noted()
    clock.advance(REMEMBERED_MS)
    writers.committed(KEY, FRESH, KeyState(committed=prop(b"c", by=C, mutable=True)))
    clock.advance(REMEMBERED_MS)
    assert writers.of(KEY) == C


def test_commits_of_keys_that_nobody_reads_are_not_remembered() -> None:
    writers, _ = noted()
    writers.committed(b"another", FRESH, KeyState(committed=prop(b"c", by=C, mutable=True)))
    assert writers.of(b"another") is None


def test_the_oldest_is_forgotten_when_there_are_too_many() -> None:
    writers, _ = noted()
    for number in range(MAX_KEYS):
        writers.saw(b"key %d" % number, {C: OF_B})
    assert writers.of(KEY) is None
    assert writers.of(b"key 0") == B
