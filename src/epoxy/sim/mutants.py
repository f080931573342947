"""Planted faults. Each breaks one rule by name; a checker that lets one pass is not a checker.

Where a mutant breaks a rule that the engine also asserts, the assertion is taken out with it: the point is that those
who judge from outside find it.
"""

from contextlib import AbstractContextManager

from epoxy.consensus import acceptor, home, judge, proposer, reader, recovery, rounds
from epoxy.membership import changes, digest, identity, learner, retention
from epoxy.model import ballot, cluster, quorum, records
from epoxy.node import member
from epoxy.node.copying import Copier
from epoxy.node.driver import Run
from epoxy.node.replica import Replica
from epoxy.node.states import States
from epoxy.sim import as_described, broken, broken_members, patching
from epoxy.sim.changing import MEMBERSHIP
from epoxy.sim.patching import Patch
from epoxy.store import members
from epoxy.store.memory import MemoryStore


class Mutant(patching.Mutant, frozen=True, kw_only=True):
    """`workload`: the one in which it shows. `exhaustive`: chance meets it too rarely, so it is looked for in every
    state of small worlds."""

    workload: str
    exhaustive: bool


UNASSERTED = Patch(records, "assert_well_formed", broken.nothing)
UNCOUNTED = Patch(quorum, "assert_quorums_meet", broken.nothing)
AMBIGUOUS = Patch(recovery, "assert_unambiguous", broken.nothing)


def mutant(name: str, breaks: str, *patches: Patch, workload: str = "per-key", exhaustive: bool = False) -> Mutant:
    return Mutant(name=name, breaks=breaks, workload=workload, exhaustive=exhaustive, patches=patches)


ALL = (
    mutant(
        "no-commit-guard", "a fast round commits although home promised", Patch(home, "promised_since", broken.never)
    ),
    mutant("two-fast-votes", "a second vote in the fast round", Patch(acceptor, "refuse_fast", broken.vote_again)),
    mutant(
        "recover-highest-ballot", "recovery takes the highest ballot", Patch(recovery, "choose", broken.highest_ballot)
    ),
    mutant("recover-ignores-votes", "recovery always takes its own value", Patch(recovery, "choose", broken.nothing)),
    mutant(
        "proposer-not-excluded",
        "a proposer in Q may have won",
        Patch(recovery, "candidates", broken.all_proposers),
        AMBIGUOUS,
        exhaustive=True,
    ),
    mutant(
        "rivals-not-subtracted",
        "proposers vote for others",
        Patch(recovery, "potential", broken.rivals_not_subtracted),
        AMBIGUOUS,
        exhaustive=True,
    ),
    mutant("promise-falls", "a lower ballot is promised", Patch(acceptor, "prepare", broken.promise_anything)),
    mutant("promise-unkept", "a promise is not stored", Patch(acceptor, "promise", broken.promise_unkept)),
    mutant("promise-moves-vote", "a promise lifts the vote", Patch(acceptor, "promise", broken.promise_moves_vote)),
    mutant(
        "accept-below-promise",
        "a vote below the promise",
        Patch(acceptor, "refuse_classic", broken.nothing),
        UNASSERTED,
    ),
    mutant(
        "fast-quorum-too-small", "fast - 1 votes commit", Patch(quorum, "quorums", broken.smaller(fast=1)), UNCOUNTED
    ),
    mutant(
        "slow-quorum-too-small", "slow - 1 votes decide", Patch(quorum, "quorums", broken.smaller(slow=1)), UNCOUNTED
    ),
    mutant("ballot-reused", "a retry keeps its ballot", Patch(ballot, "next_classic", broken.same_ballot_again)),
    mutant("own-vote-missing", "no vote at home before the round", Patch(home, "select", broken.select_without_vote)),
    mutant(
        "vote-after-send",
        "Accepts leave before the own vote is durable",
        Patch(Replica, "perform", broken.send_before_durable),
    ),
    mutant(
        "answer-before-commit-durable",
        "the client hears first",
        Patch(Replica, "perform", broken.conclude_before_durable),
    ),
    mutant(
        "ack-before-fsync",
        "replies do not wait for the disk",
        Patch(MemoryStore, "when_durable", broken.acknowledge_at_once),
    ),
    mutant(
        "reset-on-restart",
        "promises and votes end with the process",
        Patch(MemoryStore, "survivors", broken.forget_what_was_in_flight),
    ),
    mutant(
        "stale-state",
        "memory keeps an older state than the disk",
        Patch(States, "put", broken.remember_the_first),
    ),
    mutant(
        "read-undurable",
        "a local read shows what may be lost",
        Patch(Replica, "peek", broken.peek_at_undurable),
    ),
    mutant("wrong-winner", "finishing somebody's write counts as winning", Patch(proposer, "is_mine", broken.always)),
    mutant(
        "first-empty-read-wins",
        "the first answer is believed",
        Patch(reader, "ask_everybody", broken.first_answer_wins),
    ),
    mutant("cache-miss", "not found is cached", Patch(reader, "ask_everybody", broken.cache_not_found)),
    mutant("stale-linearizable-read", "votes in flight are ignored", Patch(reader, "in_flight", broken.never)),
    mutant(
        "no-behind",
        "a version is entered without the one before",
        Patch(acceptor, "missed_a_commit", broken.nothing),
        UNASSERTED,
        workload="mutable",
    ),
    mutant(
        "late-commit-clears-vote",
        "an old commit clears what is in flight",
        Patch(acceptor, "learn", broken.late_commit_clears),
        workload="mutable",
    ),
    mutant(
        "newest-is-winner",
        "an overtaken write is taken for a lost one",
        Patch(judge, "winner", broken.newest_is_winner),
        workload="mutable",
    ),
    mutant(
        "old-answers-count",
        "answers of an earlier round are counted",
        Patch(Run, "_happened", broken.count_old_answers),
    ),
    mutant(
        "forgotten-is-lost",
        "a version nobody remembers counts as somebody else's",
        Patch(judge, "winner", broken.remember_only_the_newest),
        Patch(proposer, "ask_whose", broken.nobody_asked),
        workload="mutable",
    ),
    mutant(
        "offer-not-noted",
        "a write forgets that it was put forward",
        Patch(rounds, "decide", broken.offer_not_noted),
        workload="mutable",
    ),
    mutant(
        "no-epoch-check",
        "requests of any epoch are served",
        Patch(acceptor, "wrong_epoch", broken.nothing),
        workload=MEMBERSHIP,
    ),
    mutant(
        "one-source-only",
        "a member is synced with one old member",
        Patch(learner, "is_enough", broken_members.one_source),
        workload=MEMBERSHIP,
    ),
    mutant(
        "votes-not-settled",
        "only what is committed is copied",
        Patch(learner, "settle", broken_members.settle_nothing),
        workload=MEMBERSHIP,
    ),
    mutant(
        "fast-round-while-joint",
        "the fast round goes on in a joint epoch",
        Patch(home, "may_be_fast", broken.always),
        AMBIGUOUS,
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "old-fast-votes-forgotten",
        "fast votes end with their epoch",
        Patch(recovery, "still_counts", broken_members.forget_old_fast_votes),
        workload=MEMBERSHIP,
    ),
    mutant(
        "no-seal",
        "an old member tells its votes and goes on voting",
        Patch(member, "not_adopted", broken.nothing),
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "old-votes-by-new-size",
        "while joint, fast votes are counted among the new members",
        Patch(recovery, "choose", broken_members.count_by_new_size),
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "sealed-classic-votes-count",
        "classic votes of sealed epochs still count",
        Patch(recovery, "still_counts", broken_members.count_sealed_classic_votes),
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "joint-epoch-sealed",
        "votes of the joint epoch do not count after it",
        Patch(changes, "sealed_by", broken_members.seal_the_joint_epoch_too),
        workload=MEMBERSHIP,
    ),
    mutant(
        "early-promotion",
        "the new members take over before they are synced",
        Patch(changes, "is_synced", broken_members.synced_at_once),
        workload=MEMBERSHIP,
    ),
    mutant(
        "new-side-only",
        "while joint, the new members decide alone",
        Patch(cluster, "both_sides", broken_members.new_side_only),
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "old-side-only",
        "while joint, the old members decide alone",
        Patch(cluster, "both_sides", broken_members.old_side_only),
        workload=MEMBERSHIP,
        exhaustive=True,
    ),
    mutant(
        "adopt-downwards",
        "an older configuration is adopted",
        Patch(Replica, "_adopt", broken_members.adopt_anything),
        workload=MEMBERSHIP,
    ),
    mutant(
        "late-cursor",
        "the changelog is followed from the end of the snapshot",
        Patch(learner, "first_cursor", broken_members.newest_cursor),
        workload=MEMBERSHIP,
    ),
    mutant(
        "progress-first",
        "a learner notes its progress before what it learned",
        Patch(Copier, "_learn", broken_members.progress_first),
        workload=MEMBERSHIP,
    ),
    mutant(
        "truncation-untold",
        "rows that are gone are passed over",
        Patch(members, "is_gone", broken.never),
        workload=MEMBERSHIP,
    ),
    mutant(
        "learners-not-waited-for",
        "rows go although a newcomer has not read them",
        Patch(retention, "wanted_by_learners", broken_members.learners_forgotten),
        workload=MEMBERSHIP,
    ),
    mutant(
        "digest-of-names",
        "two replicas compare which keys they hold, and not what",
        Patch(digest, "fingerprint", broken_members.names_only),
        workload=MEMBERSHIP,
    ),
    mutant(
        "page-overwrites",
        "what another replica holds replaces what is newer here",
        Patch(Replica, "_learn_all", broken_members.page_is_right),
        workload=MEMBERSHIP,
    ),
    mutant(
        "nothing-repaired",
        "in quiet times nobody looks for what it has missed",
        Patch(learner, "compare", broken_members.repair_nothing),
        workload=MEMBERSHIP,
    ),
    mutant(
        "empty-disk-welcome",
        "a replica that lost its disk goes on under its old id",
        Patch(identity, "recognise", broken_members.known_at_sight),
        Patch(identity, "may_vote", broken.always),
        workload=MEMBERSHIP,
    ),
    mutant(
        "members-as-described",
        "new members are broadcast and copy from one source",
        Patch(changes, "begin_joint", broken_members.straight_to_the_new),
        Patch(acceptor, "wrong_epoch", broken.nothing),
        workload=MEMBERSHIP,
    ),
    mutant("as-described", "the protocol as first described", *as_described.PATCHES),
)

MUTANTS = {each.name: each for each in ALL}


def planted(name: str | None) -> AbstractContextManager[None]:
    return patching.planted(MUTANTS, name)
