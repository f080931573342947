"""Planted faults in the quiet path over bytes of requests. They show in runs whose messages go through the codec."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Callable

from epoxy.codec.plain_requests import PlainRequest, version_to_overwrite
from epoxy.codec.wire import decode_vote
from epoxy.node.keys import plain_requests
from epoxy.node.keys.key_state_cache import KeyStateCache, PlainState
from epoxy.node.keys.plain_requests import PlainRequests
from epoxy.node.keys.replica import Replica
from epoxy.ports import Snapshot
from epoxy.store.plain_rows import PlainRows
from epoxy_sim.keys import gate_mutants
from epoxy_sim.keys.mutants import UNASSERTED, KeysMutant
from epoxy_sim.patching import Mutants, Patch, always, never, nothing

read = PlainRows.read
conclude, vote = PlainRequests.conclude, PlainRequests.vote

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


@mutant(
    PlainRequests,
    "conclude",
    "plain-no-commit-guard",
    "a home's plain write commits although it promised",
    UNASSERTED,
    since=14_500,
)
def conclude_anyway(requests: PlainRequests, commit: PlainRequest) -> bool:
    found = overlook_the_promise(requests._rows, requests._store.newest(), commit.key)
    assert found is not None
    record, vote = found
    version = version_to_overwrite(record) if record is not None else 0
    before = PlainState(record or b"", vote or b"", version)
    if commit.version != version + 1 or (record is not None and not version):
        return conclude(requests, commit)
    requests._commit(commit, before, urgent=True)
    return True


@mutant(PlainRequests, "vote", "plain-own-vote-missing", "no vote at home before the round of a plain write")
def vote_for_others(requests: PlainRequests, key: bytes, before: PlainState, row: bytes, *, urgent: bool) -> None:
    if decode_vote(row).ballot.replica_id != requests._replica.me:
        vote(requests, key, before, row, urgent=urgent)


@mutant(Replica, "when_durable", "plain-told-undurable", "a plain write does not wait for the home's disk")
def tell_at_once(replica: Replica, done: Callable[[], None]) -> None:
    done()
