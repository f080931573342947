"""The rules that a visitor may break, each with what it says and what it is for.

These are planted faults of `epoxy_sim.keys.mutants` that a browser finds in seconds. `begin`: where the search for a
seed begins; lower ones are known not to show the fault.
"""

from msgspec import Struct

from epoxy_sim.members.mutants import MUTANTS as ALL_MUTANTS


class BreakableRule(Struct, frozen=True, kw_only=True):
    """`mutant` names the planted fault."""

    mutant: str
    title: str
    rule: str
    without: str
    begin: int = 0


RULES = (
    BreakableRule(
        mutant="two-fast-votes",
        title="One vote in the fast round",
        rule="In the fast round of a key, a replica votes once, for the first proposal that it hears of.",
        without="It votes again for a second one, and both proposals may count its vote.",
    ),
    BreakableRule(
        mutant="wrong-winner",
        title="A win is the write's own",
        rule="A client has won if its own write was decided, by its id. An equal value, or another's write that was "
        "finished on the way, is not a win.",
        without="Two clients are told that the name is theirs.",
    ),
    BreakableRule(
        mutant="promise-falls",
        title="Promises only rise",
        rule="A replica that promised a ballot answers no to every lower one.",
        without="A late Prepare takes the promise back, and an old proposer goes on as if it had not been overtaken.",
    ),
    BreakableRule(
        mutant="accept-below-promise",
        title="No vote below the promise",
        rule="A replica votes at a ballot only if that is not below what it promised.",
        without="A slow proposer gets votes after a recovery has looked, and decides something else.",
    ),
    BreakableRule(
        mutant="slow-quorum-too-small",
        title="Majorities meet",
        rule="A classic round needs a majority: any two of them share a replica, which tells the second of the first.",
        without="Two halves decide, and neither knows of the other.",
    ),
    BreakableRule(
        mutant="fast-quorum-too-small",
        title="Fast quorums are large enough to be found",
        rule="A fast quorum is so large that every recovery sees enough of its votes to know what may be decided.",
        without="A value is acknowledged that a recovery cannot see, and another takes its place.",
    ),
    BreakableRule(
        mutant="recover-ignores-votes",
        title="A recovery keeps what may be decided",
        rule="A proposer that recovers a key proposes the value that may have been decided, not its own.",
        without="It overwrites a value that a client was told.",
    ),
    BreakableRule(
        mutant="ack-before-fsync",
        title="First the disk, then the answer",
        rule="Nothing leaves a replica before everything that it rests on is on disk.",
        without="A crash takes back a vote that others have counted.",
    ),
    BreakableRule(
        mutant="reset-on-restart",
        title="A restart forgets nothing",
        rule="Promises and votes are on disk, and a process that starts again keeps them.",
        without="After a restart a replica votes a second time.",
    ),
    BreakableRule(
        mutant="stale-linearizable-read",
        title="A read waits for what is under way",
        rule="A linearizable read that sees votes in flight does not answer before they are decided.",
        without="It answers with the old value although the new one was acknowledged.",
        begin=4,
    ),
    BreakableRule(
        mutant="own-vote-missing",
        title="A proposer votes first",
        rule="A proposer votes for itself before it asks others: a recovery that knows of its proposal knows how it "
        "voted. That makes bare majorities enough for a fast quorum of three or five.",
        without="It votes for a rival meanwhile, and both reach a quorum.",
        begin=60,
    ),
    BreakableRule(
        mutant="no-commit-guard",
        title="No fast commit after a promise",
        rule="A proposer does not commit a fast round once its own replica has promised a classic ballot.",
        without="A recovery has counted it out, decides another value, and the proposer commits all the same.",
        begin=280,
    ),
    BreakableRule(
        mutant="as-described",
        title="The whole protocol, as first described",
        rule="The protocol that this one replaces: it looked right, and its recovery takes the highest ballot.",
        without="It loses acknowledged writes. docs/protocol/why-not-as-described.md has the story.",
        begin=40,
    ),
)

FINDINGS = {
    "agreement": "Two replicas or clients have different values for the same version of a key.",
    "second vote": "A replica voted twice in one round.",
    "promise falls": "A replica took back a promise.",
    "committed goes back": "A replica lost or changed what it had committed.",
    "durable state lost": "What was on a replica's disk is not there after its restart.",
    "two winners": "Two clients were told that the same version is their own.",
    "took effect twice": "One write made two versions.",
    "decisions overlap": "Two decisions claim the same version.",
    "linearizability": "What clients were told cannot have happened in any order that fits the times.",
    "optimistic read": "A local read showed what was never committed, or what should have been replaced.",
    "liveness": "Nothing is broken any more, and yet a client gets no answer.",
    "assertion": "An assertion in the production code failed.",
    "alarm": "A replica raised its alarm: two values were decided for one instance.",
}
"""What the judge means, in words for the page."""

MUTANTS = {rule.mutant: ALL_MUTANTS[rule.mutant] for rule in RULES}
