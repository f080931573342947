"""Planted faults of folds and of carried writes: rules F1 to F6 of docs/protocol/per-key.md, each broken by name."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Callable
from functools import partial

from epoxy.model.records import KeyState, Proposal, Settled
from epoxy.model.writes import Committed, Outcome, Path
from epoxy.node.keys.carry_numbers import CarryNumbers
from epoxy.node.keys.hand_overs import HandOvers
from epoxy.node.keys.key_queue import KeyQueue
from epoxy.node.keys.queued_write import QueuedWrite
from epoxy.node.keys.replica import Replica
from epoxy.node.keys.uncontended import Uncontended
from epoxy.protocol.keys import acceptor, carrying, folding, local
from epoxy.protocol.keys.operations import NOT_EXPOSED, Conclude, FastVote, LocalOp, PendingWrite
from epoxy_sim.keys import mutants
from epoxy_sim.keys.mutants import UNASSERTED, KeysMutant
from epoxy_sim.patching import Mutants, always, constant, never, nothing

find = folding.find
perform = Replica.perform
put_forward = Uncontended._put_forward
take_back = HandOvers._take_back
learned = KeyQueue.learned

MUTANTS = Mutants(KeysMutant, mutants.MUTANTS)
mutant = partial(MUTANTS.mutant, workload="hot")


# F1: nothing is told about any write of a fold before the fold is decided and durable at home.


@mutant(Uncontended, "_put_forward", "fold-told-early", "a fold is answered when it is put forward")
def answer_when_put_forward(fold_round: Uncontended, selected: FastVote) -> None:
    put_forward(fold_round, selected)
    for pending, outcome in zip(fold_round._intent.writes, selected.fold.answers, strict=True):
        pending.outcome = outcome
    fold_round._finish(fold_round._intent)


@mutant(Uncontended, "_put_forward", "refusal-outlives-fold", "a refusal holds although its fold lost")
def keep_refusals(fold_round: Uncontended, selected: FastVote) -> None:
    put_forward(fold_round, selected)
    for pending, outcome in zip(fold_round._intent.writes, selected.fold.answers, strict=True):
        if not isinstance(outcome, Committed):
            pending.outcome = outcome


@mutant(Replica, "perform", "fold-told-undurable", "a fold is answered before its commit is durable")
def conclude_before_durable(replica: Replica, op: LocalOp, done: Callable[[object], None]) -> None:
    if isinstance(op, Conclude):
        done(replica._operation(op))
    else:
        perform(replica, op, done)


# F2: a write keeps its floor, which rises by evidence alone.


@mutant(carrying, "place", "floor-of-the-owner", "an owner looks from its own version on, not from the write's floor")
def nothing_before_me(pending: PendingWrite, committed: Proposal | None, lineage: tuple[Settled, ...]) -> int:
    pending.floor = max(pending.floor, committed.version if committed is not None else 0)
    return folding.ABSENT


@mutant(KeyQueue, "learned", "floor-jumps-a-gap", "a floor rises over decisions that were not seen")
def rise_anyway(queue: KeyQueue, after: KeyState) -> None:
    learned(queue, after)
    for entry in (*queue._waiting, *queue._carried.values()):
        if NOT_EXPOSED < entry.pending.floor < after.version and entry.found is None:
            entry.pending.floor = after.version


@mutant(HandOvers, "_take_back", "take-back-resets-floor", "what is taken back counts as never handed over")
def forget_the_carry(out: HandOvers, entries: list[QueuedWrite], silent: int = 0) -> None:
    for entry in entries:
        entry.pending.floor, entry.pending.handed_over = NOT_EXPOSED, False
    take_back(out, entries, silent)


# F3, F4: before a write is folded, its id is looked for in the lineage from its floor on.

mutant(folding, "find", "lineage-not-searched", "no write is looked for")(constant(folding.ABSENT))


@mutant(folding, "find", "short-lineage-is-absent", "what the lineage does not reach counts as absent")
def absent_if_forgotten(pending: PendingWrite, committed: Proposal, lineage: tuple[Settled, ...]) -> int:
    return max(folding.ABSENT, find(pending, committed, lineage))


mutant(local, "may_be_decided", "folded-again", "a write is folded again without a look at what was decided")(never)


# F4b: an answer that cannot be rebuilt is not guessed.


@mutant(folding, "answer_found", "answer-guessed", "a write found decided answers with the newest number")
def guess(pending: PendingWrite, version: int, committed: Proposal, path: Path) -> Outcome:
    value = committed.value if pending.write.amount is not None else pending.write.value
    mine = Proposal(value=value, version=version, mutable=pending.write.mutable, proposal_id=pending.proposal_id)
    return Committed(proposal=mine, mine=True, path=path)


mutant(
    KeyQueue,
    "_await_answers",
    "answer-not-awaited",
    "a write that was taken back and is decided is unknown at once",
    since=22_300,
)(nothing)


# F6: a refusal leaves no trace.


@mutant(
    folding, "tellable", "refusal-though-handed-over", "a write fails although another replica may fold it", since=740
)
def tell_anyway(pending: PendingWrite, outcome: Outcome) -> Outcome:
    return outcome


mutant(CarryNumbers, "is_new", "carry-taken-twice", "a Carry that comes again is taken again", since=1_429)(always)


# Instances, and the queue


mutant(acceptor, "already_decided", "old-base-accepted", "votes for an instance that is decided", UNASSERTED)(nothing)
mutant(KeyQueue, "take_back", "carried-forgotten", "what an owner declines, or does not answer, is dropped")(nothing)
