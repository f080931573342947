"""Hypothesis strategies for everything the codec carries, and the table of formats the tests walk over.

Values stay within the model's invariants and the schema's limits; sizes are mostly small, with the limits themselves
among the draws.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.model.ballot import FIRST_CLASSIC_COUNTER, NO_BALLOT, Ballot
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.frames import PeerRequest, PeerResponse
from epoxy.model.instances import (
    Catchup,
    Closed,
    Command,
    Decided,
    Deps,
    Ended,
    Forgotten,
    Instance,
    InstanceId,
    InstanceState,
    InTerm,
    Missed,
    Noted,
    OrderedAccept,
    OrderedCommit,
    OrderedRequest,
    OrderedVote,
    Overloaded,
    Overtaken,
    Phase,
    PreAccept,
    PreAcceptOk,
    Recover,
    RecoverOk,
    Rival,
    Seal,
    Sealed,
    Term,
    TermEnd,
    Validate,
    ValidateOk,
    Voted,
    Waiting,
)
from epoxy.model.members import (
    DIGEST_BYTES,
    ActorRow,
    ActorsPage,
    ActorsRead,
    ChangelogPage,
    ChangelogRead,
    ChangeRequest,
    CursorTruncated,
    FastVotesRead,
    Figures,
    FiguresRead,
    Frontier,
    FrontierRead,
    HeldPage,
    HeldRead,
    Kept,
    KeptId,
    KeptPage,
    KeptRead,
    Member,
    MemberReply,
    MemberRequest,
    MemberStatus,
    Pair,
    Progress,
    SnapshotPage,
    SnapshotRead,
    StatusRead,
    Stretch,
    Unfinished,
    Unsettled,
    UnsettledPage,
    UnsettledRead,
    ValuesPage,
    ValuesRead,
    VotesRead,
)
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
    CarriedWrite,
    Carry,
    CarryAnswer,
    CarryAnswers,
    CarryOk,
    CarryResult,
    Commit,
    CommitConflict,
    CommitOk,
    ConfigOk,
    EpochAhead,
    Failed,
    HigherBallot,
    Inspect,
    Inspected,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    Reply,
    Request,
    StaleCommit,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy
from epoxy.model.records import (
    LINEAGE_LENGTH,
    MAX_FOLD_WRITES,
    MAX_KEY_BYTES,
    MAX_TTL_MS,
    MAX_VALUE_BYTES,
    SESSION_ID_BYTES,
    ChangelogEntry,
    CommittedRecord,
    Expiry,
    ExpiryEntry,
    Proposal,
    ProposalId,
    Settled,
    Vote,
)
from epoxy.model.transactions import MOST, Add, Compare, Delete, Expire, Get, Import, Operation, OrderedValue, Put, Txn

MAX_U64 = (1 << 64) - 1

# Around the steps of the variable-length form, where a mistake would show.
EDGES = [edge + delta for bits in range(7, 64, 7) for edge in (1 << bits,) for delta in (-1, 0)]

uints = st.one_of(st.integers(0, 9), st.integers(0, MAX_U64), st.sampled_from([*EDGES, MAX_U64]))
positive = uints.filter(bool)
u64s = st.one_of(st.integers(0, 9), st.integers(0, MAX_U64))
keys = st.one_of(st.binary(min_size=1, max_size=40), st.just(b"k" * MAX_KEY_BYTES))
values = st.one_of(st.binary(max_size=200), st.sampled_from([b"", b"v" * 127, b"v" * 128, b"v" * MAX_VALUE_BYTES]))
urls = st.one_of(st.text(max_size=40), st.just("u" * 2048))
datacenters = st.one_of(st.text(max_size=20), st.just("d" * 255))
reasons = st.one_of(st.text(max_size=40), st.just("r" * 1024))

real_ballots = st.builds(Ballot, positive, uints)
classic_ballots = st.builds(Ballot, uints.filter(lambda counter: counter >= FIRST_CLASSIC_COUNTER), uints)
ballots = st.just(NO_BALLOT) | real_ballots
proposal_ids = st.builds(ProposalId, uints, u64s)
folds = st.just(()) | st.lists(proposal_ids, max_size=MAX_FOLD_WRITES - 1).map(tuple)


ttls = st.integers(1, 100) | st.integers(1, MAX_TTL_MS) | st.just(MAX_TTL_MS)
sessions = st.binary(min_size=SESSION_ID_BYTES, max_size=SESSION_ID_BYTES)
expiries = st.builds(Expiry, ttl_ms=ttls, since=uints) | st.builds(
    Expiry, ttl_ms=st.just(0), since=uints, session=sessions
)
expiry_entries = st.builds(ExpiryEntry, version=uints, home=uints, expiry=expiries)


@st.composite
def proposals(draw: st.DrawFn, versions: st.SearchStrategy[int] = uints) -> Proposal:
    value = draw(st.one_of(st.none(), values))
    mutable = value is None or draw(st.booleans())
    folded = draw(folds)
    version = draw(versions)
    return Proposal(
        value=value,
        version=version,
        mutable=mutable,
        proposal_id=draw(proposal_ids),
        folded=folded[: max(0, version - 1)],
        proposer=draw(st.just(0) | uints),
        expiry=draw(st.none() | expiries) if mutable and value is not None else None,
    )


votes = st.builds(Vote, proposal=proposals(), ballot=ballots, epoch=uints)


@st.composite
def settled(draw: st.DrawFn) -> Settled:
    version = draw(uints)
    return Settled(version, draw(proposal_ids), draw(folds)[: max(0, version - 1)])


lineages = st.lists(settled(), max_size=LINEAGE_LENGTH).map(tuple)


@st.composite
def configs(draw: st.DrawFn) -> ClusterConfig:
    ids = sorted(draw(st.one_of(st.sets(positive, min_size=1, max_size=9), st.just(range(1, MAX_REPLICAS + 1)))))
    statuses = [draw(st.sampled_from(ReplicaStatus)) for _ in ids]
    statuses[draw(st.integers(0, len(ids) - 1))] = ReplicaStatus.ACTIVE
    members = (
        ReplicaInfo(id=id_, status=status, url=draw(urls), identity=draw(u64s), datacenter=draw(datacenters))
        for id_, status in zip(ids, statuses, strict=True)
    )
    epoch = draw(positive)
    term = draw(st.integers(0, epoch - 1))
    return ClusterConfig(
        epoch=epoch,
        sealed=draw(st.integers(0, epoch - 1)),
        term=term,
        since=draw(st.integers(0, term)),
        coordinator_id=draw(uints),
        replicas=tuple(members),
        previous=draw(st.none() | st.lists(uints, max_size=MAX_REPLICAS).map(tuple)),
        quorum_policy=draw(st.sampled_from(QuorumPolicy)),
    )


instance_ids = st.builds(InstanceId, uints, uints)
several_ids = st.lists(instance_ids, max_size=3).map(tuple)
deps = st.builds(Deps, upto=several_ids, also=several_ids)
small = st.binary(max_size=40)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Get, key=keys),
    st.builds(Put, key=keys, value=small),
    st.builds(Put, key=keys, value=small, ttl_ms=st.integers(1, MAX_TTL_MS)),
    st.builds(Put, key=keys, value=small, session=st.binary(min_size=16, max_size=16)),
    st.builds(Put, key=keys, value=small, keep_expiry=st.just(True)),
    st.builds(Delete, key=keys),
    st.builds(
        Add,
        key=keys,
        amount=st.integers(0, MOST),
        negative=st.booleans(),
        ttl_ms=st.integers(0, MAX_TTL_MS),
    ),
    st.builds(Expire, key=keys, version=uints),
)
ordered_values = st.builds(OrderedValue, value=st.none() | small, version=uints, immutable=st.booleans()) | st.builds(
    OrderedValue, value=small, version=uints, expiry=expiries
)
compares = (
    st.builds(Compare, key=keys, values=st.lists(small, min_size=1, max_size=2).map(tuple), absent=st.booleans())
    | st.builds(Compare, key=keys, absent=st.just(True))
    | st.builds(Compare, key=keys, version=uints)
)
txns = st.builds(
    Txn,
    compares=st.lists(compares, max_size=2).map(tuple),
    then=st.lists(operations, max_size=2).map(tuple),
    otherwise=st.lists(operations, max_size=2).map(tuple),
    reads=st.lists(keys, min_size=1, max_size=2).map(tuple),
    imports=st.lists(st.builds(Import, key=keys, held=ordered_values), max_size=2).map(tuple),
)
commands = st.builds(Command, txns=st.lists(txns, min_size=1, max_size=2).map(tuple), versioned=st.booleans())
commits = st.builds(OrderedCommit, id=instance_ids, command=st.none() | commands, deps=deps)
instance_states = st.builds(
    InstanceState,
    phase=st.sampled_from(Phase),
    ballot=ballots,
    accepted=ballots,
    nop=st.booleans(),
    deps=st.none() | deps,
    initial=st.none() | deps,
)
terms = st.builds(
    Term,
    number=uints,
    voters=st.none() | st.lists(uints, max_size=MAX_REPLICAS).map(tuple),
    policy=st.sampled_from(QuorumPolicy),
    ending=st.booleans(),
)
instances = st.builds(
    Instance,
    id=instance_ids,
    phase=st.sampled_from(Phase),
    ballot=real_ballots,
    nop=st.booleans(),
    command=commands,
    deps=deps,
    initial=deps,
) | st.builds(Instance, id=instance_ids, ballot=ballots)


ordered_requests: st.SearchStrategy[OrderedRequest] = st.one_of(
    st.builds(PreAccept, id=instance_ids, command=commands, deps=deps),
    st.builds(OrderedAccept, id=instance_ids, ballot=ballots, command=st.none() | commands, deps=deps),
    commits,
    st.builds(Recover, id=instance_ids, ballot=ballots),
    st.builds(Validate, id=instance_ids, ballot=ballots, command=commands, deps=deps),
    st.builds(Waiting, id=instance_ids, count=uints),
    st.builds(OrderedVote, sender=uints, id=instance_ids, ballot=ballots),
    st.builds(Catchup, sender=uints, executed=several_ids, known=several_ids),
    st.builds(Seal),
)

carried_puts = st.builds(
    CarriedWrite,
    proposal_id=proposal_ids,
    floor=uints,
    value=st.none() | values,
    mutable=st.just(True),
    if_version=st.none() | uints,
    returning=st.booleans(),
    amount=st.none(),
    negative=st.booleans(),
    if_absent=st.booleans(),
)
carried_writes = st.one_of(
    carried_puts,
    st.builds(partial(replace, value=None), carried_puts, amount=st.integers(0, MOST), ttl_ms=st.just(0) | ttls),
    st.builds(partial(replace, value=None, touch=True), carried_puts, ttl_ms=st.just(0) | ttls),
    st.builds(replace, carried_puts, session=sessions),
    st.builds(partial(replace, keep_expiry=True), carried_puts),
    st.builds(partial(replace, mutable=False, if_version=None), carried_puts, value=values),
)
carry_answers = st.builds(
    CarryAnswer,
    proposal_id=proposal_ids,
    result=st.sampled_from(CarryResult),
    version=uints,
    value=st.none() | values,
    committed=st.none() | proposals(),
    reason=reasons,
)

requests: st.SearchStrategy[Request] = st.one_of(
    st.builds(InTerm, term=uints, request=ordered_requests),
    st.builds(Prepare, key=keys, epoch=uints, ballot=classic_ballots, base=uints),
    st.builds(Accept, key=keys, epoch=uints, ballot=real_ballots, proposal=proposals(positive)),
    st.builds(Commit, key=keys, epoch=uints, proposal=proposals()),
    st.builds(Read, key=keys, epoch=uints),
    st.builds(UpdateConfig, config=configs()),
    st.builds(Inspect, key=keys),
    st.builds(
        Carry,
        key=keys,
        epoch=uints,
        sender=u64s,
        receiver=u64s,
        number=uints,
        writes=st.lists(carried_writes, min_size=1, max_size=2).map(tuple),
    ),
    st.builds(CarryAnswers, key=keys, owner=uints, answers=st.lists(carry_answers, min_size=1, max_size=2).map(tuple)),
)

replies: st.SearchStrategy[Reply] = st.one_of(
    st.builds(PreAcceptOk, also=several_ids),
    st.builds(Voted),
    st.builds(RecoverOk, held=instances),
    st.builds(
        ValidateOk,
        rivals=st.lists(st.builds(Rival, id=instance_ids, is_committed=st.booleans()), max_size=2).map(tuple),
    ),
    st.builds(Decided, commit=commits),
    st.builds(Overtaken, ballot=ballots),
    st.builds(Forgotten),
    st.builds(Overloaded),
    st.builds(Noted),
    st.builds(Missed, executed=several_ids, commits=st.lists(commits, max_size=2).map(tuple), more=st.booleans()),
    st.builds(Sealed, ends=several_ids),
    st.builds(Ended, ends=several_ids),
    st.builds(Closed, term=uints),
    st.builds(CarryOk, declined=st.lists(proposal_ids, max_size=2).map(tuple), life=u64s),
    st.builds(PrepareOk, vote=st.none() | votes),
    st.builds(AcceptOk),
    st.builds(CommitOk),
    st.builds(ReadOk, committed=st.none() | proposals(), vote=st.none() | votes),
    st.builds(AlreadyCommitted, committed=proposals(), lineage=lineages),
    st.builds(HigherBallot, ballot=ballots),
    st.builds(Behind, version=uints),
    st.builds(StaleCommit, version=uints),
    st.builds(StaleEpoch, config=configs()),
    st.builds(EpochAhead, epoch=uints),
    st.builds(CommitConflict, committed=proposals()),
    st.builds(ConfigOk, epoch=uints),
    st.builds(Failed, reason=reasons),
    st.builds(
        Inspected,
        epoch=uints,
        committed=st.none() | proposals(),
        lineage=lineages,
        promised=ballots,
        vote=st.none() | votes,
        cached=st.none() | proposals(),
        changelog=st.lists(st.binary(min_size=10, max_size=10), max_size=3).map(tuple),
    ),
)

# Three of the largest messages still fit a frame; more small ones do too.
peer_requests = st.builds(
    PeerRequest, sender=uints, recipient=uints, requests=st.lists(requests, max_size=3).map(tuple)
)
peer_responses = st.builds(PeerResponse, replies=st.lists(replies, max_size=1).map(tuple))
committed_records = st.builds(CommittedRecord, committed=proposals(), lineage=lineages)
changelog_entries = st.builds(ChangelogEntry, key=keys, committed=proposals())

stamps = st.binary(min_size=10, max_size=10)
pages = st.lists(changelog_entries, max_size=2).map(tuple)

stretches = st.builds(
    Stretch, until=st.none() | keys, count=uints, digest=st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES)
)

member_requests: st.SearchStrategy[MemberRequest] = st.one_of(
    st.builds(SnapshotRead, reader=uints, store=u64s, after=st.none() | keys, held=stretches),
    st.builds(ChangelogRead, reader=uints, store=u64s, after=stamps),
    st.builds(UnsettledRead, epoch=uints, after=st.none() | keys),
    st.builds(StatusRead),
    st.builds(ValuesRead, epoch=uints, after=st.none() | keys, held=st.lists(stretches, max_size=3).map(tuple)),
    st.builds(KeptRead, epoch=uints, after=st.none() | st.builds(KeptId, term=uints, id=instance_ids)),
    st.builds(VotesRead, epoch=uints, after=st.none() | keys),
    st.builds(HeldRead, after=st.none() | keys, held=st.lists(stretches, max_size=3).map(tuple)),
    st.builds(FrontierRead),
    st.builds(ActorsRead, after=st.none() | keys),
    st.builds(FiguresRead),
    st.builds(FastVotesRead, proposer=uints, after=st.none() | keys),
)

member_replies: st.SearchStrategy[MemberReply] = st.one_of(
    st.builds(SnapshotPage, store=u64s, entries=pages, cursor=stamps, more=st.booleans()),
    st.builds(ChangelogPage, entries=pages, cursor=stamps, more=st.booleans()),
    st.builds(CursorTruncated),
    st.builds(
        UnsettledPage,
        keys=st.lists(st.builds(Unsettled, key=keys, version=uints), max_size=3).map(tuple),
        more=st.booleans(),
    ),
    st.builds(
        MemberStatus,
        identity=u64s,
        epoch=uints,
        sources=st.lists(uints, max_size=MAX_REPLICAS).map(tuple),
        synced=st.booleans(),
        keys=uints,
        copied=uints,
        source=uints,
    ),
    st.builds(StaleEpoch, config=configs()),
    st.builds(EpochAhead, epoch=uints),
    st.builds(Failed, reason=reasons),
    st.builds(
        ValuesPage,
        differing=st.lists(uints, max_size=3).map(tuple),
        pairs=st.lists(st.builds(Pair, keys, values), max_size=2).map(tuple),
        through=st.none() | keys,
    ),
    st.builds(
        KeptPage,
        kept=st.lists(st.builds(Kept, term=uints, commit=commits), max_size=2).map(tuple),
        more=st.booleans(),
    ),
    st.builds(Unfinished),
    st.builds(HeldPage, entries=pages, through=st.none() | keys),
    st.builds(Figures, report=st.binary(max_size=64)),
    st.builds(Frontier, term=uints, slots=st.lists(instance_ids, max_size=3).map(tuple)),
    st.builds(
        ActorsPage,
        rows=st.lists(st.builds(ActorRow, keys, values), max_size=2).map(tuple),
        more=st.booleans(),
    ),
)


@st.composite
def change_requests(draw: st.DrawFn) -> ChangeRequest:
    ids = sorted(draw(st.sets(positive, min_size=1, max_size=9)))
    return ChangeRequest(members=tuple(Member(id=id_, url=draw(urls), datacenter=draw(datacenters)) for id_ in ids))


progresses = st.builds(Progress, store=u64s, cursor=stamps, after=st.none() | keys, copied=st.booleans())


class Format(Struct, frozen=True):
    """One pair of public functions, and values for it."""

    name: str
    values: st.SearchStrategy[Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


FORMATS = {
    form.name: form
    for form in (
        Format("peer_request", peer_requests, wire.encode_peer_request, wire.decode_peer_request),
        Format("peer_response", peer_responses, wire.encode_peer_response, wire.decode_peer_response),
        Format("request", requests, wire.encode_request, wire.decode_request),
        Format("reply", replies, wire.encode_reply, wire.decode_reply),
        Format("committed_record", committed_records, wire.encode_committed_record, wire.decode_committed_record),
        Format("ballot", ballots, wire.encode_ballot, wire.decode_ballot),
        Format("vote", votes, wire.encode_vote, wire.decode_vote),
        Format("cached", proposals(), wire.encode_cached, wire.decode_cached),
        Format("changelog_entry", changelog_entries, wire.encode_changelog_entry, wire.decode_changelog_entry),
        Format("expiry_entry", expiry_entries, wire.encode_expiry_entry, wire.decode_expiry_entry),
        Format("config", configs(), wire.encode_config, wire.decode_config),
        Format("progress", progresses, wire.encode_progress, wire.decode_progress),
        Format("command", commands, wire.encode_command, wire.decode_command),
        Format("instance_state", instance_states, wire.encode_instance_state, wire.decode_instance_state),
        Format("ordered_value", ordered_values, wire.encode_ordered_value, wire.decode_ordered_value),
        Format("term", terms, wire.encode_term, wire.decode_term),
        Format("term_end", st.builds(TermEnd, ends=several_ids), wire.encode_term_end, wire.decode_term_end),
        Format("member_request", member_requests, wire.encode_member_request, wire.decode_member_request),
        Format("member_reply", member_replies, wire.encode_member_reply, wire.decode_member_reply),
        Format("change_request", change_requests(), wire.encode_change_request, wire.decode_change_request),
    )
}
