"""Planted faults of changing members, and all faults that a run on single keys may have."""

from functools import partial

from epoxy.node.members import member
from epoxy.protocol.keys import acceptor, local
from epoxy.protocol.members import identity
from epoxy.store import member_rows
from epoxy_sim.keys import mutants
from epoxy_sim.keys.mutants import AMBIGUOUS
from epoxy_sim.keys.mutations import always, never, nothing
from epoxy_sim.members import mutations
from epoxy_sim.patching import Patch

MEMBERSHIP = "membership"
"""The workload in which members change."""

mutant = partial(mutants.mutant, workload=MEMBERSHIP)

ALL = (
    *mutants.ALL,
    mutant("no-epoch-check", "requests of any epoch are served", Patch(acceptor, "wrong_epoch", nothing)),
    mutant("one-source-only", "a member is synced with one old member", mutations.one_source),
    mutant("votes-not-settled", "only what is committed is copied", mutations.settle_nothing),
    mutant(
        "fast-round-while-joint",
        "the fast round goes on in a joint epoch",
        Patch(local, "may_be_fast", always),
        AMBIGUOUS,
        exhaustive=True,
    ),
    mutant("old-fast-votes-forgotten", "fast votes end with their epoch", mutations.forget_old_fast_votes),
    mutant(
        "no-seal",
        "an old member tells its votes and goes on voting",
        Patch(member, "not_adopted", nothing),
        exhaustive=True,
    ),
    mutant(
        "old-votes-by-new-size",
        "while joint, fast votes are counted among the new members",
        mutations.count_by_new_size,
        exhaustive=True,
    ),
    mutant(
        "sealed-classic-votes-count",
        "classic votes of sealed epochs still count",
        mutations.count_sealed_classic_votes,
        exhaustive=True,
    ),
    mutant("joint-epoch-sealed", "votes of the joint epoch do not count after it", mutations.seal_the_joint_epoch_too),
    mutant("early-promotion", "the new members take over before they are synced", mutations.synced_at_once),
    mutant("new-side-only", "while joint, the new members decide alone", mutations.new_side_only, exhaustive=True),
    mutant("old-side-only", "while joint, the old members decide alone", mutations.old_side_only, exhaustive=True),
    mutant("adopt-downwards", "an older configuration is adopted", mutations.adopt_anything),
    mutant("late-cursor", "the changelog is followed from the end of the snapshot", mutations.newest_cursor),
    mutant("progress-first", "a learner notes its progress before what it learned", mutations.progress_first),
    mutant("truncation-untold", "rows that are gone are passed over", Patch(member_rows, "is_gone", never)),
    mutant("learners-not-waited-for", "rows go although a newcomer has not read them", mutations.learners_forgotten),
    mutant("digest-of-names", "two replicas compare which keys they hold, and not what", mutations.names_only),
    mutant("page-overwrites", "what another replica holds replaces what is newer here", mutations.page_is_right),
    mutant("nothing-repaired", "in quiet times no replica looks for what it has missed", mutations.repair_nothing),
    mutant(
        "empty-disk-welcome",
        "a replica that lost its disk goes on under its old id",
        mutations.known_at_sight,
        Patch(identity, "may_vote", always),
    ),
    mutant(
        "members-as-described",
        "new members are broadcast and copy from one source",
        mutations.straight_to_the_new,
        Patch(acceptor, "wrong_epoch", nothing),
    ),
)

MUTANTS = {each.name: each for each in ALL}
