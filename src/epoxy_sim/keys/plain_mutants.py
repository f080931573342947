"""Planted faults in the quiet path over bytes of requests. They show in runs whose messages go through the codec."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from epoxy.codec.plain_requests import PlainRequest
from epoxy.node.keys import plain_requests
from epoxy.node.keys.key_state_cache import KeyStateCache, PlainState
from epoxy.ports import Snapshot
from epoxy.store.plain_rows import PlainRows
from epoxy_sim.keys import gate_mutants
from epoxy_sim.keys.mutants import UNASSERTED, KeysMutant
from epoxy_sim.patching import Mutants, Patch, always, never, nothing

read = PlainRows.read

MUTANTS = Mutants(KeysMutant, gate_mutants.MUTANTS)
mutant = MUTANTS.mutant

mutant(plain_requests, "is_open", "plain-second-vote", "a plain Accept is voted for beside another vote")(always)


@mutant(
    plain_requests, "is_next", "plain-any-base", "a plain request is for any version", UNASSERTED, workload="mutable"
)
def any_base(request: PlainRequest, state: PlainState, epoch: int) -> bool:
    return request.epoch == epoch


@mutant(
    PlainRows,
    "read",
    "plain-promise-unseen",
    "a plain Accept is voted for below a promise",
    Patch(plain_requests, "is_bound", never),
    UNASSERTED,
    since=1_100,
)
def overlook_the_promise(rows: PlainRows, view: Snapshot, key: bytes) -> tuple[bytes | None, bytes | None] | None:
    found = read(rows, view, key)
    return found if found is not None else (None, None)


mutant(KeyStateCache, "put_plain", "plain-not-remembered", "memory keeps the state before a plain request")(nothing)
