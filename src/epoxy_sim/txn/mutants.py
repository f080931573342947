"""Planted faults of the ordered engine."""

from epoxy.node.txn import replica
from epoxy.node.txn.engine import OrderedEngine
from epoxy.node.txn.replica import OrderedReplica
from epoxy.node.txn.terms import Terms
from epoxy.protocol.txn import acceptor, coordinator, graph, log, recovery, terms
from epoxy.protocol.txn.coordinator import Poll
from epoxy.protocol.txn.interference import Interference
from epoxy.protocol.txn.log import InstanceLog
from epoxy.protocol.txn.votes import Votes
from epoxy.store.memory import MemoryStore
from epoxy.store.txn_pages import ValueSpace
from epoxy.store.txn_rows import TermSpace
from epoxy_sim.keys import mutations as per_key
from epoxy_sim.patching import Patch, mutant
from epoxy_sim.txn import mutations, term_mutations

ALL = (
    mutant(
        "single-ballot",
        "joining a ballot hides in which one a vote was given",
        Patch(acceptor, "joined", mutations.one_ballot_for_both),
        since=2100,
    ),
    mutant(
        "vote-below-ballot", "votes in ballots that are over", Patch(acceptor, "accept", mutations.vote_in_any_ballot)
    ),
    mutant(
        "pre-accept-late",
        "pre-accepts what is being recovered",
        Patch(acceptor, "pre_accept", mutations.pre_accept_again),
        since=1610,
    ),
    mutant(
        "fast-after-joining",
        "commits fast after joining a ballot",
        Patch(acceptor, "overtaken", mutations.never),
        since=900,
    ),
    mutant(
        "unequal-is-fast",
        "answers that differ count as equal",
        Patch(Poll, "is_fast", property(mutations.fast_whatever_they_say)),
    ),
    mutant(
        "merge-unequal",
        "answers that differ are merged and committed",
        Patch(coordinator, "submit", mutations.commit_the_union),
    ),
    mutant(
        "skip-validate",
        "recovers without validating",
        Patch(recovery, "check_fast_path", mutations.believe_at_once),
        since=300,
    ),
    mutant(
        "validate-forgets",
        "validates and does not remember the command",
        Patch(acceptor, "remember_command", mutations.keep_nothing_in_mind),
        since=300,
    ),
    mutant(
        "rivals-ignored",
        "does not wait for rivals",
        Patch(recovery, "check_rivals", mutations.rivals_do_not_matter),
        Patch(recovery, "rule_out", mutations.never),
        since=430,
    ),
    mutant("nop-in-doubt", "takes what may be committed for nothing", Patch(recovery, "took_as_sent", mutations.never)),
    mutant(
        "unequal-votes-count",
        "counts those who added dependencies",
        Patch(recovery, "took_as_sent", mutations.took_it_somehow),
        since=450,
    ),
    mutant(
        "coordinator-forgiven",
        "does not rule out a coordinator that answered",
        Patch(recovery, "coordinator_answered", mutations.never),
        since=1430,
    ),
    mutant(
        "quorum-one-less",
        "takes one vote less than a slow quorum for a decision",
        Patch(replica, "decides", mutations.one_vote_less),
    ),
    mutant("any-ballot", "adds up told votes of several ballots", Patch(Votes, "count", mutations.votes_of_any_ballot)),
    mutant(
        "whatever-i-voted-for",
        "takes told votes of one ballot for its own in another",
        Patch(replica, "decides", mutations.whatever_i_voted_for),
    ),
    mutant("seq-ties", "orders a group by a number that may tie", Patch(graph, "in_order", mutations.by_slot)),
    mutant("no-dependencies", "executes in the order of commits", Patch(graph, "plan", mutations.as_it_comes)),
    mutant(
        "missing-is-done",
        "does not wait for what is missing",
        Patch(graph, "plan", mutations.until_something_is_missing),
    ),
    mutant(
        "execute-twice",
        "forgets in a restart what was executed",
        Patch(TermSpace, "mark_executed", mutations.not_marked),
    ),
    mutant(
        "given-up-again",
        "puts forward again what may be decided yet",
        Patch(OrderedEngine, "_submitted", mutations.given_up_is_nothing),
    ),
    mutant(
        "forget-early",
        "throws away what others lack",
        Patch(OrderedReplica, "forget", mutations.forget_what_i_executed),
    ),
    mutant(
        "archive-unread",
        "takes what has only its rows left for something it never heard of",
        Patch(InstanceLog, "_is_archived", mutations.never),
    ),
    mutant(
        "archive-is-free",
        "what has only its rows left interferes with nothing",
        Patch(InstanceLog, "_archived_beyond", mutations.nothing_is_archived),
        since=100,
    ),
    mutant(
        "told-too-early",
        "tells what it executed before that is durable",
        Patch(OrderedEngine, "ask", mutations.say_it_before_it_is_durable),
    ),
    mutant("adds-commute", "adds of one key do not interfere", Patch(log, "Interference", mutations.AddsApart)),
    mutant(
        "reads-are-free", "reads interfere with nothing", Patch(Interference, "outside", mutations.only_writes_count)
    ),
    mutant(
        "answer-before-fsync",
        "answers before anything is durable",
        Patch(MemoryStore, "when_durable", per_key.acknowledge_at_once),
    ),
    mutant(
        "go-on-before-fsync",
        "a coordinator goes on before its own vote is durable",
        Patch(OrderedEngine, "_perform_local", mutations.go_on_before_durable),
    ),
    mutant(
        "seal-asks-one",
        "takes one replica's word for how far a term came",
        Patch(terms, "enough", term_mutations.one_is_enough),
        since=296,
    ),
    mutant(
        "closing-votes",
        "votes after it told how far a term came",
        Patch(terms, "votes_on", term_mutations.vote_while_closing),
    ),
    mutant(
        "ending-votes-beyond",
        "votes on what is beyond the end of a term",
        Patch(terms, "votes_on", term_mutations.vote_beyond_the_end),
        since=150,
    ),
    mutant(
        "void-forgotten",
        "waits for what is beyond the end of a term",
        Patch(terms, "is_beyond", term_mutations.nothing_is_beyond),
        since=150,
    ),
    mutant(
        "term-ignored",
        "takes messages of other terms",
        Patch(OrderedEngine, "handle", term_mutations.whatever_the_term),
    ),
    mutant(
        "enters-early",
        "begins a term before the one before is executed",
        Patch(terms, "is_over", term_mutations.over_when_it_is_decided),
    ),
    mutant(
        "behind-goes-on",
        "goes on in a term whose end it missed",
        Patch(terms, "adopted", term_mutations.end_with_the_joint_epoch_alone),
    ),
    mutant("newcomer-empty", "newcomers begin without values", Patch(ValueSpace, "replace", term_mutations.no_values)),
    mutant(
        "newcomer-keeps-nothing",
        "newcomers cannot tell what others missed",
        Patch(Terms, "keep", term_mutations.keep_nothing),
        since=560,
    ),
    mutant(
        "copies-too-early",
        "newcomers copy from one who has not finished",
        Patch(Terms, "is_complete", term_mutations.complete_at_any_time),
        since=100,
    ),
    mutant(
        "forgets-the-absent",
        "throws away a term that somebody missed",
        Patch(OrderedReplica, "forget_earlier", term_mutations.forget_at_once),
    ),
    mutant(
        "flows-go-on",
        "carries on in a term what was begun in another",
        Patch(OrderedEngine, "turned", term_mutations.flows_go_on),
    ),
    mutant(
        "flights-outlive-term",
        "takes what was under way in an earlier term for something that never began",
        Patch(OrderedEngine, "_end_flights", term_mutations.flights_are_begun_again),
        since=100,
    ),
)

MUTANTS = {each.name: each for each in ALL}
