"""Planted faults of the ordered engine."""

from epoxy.node.ordered import OrderedEngine
from epoxy.node.ordered_replica import OrderedReplica
from epoxy.ordered import acceptor, coordinator, graph, recovery
from epoxy.ordered.coordinator import Poll
from epoxy.ordered.interference import Interference
from epoxy.sim import broken as per_key
from epoxy.sim.ordered import broken
from epoxy.sim.patching import Patch, mutant
from epoxy.store.memory import MemoryStore
from epoxy.store.ordered import TermSpace

ALL = (
    mutant(
        "single-ballot",
        "joining a ballot hides in which one a vote was given",
        Patch(acceptor, "joined", broken.one_ballot_for_both),
        since=640,
    ),
    mutant("vote-below-ballot", "votes in ballots that are over", Patch(acceptor, "accept", broken.vote_in_any_ballot)),
    mutant(
        "pre-accept-late",
        "pre-accepts what is being recovered",
        Patch(acceptor, "pre_accept", broken.pre_accept_again),
        since=570,
    ),
    mutant(
        "fast-after-joining",
        "commits fast after joining a ballot",
        Patch(acceptor, "overtaken", broken.never),
        since=830,
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
    mutant("skip-validate", "recovers without validating", Patch(recovery, "check", broken.believe_at_once)),
    mutant(
        "validate-forgets",
        "validates and does not remember the command",
        Patch(acceptor, "remembered", broken.keep_nothing_in_mind),
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
        since=1170,
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
        "told-too-early",
        "tells what it executed before that is durable",
        Patch(OrderedEngine, "_ask_missed", broken.say_it_before_it_is_durable),
    ),
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
)

MUTANTS = {each.name: each for each in ALL}
