"""What a node says of itself and of the others."""

import math
from collections.abc import Sequence

import msgspec
import pytest

from epoxy.model.address import Address
from epoxy.model.api import DecisionView, ReplicaView
from epoxy.model.ballot import NO_BALLOT
from epoxy.model.errors import InvariantViolation
from epoxy.model.messages import Failed, Inspect, Inspected
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import Committed, Write
from epoxy.model.writes import Path as Way
from epoxy.node.report import Credentials
from tests.node.service_bench import World
from tests.protocol.keys.harness import KEY, A, B, C, D, commit

# Looking into the replicas


def inspected(world: World) -> list[list[ReplicaView]]:
    answers: list[list[ReplicaView]] = []
    world.node.inspect(KEY, answers.append)
    world.disk.sync()
    return answers


def empty() -> Inspected:
    return Inspected(epoch=1, committed=None, lineage=(), promised=NO_BALLOT, vote=None, cached=None, changelog=())


def test_an_inspection_shows_who_is_silent_and_who_failed() -> None:
    world = World(4)
    answers, sent = inspected(world), world.links.take()
    assert {to: each.requests for to, each in sent.items()} == dict.fromkeys((B, C, D), (Inspect(key=KEY),))
    sent[C].answer(Failed(reason="refused"))
    sent[D].answer(empty())
    world.clock.advance(world.node.driver.timing.round_timeout_ms - 1)
    assert answers == []
    world.clock.advance(1)
    ((mine, silent, failed, fine),) = answers
    assert isinstance(mine.held, Inspected)
    assert silent == ReplicaView(id=B, datacenter="dc-2", held=None, reason="no answer in time")
    assert failed == ReplicaView(id=C, datacenter="dc-3", held=None, reason="refused")
    assert fine == ReplicaView(id=D, datacenter="dc-4", held=empty())
    sent[B].answer(empty())
    assert len(answers) == 1


def test_an_inspection_shows_the_owner_by_the_hint_what_waits_and_how_a_version_was_decided() -> None:
    world = World()
    folded = (ProposalId(A, 1), ProposalId(C, 2))
    fold = Proposal(value=b"v", version=7, mutable=True, proposal_id=ProposalId(C, 3), folded=folded, proposer=B)
    world.node.replica.handle([commit(fold)], lambda _: None)
    world.node.driver.write(Write(key=KEY, value=b"w", mutable=True), world.outcomes.append)
    world.disk.sync()
    world.links.sent.clear()
    world.node.driver.owners.believe(KEY, B, world.clock.now)
    answers, sent = inspected(world), world.links.take()
    for peer in (B, C):
        sent[peer].answer(empty())
    mine, other = answers[0][:2]
    assert mine.held is not None
    assert (mine.held.owner, mine.held.waiting) == (B, 1)
    assert mine.decision == DecisionView(proposer=B, base=4, version=7, writes=3)
    assert other.decision is None


def test_an_inspection_that_everybody_answered_leaves_no_timer() -> None:
    world = World()
    before = world.clock.pending
    answers, sent = inspected(world), world.links.take()
    for peer in (B, C):
        sent[peer].answer(empty())
    assert [view.id for view in answers[0]] == [A, B, C]
    assert world.clock.pending == before


# Who may do what


def test_the_status_says_whether_clients_are_asked_and_which_grants_are_in_force() -> None:
    world = World()
    told = world.node.status()
    assert (told.auth, told.open_listeners, told.grants, told.access_version) == ("open", [], 0, 0)
    assert told.access_age_s is None
    node = msgspec.structs.replace(world.node.settings.node, http=Address("0.0.0.0", 7800))
    world.node.settings = msgspec.structs.replace(world.node.settings, node=node)
    assert world.node.status().open_listeners == ["node.http 0.0.0.0:7800"]
    world.node.access.is_open = False
    world.node.access.confirmed_ms = world.clock.now
    world.clock.advance(1_500)
    told = world.node.status()
    assert (told.auth, told.open_listeners, told.access_age_s) == ("tokens", [], 1.5)


# How it is doing


@pytest.mark.parametrize(
    ("there", "available", "tolerated"),
    [((), False, -2), ((B,), False, -1), ((B, C), True, 0), ((B, C, 5), True, 1), ((B, C, D, 5), True, 2)],
)
def test_how_many_more_may_fail(there: Sequence[int], available: bool, tolerated: int) -> None:
    world = World(5)
    world.links.rtts = dict.fromkeys(there, 10.0)
    status = world.node.status()
    assert (status.available, status.tolerated_failures) == (available, tolerated)


def test_status_says_who_and_what() -> None:
    world = World(5)
    world.links.rtts = {B: 70.0, C: 72.5, D: 150.0}
    world.links.silent = {D}
    world.clock.advance(2500)
    world.write()
    status = world.node.status()
    assert (status.id, status.datacenter, status.epoch, status.ready) == (A, "dc-1", 1, True)
    assert (status.replicas, status.slow_quorum, status.fast_quorum) == (5, 3, 3)
    assert (status.txn_term, status.txn_state) == (0, "asking"), "none of the others has answered"
    assert (status.quorum_policy, status.writes_in_flight, status.uptime_s) == ("optimal", 1, 2.5)
    assert [(peer.id, peer.datacenter, peer.rtt_ms, peer.reachable) for peer in status.peers] == [
        (B, "dc-2", 70.0, True),
        (C, "dc-3", 72.5, True),
        (D, "dc-4", 150.0, False),
        (5, "dc-5", None, False),
    ]
    assert status.peers[0].url == "http://10.0.0.2"
    assert [peer.trouble for peer in status.peers] == ["" if peer.reachable else "gone" for peer in status.peers]
    assert (status.longest_sync_ms, status.invariant_violations) == (None, 0)
    assert msgspec.json.decode(msgspec.json.encode(status))["floor_ms"] == 72.5


def test_a_peer_that_is_away_has_been_so_since_its_last_answer() -> None:
    world = World(3)
    world.links.rtts = {B: 70.0}
    world.links.silences = {B: 120.0, C: 3_600_000.0}
    assert [peer.silent_s for peer in world.node.status().peers] == [None, 3600.0]
    world.links.silences[C] = math.inf
    assert world.node.status().peers[1].silent_s is None, "no link was made: nothing is known"


def test_credentials_are_told_as_the_process_has_them() -> None:
    world = World()
    world.node.credentials = lambda: Credentials(certificate_flaw="certificate has expired", authorities=("aa", "bb"))
    status = world.node.status()
    assert (status.certificate_flaw, status.authorities) == ("certificate has expired", ["aa", "bb"])
    assert status.store_lease_ms is None, "no session in a database"
    world.node.session = 7
    assert world.node.status().store_lease_ms == 5000.0


def test_the_floor_is_the_farthest_of_the_nearest_fast_quorum() -> None:
    world = World(5)
    world.links.rtts = {B: 150.0, C: 70.0, D: 72.0, 5: 110.0}
    assert world.node.status().floor_ms == 72.0
    world.links.silent = {C}
    assert world.node.status().floor_ms == 110.0
    world.links.silent = {C, D, B}
    assert world.node.status().floor_ms is None


def test_alone_there_is_no_floor_to_wait_for() -> None:
    world = World(1)
    status = world.node.status()
    assert (status.floor_ms, status.available, status.tolerated_failures, status.peers) == (0.0, True, 0, [])
    world.write()
    world.disk.sync()
    assert isinstance(world.outcomes[0], Committed)


def test_the_fast_share_is_of_what_was_committed_here() -> None:
    world = World()
    assert world.node.status().fast_path_share is None
    for key in (b"a", b"b"):
        world.write(key)
        world.disk.sync()
        world.accept(B)
    world.write(b"a", b"another's name")
    world.disk.sync()
    assert world.node.status().fast_path_share == 1.0
    world.node.paths[Way.SLOW] += 2
    assert world.node.status().fast_path_share == 0.5


def test_broken_invariants_are_counted_and_told() -> None:
    world = World()
    world.node.driver.failures.ended("write", InvariantViolation("two values"), lambda: None)
    assert (world.alarms, world.node.status().invariant_violations) == (["two values"], 1)
