"""Planted faults of the ordered engine."""

from epoxy.node import ordered_replica
from epoxy.node.ordered import OrderedEngine
from epoxy.node.ordered_replica import OrderedReplica
from epoxy.node.ordered_terms import Terms
from epoxy.ordered import acceptor, coordinator, graph, log, recovery, terms
from epoxy.ordered.coordinator import Poll
from epoxy.ordered.interference import Interference
from epoxy.ordered.log import Log
from epoxy.ordered.votes import Votes
from epoxy.sim import broken as per_key
from epoxy.sim.ordered import broken, broken_terms
from epoxy.sim.patching import Patch, mutant
from epoxy.store.memory import MemoryStore
from epoxy.store.ordered import TermSpace
from epoxy.store.values import ValueSpace

ALL = (
    mutant(
        "single-ballot",
        "joining a ballot hides in which one a vote was given",
        Patch(acceptor, "joined", broken.one_ballot_for_both),
        since=2100,
    ),
    mutant("vote-below-ballot", "votes in ballots that are over", Patch(acceptor, "accept", broken.vote_in_any_ballot)),
    mutant(
        "pre-accept-late",
        "pre-accepts what is being recovered",
        Patch(acceptor, "pre_accept", broken.pre_accept_again),
        since=1610,
    ),
    mutant(
        "fast-after-joining",
        "commits fast after joining a ballot",
        Patch(acceptor, "overtaken", broken.never),
        since=900,
    ),
    mutant(
        "unequal-is-fast",
        "answers that differ count as equal",
        Patch(Poll, "is_fast", property(broken.fast_whatever_they_say)),
    ),
    mutant(
        "merge-unequal",
        "answers that differ are merged and committed",
        Patch(coordinator, "submit", broken.commit_the_union),
    ),
    mutant("skip-validate", "recovers without validating", Patch(recovery, "check", broken.believe_at_once), since=300),
    mutant(
        "validate-forgets",
        "validates and does not remember the command",
        Patch(acceptor, "remembered", broken.keep_nothing_in_mind),
        since=300,
    ),
    mutant(
        "rivals-ignored",
        "does not wait for rivals",
        Patch(recovery, "weigh", broken.rivals_do_not_matter),
        Patch(recovery, "rule_out", broken.never),
        since=430,
    ),
    mutant("nop-in-doubt", "takes what may be committed for nothing", Patch(recovery, "took_as_sent", broken.never)),
    mutant(
        "unequal-votes-count",
        "counts those who added dependencies",
        Patch(recovery, "took_as_sent", broken.took_it_somehow),
        since=450,
    ),
    mutant(
        "coordinator-forgiven",
        "does not rule out a coordinator that answered",
        Patch(recovery, "coordinator_answered", broken.never),
        since=1430,
    ),
    mutant(
        "quorum-one-less",
        "takes one vote less than a slow quorum for a decision",
        Patch(ordered_replica, "decides", broken.one_vote_less),
    ),
    mutant("any-ballot", "adds up told votes of several ballots", Patch(Votes, "count", broken.votes_of_any_ballot)),
    mutant(
        "whatever-i-voted-for",
        "takes told votes of one ballot for its own in another",
        Patch(ordered_replica, "decides", broken.whatever_i_voted_for),
    ),
    mutant("seq-ties", "orders a group by a number that may tie", Patch(graph, "in_order", broken.by_slot)),
    mutant("no-dependencies", "executes in the order of commits", Patch(graph, "plan", broken.as_it_comes)),
    mutant(
        "missing-is-done", "does not wait for what is missing", Patch(graph, "plan", broken.until_something_is_missing)
    ),
    mutant(
        "execute-twice",
        "forgets in a restart what was executed",
        Patch(TermSpace, "mark_executed", broken.not_marked),
    ),
    mutant(
        "given-up-again",
        "puts forward again what may be decided yet",
        Patch(OrderedEngine, "_submitted", broken.given_up_is_nothing),
    ),
    mutant(
        "forget-early", "throws away what others lack", Patch(OrderedReplica, "forget", broken.forget_what_i_executed)
    ),
    mutant(
        "archive-unread",
        "takes what has only its rows left for something it never heard of",
        Patch(Log, "_is_archived", broken.never),
    ),
    mutant(
        "archive-is-free",
        "what has only its rows left interferes with nothing",
        Patch(Log, "_archived_beyond", broken.nothing_is_archived),
        since=100,
    ),
    mutant(
        "told-too-early",
        "tells what it executed before that is durable",
        Patch(OrderedEngine, "ask", broken.say_it_before_it_is_durable),
    ),
    mutant("adds-commute", "adds of one key do not interfere", Patch(log, "Interference", broken.AddsApart)),
    mutant("reads-are-free", "reads interfere with nothing", Patch(Interference, "outside", broken.only_writes_count)),
    mutant(
        "answer-before-fsync",
        "answers before anything is durable",
        Patch(MemoryStore, "when_durable", per_key.acknowledge_at_once),
    ),
    mutant(
        "go-on-before-fsync",
        "a coordinator goes on before its own vote is durable",
        Patch(OrderedEngine, "perform", broken.go_on_before_durable),
    ),
    mutant(
        "seal-asks-one",
        "takes one replica's word for how far a term came",
        Patch(terms, "enough", broken_terms.one_is_enough),
        since=296,
    ),
    mutant(
        "closing-votes",
        "votes after it told how far a term came",
        Patch(terms, "votes_on", broken_terms.vote_while_closing),
    ),
    mutant(
        "ending-votes-beyond",
        "votes on what is beyond the end of a term",
        Patch(terms, "votes_on", broken_terms.vote_beyond_the_end),
        since=150,
    ),
    mutant(
        "void-forgotten",
        "waits for what is beyond the end of a term",
        Patch(terms, "is_beyond", broken_terms.nothing_is_beyond),
        since=150,
    ),
    mutant(
        "term-ignored", "takes messages of other terms", Patch(OrderedEngine, "handle", broken_terms.whatever_the_term)
    ),
    mutant(
        "enters-early",
        "begins a term before the one before is executed",
        Patch(terms, "is_over", broken_terms.over_when_it_is_decided),
    ),
    mutant(
        "behind-goes-on",
        "goes on in a term whose end it missed",
        Patch(terms, "adopted", broken_terms.end_with_the_joint_epoch_alone),
    ),
    mutant("newcomer-empty", "newcomers begin without values", Patch(ValueSpace, "replace", broken_terms.no_values)),
    mutant(
        "newcomer-keeps-nothing",
        "newcomers cannot tell what others missed",
        Patch(Terms, "keep", broken_terms.keep_nothing),
        since=560,
    ),
    mutant(
        "copies-too-early",
        "newcomers copy from one who has not finished",
        Patch(Terms, "is_complete", broken_terms.complete_at_any_time),
        since=100,
    ),
    mutant(
        "forgets-the-absent",
        "throws away a term that somebody missed",
        Patch(OrderedReplica, "forget_earlier", broken_terms.forget_at_once),
    ),
    mutant(
        "flows-go-on",
        "carries on in a term what was begun in another",
        Patch(OrderedEngine, "turned", broken_terms.flows_go_on),
    ),
    mutant(
        "flights-outlive-term",
        "takes what was under way in an earlier term for something that never began",
        Patch(OrderedEngine, "_end_flights", broken_terms.flights_are_begun_again),
        since=100,
    ),
)

MUTANTS = {each.name: each for each in ALL}
