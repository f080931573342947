"""Planted faults of single keys. Each breaks one rule by name; a checker that lets one pass is not a checker.

Where a mutant breaks a rule that the engine also asserts, the assertion is taken out with it: a judge must find the
fault from outside.
"""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from epoxy.codec.tuple import pack
from epoxy.model import ballot, quorum, records
from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import Accept, HigherBallot, Prepare, PrepareOk, Read, ReadOk, Reply, StaleCommit
from epoxy.model.quorum import QuorumPolicy, Quorums
from epoxy.model.records import KeyState, Proposal, Settled, Vote
from epoxy.model.writes import ReadOutcome, ReadResult, Source
from epoxy.node.keys import replica
from epoxy.node.keys.key_state_cache import KeyStateCache
from epoxy.node.keys.quiet_read import QuietRead
from epoxy.node.keys.replica import Replica
from epoxy.node.keys.uncontended import Uncontended
from epoxy.protocol.effects import Also, Answer, Context, Event, Local, Next, Open
from epoxy.protocol.keys import acceptor, folding, local, operations, proposer, reader, recovery, rounds
from epoxy.protocol.keys.effects import Flow
from epoxy.protocol.keys.operations import FastVote, LocalOp, PendingWrite, Reserved, Select, Selected
from epoxy.protocol.keys.recovery import Promises
from epoxy.protocol.keys.terms import Decision, GaveUp, KeyInstance, OwnProposal
from epoxy.runtime.flow import FlowRunner
from epoxy.store.keyspace import BALLOT, VOTES
from epoxy.store.limits import FIRST_RESERVED_KEY
from epoxy.store.memory import MemoryStore
from epoxy_sim.keys import as_described
from epoxy_sim.patching import Mutant, Mutants, Patch, always, never, nothing

learn = acceptor.learn
find = folding.find
quorums = quorum.quorums
select = local.select
happened, start, heard = FlowRunner._happened, FlowRunner.start, Uncontended._heard
decide = rounds.decide
perform = Replica.perform
survivors, when_durable = MemoryStore.survivors, MemoryStore.when_durable
put_state = KeyStateCache.put
read_any_value, await_end = reader.read_any_value, reader.await_end
counted, ask_rest = QuietRead._counted, QuietRead._ask_rest

AS_DESCRIBED = "as-described"
"""The mutant that replaces the whole protocol; on the command line it is a protocol of its own."""


class KeysMutant(Mutant, frozen=True, kw_only=True):
    """`workload`: the one in which it shows. `exhaustive`: simulation finds it too rarely, so it is looked for in every
    state of small worlds."""

    workload: str = "per-key"
    exhaustive: bool = False


UNASSERTED = Patch(records, "assert_well_formed", nothing)
UNCOUNTED = Patch(quorum, "assert_quorums_meet", nothing)
AMBIGUOUS = Patch(recovery, "assert_unambiguous", nothing)

MUTANTS = Mutants(KeysMutant)
mutant = MUTANTS.mutant


def smaller(*, slow: int = 0, fast: int = 0) -> Callable[..., Quorums]:
    def sizes(n: int, policy: QuorumPolicy = QuorumPolicy.OPTIMAL) -> Quorums:
        right = quorums(n, policy)
        return replace(right, slow=max(1, right.slow - slow), fast=max(1, right.fast - fast))

    return sizes


def is_a_vote(row: bytes) -> bool:
    """The layout and the replica take two bytes each."""
    return not row.startswith(FIRST_RESERVED_KEY) and row.startswith(pack((VOTES,)), 4)


mutant(local, "promised_since", "no-commit-guard", "a fast round commits although home promised")(never)


@mutant(acceptor, "refuse_fast", "two-fast-votes", "a second vote in the fast round")
def vote_again(state: KeyState, message: Accept) -> HigherBallot | None:
    return HigherBallot(ballot=state.promised) if state.promised.is_classic else None


@mutant(recovery, "choose", "recover-highest-ballot", "recovery takes the highest ballot")
def highest_ballot(promises: Promises, config: ClusterConfig) -> Proposal | None:
    votes = [vote for vote in promises.values() if vote is not None]
    return recovery.highest(votes).proposal if votes else None


mutant(recovery, "choose", "recover-ignores-votes", "recovery always takes its own value")(nothing)


@mutant(recovery, "candidates", "proposer-not-excluded", "a proposer in Q may have won", AMBIGUOUS, exhaustive=True)
def all_proposers(fast: list[Vote], promises: Promises) -> list[int]:
    return sorted(recovery.proposers(fast))


@mutant(recovery, "potential", "rivals-not-subtracted", "proposers vote for others", AMBIGUOUS, exhaustive=True)
def rivals_not_subtracted(proposer_id: int, fast: list[Vote], promises: Promises, config: ClusterConfig) -> int:
    outside = set(config.electorate) - promises.keys()
    return sum(vote.ballot.replica_id == proposer_id for vote in fast) + len(outside)


@mutant(acceptor, "prepare", "promise-falls", "a lower ballot is promised")
def promise_anything(state: KeyState, message: Prepare) -> acceptor.Step:
    return acceptor.promise(state, message), PrepareOk(vote=state.vote)


@mutant(acceptor, "promise", "promise-unkept", "a promise is not stored")
def promise_unkept(state: KeyState, message: Prepare) -> KeyState:
    return state


@mutant(acceptor, "promise", "promise-moves-vote", "a promise lifts the vote")
def promise_moves_vote(state: KeyState, message: Prepare) -> KeyState:
    vote = replace(state.vote, ballot=message.ballot) if state.vote is not None else None
    return replace(state, promised=message.ballot, vote=vote)


mutant(acceptor, "refuse_classic", "accept-below-promise", "a vote below the promise", UNASSERTED)(nothing)
mutant(quorum, "quorums", "fast-quorum-too-small", "fast - 1 votes commit", UNCOUNTED)(smaller(fast=1))
mutant(quorum, "quorums", "slow-quorum-too-small", "slow - 1 votes decide", UNCOUNTED)(smaller(slow=1))


@mutant(ballot, "next_classic", "ballot-reused", "a retry keeps its ballot")
def same_ballot_again(replica_id: int, *seen: Ballot, rank: int = 0) -> Ballot:
    return Ballot(2, replica_id)


@mutant(local, "select", "own-vote-missing", "no vote at home before the round")
def select_without_vote(state: KeyState, op: Select, config: ClusterConfig) -> tuple[KeyState, Selected]:
    after, selected = select(state, op, config)
    return (state, selected) if isinstance(selected, FastVote) else (after, selected)


@mutant(Replica, "perform", "vote-after-send", "Accepts leave before the own vote is durable")
def send_before_durable(replica: Replica, op: LocalOp, done: Callable[[object], None]) -> None:
    if isinstance(op, Select):
        done(replica._operation(op))
    else:
        perform(replica, op, done)


@mutant(Replica, "perform", "answer-before-commit-durable", "the client hears first")
def conclude_before_durable(replica: Replica, op: LocalOp, done: Callable[[object], None]) -> None:
    if isinstance(op, operations.Conclude):
        done(replica._operation(op))
    else:
        perform(replica, op, done)


@mutant(MemoryStore, "when_durable", "ack-before-fsync", "replies do not wait for the disk")
def acknowledge_at_once(store: MemoryStore, done: Callable[[], None], *, urgent: bool = True) -> None:
    done()


def acknowledge_delayed(store: MemoryStore, done: Callable[[], None], *, urgent: bool = True) -> None:
    if store._due <= store._synced:
        done()
    else:
        when_durable(store, done, urgent=urgent)


mutant(
    replica,
    "is_news",
    "vote-delayed",
    "a vote whose sync is delayed is told as if it were durable",
    Patch(MemoryStore, "when_durable", acknowledge_delayed),
)(always)


@mutant(MemoryStore, "survivors", "reset-on-restart", "promises and votes end with the process")
def forget_what_was_in_flight(store: MemoryStore, keep: int = 0) -> dict[bytes, bytes]:
    left = survivors(store, keep).items()
    return {key: value for key, value in left if not key.endswith(BALLOT) and not is_a_vote(key)}


@mutant(KeyStateCache, "put", "stale-state", "memory keeps an older state than the disk")
def remember_the_first(states: KeyStateCache, key: bytes, state: KeyState) -> None:
    if states.get(key) is None:
        put_state(states, key, state)


@mutant(Replica, "peek", "read-undurable", "a local read shows what may be lost")
def peek_at_undurable(replica: Replica, key: bytes, *, use_cache: bool) -> ReadResult | None:
    committed = replica._store.transact(lambda tx: replica.keyspace.committed(tx, key))
    return ReadResult(committed=committed, source=Source.LOCAL) if committed is not None else None


mutant(proposer, "is_mine", "wrong-winner", "finishing another client's write counts as winning")(always)


@mutant(reader, "read_any_value", "first-empty-read-wins", "the first answer is believed")
def first_answer_wins(key: bytes, ctx: Context) -> Flow[ReadOutcome]:
    request = Read(key=key, epoch=ctx.config.epoch)
    yield Open(envelopes=dict.fromkeys(ctx.others(), (request,)), timer_ms=ctx.timing.round_timeout_ms)
    for _ in ctx.others():
        event = yield Next()
        if isinstance(event, Answer) and isinstance(event.reply, ReadOk):
            return ReadResult(committed=event.reply.committed, source=Source.REMOTE)
    return ReadResult(committed=None, source=Source.REMOTE)


@mutant(reader, "read_any_value", "cache-miss", "not found is cached")
def cache_not_found(key: bytes, ctx: Context) -> Flow[ReadOutcome]:
    found = yield from read_any_value(key, ctx)
    if isinstance(found, ReadResult) and found.committed is None:
        absent = Proposal(value=None, version=0, mutable=True, proposal_id=records.LEGACY_PROPOSAL_ID)
        yield Local(operations.Cache(key=key, proposal=absent))
    return found


mutant(reader, "in_flight", "stale-linearizable-read", "votes in flight are ignored")(never)


@mutant(reader, "unheard_winners", "read-believes-undecided", "a read does not ask a proposer that may have committed")
def no_winners(votes: Mapping[int, Vote], replies: reader.Replies, config: ClusterConfig) -> list[int] | None:
    return []


@mutant(reader, "await_end", "read-from-vote", "a read answers with a vote that is not committed", workload="mutable")
def vote_is_answer(
    key: bytes, committed: Proposal | None, winners: list[int] | None, asked: Sequence[int], ctx: Context
) -> Flow[ReadResult | None]:
    """Of the proposer that may have won, committed or not."""
    yield Also(envelopes=dict.fromkeys(ctx.config.voters, (Read(key=key, epoch=ctx.config.epoch),)), timer_ms=50.0)
    while isinstance(event := (yield Next()), Answer):
        if isinstance(event.reply, ReadOk) and event.reply.vote is not None:
            return ReadResult(committed=event.reply.vote.proposal, source=Source.QUORUM)
    return None


@mutant(reader, "await_end", "read-ignores-silence", "a proposer that does not answer has not committed")
def silence_is_no(
    key: bytes, committed: Proposal | None, winners: list[int] | None, asked: Sequence[int], ctx: Context
) -> Flow[ReadResult | None]:
    ended = yield from await_end(key, committed, winners, asked, ctx)
    return ended or ReadResult(committed=committed, source=Source.QUORUM)


@mutant(QuietRead, "_counted", "hedge-counts-twice", "a replica that answers twice is two of a quorum")
def count_again(read: QuietRead, sender: int, reply: Reply) -> bool:
    """And the hedge asks the nearest again, too."""
    return counted(read, sender + 100 if sender in read._replies else sender, reply)


@MUTANTS.also("hedge-counts-twice", QuietRead, "_ask_rest")
def ask_all_again(read: QuietRead) -> None:
    read._unasked = (*read._plan.asked, *read._unasked)
    ask_rest(read)


mutant(
    acceptor,
    "missed_a_commit",
    "no-behind",
    "a version is entered without the one before",
    UNASSERTED,
    workload="mutable",
)(nothing)


@mutant(acceptor, "learn", "late-commit-clears-vote", "an old commit clears what is in flight", workload="mutable")
def late_commit_clears(state: KeyState, proposal: Proposal) -> acceptor.Step:
    if proposal.version < state.version:
        return KeyState(committed=state.committed, lineage=state.lineage), StaleCommit(version=state.version)
    return learn(state, proposal)


@mutant(folding, "find", "newest-is-winner", "an overtaken write is taken for a lost one", workload="hot")
def look_at_the_newest(pending: PendingWrite, committed: Proposal, lineage: tuple[Settled, ...]) -> int:
    return folding.version_in(committed, pending.proposal_id)


@mutant(FlowRunner, "_happened", "old-answers-count", "answers of an earlier round are counted")
def count_old_answers(run: FlowRunner[object], round_number: int, event: Event) -> None:
    happened(run, run._round, event)


@MUTANTS.also("old-answers-count", FlowRunner, "start")
def remember_runner(run: FlowRunner[object]) -> None:
    if isinstance(run._host, Uncontended):
        vars(run._host)["runner"] = run
    start(run)


@MUTANTS.also("old-answers-count", Uncontended, "_heard")
def hand_on_old_answers(write: Uncontended, sender: int, reply: Reply) -> None:
    """To the flow, what the round without a flow had asked for."""
    run: FlowRunner[object] | None = getattr(write, "runner", None)
    if run is None:
        heard(write, sender, reply)
    else:
        happened(run, run._round, Answer(sender, reply))


@mutant(folding, "find", "forgotten-is-lost", "a forgotten decision counts as lost", workload="hot")
def forget_all_but_the_newest(pending: PendingWrite, committed: Proposal, lineage: tuple[Settled, ...]) -> int:
    found = find(pending, committed, ())
    return folding.ABSENT if found == folding.UNKNOWN else found


@mutant(rounds, "decide", "offer-not-noted", "a write forgets that it was put forward", workload="mutable")
def offer_not_noted(
    ctx: Context, instance: KeyInstance, mine: OwnProposal, start: FastVote | Reserved
) -> Flow[Decision | GaveUp]:
    """The writer does not remember that its proposal has left home."""
    return (yield from decide(ctx, instance, OwnProposal(fold=mine.fold, writes=()), start))


MUTANTS[AS_DESCRIBED] = KeysMutant(
    name=AS_DESCRIBED, breaks="the protocol as first described", patches=as_described.PATCHES
)
