"""Broken rules, to be planted in place of the right ones: see mutants.py."""

from collections.abc import Callable

from msgspec.structs import replace

from epoxy.codec.tuple import pack
from epoxy.model import ballot, quorum, records
from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import Accept, HigherBallot, Prepare, PrepareOk, Read, ReadOk, Reply, StaleCommit
from epoxy.model.quorum import QuorumPolicy, Quorums
from epoxy.model.records import KeyState, Proposal, ProposalId, Settled, Vote
from epoxy.model.writes import ReadOutcome, ReadResult, Source
from epoxy.node.keys.key_state_cache import KeyStateCache
from epoxy.node.keys.replica import Replica
from epoxy.node.keys.uncontended import Uncontended
from epoxy.protocol.effects import Answer, Context, Event, Local, Next, Open
from epoxy.protocol.keys import acceptor, local, operations, preconditions, proposer, reader, recovery, rounds
from epoxy.protocol.keys.effects import Flow
from epoxy.protocol.keys.operations import FastVote, LocalOp, Reserved, Select, Selected
from epoxy.protocol.keys.recovery import Promises
from epoxy.protocol.keys.terms import Decision, GaveUp, KeyInstance, OwnProposal
from epoxy.runtime.flow import FlowRunner
from epoxy.store.keyspace import BALLOT, VOTES
from epoxy.store.limits import FIRST_RESERVED_KEY
from epoxy.store.memory import MemoryStore
from epoxy_sim.patching import replaces

# Broken rules keep the signature of the right ones, used or not.
# ruff: noqa: ARG001


def nothing(*_: object) -> None:
    return None


def never(*_: object) -> bool:
    return False


def always(*_: object) -> bool:
    return True


# The acceptor


@replaces(acceptor, "refuse_fast")
def vote_again(state: KeyState, message: Accept) -> HigherBallot | None:
    return HigherBallot(ballot=state.promised) if state.promised.is_classic else None


@replaces(acceptor, "prepare")
def promise_anything(state: KeyState, message: Prepare) -> acceptor.Step:
    return acceptor.promise(state, message), PrepareOk(vote=state.vote)


@replaces(acceptor, "promise")
def promise_unkept(state: KeyState, message: Prepare) -> KeyState:
    return state


@replaces(acceptor, "promise")
def promise_moves_vote(state: KeyState, message: Prepare) -> KeyState:
    vote = replace(state.vote, ballot=message.ballot) if state.vote is not None else None
    return replace(state, promised=message.ballot, vote=vote)


@replaces(acceptor, "learn")
def late_commit_clears(state: KeyState, proposal: Proposal) -> acceptor.Step:
    if proposal.version < state.version:
        return KeyState(committed=state.committed, lineage=state.lineage), StaleCommit(version=state.version)
    return learn(state, proposal)


learn = acceptor.learn


# Recovery


@replaces(recovery, "choose")
def highest_ballot(promises: Promises, config: ClusterConfig) -> Proposal | None:
    votes = [vote for vote in promises.values() if vote is not None]
    return recovery.highest(votes).proposal if votes else None


@replaces(recovery, "candidates")
def all_proposers(fast: list[Vote], promises: Promises) -> list[int]:
    return sorted(recovery.proposers(fast))


@replaces(recovery, "potential")
def rivals_not_subtracted(proposer_id: int, fast: list[Vote], promises: Promises, config: ClusterConfig) -> int:
    outside = set(config.electorate) - promises.keys()
    return sum(vote.ballot.replica_id == proposer_id for vote in fast) + len(outside)


# Quorums


def smaller(*, slow: int = 0, fast: int = 0) -> Callable[..., Quorums]:
    def sizes(n: int, policy: QuorumPolicy = QuorumPolicy.OPTIMAL) -> Quorums:
        right = quorums(n, policy)
        return replace(right, slow=max(1, right.slow - slow), fast=max(1, right.fast - fast))

    return sizes


quorums = quorum.quorums


# The proposer and its home


@replaces(local, "select")
def select_without_vote(state: KeyState, op: Select, config: ClusterConfig) -> tuple[KeyState, Selected]:
    after, selected = select(state, op, config)
    return (state, selected) if isinstance(selected, FastVote) else (after, selected)


select = local.select


@replaces(ballot, "next_classic")
def same_ballot_again(replica_id: int, *seen: Ballot) -> Ballot:
    return Ballot(2, replica_id)


@replaces(preconditions, "winner")
def newest_is_winner(version: int, committed: Proposal, lineage: tuple[Settled, ...]) -> ProposalId | None:
    return committed.proposal_id


@replaces(FlowRunner, "_happened")
def count_old_answers(run: FlowRunner[object], round_number: int, event: Event) -> None:
    happened(run, run._round, event)


@replaces(FlowRunner, "start")
def remember_runner(run: FlowRunner[object]) -> None:
    if isinstance(run._host, Uncontended):
        vars(run._host)["runner"] = run
    start(run)


@replaces(Uncontended, "_heard")
def hand_on_old_answers(write: Uncontended, sender: int, reply: Reply) -> None:
    """To the flow, what the round without a flow had asked for."""
    run: FlowRunner[object] | None = getattr(write, "runner", None)
    if run is None:
        heard(write, sender, reply)
    else:
        happened(run, run._round, Answer(sender, reply))


happened, start, heard = FlowRunner._happened, FlowRunner.start, Uncontended._heard


@replaces(preconditions, "winner")
def remember_only_the_newest(version: int, committed: Proposal, lineage: tuple[Settled, ...]) -> ProposalId | None:
    return committed.proposal_id if committed.version == version else None


@replaces(rounds, "decide")
def offer_not_noted(
    ctx: Context, instance: KeyInstance, mine: OwnProposal, start: FastVote | Reserved
) -> Flow[Decision | GaveUp]:
    """The writer does not remember that its proposal has left home."""
    return (yield from decide(ctx, instance, OwnProposal(proposal=mine.proposal), start))


decide = rounds.decide


@replaces(proposer, "ask_for_winner")
def winner_not_asked_for(key: bytes, version: int, ctx: Context) -> Flow[ProposalId | None]:
    """Forgotten is taken for lost."""
    yield from ()
    return ProposalId(0, 0)


# Durability


@replaces(Replica, "perform")
def send_before_durable(replica: Replica, op: LocalOp, done: Callable[[object], None]) -> None:
    if isinstance(op, Select):
        done(replica._operation(op))
    else:
        perform(replica, op, done)


@replaces(Replica, "perform")
def conclude_before_durable(replica: Replica, op: LocalOp, done: Callable[[object], None]) -> None:
    if isinstance(op, operations.Conclude):
        done(replica._operation(op))
    else:
        perform(replica, op, done)


perform = Replica.perform


@replaces(MemoryStore, "when_durable")
def acknowledge_at_once(store: MemoryStore, done: Callable[[], None]) -> None:
    done()


@replaces(Replica, "peek")
def peek_at_undurable(replica: Replica, key: bytes, *, use_cache: bool) -> ReadResult | None:
    committed = replica._store.transact(lambda tx: replica.keyspace.committed(tx, key))
    return ReadResult(committed=committed, source=Source.LOCAL) if committed is not None else None


@replaces(MemoryStore, "survivors")
def forget_what_was_in_flight(store: MemoryStore, keep: int = 0) -> dict[bytes, bytes]:
    left = survivors(store, keep).items()
    return {key: value for key, value in left if not key.endswith(BALLOT) and not is_a_vote(key)}


def is_a_vote(row: bytes) -> bool:
    """The layout and the replica take two bytes each."""
    return not row.startswith(FIRST_RESERVED_KEY) and row.startswith(pack((VOTES,)), 4)


survivors = MemoryStore.survivors


@replaces(KeyStateCache, "put")
def remember_the_first(states: KeyStateCache, key: bytes, state: KeyState) -> None:
    if states.get(key) is None:
        put_state(states, key, state)


put_state = KeyStateCache.put


# Reads


@replaces(reader, "read_any_value")
def first_answer_wins(key: bytes, ctx: Context) -> Flow[ReadOutcome]:
    request = Read(key=key, epoch=ctx.config.epoch)
    yield Open(envelopes=dict.fromkeys(ctx.others(), (request,)), timer_ms=ctx.timing.round_timeout_ms)
    for _ in ctx.others():
        event = yield Next()
        if isinstance(event, Answer) and isinstance(event.reply, ReadOk):
            return ReadResult(committed=event.reply.committed, source=Source.REMOTE)
    return ReadResult(committed=None, source=Source.REMOTE)


@replaces(reader, "read_any_value")
def cache_not_found(key: bytes, ctx: Context) -> Flow[ReadOutcome]:
    found = yield from read_any_value(key, ctx)
    if isinstance(found, ReadResult) and found.committed is None:
        absent = Proposal(value=None, version=0, mutable=True, proposal_id=records.LEGACY_PROPOSAL_ID)
        yield Local(operations.Cache(key=key, proposal=absent))
    return found


read_any_value = reader.read_any_value
