"""Planted faults. Each breaks one rule by name; a checker that lets one pass is not a checker.

Where a mutant breaks a rule that the engine also asserts, the assertion is taken out with it: the point is that those
who judge from outside find it.
"""

from contextlib import AbstractContextManager

from epoxy.model import ballot, cluster, quorum, records
from epoxy.node.keys.key_state_cache import KeyStateCache
from epoxy.node.keys.replica import Replica
from epoxy.node.keys.uncontended import Uncontended
from epoxy.node.members import member
from epoxy.node.members.key_sync import Copier
from epoxy.protocol.keys import acceptor, local, preconditions, proposer, reader, recovery, rounds
from epoxy.protocol.members import changes, digest, identity, learner, retention
from epoxy.runtime.flow import FlowRunner
from epoxy.store import member_rows
from epoxy.store.memory import MemoryStore
from epoxy_sim import patching
from epoxy_sim.keys import as_described, mutations
from epoxy_sim.members import mutations as member_mutations
from epoxy_sim.members.plans.churn import MEMBERSHIP
from epoxy_sim.patching import Patch


class KeysMutant(patching.Mutant, frozen=True, kw_only=True):
    """`workload`: the one in which it shows. `exhaustive`: chance meets it too rarely, so it is looked for in every
    state of small worlds."""

    workload: str
    exhaustive: bool


UNASSERTED = Patch(records, "assert_well_formed", mutations.nothing)
UNCOUNTED = Patch(quorum, "assert_quorums_meet", mutations.nothing)
AMBIGUOUS = Patch(recovery, "assert_unambiguous", mutations.nothing)


def mutant(name: str, breaks: str, *patches: Patch, workload: str = "per-key", exhaustive: bool = False) -> KeysMutant:
    return KeysMutant(name=name, breaks=breaks, workload=workload, exhaustive=exhaustive, patches=patches)


ALL = (
    mutant(
        "no-commit-guard",
        "a fast round commits although home promised",
        Patch(local, "promised_since", mutations.never),
    ),
    mutant("two-fast-votes", "a second vote in the fast round", Patch(acceptor, "refuse_fast", mutations.vote_again)),
    mutant(
        "recover-highest-ballot",
        "recovery takes the highest ballot",
        Patch(recovery, "choose", mutations.highest_ballot),
    ),
    mutant(
        "recover-ignores-votes", "recovery always takes its own value", Patch(recovery, "choose", mutations.nothing)
    ),
    mutant(
        "proposer-not-excluded",
        "a proposer in Q may have won",
        Patch(recovery, "candidates", mutations.all_proposers),
        AMBIGUOUS,
        exhaustive=True,
    ),
    mutant(
        "rivals-not-subtracted",
        "proposers vote for others",
        Patch(recovery, "potential", mutations.rivals_not_subtracted),
        AMBIGUOUS,
        exhaustive=True,
    ),
    mutant("promise-falls", "a lower ballot is promised", Patch(acceptor, "prepare", mutations.promise_anything)),
    mutant("promise-unkept", "a promise is not stored", Patch(acceptor, "promise", mutations.promise_unkept)),
    mutant("promise-moves-vote", "a promise lifts the vote", Patch(acceptor, "promise", mutations.promise_moves_vote)),
    mutant(
        "accept-below-promise",
        "a vote below the promise",
        Patch(acceptor, "refuse_classic", mutations.nothing),
        UNASSERTED,
    ),
    mutant(
        "fast-quorum-too-small", "fast - 1 votes commit", Patch(quorum, "quorums", mutations.smaller(fast=1)), UNCOUNTED
    ),
    mutant(
        "slow-quorum-too-small", "slow - 1 votes decide", Patch(quorum, "quorums", mutations.smaller(slow=1)), UNCOUNTED
    ),
    mutant("ballot-reused", "a retry keeps its ballot", Patch(ballot, "next_classic", mutations.same_ballot_again)),
    mutant(
        "own-vote-missing", "no vote at home before the round", Patch(local, "select", mutations.select_without_vote)
    ),
    mutant(
        "vote-after-send",
        "Accepts leave before the own vote is durable",
        Patch(Replica, "perform", mutations.send_before_durable),
    ),
    mutant(
        "answer-before-commit-durable",
        "the client hears first",
        Patch(Replica, "perform", mutations.conclude_before_durable),
    ),
    mutant(
        "ack-before-fsync",
        "replies do not wait for the disk",
        Patch(MemoryStore, "when_durable", mutations.acknowledge_at_once),
    ),
    mutant(
        "reset-on-restart",
        "promises and votes end with the process",
        Patch(MemoryStore, "survivors", mutations.forget_what_was_in_flight),
    ),
    mutant(
        "stale-state",
        "memory keeps an older state than the disk",
        Patch(KeyStateCache, "put", mutations.remember_the_first),
    ),
    mutant(
        "read-undurable",
        "a local read shows what may be lost",
        Patch(Replica, "peek", mutations.peek_at_undurable),
    ),
    mutant(
        "wrong-winner", "finishing somebody's write counts as winning", Patch(proposer, "is_mine", mutations.always)
    ),
    mutant(
        "first-empty-read-wins",
        "the first answer is believed",
        Patch(reader, "read_any_value", mutations.first_answer_wins),
    ),
    mutant("cache-miss", "not found is cached", Patch(reader, "read_any_value", mutations.cache_not_found)),
    mutant("stale-linearizable-read", "votes in flight are ignored", Patch(reader, "in_flight", mutations.never)),
    mutant(
        "no-behind",
        "a version is entered without the one before",
        Patch(acceptor, "missed_a_commit", mutations.nothing),
        UNASSERTED,
        workload="mutable",
    ),
    mutant(
        "late-commit-clears-vote",
        "an old commit clears what is in flight",
        Patch(acceptor, "learn", mutations.late_commit_clears),
        workload="mutable",
    ),
    mutant(
        "newest-is-winner",
        "an overtaken write is taken for a lost one",
        Patch(preconditions, "winner", mutations.newest_is_winner),
        workload="mutable",
    ),
    mutant(
        "old-answers-count",
        "answers of an earlier round are counted",
        Patch(FlowRunner, "_happened", mutations.count_old_answers),
        Patch(FlowRunner, "start", mutations.remember_runner),
        Patch(Uncontended, "_heard", mutations.hand_on_old_answers),
    ),
    mutant(
        "forgotten-is-lost",
        "a version nobody remembers counts as somebody else's",
        Patch(preconditions, "winner", mutations.remember_only_the_newest),
        Patch(proposer, "ask_for_winner", mutations.nobody_asked),
        workload="mutable",
    ),
    mutant(
        "offer-not-noted",
        "a write forgets that it was put forward",
        Patch(rounds, "decide", mutations.offer_not_noted),
        workload="mutable",
    ),
    mutant(
        "no-epoch-check",
        "requests of any epoch are served",
        Patch(acceptor, "wrong_epoch", mutations.nothing),
        workload=MEMBERSHIP,
    ),
    mutant(
        "one-source-only",
        "a member is synced with one old member",
        Patch(learner, "is_enough", member_mutations.one_source),
        workload=MEMBERSHIP,
    ),
    mutant(
        "votes-not-settled",
        "only what is committed is copied",
        Patch(learner, "settle", member_mutations.settle_nothing),
        workload=MEMBERSHIP,
    ),
    mutant(
        "fast-round-while-joint",
        "the fast round goes on in a joint epoch",
        Patch(local, "may_be_fast", mutations.always),
        AMBIGUOUS,
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "old-fast-votes-forgotten",
        "fast votes end with their epoch",
        Patch(recovery, "still_counts", member_mutations.forget_old_fast_votes),
        workload=MEMBERSHIP,
    ),
    mutant(
        "no-seal",
        "an old member tells its votes and goes on voting",
        Patch(member, "not_adopted", mutations.nothing),
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "old-votes-by-new-size",
        "while joint, fast votes are counted among the new members",
        Patch(recovery, "choose", member_mutations.count_by_new_size),
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "sealed-classic-votes-count",
        "classic votes of sealed epochs still count",
        Patch(recovery, "still_counts", member_mutations.count_sealed_classic_votes),
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "joint-epoch-sealed",
        "votes of the joint epoch do not count after it",
        Patch(changes, "sealed_by", member_mutations.seal_the_joint_epoch_too),
        workload=MEMBERSHIP,
    ),
    mutant(
        "early-promotion",
        "the new members take over before they are synced",
        Patch(changes, "is_synced", member_mutations.synced_at_once),
        workload=MEMBERSHIP,
    ),
    mutant(
        "new-side-only",
        "while joint, the new members decide alone",
        Patch(cluster, "both_sides", member_mutations.new_side_only),
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "old-side-only",
        "while joint, the old members decide alone",
        Patch(cluster, "both_sides", member_mutations.old_side_only),
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "adopt-downwards",
        "an older configuration is adopted",
        Patch(Replica, "_adopt", member_mutations.adopt_anything),
        workload=MEMBERSHIP,
    ),
    mutant(
        "late-cursor",
        "the changelog is followed from the end of the snapshot",
        Patch(learner, "first_cursor", member_mutations.newest_cursor),
        workload=MEMBERSHIP,
    ),
    mutant(
        "progress-first",
        "a learner notes its progress before what it learned",
        Patch(Copier, "_learn", member_mutations.progress_first),
        workload=MEMBERSHIP,
    ),
    mutant(
        "truncation-untold",
        "rows that are gone are passed over",
        Patch(member_rows, "is_gone", mutations.never),
        workload=MEMBERSHIP,
    ),
    mutant(
        "learners-not-waited-for",
        "rows go although a newcomer has not read them",
        Patch(retention, "wanted_by_learners", member_mutations.learners_forgotten),
        workload=MEMBERSHIP,
    ),
    mutant(
        "digest-of-names",
        "two replicas compare which keys they hold, and not what",
        Patch(digest, "fingerprint", member_mutations.names_only),
        workload=MEMBERSHIP,
    ),
    mutant(
        "page-overwrites",
        "what another replica holds replaces what is newer here",
        Patch(Replica, "_learn_all", member_mutations.page_is_right),
        workload=MEMBERSHIP,
    ),
    mutant(
        "nothing-repaired",
        "in quiet times nobody looks for what it has missed",
        Patch(learner, "compare", member_mutations.repair_nothing),
        workload=MEMBERSHIP,
    ),
    mutant(
        "empty-disk-welcome",
        "a replica that lost its disk goes on under its old id",
        Patch(identity, "recognise", member_mutations.known_at_sight),
        Patch(identity, "may_vote", mutations.always),
        workload=MEMBERSHIP,
    ),
    mutant(
        "members-as-described",
        "new members are broadcast and copy from one source",
        Patch(changes, "begin_joint", member_mutations.straight_to_the_new),
        Patch(acceptor, "wrong_epoch", mutations.nothing),
        workload=MEMBERSHIP,
    ),
    mutant("as-described", "the protocol as first described", *as_described.PATCHES),
)

MUTANTS = {each.name: each for each in ALL}


def planted(name: str | None) -> AbstractContextManager[None]:
    return patching.planted(MUTANTS, name)
