"""Planted faults in the rules of which store, and which start of it, is heard."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Set

from epoxy.model.cluster import ClusterConfig
from epoxy.model.incarnation import Greeting, Sighting, StoreMismatch
from epoxy.node.members.peer_gate import PeerGate
from epoxy.protocol.members import incarnation
from epoxy.protocol.members.identity import Recognition
from epoxy.protocol.members.incarnation import StoreRefusal, sighting
from epoxy_sim.keys import fold_mutants
from epoxy_sim.keys.mutants import KeysMutant
from epoxy_sim.patching import Mutants, always, never, nothing

refusal_of = incarnation.refusal_of
has_enough = incarnation.has_enough
mismatch = PeerGate._mismatch
hear = PeerGate.hear

MUTANTS = Mutants(KeysMutant, fold_mutants.MUTANTS)
mutant = MUTANTS.mutant


@mutant(incarnation, "refusal_of", "counter-not-compared", "an older copy is heard after a newer start")
def ignore_counter(known: Sighting | None, greeting: Greeting) -> StoreRefusal | None:
    refusal = refusal_of(known, greeting)
    return refusal if refusal is not StoreRefusal.OLD_COPY else None


@mutant(incarnation, "refusal_of", "nonce-not-compared", "two copies of one store are both heard")
def ignore_nonce(known: Sighting | None, greeting: Greeting) -> StoreRefusal | None:
    refusal = refusal_of(known, greeting)
    return refusal if refusal is not StoreRefusal.CLONE else None


@mutant(incarnation, "refusal_of", "base-not-compared", "a start may find less than an earlier one reported")
def ignore_base(known: Sighting | None, greeting: Greeting) -> StoreRefusal | None:
    if known is not None and known.counter < greeting.incarnation.counter:
        return None
    return refusal_of(known, greeting)


@mutant(incarnation, "refusal_of", "position-not-compared", "a running store may fall behind what it reported")
def ignore_position(known: Sighting | None, greeting: Greeting) -> StoreRefusal | None:
    if known is not None and known.nonce == greeting.incarnation.nonce:
        return None
    return refusal_of(known, greeting)


@mutant(PeerGate, "_recall", "peers-forget", "what is remembered of other stores ends with the process")
def recall_nothing(gate: PeerGate) -> dict[int, Sighting]:
    return {}


@mutant(PeerGate, "_record", "recorded-later", "a peer is answered before its start is durable here")
def record_later(gate: PeerGate, peer: int, greeting: Greeting) -> None:
    start = greeting.incarnation
    if gate._recognise(peer, start.store) is Recognition.NEW:
        gate.note(peer, start.store)
    gate._sightings[peer] = sighting(gate._sightings.get(peer), start, greeting.position)
    gate._admitted[peer] = start.nonce
    gate._heard_ms[peer] = gate._clock.now_ms()
    gate._remember_soon(peer)


@mutant(PeerGate, "refuse", "refusal-forgotten", "a refused store starts again as if nothing had been")
def refuse_until_restart(gate: PeerGate, reason: str) -> None:
    gate.refused = reason
    gate._look_again()
    gate.changed()


mutant(incarnation, "is_cleared", "votes-uncleared", "a start votes before others have recorded it")(always)


@mutant(incarnation, "has_enough", "strict-is-lenient", "a strict start waits for a slow quorum alone")
def need_slow_quorum(
    members: tuple[int, ...], me: int, recorded_by: Set[int], config: ClusterConfig, *, strict: bool
) -> bool:
    return has_enough(members, me, recorded_by, config, strict=False)


@mutant(PeerGate, "hear", "positions-unheard", "positions are exchanged when a connection is made, and not with frames")
def hear_no_position(gate: PeerGate, peer: int, nonce: int, position: int) -> bool:
    return hear(gate, peer, nonce, 0)


@mutant(PeerGate, "_mismatch", "refused-clear-others", "a refused store records the starts of others")
def hear_although_refused(gate: PeerGate, peer: int, greeting: Greeting, told: Sighting | None) -> StoreMismatch | None:
    refused, gate.refused = gate.refused, ""
    try:
        return mismatch(gate, peer, greeting, told)
    finally:
        gate.refused = refused


@mutant(PeerGate, "_open_when_durable", "told-undurable", "a start is told before it is durable")
def open_at_once(gate: PeerGate) -> None:
    gate.is_open = True
    gate._look_again()


mutant(PeerGate, "_is_running", "second-process-heard", "a second process of a store displaces the first")(never)


mutant(PeerGate, "told", "no-self-judgement", "a store does not compare itself with what others remember")(nothing)
