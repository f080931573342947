"""Planted faults of the ordered engine."""

from epoxy.protocol.txn import acceptor, recovery
from epoxy.protocol.txn.log import InstanceLog
from epoxy_sim.keys.mutations import acknowledge_at_once, never
from epoxy_sim.patching import Patch, mutant
from epoxy_sim.txn import mutations, term_mutations

ALL = (
    mutant(
        "single-ballot",
        "joining a ballot hides in which one a vote was given",
        mutations.one_ballot_for_both,
        since=2100,
    ),
    mutant("vote-below-ballot", "votes in ballots that are over", mutations.vote_in_any_ballot),
    mutant("pre-accept-late", "pre-accepts what is being recovered", mutations.pre_accept_again, since=1610),
    mutant("fast-after-joining", "commits fast after joining a ballot", Patch(acceptor, "overtaken", never), since=900),
    mutant("unequal-is-fast", "answers that differ count as equal", mutations.fast_whatever_they_say),
    mutant("merge-unequal", "answers that differ are merged and committed", mutations.commit_the_union),
    mutant("skip-validate", "recovers without validating", mutations.believe_at_once, since=300),
    mutant("validate-forgets", "validates and does not remember the command", mutations.forget_command, since=300),
    mutant(
        "rivals-ignored",
        "does not wait for rivals",
        mutations.rivals_do_not_matter,
        Patch(recovery, "rule_out", never),
        since=430,
    ),
    mutant("nop-in-doubt", "takes what may be committed for nothing", Patch(recovery, "took_as_sent", never)),
    mutant("unequal-votes-count", "counts replicas that added dependencies", mutations.took_it_somehow, since=450),
    mutant(
        "coordinator-forgiven",
        "does not rule out a coordinator that answered",
        Patch(recovery, "coordinator_answered", never),
        since=1430,
    ),
    mutant("quorum-one-less", "takes one vote less than a slow quorum for a decision", mutations.one_vote_less),
    mutant("any-ballot", "adds up told votes of several ballots", mutations.votes_of_any_ballot),
    mutant(
        "whatever-i-voted-for", "takes told votes of one ballot for its own in another", mutations.whatever_i_voted_for
    ),
    mutant("seq-ties", "orders a group by a number that may tie", mutations.by_slot),
    mutant("no-dependencies", "executes in the order of commits", mutations.as_it_comes),
    mutant("missing-is-done", "does not wait for what is missing", mutations.until_something_is_missing),
    mutant("execute-twice", "forgets in a restart what was executed", mutations.not_marked),
    mutant("given-up-again", "puts forward again what may be decided yet", mutations.given_up_is_nothing),
    mutant("forget-early", "throws away what others lack", mutations.forget_what_i_executed),
    mutant(
        "archive-unread",
        "takes what has only its rows left for something it never heard of",
        Patch(InstanceLog, "_is_archived", never),
    ),
    mutant(
        "archive-is-free",
        "what has only its rows left interferes with nothing",
        mutations.nothing_is_archived,
        since=100,
    ),
    mutant("told-too-early", "tells what it executed before that is durable", mutations.say_it_before_it_is_durable),
    mutant("adds-commute", "adds of one key do not interfere", mutations.AddsApart),
    mutant("reads-are-free", "reads interfere with nothing", mutations.only_writes_count),
    mutant("answer-before-fsync", "answers before anything is durable", acknowledge_at_once),
    mutant(
        "go-on-before-fsync", "a coordinator goes on before its own vote is durable", mutations.go_on_before_durable
    ),
    mutant(
        "seal-asks-one", "takes one replica's word for how far a term came", term_mutations.one_is_enough, since=296
    ),
    mutant("closing-votes", "votes after it told how far a term came", term_mutations.vote_while_closing),
    mutant(
        "ending-votes-beyond",
        "votes on what is beyond the end of a term",
        term_mutations.vote_beyond_the_end,
        since=150,
    ),
    mutant("void-forgotten", "waits for what is beyond the end of a term", term_mutations.nothing_is_beyond, since=150),
    mutant("term-ignored", "takes messages of other terms", term_mutations.whatever_the_term),
    mutant("enters-early", "begins a term before the one before is executed", term_mutations.over_when_it_is_decided),
    mutant("behind-goes-on", "goes on in a term whose end it missed", term_mutations.end_with_the_joint_epoch_alone),
    mutant("newcomer-empty", "newcomers begin without values", term_mutations.no_values),
    mutant(
        "newcomer-keeps-nothing", "newcomers cannot tell what others missed", term_mutations.keep_nothing, since=560
    ),
    mutant(
        "copies-too-early",
        "newcomers copy from a member that has not finished",
        term_mutations.complete_at_any_time,
        since=100,
    ),
    mutant("forgets-the-absent", "throws away a term that a member missed", term_mutations.forget_at_once),
    mutant("flows-go-on", "carries on in a term what was begun in another", term_mutations.flows_go_on),
    mutant(
        "flights-outlive-term",
        "takes what was under way in an earlier term for something that never began",
        term_mutations.flights_are_begun_again,
        since=100,
    ),
)

MUTANTS = {each.name: each for each in ALL}
