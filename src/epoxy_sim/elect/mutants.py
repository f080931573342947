"""Planted faults of elections. The first nine are those of the original text, under the numbers of
docs/protocol/elect.md; each of the others takes out one of our own rules."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from epoxy.protocol.elect import (
    bootstrap,
    candidacy,
    changes,
    epochs,
    handshake,
    heartbeats,
    link_session,
    lists,
    operator_orders,
    rules,
    votes,
)
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.handshake import ElectHello
from epoxy.protocol.elect.lists import ListFloor, Lists, NodeList
from epoxy.protocol.elect.messages import Heartbeat, Message, Offer
from epoxy.protocol.elect.operator_orders import Addressee, OperatorOrder
from epoxy.protocol.elect.send_queue import SendQueue
from epoxy.protocol.elect.state import Draw, ElectorState
from epoxy.protocol.elect.terms import ElectRecord, ReplicationPosition
from epoxy_sim.elect.as_described import AsDescribed
from epoxy_sim.elect.judge import ElectJudge
from epoxy_sim.elect.machine import ElectMachine
from epoxy_sim.patching import Mutant, Mutants, Patch, always, never, nothing

_is_new, _is_repeated, _lease_end = rules.is_new, rules.is_repeated, rules.lease_end
_nth_latest = rules.nth_latest
_on_heartbeat, _on_offer, _would_win = heartbeats.on_heartbeat, votes.on_offer, candidacy.would_win
_proof_of = operator_orders.proof_of
_init, _resign = ElectorState.__init__, ElectorState.resign
FULL = 8
"""Small, so that it fills within a run."""

INITIAL = "a"

AS_DESCRIBED = "elect-as-described"

NOT_ASKED = (Patch(ElectJudge, "sends", nothing), Patch(ElectJudge, "begun", nothing))
"""Where a mutant breaks what a judge checks directly, that check is off: others must find it by its consequences."""

MUTANTS = Mutants(Mutant)
mutant = MUTANTS.mutant


@mutant(ElectorState, "__init__", "1-votes-not-kept", "a restart forgets its vote", since=120)
def start_without_votes(
    self: ElectorState, config: ElectConfig, me: str, record: ElectRecord | None, now_ms: int, draw: Draw
) -> None:
    """Keeps only the leader of the record, and does not wait for it after the restart."""
    kept = replace(record, epoch=record.leader_epoch, voted_for="") if record is not None else None
    start_at_once(self, config, me, kept, now_ms, draw)


@mutant(votes, "on_offer", "2-candidate-votes-twice", "a candidate that yields goes on")
def vote_and_stand(state: ElectorState, offer: Offer, now_ms: int) -> None:
    campaign = state.campaign
    _on_offer(state, offer, now_ms)
    state.campaign = campaign


@MUTANTS.also("2-candidate-votes-twice", ElectorState, "resign")
def resign_and_stand(self: ElectorState) -> None:
    campaign = self.campaign
    _resign(self)
    self.campaign = campaign


@mutant(votes, "would_vote", "3-voters-do-not-look", "votes are given while the primary is heard", since=580)
def vote_unseeing(state: ElectorState, offer: Offer, now_ms: int) -> bool:
    if _is_repeated(offer.epoch, offer.node, state.record):
        return True
    may = _is_new(offer.epoch, state.record) or votes.should_yield(state, offer)
    return may and not votes.lacks(state, offer)


@MUTANTS.also("3-voters-do-not-look", candidacy, "would_win")
def stand_alone(state: ElectorState, ready: list[str]) -> bool:
    """It is enough that this node itself hears no primary."""
    return not state.leading or _would_win(state, ready)


@mutant(ElectorState, "resign", "4-primary-stays", "a primary that votes or follows stays primary")
def stay(self: ElectorState) -> None:
    self.handing = None
    self.campaign = None


@mutant(heartbeats, "on_heartbeat", "4-announced-once", "heartbeats do not tell who leads")
def believe_announcements_alone(state: ElectorState, heartbeat: Heartbeat, now_ms: int) -> None:
    known = (state.record.leader_epoch, state.record.leader)
    if (heartbeat.leader_epoch, heartbeat.leader) == known or heartbeat.leader_epoch <= state.record.leader_epoch:
        _on_heartbeat(state, heartbeat, now_ms)


@mutant(rules, "lease_end", "5-no-lease", "a primary that is cut off goes on")
def for_ever(answered_ms: Mapping[str, int], lists: Lists, lease_ms: int) -> int:
    return max(answered_ms.values()) + 1_000_000_000


@mutant(rules, "lease_end", "5-lease-too-long", "the lease outlives the silence")
def twice_as_long(answered_ms: Mapping[str, int], lists: Lists, lease_ms: int) -> int:
    end_ms = _lease_end(answered_ms, lists, lease_ms)
    return end_ms + lease_ms if end_ms else 0


@mutant(heartbeats, "prolong", "5-lease-by-hearing", "a heartbeat received counts as an answer", since=90)
def count_the_heard(state: ElectorState, now_ms: int) -> None:
    """Wrong because a node whose heartbeats arrive may not receive any."""
    if state.leading:
        heard = {node: peer.at_ms for node, peer in state.peers.items() if peer.heartbeat is not None}
        lease_end_ms = _lease_end({**heard, state.me: now_ms}, state.lists, state.timing.lease_ms)
        state.lease_end_ms = max(state.lease_end_ms, lease_end_ms)


@mutant(rules, "is_worse", "6-offsets-alone", "offsets of different epochs are compared", since=290)
def fewer_bytes(candidate: ReplicationPosition, mine: ReplicationPosition) -> bool:
    return candidate.offset < mine.offset


@MUTANTS.also("6-offsets-alone", rules, "rank")
def rank_by_offset(config: ElectConfig, node: str, position: ReplicationPosition) -> tuple[int, int, int, str]:
    return 0, -position.offset, -config.node(node).priority, node


@mutant(SendQueue, "put", "7-full-queue", "a full queue drops what is new")
def drop_the_new(self: SendQueue, message: Message) -> None:
    waiting: Any = self._waiting
    if len(waiting) < FULL:
        waiting[len(waiting)] = message


@mutant(handshake, "check_proof", "8-anyone-may-speak", "no secret is asked for")
def take_any_proof(secrets: Sequence[bytes], side: str, first: ElectHello, second: ElectHello, proof: str) -> bytes:
    return secrets[0]


MUTANTS.also("8-anyone-may-speak", link_session, "is_sealed")(always)
mutant(link_session, "is_sealed", "unsealed", "frames after the handshake are believed without their seals")(always)
mutant(lists, "compatible", "9-any-config", "peers with another list are accepted", since=100)(always)
mutant(rules, "is_worse", "no-judgement", "a voter does not compare positions", since=210)(never)
mutant(rules, "has_closed", "resigned-is-closed", "resigning counts before the server is closed")(always)


@mutant(ElectorState, "__init__", "memory-invented", "a node without a record votes", since=480)
def start_with_invented_record(
    self: ElectorState, config: ElectConfig, me: str, record: ElectRecord | None, now_ms: int, draw: Draw
) -> None:
    _init(self, config, me, record or ElectRecord(leader=INITIAL), now_ms, draw)


@mutant(ElectorState, "__init__", "deaf-for-nothing", "a restart votes at once", since=120)
def start_at_once(
    self: ElectorState, config: ElectConfig, me: str, record: ElectRecord | None, now_ms: int, draw: Draw
) -> None:
    _init(self, config, me, record, now_ms, draw)
    if self.record.leader != me:
        self.leader_assumed_until_ms = now_ms


mutant(bootstrap, "is_founded", "begun-too-early", "the first primary does not wait for the others")(always)


@mutant(NodeList, "quorum", "quorum-too-small", "half of the nodes elect")
def one_less(self: NodeList) -> int:
    return max(1, len(self.nodes) // 2)


@mutant(rules, "next_epoch", "epoch-reused", "a candidate does not raise the epoch")
def same_epoch_again(seen: list[int]) -> int:
    return max(seen)


mutant(
    candidacy,
    "must_resign",
    "clings-to-office",
    "a leader without a lease waits although some have voted later",
    since=265,
)(never)
mutant(epochs, "is_plausible", "any-epoch", "an epoch far above all others is believed")(always)
mutant(epochs, "is_common", "one-voice", "one node is believed an epoch that a majority would be")(always)
mutant(epochs, "is_common", "left-behind", "a node that was away too long believes no majority")(never)


mutant(operator_orders, "is_repeated", "order-repeated", "an order is carried out as often as it comes")(never)


@mutant(operator_orders, "proof_of", "order-for-anyone", "an order does not name the agent's life")
def proof_for_any_life(secret: bytes, addressee: Addressee, order: OperatorOrder) -> str:
    return _proof_of(secret, replace(addressee, agent="", life=""), order)


@mutant(lists, "begun", "list-at-once", "a new list counts alone from the restart on")
def at_once_alone(known: Lists, floor: ListFloor, wanted: NodeList) -> Lists:
    return Lists(stage=known.stage + 2, counted=(wanted,))


@mutant(Lists, "has_majority", "one-list-of-two", "a majority of one of both lists is enough")
def of_any(self: Lists, nodes: Iterable[str]) -> bool:
    counted = set(nodes)
    return any(len(each.ids & counted) >= each.quorum for each in self.counted)


@MUTANTS.also("one-list-of-two", rules, "nth_latest")
def latest(answered_ms: Mapping[str, int], nodes: frozenset[str], n: int) -> int:
    """A list without a majority is ignored."""
    counted = {node: at_ms for node, at_ms in answered_ms.items() if node in nodes}
    return _nth_latest(counted, nodes, n) if len(counted) >= n else max(answered_ms.values())


@mutant(rules, "raised", "no-promise", "a node that answered a leader of the new list elects by the old one")
def kept(floor: ListFloor, stage: int, digest: str) -> ListFloor:
    return floor


mutant(changes, "has_copies", "list-without-data", "a list takes effect before its nodes have the data")(always)
mutant(rules, "may_copy", "copies-that-do-not-vote", "a node that leaves the list goes on copying", since=165)(always)
mutant(ElectMachine, "elector_class", AS_DESCRIBED, "elections as first described", *NOT_ASKED)(AsDescribed)
