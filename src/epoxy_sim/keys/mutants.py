"""Planted faults of single keys. Each breaks one rule by name; a checker that lets one pass is not a checker.

Where a mutant breaks a rule that the engine also asserts, the assertion is taken out with it: a judge must find the
fault from outside.
"""

from epoxy.model import quorum, records
from epoxy.protocol.keys import acceptor, local, proposer, reader, recovery
from epoxy_sim.keys import as_described, mutations
from epoxy_sim.keys.mutations import always, never, nothing
from epoxy_sim.patching import Mutant, Patch, Rule, patches_of

AS_DESCRIBED = "as-described"
"""The mutant that replaces the whole protocol; on the command line it is a protocol of its own."""


class KeysMutant(Mutant, frozen=True, kw_only=True):
    """`workload`: the one in which it shows. `exhaustive`: simulation finds it too rarely, so it is looked for in every
    state of small worlds."""

    workload: str
    exhaustive: bool


UNASSERTED = Patch(records, "assert_well_formed", nothing)
UNCOUNTED = Patch(quorum, "assert_quorums_meet", nothing)
AMBIGUOUS = Patch(recovery, "assert_unambiguous", nothing)


def mutant(
    name: str, breaks: str, *planted: Patch | Rule, workload: str = "per-key", exhaustive: bool = False
) -> KeysMutant:
    patches = patches_of(*planted)
    return KeysMutant(name=name, breaks=breaks, workload=workload, exhaustive=exhaustive, patches=patches)


ALL = (
    mutant("no-commit-guard", "a fast round commits although home promised", Patch(local, "promised_since", never)),
    mutant("two-fast-votes", "a second vote in the fast round", mutations.vote_again),
    mutant("recover-highest-ballot", "recovery takes the highest ballot", mutations.highest_ballot),
    mutant("recover-ignores-votes", "recovery always takes its own value", Patch(recovery, "choose", nothing)),
    mutant(
        "proposer-not-excluded", "a proposer in Q may have won", mutations.all_proposers, AMBIGUOUS, exhaustive=True
    ),
    mutant(
        "rivals-not-subtracted",
        "proposers vote for others",
        mutations.rivals_not_subtracted,
        AMBIGUOUS,
        exhaustive=True,
    ),
    mutant("promise-falls", "a lower ballot is promised", mutations.promise_anything),
    mutant("promise-unkept", "a promise is not stored", mutations.promise_unkept),
    mutant("promise-moves-vote", "a promise lifts the vote", mutations.promise_moves_vote),
    mutant("accept-below-promise", "a vote below the promise", Patch(acceptor, "refuse_classic", nothing), UNASSERTED),
    mutant(
        "fast-quorum-too-small", "fast - 1 votes commit", Patch(quorum, "quorums", mutations.smaller(fast=1)), UNCOUNTED
    ),
    mutant(
        "slow-quorum-too-small", "slow - 1 votes decide", Patch(quorum, "quorums", mutations.smaller(slow=1)), UNCOUNTED
    ),
    mutant("ballot-reused", "a retry keeps its ballot", mutations.same_ballot_again),
    mutant("own-vote-missing", "no vote at home before the round", mutations.select_without_vote),
    mutant("vote-after-send", "Accepts leave before the own vote is durable", mutations.send_before_durable),
    mutant("answer-before-commit-durable", "the client hears first", mutations.conclude_before_durable),
    mutant("ack-before-fsync", "replies do not wait for the disk", mutations.acknowledge_at_once),
    mutant("reset-on-restart", "promises and votes end with the process", mutations.forget_what_was_in_flight),
    mutant("stale-state", "memory keeps an older state than the disk", mutations.remember_the_first),
    mutant("read-undurable", "a local read shows what may be lost", mutations.peek_at_undurable),
    mutant("wrong-winner", "finishing another client's write counts as winning", Patch(proposer, "is_mine", always)),
    mutant("first-empty-read-wins", "the first answer is believed", mutations.first_answer_wins),
    mutant("cache-miss", "not found is cached", mutations.cache_not_found),
    mutant("stale-linearizable-read", "votes in flight are ignored", Patch(reader, "in_flight", never)),
    mutant(
        "no-behind",
        "a version is entered without the one before",
        Patch(acceptor, "missed_a_commit", nothing),
        UNASSERTED,
        workload="mutable",
    ),
    mutant(
        "late-commit-clears-vote",
        "an old commit clears what is in flight",
        mutations.late_commit_clears,
        workload="mutable",
    ),
    mutant(
        "newest-is-winner", "an overtaken write is taken for a lost one", mutations.newest_is_winner, workload="mutable"
    ),
    mutant(
        "old-answers-count",
        "answers of an earlier round are counted",
        mutations.count_old_answers,
        mutations.remember_runner,
        mutations.hand_on_old_answers,
    ),
    mutant(
        "forgotten-is-lost",
        "a forgotten version counts as lost",
        mutations.remember_only_the_newest,
        mutations.winner_not_asked_for,
        workload="mutable",
    ),
    mutant("offer-not-noted", "a write forgets that it was put forward", mutations.offer_not_noted, workload="mutable"),
    mutant(AS_DESCRIBED, "the protocol as first described", *as_described.PATCHES),
)
