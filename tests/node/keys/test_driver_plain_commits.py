"""What a driver hears of a Commit that is handled over its bytes: all that it hears of others."""

from collections.abc import Sequence

import pytest

from epoxy.codec import wire
from epoxy.codec.plain_requests import Incoming, PlainRequest, read_peer_request
from epoxy.model.messages import Commit, Reply, Request
from epoxy.model.records import Proposal
from epoxy.model.writes import ExpectedValueDoesNotMatch
from epoxy.protocol.effects import Pause
from tests.node.bench import Node
from tests.protocol.keys.harness import KEY, A, B, accept, fast_vote, prop

RIVAL = prop(b"theirs", by=B)
FIRST, SECOND, THIRD = [prop(b"theirs", version, by=B, nonce=version, mutable=True) for version in (1, 2, 3)]


def arrive(node: Node, *requests: Request, plain: bool) -> None:
    incoming: Sequence[Incoming] = requests
    if plain:
        incoming = read_peer_request(wire.join_peer_request(B, A, len(requests), [wire.encode_requests(requests)]))[2]
        assert all(isinstance(each, PlainRequest) for each in incoming)
    replies: list[Reply] = []
    node.replica.handle(incoming, replies.append)
    node.disk.sync()
    assert len(replies) == 1


def decision(proposal: Proposal = RIVAL) -> Commit:
    return Commit(key=KEY, epoch=1, proposal=proposal)


@pytest.mark.parametrize("plain", [True, False])
def test_a_write_under_way_hears_of_a_rivals_decision(plain: bool) -> None:
    node = Node()
    node.write()
    node.disk.sync()
    arrive(node, decision(), plain=plain)
    node.clock.advance(0)
    assert node.outcomes, "without the reply of any replica"
    assert isinstance(node.outcomes[0], ExpectedValueDoesNotMatch)
    assert node.outcomes[0].committed == RIVAL


@pytest.mark.parametrize("plain", [True, False])
def test_a_write_under_way_hears_of_a_rivals_accept(plain: bool) -> None:
    """Its own vote stands in the way, and the rules refuse."""
    node = Node()
    node.write()
    node.disk.sync()
    refused: list[object] = []
    node.replica.refused = refused.append
    request = accept(RIVAL, fast_vote(RIVAL).ballot)
    arrive(node, request, plain=plain)
    assert refused == [request]


@pytest.mark.parametrize("plain", [True, False])
def test_who_waits_for_a_version_is_woken(plain: bool) -> None:
    node = Node()
    woken: list[int] = []
    node.driver.sleep(Pause(key=KEY, version=1, delay_ms=60_000.0), lambda: woken.append(1))
    arrive(node, decision(), plain=plain)
    node.clock.advance(0)
    assert woken == [1]


@pytest.mark.parametrize("plain", [True, False])
def test_two_overwrites_of_another_make_it_the_owner(plain: bool) -> None:
    node = Node()
    arrive(node, *map(decision, (FIRST, SECOND, THIRD)), plain=plain)
    assert node.driver.owners.of(KEY, node.clock.now_ms()) == B


@pytest.mark.parametrize("plain", [True, False])
def test_a_key_that_was_heard_of_is_not_stale(plain: bool) -> None:
    node = Node()
    node.driver.stale_keys.begin()
    arrive(node, decision(), plain=plain)
    assert not node.driver.stale_keys.is_first(KEY)
    assert node.driver.stale_keys.is_first(b"other")


@pytest.mark.parametrize("plain", [True, False])
def test_no_sync_begins_for_the_decision_alone(plain: bool) -> None:
    node = Node()
    incoming: Sequence[Incoming] = (decision(),)
    if plain:
        incoming = read_peer_request(wire.join_peer_request(B, A, 1, [wire.encode_requests((decision(),))]))[2]
    node.replica.handle(incoming, lambda _: None)
    assert (len(node.disk.flushes), len(node.disk.delays), node.store.pending) == (0, 1, 1)
