from epoxy.model.ballot import Ballot
from epoxy.model.records import FRESH, KeyState, Proposal, ProposalId, Vote
from epoxy.node.keys.key_state_cache import GENERATION_KEYS, LARGEST_VALUE, KeyStateCache


def holding(size: int, version: int = 1) -> KeyState:
    return KeyState(committed=proposal(size, version))


def proposal(size: int, version: int = 1) -> Proposal:
    return Proposal(value=bytes(size), version=version, mutable=True, proposal_id=ProposalId(1, version))


def test_the_newest_state_is_found() -> None:
    states = KeyStateCache()
    states.put(b"k", holding(1, 1))
    states.put(b"k", holding(1, 2))
    assert states.get(b"k") == holding(1, 2)


def test_an_unknown_key_is_not_a_fresh_one() -> None:
    states = KeyStateCache()
    states.put(b"k", FRESH)
    assert states.get(b"k") is FRESH
    assert states.get(b"other") is None


def test_a_state_that_has_grown_too_large_takes_the_older_one_with_it() -> None:
    states = KeyStateCache()
    states.put(b"k", holding(LARGEST_VALUE))
    states.put(b"k", holding(LARGEST_VALUE + 1, 2))
    assert states.get(b"k") is None


def test_a_large_state_takes_one_of_the_older_generation_with_it() -> None:
    states = KeyStateCache()
    states.put(b"k", holding(1))
    for number in range(GENERATION_KEYS):
        states.put(b"%d" % number, FRESH)
    assert states.get(b"k") is not None
    large_vote = Vote(proposal=proposal(LARGEST_VALUE + 1, 2), ballot=Ballot(1, 1), epoch=1)
    states.put(b"k", KeyState(committed=proposal(1), vote=large_vote))
    assert states.get(b"k") is None


def test_two_generations_are_kept_and_no_more() -> None:
    states = KeyStateCache()
    for number in range(3 * GENERATION_KEYS):
        states.put(b"%d" % number, FRESH)
    kept = [number for number in range(3 * GENERATION_KEYS) if states.get(b"%d" % number) is not None]
    assert kept == list(range(2 * GENERATION_KEYS, 3 * GENERATION_KEYS))
    assert states.get(b"%d" % (3 * GENERATION_KEYS - 1)) is FRESH
