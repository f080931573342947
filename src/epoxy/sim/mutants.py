"""Planted faults. Each breaks one rule by name; a checker that lets one pass is not a checker.

Where a mutant breaks a rule that the engine also asserts, the assertion is taken out with it: the point is that those
who judge from outside find it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from epoxy.consensus import acceptor, home, judge, proposer, reader, recovery
from epoxy.consensus.effects import Answer, Context, Flow, Home, Next, Open
from epoxy.consensus.home import FastVote, HomeOp, Peek, Select, Selected
from epoxy.consensus.recovery import Promises
from epoxy.model import ballot, quorum, records
from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import Accept, HigherBallot, Prepare, PrepareOk, Read, ReadOk, StaleCommit
from epoxy.model.quorum import QuorumPolicy, Quorums
from epoxy.model.records import KeyState, Proposal, ProposalId, Settled, Vote
from epoxy.model.writes import ReadOutcome, ReadResult, Source
from epoxy.node.replica import Replica
from epoxy.sim import as_described
from epoxy.sim.patching import Patch, applied
from epoxy.store.keyspace import ACCEPTED, BALLOT
from epoxy.store.memory import MemoryStore


class Mutant(Struct, frozen=True, kw_only=True):
    """`workload`: the one in which it shows."""

    name: str
    breaks: str
    workload: str
    patches: tuple[Patch, ...]


def nothing(*_: object) -> None:
    return None


def never(*_: object) -> bool:
    return False


def always(*_: object) -> bool:
    return True


UNASSERTED = Patch(records, "assert_well_formed", nothing)
UNCOUNTED = Patch(quorum, "assert_quorums_meet", nothing)


# The acceptor


def vote_again(state: KeyState, message: Accept) -> HigherBallot | None:
    return HigherBallot(ballot=state.promised) if state.promised.is_classic else None


def promise_anything(state: KeyState, message: Prepare) -> acceptor.Step:
    return acceptor.promise(state, message), PrepareOk(vote=state.vote)


def promise_unkept(state: KeyState, message: Prepare) -> KeyState:
    return state


def promise_moves_vote(state: KeyState, message: Prepare) -> KeyState:
    vote = replace(state.vote, ballot=message.ballot) if state.vote is not None else None
    return replace(state, promised=message.ballot, vote=vote)


def late_commit_clears(state: KeyState, proposal: Proposal) -> acceptor.Step:
    if proposal.version < state.version:
        return KeyState(committed=state.committed, lineage=state.lineage), StaleCommit(version=state.version)
    return learn(state, proposal)


learn = acceptor.learn


# Recovery


def highest_ballot(promises: Promises, config: ClusterConfig) -> Proposal | None:
    votes = [vote for vote in promises.values() if vote is not None]
    return recovery.highest(votes).proposal if votes else None


def all_proposers(fast: list[Vote], promises: Promises) -> list[int]:
    return sorted(recovery.proposers(fast))


def rivals_not_subtracted(proposer_id: int, fast: list[Vote], promises: Promises, config: ClusterConfig) -> int:
    outside = set(config.active) - promises.keys()
    return sum(vote.ballot.replica_id == proposer_id for vote in fast) + len(outside)


# Quorums


def smaller(*, slow: int = 0, fast: int = 0) -> Callable[..., Quorums]:
    def sizes(n: int, policy: QuorumPolicy = QuorumPolicy.OPTIMAL) -> Quorums:
        right = quorums(n, policy)
        return replace(right, slow=max(1, right.slow - slow), fast=max(1, right.fast - fast))

    return sizes


quorums = quorum.quorums


# The proposer and its home


def select_without_vote(state: KeyState, op: Select) -> tuple[KeyState, Selected]:
    after, selected = select(state, op)
    return (state, selected) if isinstance(selected, FastVote) else (after, selected)


select = home.select


def same_ballot_again(replica_id: int, *seen: Ballot) -> Ballot:
    return Ballot(2, replica_id)


def newest_is_winner(version: int, committed: Proposal, lineage: tuple[Settled, ...]) -> ProposalId | None:
    return committed.proposal_id


# Durability


def send_before_durable(replica: Replica, op: HomeOp, done: Callable[[object], None]) -> None:
    if isinstance(op, Select):
        done(replica._operation(op))
    else:
        perform(replica, op, done)


def conclude_before_durable(replica: Replica, op: HomeOp, done: Callable[[object], None]) -> None:
    if isinstance(op, home.Conclude):
        done(replica._operation(op))
    else:
        perform(replica, op, done)


perform = Replica.perform


def acknowledge_at_once(store: MemoryStore, done: Callable[[], None]) -> None:
    done()


def peek_at_undurable(replica: Replica, op: Peek) -> ReadResult | None:
    committed = replica._store.transact(lambda tx: replica.keyspace.committed(tx, op.key))
    return ReadResult(committed=committed, source=Source.LOCAL) if committed is not None else None


def forget_what_was_in_flight(store: MemoryStore, keep: int = 0) -> dict[bytes, bytes]:
    return {key: value for key, value in survivors(store, keep).items() if not key.endswith((BALLOT, ACCEPTED))}


survivors = MemoryStore.survivors


# Reads


def first_answer_wins(key: bytes, ctx: Context) -> Flow[ReadOutcome]:
    request = Read(key=key, epoch=ctx.config.epoch)
    yield Open(envelopes=dict.fromkeys(ctx.others(), (request,)), timer_ms=ctx.timing.round_timeout_ms)
    for _ in ctx.others():
        event = yield Next()
        if isinstance(event, Answer) and isinstance(event.reply, ReadOk):
            return ReadResult(committed=event.reply.committed, source=Source.REMOTE)
    return ReadResult(committed=None, source=Source.REMOTE)


def cache_not_found(key: bytes, ctx: Context) -> Flow[ReadOutcome]:
    found = yield from ask_everybody(key, ctx)
    if isinstance(found, ReadResult) and found.committed is None:
        absent = Proposal(value=None, version=0, mutable=True, proposal_id=records.LEGACY_PROPOSAL_ID)
        yield Home(home.Cache(key=key, proposal=absent))
    return found


ask_everybody = reader.ask_everybody


def mutant(name: str, breaks: str, *patches: Patch, workload: str = "per-key") -> Mutant:
    return Mutant(name=name, breaks=breaks, workload=workload, patches=patches)


ALL = (
    mutant("no-commit-guard", "a fast round commits although home promised", Patch(home, "promised_since", never)),
    mutant("two-fast-votes", "a second vote in the fast round", Patch(acceptor, "refuse_fast", vote_again)),
    mutant("recover-highest-ballot", "recovery takes the highest ballot", Patch(recovery, "choose", highest_ballot)),
    mutant("recover-ignores-votes", "recovery always takes its own value", Patch(recovery, "choose", nothing)),
    mutant("proposer-not-excluded", "a proposer in Q may have won", Patch(recovery, "candidates", all_proposers)),
    mutant("rivals-not-subtracted", "proposers vote for others", Patch(recovery, "potential", rivals_not_subtracted)),
    mutant("promise-falls", "a lower ballot is promised", Patch(acceptor, "prepare", promise_anything)),
    mutant("promise-unkept", "a promise is not stored", Patch(acceptor, "promise", promise_unkept)),
    mutant("promise-moves-vote", "a promise lifts the vote", Patch(acceptor, "promise", promise_moves_vote)),
    mutant("accept-below-promise", "a vote below the promise", Patch(acceptor, "refuse_classic", nothing), UNASSERTED),
    mutant("fast-quorum-too-small", "fast - 1 votes commit", Patch(quorum, "quorums", smaller(fast=1)), UNCOUNTED),
    mutant("slow-quorum-too-small", "slow - 1 votes decide", Patch(quorum, "quorums", smaller(slow=1)), UNCOUNTED),
    mutant("ballot-reused", "a retry keeps its ballot", Patch(ballot, "next_classic", same_ballot_again)),
    mutant("own-vote-missing", "no vote at home before the round", Patch(home, "select", select_without_vote)),
    mutant(
        "vote-after-send",
        "Accepts leave before the own vote is durable",
        Patch(Replica, "perform", send_before_durable),
    ),
    mutant(
        "answer-before-commit-durable", "the client hears first", Patch(Replica, "perform", conclude_before_durable)
    ),
    mutant(
        "ack-before-fsync", "replies do not wait for the disk", Patch(MemoryStore, "when_durable", acknowledge_at_once)
    ),
    mutant(
        "reset-on-restart",
        "promises and votes end with the process",
        Patch(MemoryStore, "survivors", forget_what_was_in_flight),
    ),
    mutant("read-undurable", "a local read shows what may be lost", Patch(Replica, "_peek", peek_at_undurable)),
    mutant("wrong-winner", "finishing somebody's write counts as winning", Patch(proposer, "is_mine", always)),
    mutant("first-empty-read-wins", "the first answer is believed", Patch(reader, "ask_everybody", first_answer_wins)),
    mutant("cache-miss", "not found is cached", Patch(reader, "ask_everybody", cache_not_found)),
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
        Patch(acceptor, "learn", late_commit_clears),
        workload="mutable",
    ),
    mutant(
        "newest-is-winner",
        "an overtaken write is taken for a lost one",
        Patch(judge, "winner", newest_is_winner),
        workload="mutable",
    ),
    mutant("as-described", "the protocol as first described", *as_described.PATCHES),
)

MUTANTS = {each.name: each for each in ALL}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """While this lasts, the rule is broken. None: nothing is."""
    with applied(MUTANTS[name].patches if name is not None else ()):
        yield
