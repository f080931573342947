"""Planted faults of elections. The first nine are those of the original text, under the numbers of
docs/protocol/elect.md; each of the others takes out one of our own rules."""

from epoxy.protocol.elect import bootstrap, candidacy, changes, handshake, lists, rules
from epoxy_sim.elect import mutations
from epoxy_sim.elect.as_described import AsDescribed
from epoxy_sim.elect.judge import ElectJudge
from epoxy_sim.elect.machine import ElectMachine
from epoxy_sim.patching import Patch, mutant

AS_DESCRIBED = "elect-as-described"

NOT_ASKED = (Patch(ElectJudge, "sends", mutations.nothing), Patch(ElectJudge, "begun", mutations.nothing))
"""Where a mutant breaks what a judge checks directly, that check is off: others must find it by its consequences."""

ALL = (
    mutant("1-votes-not-kept", "a restart forgets its vote", mutations.start_without_votes, since=120),
    mutant(
        "2-candidate-votes-twice",
        "a candidate that yields goes on",
        mutations.vote_and_stand,
        mutations.resign_and_stand,
    ),
    mutant(
        "3-voters-do-not-look",
        "votes are given while the primary is heard",
        mutations.vote_unseeing,
        mutations.stand_alone,
        since=580,
    ),
    mutant("4-primary-stays", "a primary that votes or follows stays primary", mutations.stay),
    mutant("4-announced-once", "heartbeats do not tell who leads", mutations.believe_announcements_alone),
    mutant("5-no-lease", "a primary that is cut off goes on", mutations.for_ever),
    mutant("5-lease-too-long", "the lease outlives the silence", mutations.twice_as_long),
    mutant("5-lease-by-hearing", "a heartbeat received counts as an answer", mutations.count_the_heard, since=90),
    mutant(
        "6-offsets-alone",
        "offsets of different epochs are compared",
        mutations.fewer_bytes,
        mutations.rank_by_offset,
        since=290,
    ),
    mutant("7-full-queue", "a full queue drops what is new", mutations.drop_the_new),
    mutant("8-anyone-may-speak", "no secret is asked for", Patch(handshake, "check_proof", mutations.nothing)),
    mutant(
        "9-any-config", "peers with another list are accepted", Patch(lists, "compatible", mutations.always), since=100
    ),
    mutant("no-judgement", "a voter does not compare positions", Patch(rules, "is_worse", mutations.never), since=210),
    mutant(
        "resigned-is-closed",
        "resigning counts before the server is closed",
        Patch(rules, "has_closed", mutations.always),
    ),
    mutant("memory-invented", "a node without a record votes", mutations.start_with_invented_record, since=480),
    mutant("deaf-for-nothing", "a restart votes at once", mutations.start_at_once, since=120),
    mutant(
        "begun-too-early",
        "the first primary does not wait for the others",
        Patch(bootstrap, "is_founded", mutations.always),
    ),
    mutant("quorum-too-small", "half of the nodes elect", mutations.one_less),
    mutant("epoch-reused", "a candidate does not raise the epoch", mutations.same_epoch_again),
    mutant(
        "clings-to-office",
        "a leader without a lease waits although some have voted later",
        Patch(candidacy, "must_resign", mutations.never),
        since=820,
    ),
    mutant("any-epoch", "an epoch far above all others is believed", Patch(rules, "is_plausible", mutations.always)),
    mutant("list-at-once", "a new list counts alone from the restart on", mutations.at_once_alone),
    mutant("one-list-of-two", "a majority of one of both lists is enough", mutations.of_any, mutations.latest),
    mutant("no-promise", "a node that answered a leader of the new list elects by the old one", mutations.kept),
    mutant(
        "list-without-data",
        "a list takes effect before its nodes have the data",
        Patch(changes, "has_copies", mutations.always),
    ),
    mutant(
        "copies-that-do-not-vote",
        "a node that leaves the list goes on copying",
        Patch(rules, "may_copy", mutations.always),
        since=165,
    ),
    mutant(AS_DESCRIBED, "elections as first described", Patch(ElectMachine, "elector_class", AsDescribed), *NOT_ASKED),
)

MUTANTS = {each.name: each for each in ALL}
