"""Made by `python -m epoxy.codec.generate` from schema/epoxy-v4.bare: change that, not this."""

# ruff: noqa: A001, C901, PERF401 (fields keep their names; a union of thirteen members is one flat match)

from itertools import pairwise
from typing import assert_never

from epoxy.codec.bare import (
    BYTES,
    decode_fixed,
    decode_length,
    decode_str,
    decode_uint,
    encode_fixed,
    encode_str,
    encode_unsigned,
    length_bytes,
    uint,
    unknown_tag,
    wrong_flag,
)
from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.errors import InvalidValue
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
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import (
    ChangelogEntry,
    CommittedRecord,
    Expiry,
    ExpiryEntry,
    Proposal,
    ProposalId,
    Settled,
    Vote,
)
from epoxy.model.transactions import Add, Compare, Delete, Expire, Get, Import, Operation, OrderedValue, Put, Txn

SEAL = Seal()
VOTED = Voted()
FORGOTTEN = Forgotten()
OVERLOADED = Overloaded()
NOTED = Noted()
ACCEPT_OK = AcceptOk()
COMMIT_OK = CommitOk()
STATUS_READ = StatusRead()
FRONTIER_READ = FrontierRead()
FIGURES_READ = FiguresRead()
CURSOR_TRUNCATED = CursorTruncated()
UNFINISHED = Unfinished()


def encode_ballot(out: list[bytes], record: Ballot) -> None:
    counter = record.counter
    replica_id = record.replica_id
    if counter == 0 and replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    out.append(BYTES[counter] if 0 <= counter <= 0x7F else uint(counter))
    out.append(BYTES[replica_id] if 0 <= replica_id <= 0x7F else uint(replica_id))


def decode_ballot(buffer: bytes, position: int) -> tuple[Ballot, int]:
    counter = buffer[position]
    position += 1
    if counter > 0x7F:
        counter, position = decode_uint(buffer, position - 1)
    replica_id = buffer[position]
    position += 1
    if replica_id > 0x7F:
        replica_id, position = decode_uint(buffer, position - 1)
    if counter == 0 and replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    return Ballot(counter=counter, replica_id=replica_id), position


def encode_proposal_id(out: list[bytes], record: ProposalId) -> None:
    replica_id = record.replica_id
    out.append(BYTES[replica_id] if 0 <= replica_id <= 0x7F else uint(replica_id))
    encode_unsigned(out, record.nonce, 8)


def decode_proposal_id(buffer: bytes, position: int) -> tuple[ProposalId, int]:
    replica_id = buffer[position]
    position += 1
    if replica_id > 0x7F:
        replica_id, position = decode_uint(buffer, position - 1)
    nonce = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    return ProposalId(replica_id=replica_id, nonce=nonce), position


def encode_folded(out: list[bytes], value: tuple[ProposalId, ...]) -> None:
    out.append(length_bytes(len(value), 0, 63))
    for item in value:
        encode_proposal_id(out, item)


def decode_folded(buffer: bytes, position: int) -> tuple[tuple[ProposalId, ...], int]:
    count, position = decode_length(buffer, position, 0, 63)
    items: list[ProposalId] = []
    for _ in range(count):
        item, position = decode_proposal_id(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_expiry(out: list[bytes], record: Expiry) -> None:
    ttl_ms = record.ttl_ms
    since = record.since
    session = record.session
    if (ttl_ms > 0) is not (not session):
        raise InvalidValue("a time to live or a session")
    if ttl_ms > 35184372088832:
        raise InvalidValue("a time to live of more than a thousand years")
    if session and len(session) != 16:
        raise InvalidValue("a session's id has 16 bytes")
    out.append(BYTES[ttl_ms] if 0 <= ttl_ms <= 0x7F else uint(ttl_ms))
    out.append(BYTES[since] if 0 <= since <= 0x7F else uint(since))
    length = len(session)
    out.append(BYTES[length] if length <= 0x10 else length_bytes(length, 0, 16))
    out.append(session)


def decode_expiry(buffer: bytes, position: int) -> tuple[Expiry, int]:
    ttl_ms = buffer[position]
    position += 1
    if ttl_ms > 0x7F:
        ttl_ms, position = decode_uint(buffer, position - 1)
    since = buffer[position]
    position += 1
    if since > 0x7F:
        since, position = decode_uint(buffer, position - 1)
    length = buffer[position]
    position += 1
    if length > 0x10:
        length, position = decode_length(buffer, position - 1, 0, 16)
    session = buffer[position : position + length]
    position += length
    if position > len(buffer):
        raise IndexError("cut short")
    if (ttl_ms > 0) is not (not session):
        raise InvalidValue("a time to live or a session")
    if ttl_ms > 35184372088832:
        raise InvalidValue("a time to live of more than a thousand years")
    if session and len(session) != 16:
        raise InvalidValue("a session's id has 16 bytes")
    return Expiry(ttl_ms=ttl_ms, since=since, session=session), position


def encode_proposal(out: list[bytes], record: Proposal) -> None:
    value = record.value
    version = record.version
    mutable = record.mutable
    proposal_id = record.proposal_id
    folded = record.folded
    proposer = record.proposer
    expiry = record.expiry
    proposal_id_replica_id = proposal_id.replica_id
    if value is None and not mutable:
        raise InvalidValue("an immutable key holds no tombstone")
    if folded and version <= len(folded):
        raise InvalidValue("more writes than versions")
    if expiry is not None and (value is None or not mutable):
        raise InvalidValue("only a value of a mutable key has an expiry")
    if value is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(value)
        out.append(BYTES[length] if length <= 0x7F else length_bytes(length, 0, 1048576))
        out.append(value)
    out.append(BYTES[version] if 0 <= version <= 0x7F else uint(version))
    out.append(BYTES[1] if mutable else BYTES[0])
    out.append(BYTES[proposal_id_replica_id] if 0 <= proposal_id_replica_id <= 0x7F else uint(proposal_id_replica_id))
    encode_unsigned(out, proposal_id.nonce, 8)
    if folded:
        encode_folded(out, folded)
    else:
        out.append(BYTES[0])
    out.append(BYTES[proposer] if 0 <= proposer <= 0x7F else uint(proposer))
    if expiry is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_expiry(out, expiry)


def decode_proposal(buffer: bytes, position: int) -> tuple[Proposal, int]:
    value: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if length > 0x7F:
            length, position = decode_length(buffer, position - 1, 0, 1048576)
        value = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    version = buffer[position]
    position += 1
    if version > 0x7F:
        version, position = decode_uint(buffer, position - 1)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    mutable = flag == 1
    position += 1
    proposal_id_replica_id = buffer[position]
    position += 1
    if proposal_id_replica_id > 0x7F:
        proposal_id_replica_id, position = decode_uint(buffer, position - 1)
    proposal_id_nonce = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    proposal_id = ProposalId(replica_id=proposal_id_replica_id, nonce=proposal_id_nonce)
    if buffer[position]:
        folded, position = decode_folded(buffer, position)
    else:
        folded = ()
        position += 1
    proposer = buffer[position]
    position += 1
    if proposer > 0x7F:
        proposer, position = decode_uint(buffer, position - 1)
    expiry: Expiry | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        expiry, position = decode_expiry(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    if value is None and not mutable:
        raise InvalidValue("an immutable key holds no tombstone")
    if folded and version <= len(folded):
        raise InvalidValue("more writes than versions")
    if expiry is not None and (value is None or not mutable):
        raise InvalidValue("only a value of a mutable key has an expiry")
    record = Proposal(
        value=value,
        version=version,
        mutable=mutable,
        proposal_id=proposal_id,
        folded=folded,
        proposer=proposer,
        expiry=expiry,
    )
    return record, position


def encode_vote(out: list[bytes], record: Vote) -> None:
    ballot = record.ballot
    epoch = record.epoch
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    encode_proposal(out, record.proposal)
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))


def decode_vote(buffer: bytes, position: int) -> tuple[Vote, int]:
    proposal, position = decode_proposal(buffer, position)
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    return Vote(proposal=proposal, ballot=ballot, epoch=epoch), position


def encode_settled(out: list[bytes], record: Settled) -> None:
    version = record.version
    proposal_id = record.proposal_id
    folded = record.folded
    proposal_id_replica_id = proposal_id.replica_id
    if folded and version <= len(folded):
        raise InvalidValue("more writes than versions")
    out.append(BYTES[version] if 0 <= version <= 0x7F else uint(version))
    out.append(BYTES[proposal_id_replica_id] if 0 <= proposal_id_replica_id <= 0x7F else uint(proposal_id_replica_id))
    encode_unsigned(out, proposal_id.nonce, 8)
    if folded:
        encode_folded(out, folded)
    else:
        out.append(BYTES[0])


def decode_settled(buffer: bytes, position: int) -> tuple[Settled, int]:
    version = buffer[position]
    position += 1
    if version > 0x7F:
        version, position = decode_uint(buffer, position - 1)
    proposal_id_replica_id = buffer[position]
    position += 1
    if proposal_id_replica_id > 0x7F:
        proposal_id_replica_id, position = decode_uint(buffer, position - 1)
    proposal_id_nonce = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    proposal_id = ProposalId(replica_id=proposal_id_replica_id, nonce=proposal_id_nonce)
    if buffer[position]:
        folded, position = decode_folded(buffer, position)
    else:
        folded = ()
        position += 1
    if folded and version <= len(folded):
        raise InvalidValue("more writes than versions")
    return Settled(version=version, proposal_id=proposal_id, folded=folded), position


def encode_lineage(out: list[bytes], value: tuple[Settled, ...]) -> None:
    out.append(length_bytes(len(value), 0, 8))
    for item in value:
        encode_settled(out, item)


def decode_lineage(buffer: bytes, position: int) -> tuple[tuple[Settled, ...], int]:
    count, position = decode_length(buffer, position, 0, 8)
    items: list[Settled] = []
    for _ in range(count):
        item, position = decode_settled(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_replica_status(out: list[bytes], value: ReplicaStatus) -> None:
    match value:
        case ReplicaStatus.JOINING:
            out.append(BYTES[0])
        case ReplicaStatus.LEARNING:
            out.append(BYTES[1])
        case ReplicaStatus.ACTIVE:
            out.append(BYTES[2])
        case ReplicaStatus.LEAVING:
            out.append(BYTES[3])
        case _:
            assert_never(value)


def decode_replica_status(buffer: bytes, position: int) -> tuple[ReplicaStatus, int]:
    match buffer[position]:
        case 0:
            return ReplicaStatus.JOINING, position + 1
        case 1:
            return ReplicaStatus.LEARNING, position + 1
        case 2:
            return ReplicaStatus.ACTIVE, position + 1
        case 3:
            return ReplicaStatus.LEAVING, position + 1
        case _:
            raise unknown_tag("ReplicaStatus", buffer, position)


def encode_quorum_policy(out: list[bytes], value: QuorumPolicy) -> None:
    match value:
        case QuorumPolicy.OPTIMAL:
            out.append(BYTES[0])
        case QuorumPolicy.FAST_PAXOS:
            out.append(BYTES[1])
        case _:
            assert_never(value)


def decode_quorum_policy(buffer: bytes, position: int) -> tuple[QuorumPolicy, int]:
    match buffer[position]:
        case 0:
            return QuorumPolicy.OPTIMAL, position + 1
        case 1:
            return QuorumPolicy.FAST_PAXOS, position + 1
        case _:
            raise unknown_tag("QuorumPolicy", buffer, position)


def encode_replica_info(out: list[bytes], record: ReplicaInfo) -> None:
    id = record.id
    out.append(BYTES[id] if 0 <= id <= 0x7F else uint(id))
    encode_replica_status(out, record.status)
    encode_str(out, record.url, 0, 2048)
    encode_unsigned(out, record.identity, 8)
    encode_str(out, record.datacenter, 0, 255)


def decode_replica_info(buffer: bytes, position: int) -> tuple[ReplicaInfo, int]:
    id = buffer[position]
    position += 1
    if id > 0x7F:
        id, position = decode_uint(buffer, position - 1)
    status, position = decode_replica_status(buffer, position)
    url, position = decode_str(buffer, position, 0, 2048)
    identity = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    datacenter, position = decode_str(buffer, position, 0, 255)
    return ReplicaInfo(id=id, status=status, url=url, identity=identity, datacenter=datacenter), position


def encode_members(out: list[bytes], value: tuple[ReplicaInfo, ...]) -> None:
    out.append(length_bytes(len(value), 1, 64))
    for item in value:
        encode_replica_info(out, item)


def decode_members(buffer: bytes, position: int) -> tuple[tuple[ReplicaInfo, ...], int]:
    count, position = decode_length(buffer, position, 1, 64)
    items: list[ReplicaInfo] = []
    for _ in range(count):
        item, position = decode_replica_info(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_voters(out: list[bytes], value: tuple[int, ...]) -> None:
    out.append(length_bytes(len(value), 0, 64))
    for item in value:
        out.append(BYTES[item] if 0 <= item <= 0x7F else uint(item))


def decode_voters(buffer: bytes, position: int) -> tuple[tuple[int, ...], int]:
    count, position = decode_length(buffer, position, 0, 64)
    items: list[int] = []
    for _ in range(count):
        item = buffer[position]
        position += 1
        if item > 0x7F:
            item, position = decode_uint(buffer, position - 1)
        items.append(item)
    return tuple(items), position


def encode_cluster_config(out: list[bytes], record: ClusterConfig) -> None:
    epoch = record.epoch
    coordinator_id = record.coordinator_id
    replicas = record.replicas
    previous = record.previous
    sealed = record.sealed
    term = record.term
    since = record.since
    if epoch < 1:
        raise InvalidValue("epochs begin at 1")
    if replicas[0].id < 1:
        raise InvalidValue("replica id 0 belongs to legacy values")
    if any(a.id >= b.id for a, b in pairwise(replicas)):
        raise InvalidValue("replica ids rise")
    if all(replica.status is not ReplicaStatus.ACTIVE for replica in replicas):
        raise InvalidValue("no replica is active")
    if sealed >= epoch:
        raise InvalidValue("an epoch is not sealed while it lasts")
    if term >= epoch:
        raise InvalidValue("a term takes an epoch")
    if since > term:
        raise InvalidValue("members begin in a term that has begun")
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    out.append(BYTES[coordinator_id] if 0 <= coordinator_id <= 0x7F else uint(coordinator_id))
    encode_members(out, replicas)
    if previous is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        if previous:
            encode_voters(out, previous)
        else:
            out.append(BYTES[0])
    encode_quorum_policy(out, record.quorum_policy)
    out.append(BYTES[sealed] if 0 <= sealed <= 0x7F else uint(sealed))
    out.append(BYTES[term] if 0 <= term <= 0x7F else uint(term))
    out.append(BYTES[since] if 0 <= since <= 0x7F else uint(since))


def decode_cluster_config(buffer: bytes, position: int) -> tuple[ClusterConfig, int]:
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    coordinator_id = buffer[position]
    position += 1
    if coordinator_id > 0x7F:
        coordinator_id, position = decode_uint(buffer, position - 1)
    replicas, position = decode_members(buffer, position)
    previous: tuple[int, ...] | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        if buffer[position]:
            previous, position = decode_voters(buffer, position)
        else:
            previous = ()
            position += 1
    elif flag:
        raise wrong_flag(buffer, position - 1)
    quorum_policy, position = decode_quorum_policy(buffer, position)
    sealed = buffer[position]
    position += 1
    if sealed > 0x7F:
        sealed, position = decode_uint(buffer, position - 1)
    term = buffer[position]
    position += 1
    if term > 0x7F:
        term, position = decode_uint(buffer, position - 1)
    since = buffer[position]
    position += 1
    if since > 0x7F:
        since, position = decode_uint(buffer, position - 1)
    if epoch < 1:
        raise InvalidValue("epochs begin at 1")
    if replicas[0].id < 1:
        raise InvalidValue("replica id 0 belongs to legacy values")
    if any(a.id >= b.id for a, b in pairwise(replicas)):
        raise InvalidValue("replica ids rise")
    if all(replica.status is not ReplicaStatus.ACTIVE for replica in replicas):
        raise InvalidValue("no replica is active")
    if sealed >= epoch:
        raise InvalidValue("an epoch is not sealed while it lasts")
    if term >= epoch:
        raise InvalidValue("a term takes an epoch")
    if since > term:
        raise InvalidValue("members begin in a term that has begun")
    record = ClusterConfig(
        epoch=epoch,
        coordinator_id=coordinator_id,
        replicas=replicas,
        previous=previous,
        quorum_policy=quorum_policy,
        sealed=sealed,
        term=term,
        since=since,
    )
    return record, position


def encode_values(out: list[bytes], value: tuple[bytes, ...]) -> None:
    out.append(length_bytes(len(value), 0, 128))
    for item in value:
        length = len(item)
        out.append(BYTES[length] if length <= 0x7F else length_bytes(length, 0, 1048576))
        out.append(item)


def decode_values(buffer: bytes, position: int) -> tuple[tuple[bytes, ...], int]:
    count, position = decode_length(buffer, position, 0, 128)
    items: list[bytes] = []
    for _ in range(count):
        length = buffer[position]
        position += 1
        if length > 0x7F:
            length, position = decode_length(buffer, position - 1, 0, 1048576)
        item = buffer[position : position + length]
        position += length
        items.append(item)
    return tuple(items), position


def encode_ordered_value(out: list[bytes], record: OrderedValue) -> None:
    value = record.value
    version = record.version
    expiry = record.expiry
    immutable = record.immutable
    if expiry is not None and (value is None or immutable):
        raise InvalidValue("only a value that may change has an expiry")
    if value is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(value)
        out.append(BYTES[length] if length <= 0x7F else length_bytes(length, 0, 1048576))
        out.append(value)
    out.append(BYTES[version] if 0 <= version <= 0x7F else uint(version))
    if expiry is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_expiry(out, expiry)
    out.append(BYTES[1] if immutable else BYTES[0])


def decode_ordered_value(buffer: bytes, position: int) -> tuple[OrderedValue, int]:
    value: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if length > 0x7F:
            length, position = decode_length(buffer, position - 1, 0, 1048576)
        value = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    version = buffer[position]
    position += 1
    if version > 0x7F:
        version, position = decode_uint(buffer, position - 1)
    expiry: Expiry | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        expiry, position = decode_expiry(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    immutable = flag == 1
    position += 1
    if expiry is not None and (value is None or immutable):
        raise InvalidValue("only a value that may change has an expiry")
    return OrderedValue(value=value, version=version, expiry=expiry, immutable=immutable), position


def encode_compare(out: list[bytes], record: Compare) -> None:
    key = record.key
    values = record.values
    absent = record.absent
    version = record.version
    if not values and not absent and version is None:
        raise InvalidValue("nothing would make this compare hold")
    if (values or absent) and version is not None:
        raise InvalidValue("a compare has a version, or values")
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    if values:
        encode_values(out, values)
    else:
        out.append(BYTES[0])
    out.append(BYTES[1] if absent else BYTES[0])
    if version is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        out.append(BYTES[version] if 0 <= version <= 0x7F else uint(version))


def decode_compare(buffer: bytes, position: int) -> tuple[Compare, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    if buffer[position]:
        values, position = decode_values(buffer, position)
    else:
        values = ()
        position += 1
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    absent = flag == 1
    position += 1
    version: int | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        version = buffer[position]
        position += 1
        if version > 0x7F:
            version, position = decode_uint(buffer, position - 1)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    if not values and not absent and version is None:
        raise InvalidValue("nothing would make this compare hold")
    if (values or absent) and version is not None:
        raise InvalidValue("a compare has a version, or values")
    return Compare(key=key, values=values, absent=absent, version=version), position


def encode_get(out: list[bytes], record: Get) -> None:
    key = record.key
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)


def decode_get(buffer: bytes, position: int) -> tuple[Get, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    return Get(key=key), position


def encode_put(out: list[bytes], record: Put) -> None:
    key = record.key
    value = record.value
    ttl_ms = record.ttl_ms
    session = record.session
    keep_expiry = record.keep_expiry
    if bool(ttl_ms) + bool(session) + keep_expiry > 1:
        raise InvalidValue("a write gives one expiry at most")
    if ttl_ms > 35184372088832:
        raise InvalidValue("a time to live of more than a thousand years")
    if session and len(session) != 16:
        raise InvalidValue("a session's id has 16 bytes")
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    length = len(value)
    out.append(BYTES[length] if length <= 0x7F else length_bytes(length, 0, 1048576))
    out.append(value)
    out.append(BYTES[ttl_ms] if 0 <= ttl_ms <= 0x7F else uint(ttl_ms))
    length = len(session)
    out.append(BYTES[length] if length <= 0x10 else length_bytes(length, 0, 16))
    out.append(session)
    out.append(BYTES[1] if keep_expiry else BYTES[0])


def decode_put(buffer: bytes, position: int) -> tuple[Put, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    length = buffer[position]
    position += 1
    if length > 0x7F:
        length, position = decode_length(buffer, position - 1, 0, 1048576)
    value = buffer[position : position + length]
    position += length
    ttl_ms = buffer[position]
    position += 1
    if ttl_ms > 0x7F:
        ttl_ms, position = decode_uint(buffer, position - 1)
    length = buffer[position]
    position += 1
    if length > 0x10:
        length, position = decode_length(buffer, position - 1, 0, 16)
    session = buffer[position : position + length]
    position += length
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    keep_expiry = flag == 1
    position += 1
    if bool(ttl_ms) + bool(session) + keep_expiry > 1:
        raise InvalidValue("a write gives one expiry at most")
    if ttl_ms > 35184372088832:
        raise InvalidValue("a time to live of more than a thousand years")
    if session and len(session) != 16:
        raise InvalidValue("a session's id has 16 bytes")
    return Put(key=key, value=value, ttl_ms=ttl_ms, session=session, keep_expiry=keep_expiry), position


def encode_delete(out: list[bytes], record: Delete) -> None:
    key = record.key
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)


def decode_delete(buffer: bytes, position: int) -> tuple[Delete, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    return Delete(key=key), position


def encode_add(out: list[bytes], record: Add) -> None:
    key = record.key
    amount = record.amount
    ttl_ms = record.ttl_ms
    if amount > 0x7FFF_FFFF_FFFF_FFFF:
        raise InvalidValue("an amount has at most 63 bits")
    if ttl_ms > 35184372088832:
        raise InvalidValue("a time to live of more than a thousand years")
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    out.append(BYTES[amount] if 0 <= amount <= 0x7F else uint(amount))
    out.append(BYTES[1] if record.negative else BYTES[0])
    out.append(BYTES[ttl_ms] if 0 <= ttl_ms <= 0x7F else uint(ttl_ms))


def decode_add(buffer: bytes, position: int) -> tuple[Add, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    amount = buffer[position]
    position += 1
    if amount > 0x7F:
        amount, position = decode_uint(buffer, position - 1)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    negative = flag == 1
    position += 1
    ttl_ms = buffer[position]
    position += 1
    if ttl_ms > 0x7F:
        ttl_ms, position = decode_uint(buffer, position - 1)
    if amount > 0x7FFF_FFFF_FFFF_FFFF:
        raise InvalidValue("an amount has at most 63 bits")
    if ttl_ms > 35184372088832:
        raise InvalidValue("a time to live of more than a thousand years")
    return Add(key=key, amount=amount, negative=negative, ttl_ms=ttl_ms), position


def encode_expire(out: list[bytes], record: Expire) -> None:
    key = record.key
    version = record.version
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    out.append(BYTES[version] if 0 <= version <= 0x7F else uint(version))


def decode_expire(buffer: bytes, position: int) -> tuple[Expire, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    version = buffer[position]
    position += 1
    if version > 0x7F:
        version, position = decode_uint(buffer, position - 1)
    return Expire(key=key, version=version), position


def encode_operation(out: list[bytes], value: Operation) -> None:
    match value:
        case Get():
            out.append(BYTES[0])
            encode_get(out, value)
        case Put():
            out.append(BYTES[1])
            encode_put(out, value)
        case Delete():
            out.append(BYTES[2])
            encode_delete(out, value)
        case Add():
            out.append(BYTES[3])
            encode_add(out, value)
        case Expire():
            out.append(BYTES[4])
            encode_expire(out, value)
        case _:
            assert_never(value)


def decode_operation(buffer: bytes, position: int) -> tuple[Operation, int]:
    match buffer[position]:
        case 0:
            return decode_get(buffer, position + 1)
        case 1:
            return decode_put(buffer, position + 1)
        case 2:
            return decode_delete(buffer, position + 1)
        case 3:
            return decode_add(buffer, position + 1)
        case 4:
            return decode_expire(buffer, position + 1)
        case _:
            raise unknown_tag("Operation", buffer, position)


def encode_import(out: list[bytes], record: Import) -> None:
    key = record.key
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    encode_ordered_value(out, record.held)


def decode_import(buffer: bytes, position: int) -> tuple[Import, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    held, position = decode_ordered_value(buffer, position)
    return Import(key=key, held=held), position


def encode_imports(out: list[bytes], value: tuple[Import, ...]) -> None:
    out.append(length_bytes(len(value), 0, 128))
    for item in value:
        encode_import(out, item)


def decode_imports(buffer: bytes, position: int) -> tuple[tuple[Import, ...], int]:
    count, position = decode_length(buffer, position, 0, 128)
    items: list[Import] = []
    for _ in range(count):
        item, position = decode_import(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_compares(out: list[bytes], value: tuple[Compare, ...]) -> None:
    out.append(length_bytes(len(value), 0, 128))
    for item in value:
        encode_compare(out, item)


def decode_compares(buffer: bytes, position: int) -> tuple[tuple[Compare, ...], int]:
    count, position = decode_length(buffer, position, 0, 128)
    items: list[Compare] = []
    for _ in range(count):
        item, position = decode_compare(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_operations(out: list[bytes], value: tuple[Operation, ...]) -> None:
    out.append(length_bytes(len(value), 0, 128))
    for item in value:
        encode_operation(out, item)


def decode_operations(buffer: bytes, position: int) -> tuple[tuple[Operation, ...], int]:
    count, position = decode_length(buffer, position, 0, 128)
    items: list[Operation] = []
    for _ in range(count):
        item, position = decode_operation(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_keys(out: list[bytes], value: tuple[bytes, ...]) -> None:
    out.append(length_bytes(len(value), 0, 128))
    for item in value:
        length = len(item)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(item)


def decode_keys(buffer: bytes, position: int) -> tuple[tuple[bytes, ...], int]:
    count, position = decode_length(buffer, position, 0, 128)
    items: list[bytes] = []
    for _ in range(count):
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        item = buffer[position : position + length]
        position += length
        items.append(item)
    return tuple(items), position


def encode_txn(out: list[bytes], record: Txn) -> None:
    compares = record.compares
    then = record.then
    otherwise = record.otherwise
    reads = record.reads
    imports = record.imports
    if not (compares or then or otherwise or reads or imports):
        raise InvalidValue("a transaction names at least one key")
    if compares:
        encode_compares(out, compares)
    else:
        out.append(BYTES[0])
    if then:
        encode_operations(out, then)
    else:
        out.append(BYTES[0])
    if otherwise:
        encode_operations(out, otherwise)
    else:
        out.append(BYTES[0])
    if reads:
        encode_keys(out, reads)
    else:
        out.append(BYTES[0])
    if imports:
        encode_imports(out, imports)
    else:
        out.append(BYTES[0])


def decode_txn(buffer: bytes, position: int) -> tuple[Txn, int]:
    if buffer[position]:
        compares, position = decode_compares(buffer, position)
    else:
        compares = ()
        position += 1
    if buffer[position]:
        then, position = decode_operations(buffer, position)
    else:
        then = ()
        position += 1
    if buffer[position]:
        otherwise, position = decode_operations(buffer, position)
    else:
        otherwise = ()
        position += 1
    if buffer[position]:
        reads, position = decode_keys(buffer, position)
    else:
        reads = ()
        position += 1
    if buffer[position]:
        imports, position = decode_imports(buffer, position)
    else:
        imports = ()
        position += 1
    if not (compares or then or otherwise or reads or imports):
        raise InvalidValue("a transaction names at least one key")
    return Txn(compares=compares, then=then, otherwise=otherwise, reads=reads, imports=imports), position


def encode_txns(out: list[bytes], value: tuple[Txn, ...]) -> None:
    out.append(length_bytes(len(value), 1, 64))
    for item in value:
        encode_txn(out, item)


def decode_txns(buffer: bytes, position: int) -> tuple[tuple[Txn, ...], int]:
    count, position = decode_length(buffer, position, 1, 64)
    items: list[Txn] = []
    for _ in range(count):
        item, position = decode_txn(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_command(out: list[bytes], record: Command) -> None:
    encode_txns(out, record.txns)
    out.append(BYTES[1] if record.versioned else BYTES[0])


def decode_command(buffer: bytes, position: int) -> tuple[Command, int]:
    txns, position = decode_txns(buffer, position)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    versioned = flag == 1
    position += 1
    return Command(txns=txns, versioned=versioned), position


def encode_instance_id(out: list[bytes], record: InstanceId) -> None:
    replica_id = record.replica_id
    slot = record.slot
    out.append(BYTES[replica_id] if 0 <= replica_id <= 0x7F else uint(replica_id))
    out.append(BYTES[slot] if 0 <= slot <= 0x7F else uint(slot))


def decode_instance_id(buffer: bytes, position: int) -> tuple[InstanceId, int]:
    replica_id = buffer[position]
    position += 1
    if replica_id > 0x7F:
        replica_id, position = decode_uint(buffer, position - 1)
    slot = buffer[position]
    position += 1
    if slot > 0x7F:
        slot, position = decode_uint(buffer, position - 1)
    return InstanceId(replica_id=replica_id, slot=slot), position


def encode_ends(out: list[bytes], value: tuple[InstanceId, ...]) -> None:
    out.append(length_bytes(len(value), 0, 64))
    for item in value:
        encode_instance_id(out, item)


def decode_ends(buffer: bytes, position: int) -> tuple[tuple[InstanceId, ...], int]:
    count, position = decode_length(buffer, position, 0, 64)
    items: list[InstanceId] = []
    for _ in range(count):
        item, position = decode_instance_id(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_instance_ids(out: list[bytes], value: tuple[InstanceId, ...]) -> None:
    out.append(length_bytes(len(value), 0, 65536))
    for item in value:
        encode_instance_id(out, item)


def decode_instance_ids(buffer: bytes, position: int) -> tuple[tuple[InstanceId, ...], int]:
    count, position = decode_length(buffer, position, 0, 65536)
    items: list[InstanceId] = []
    for _ in range(count):
        item, position = decode_instance_id(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_deps(out: list[bytes], record: Deps) -> None:
    upto = record.upto
    also = record.also
    if upto:
        encode_ends(out, upto)
    else:
        out.append(BYTES[0])
    if also:
        encode_instance_ids(out, also)
    else:
        out.append(BYTES[0])


def decode_deps(buffer: bytes, position: int) -> tuple[Deps, int]:
    if buffer[position]:
        upto, position = decode_ends(buffer, position)
    else:
        upto = ()
        position += 1
    if buffer[position]:
        also, position = decode_instance_ids(buffer, position)
    else:
        also = ()
        position += 1
    return Deps(upto=upto, also=also), position


def encode_phase(out: list[bytes], value: Phase) -> None:
    match value:
        case Phase.INITIAL:
            out.append(BYTES[0])
        case Phase.PREACCEPTED:
            out.append(BYTES[1])
        case Phase.ACCEPTED:
            out.append(BYTES[2])
        case Phase.COMMITTED:
            out.append(BYTES[3])
        case _:
            assert_never(value)


def decode_phase(buffer: bytes, position: int) -> tuple[Phase, int]:
    match buffer[position]:
        case 0:
            return Phase.INITIAL, position + 1
        case 1:
            return Phase.PREACCEPTED, position + 1
        case 2:
            return Phase.ACCEPTED, position + 1
        case 3:
            return Phase.COMMITTED, position + 1
        case _:
            raise unknown_tag("Phase", buffer, position)


def encode_instance(out: list[bytes], record: Instance) -> None:
    id = record.id
    phase = record.phase
    ballot = record.ballot
    accepted = record.accepted
    nop = record.nop
    command = record.command
    deps = record.deps
    initial = record.initial
    accepted_counter = accepted.counter
    accepted_replica_id = accepted.replica_id
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    id_replica_id = id.replica_id
    id_slot = id.slot
    if accepted > ballot and phase is not Phase.COMMITTED:
        raise InvalidValue("a vote above the ballot that was joined")
    if deps is None and phase is not Phase.INITIAL:
        raise InvalidValue("an instance without dependencies")
    if command is None and not nop and phase in (Phase.ACCEPTED, Phase.COMMITTED):
        raise InvalidValue("a vote for an unknown command")
    if phase is Phase.PREACCEPTED and (command is None or initial is None):
        raise InvalidValue("pre-accepted without what was sent")
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    if accepted_counter == 0 and accepted_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    out.append(BYTES[id_replica_id] if 0 <= id_replica_id <= 0x7F else uint(id_replica_id))
    out.append(BYTES[id_slot] if 0 <= id_slot <= 0x7F else uint(id_slot))
    encode_phase(out, phase)
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))
    out.append(BYTES[accepted_counter] if 0 <= accepted_counter <= 0x7F else uint(accepted_counter))
    out.append(BYTES[accepted_replica_id] if 0 <= accepted_replica_id <= 0x7F else uint(accepted_replica_id))
    out.append(BYTES[1] if nop else BYTES[0])
    if command is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_command(out, command)
    if deps is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_deps(out, deps)
    if initial is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_deps(out, initial)


def decode_instance(buffer: bytes, position: int) -> tuple[Instance, int]:
    id_replica_id = buffer[position]
    position += 1
    if id_replica_id > 0x7F:
        id_replica_id, position = decode_uint(buffer, position - 1)
    id_slot = buffer[position]
    position += 1
    if id_slot > 0x7F:
        id_slot, position = decode_uint(buffer, position - 1)
    id = InstanceId(replica_id=id_replica_id, slot=id_slot)
    phase, position = decode_phase(buffer, position)
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    accepted_counter = buffer[position]
    position += 1
    if accepted_counter > 0x7F:
        accepted_counter, position = decode_uint(buffer, position - 1)
    accepted_replica_id = buffer[position]
    position += 1
    if accepted_replica_id > 0x7F:
        accepted_replica_id, position = decode_uint(buffer, position - 1)
    if accepted_counter == 0 and accepted_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    accepted = Ballot(counter=accepted_counter, replica_id=accepted_replica_id)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    nop = flag == 1
    position += 1
    command: Command | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        command, position = decode_command(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    deps: Deps | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        deps, position = decode_deps(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    initial: Deps | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        initial, position = decode_deps(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    if accepted > ballot and phase is not Phase.COMMITTED:
        raise InvalidValue("a vote above the ballot that was joined")
    if deps is None and phase is not Phase.INITIAL:
        raise InvalidValue("an instance without dependencies")
    if command is None and not nop and phase in (Phase.ACCEPTED, Phase.COMMITTED):
        raise InvalidValue("a vote for an unknown command")
    if phase is Phase.PREACCEPTED and (command is None or initial is None):
        raise InvalidValue("pre-accepted without what was sent")
    record = Instance(
        id=id, phase=phase, ballot=ballot, accepted=accepted, nop=nop, command=command, deps=deps, initial=initial
    )
    return record, position


def encode_instance_state(out: list[bytes], record: InstanceState) -> None:
    ballot = record.ballot
    accepted = record.accepted
    deps = record.deps
    initial = record.initial
    accepted_counter = accepted.counter
    accepted_replica_id = accepted.replica_id
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    if accepted_counter == 0 and accepted_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    encode_phase(out, record.phase)
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))
    out.append(BYTES[accepted_counter] if 0 <= accepted_counter <= 0x7F else uint(accepted_counter))
    out.append(BYTES[accepted_replica_id] if 0 <= accepted_replica_id <= 0x7F else uint(accepted_replica_id))
    out.append(BYTES[1] if record.nop else BYTES[0])
    if deps is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_deps(out, deps)
    if initial is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_deps(out, initial)


def decode_instance_state(buffer: bytes, position: int) -> tuple[InstanceState, int]:
    phase, position = decode_phase(buffer, position)
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    accepted_counter = buffer[position]
    position += 1
    if accepted_counter > 0x7F:
        accepted_counter, position = decode_uint(buffer, position - 1)
    accepted_replica_id = buffer[position]
    position += 1
    if accepted_replica_id > 0x7F:
        accepted_replica_id, position = decode_uint(buffer, position - 1)
    if accepted_counter == 0 and accepted_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    accepted = Ballot(counter=accepted_counter, replica_id=accepted_replica_id)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    nop = flag == 1
    position += 1
    deps: Deps | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        deps, position = decode_deps(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    initial: Deps | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        initial, position = decode_deps(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    return InstanceState(phase=phase, ballot=ballot, accepted=accepted, nop=nop, deps=deps, initial=initial), position


def encode_term(out: list[bytes], record: Term) -> None:
    number = record.number
    voters = record.voters
    out.append(BYTES[number] if 0 <= number <= 0x7F else uint(number))
    if voters is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        if voters:
            encode_voters(out, voters)
        else:
            out.append(BYTES[0])
    encode_quorum_policy(out, record.policy)
    out.append(BYTES[1] if record.ending else BYTES[0])


def decode_term(buffer: bytes, position: int) -> tuple[Term, int]:
    number = buffer[position]
    position += 1
    if number > 0x7F:
        number, position = decode_uint(buffer, position - 1)
    voters: tuple[int, ...] | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        if buffer[position]:
            voters, position = decode_voters(buffer, position)
        else:
            voters = ()
            position += 1
    elif flag:
        raise wrong_flag(buffer, position - 1)
    policy, position = decode_quorum_policy(buffer, position)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    ending = flag == 1
    position += 1
    return Term(number=number, voters=voters, policy=policy, ending=ending), position


def encode_term_end(out: list[bytes], record: TermEnd) -> None:
    ends = record.ends
    if ends:
        encode_ends(out, ends)
    else:
        out.append(BYTES[0])


def decode_term_end(buffer: bytes, position: int) -> tuple[TermEnd, int]:
    if buffer[position]:
        ends, position = decode_ends(buffer, position)
    else:
        ends = ()
        position += 1
    return TermEnd(ends=ends), position


def encode_pre_accept(out: list[bytes], record: PreAccept) -> None:
    id = record.id
    id_replica_id = id.replica_id
    id_slot = id.slot
    out.append(BYTES[id_replica_id] if 0 <= id_replica_id <= 0x7F else uint(id_replica_id))
    out.append(BYTES[id_slot] if 0 <= id_slot <= 0x7F else uint(id_slot))
    encode_command(out, record.command)
    encode_deps(out, record.deps)


def decode_pre_accept(buffer: bytes, position: int) -> tuple[PreAccept, int]:
    id_replica_id = buffer[position]
    position += 1
    if id_replica_id > 0x7F:
        id_replica_id, position = decode_uint(buffer, position - 1)
    id_slot = buffer[position]
    position += 1
    if id_slot > 0x7F:
        id_slot, position = decode_uint(buffer, position - 1)
    id = InstanceId(replica_id=id_replica_id, slot=id_slot)
    command, position = decode_command(buffer, position)
    deps, position = decode_deps(buffer, position)
    return PreAccept(id=id, command=command, deps=deps), position


def encode_ordered_accept(out: list[bytes], record: OrderedAccept) -> None:
    id = record.id
    ballot = record.ballot
    command = record.command
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    id_replica_id = id.replica_id
    id_slot = id.slot
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    out.append(BYTES[id_replica_id] if 0 <= id_replica_id <= 0x7F else uint(id_replica_id))
    out.append(BYTES[id_slot] if 0 <= id_slot <= 0x7F else uint(id_slot))
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))
    if command is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_command(out, command)
    encode_deps(out, record.deps)


def decode_ordered_accept(buffer: bytes, position: int) -> tuple[OrderedAccept, int]:
    id_replica_id = buffer[position]
    position += 1
    if id_replica_id > 0x7F:
        id_replica_id, position = decode_uint(buffer, position - 1)
    id_slot = buffer[position]
    position += 1
    if id_slot > 0x7F:
        id_slot, position = decode_uint(buffer, position - 1)
    id = InstanceId(replica_id=id_replica_id, slot=id_slot)
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    command: Command | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        command, position = decode_command(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    deps, position = decode_deps(buffer, position)
    return OrderedAccept(id=id, ballot=ballot, command=command, deps=deps), position


def encode_ordered_commit(out: list[bytes], record: OrderedCommit) -> None:
    id = record.id
    command = record.command
    id_replica_id = id.replica_id
    id_slot = id.slot
    out.append(BYTES[id_replica_id] if 0 <= id_replica_id <= 0x7F else uint(id_replica_id))
    out.append(BYTES[id_slot] if 0 <= id_slot <= 0x7F else uint(id_slot))
    if command is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_command(out, command)
    encode_deps(out, record.deps)


def decode_ordered_commit(buffer: bytes, position: int) -> tuple[OrderedCommit, int]:
    id_replica_id = buffer[position]
    position += 1
    if id_replica_id > 0x7F:
        id_replica_id, position = decode_uint(buffer, position - 1)
    id_slot = buffer[position]
    position += 1
    if id_slot > 0x7F:
        id_slot, position = decode_uint(buffer, position - 1)
    id = InstanceId(replica_id=id_replica_id, slot=id_slot)
    command: Command | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        command, position = decode_command(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    deps, position = decode_deps(buffer, position)
    return OrderedCommit(id=id, command=command, deps=deps), position


def encode_recover(out: list[bytes], record: Recover) -> None:
    id = record.id
    ballot = record.ballot
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    id_replica_id = id.replica_id
    id_slot = id.slot
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    out.append(BYTES[id_replica_id] if 0 <= id_replica_id <= 0x7F else uint(id_replica_id))
    out.append(BYTES[id_slot] if 0 <= id_slot <= 0x7F else uint(id_slot))
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))


def decode_recover(buffer: bytes, position: int) -> tuple[Recover, int]:
    id_replica_id = buffer[position]
    position += 1
    if id_replica_id > 0x7F:
        id_replica_id, position = decode_uint(buffer, position - 1)
    id_slot = buffer[position]
    position += 1
    if id_slot > 0x7F:
        id_slot, position = decode_uint(buffer, position - 1)
    id = InstanceId(replica_id=id_replica_id, slot=id_slot)
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    return Recover(id=id, ballot=ballot), position


def encode_validate(out: list[bytes], record: Validate) -> None:
    id = record.id
    ballot = record.ballot
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    id_replica_id = id.replica_id
    id_slot = id.slot
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    out.append(BYTES[id_replica_id] if 0 <= id_replica_id <= 0x7F else uint(id_replica_id))
    out.append(BYTES[id_slot] if 0 <= id_slot <= 0x7F else uint(id_slot))
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))
    encode_command(out, record.command)
    encode_deps(out, record.deps)


def decode_validate(buffer: bytes, position: int) -> tuple[Validate, int]:
    id_replica_id = buffer[position]
    position += 1
    if id_replica_id > 0x7F:
        id_replica_id, position = decode_uint(buffer, position - 1)
    id_slot = buffer[position]
    position += 1
    if id_slot > 0x7F:
        id_slot, position = decode_uint(buffer, position - 1)
    id = InstanceId(replica_id=id_replica_id, slot=id_slot)
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    command, position = decode_command(buffer, position)
    deps, position = decode_deps(buffer, position)
    return Validate(id=id, ballot=ballot, command=command, deps=deps), position


def encode_waiting(out: list[bytes], record: Waiting) -> None:
    id = record.id
    count = record.count
    id_replica_id = id.replica_id
    id_slot = id.slot
    out.append(BYTES[id_replica_id] if 0 <= id_replica_id <= 0x7F else uint(id_replica_id))
    out.append(BYTES[id_slot] if 0 <= id_slot <= 0x7F else uint(id_slot))
    out.append(BYTES[count] if 0 <= count <= 0x7F else uint(count))


def decode_waiting(buffer: bytes, position: int) -> tuple[Waiting, int]:
    id_replica_id = buffer[position]
    position += 1
    if id_replica_id > 0x7F:
        id_replica_id, position = decode_uint(buffer, position - 1)
    id_slot = buffer[position]
    position += 1
    if id_slot > 0x7F:
        id_slot, position = decode_uint(buffer, position - 1)
    id = InstanceId(replica_id=id_replica_id, slot=id_slot)
    count = buffer[position]
    position += 1
    if count > 0x7F:
        count, position = decode_uint(buffer, position - 1)
    return Waiting(id=id, count=count), position


def encode_catchup(out: list[bytes], record: Catchup) -> None:
    sender = record.sender
    executed = record.executed
    known = record.known
    out.append(BYTES[sender] if 0 <= sender <= 0x7F else uint(sender))
    if executed:
        encode_ends(out, executed)
    else:
        out.append(BYTES[0])
    if known:
        encode_ends(out, known)
    else:
        out.append(BYTES[0])


def decode_catchup(buffer: bytes, position: int) -> tuple[Catchup, int]:
    sender = buffer[position]
    position += 1
    if sender > 0x7F:
        sender, position = decode_uint(buffer, position - 1)
    if buffer[position]:
        executed, position = decode_ends(buffer, position)
    else:
        executed = ()
        position += 1
    if buffer[position]:
        known, position = decode_ends(buffer, position)
    else:
        known = ()
        position += 1
    return Catchup(sender=sender, executed=executed, known=known), position


def encode_ordered_vote(out: list[bytes], record: OrderedVote) -> None:
    sender = record.sender
    id = record.id
    ballot = record.ballot
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    id_replica_id = id.replica_id
    id_slot = id.slot
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    out.append(BYTES[sender] if 0 <= sender <= 0x7F else uint(sender))
    out.append(BYTES[id_replica_id] if 0 <= id_replica_id <= 0x7F else uint(id_replica_id))
    out.append(BYTES[id_slot] if 0 <= id_slot <= 0x7F else uint(id_slot))
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))


def decode_ordered_vote(buffer: bytes, position: int) -> tuple[OrderedVote, int]:
    sender = buffer[position]
    position += 1
    if sender > 0x7F:
        sender, position = decode_uint(buffer, position - 1)
    id_replica_id = buffer[position]
    position += 1
    if id_replica_id > 0x7F:
        id_replica_id, position = decode_uint(buffer, position - 1)
    id_slot = buffer[position]
    position += 1
    if id_slot > 0x7F:
        id_slot, position = decode_uint(buffer, position - 1)
    id = InstanceId(replica_id=id_replica_id, slot=id_slot)
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    return OrderedVote(sender=sender, id=id, ballot=ballot), position


def encode_ordered_request(out: list[bytes], value: OrderedRequest) -> None:
    match value:
        case PreAccept():
            out.append(BYTES[0])
            encode_pre_accept(out, value)
        case OrderedAccept():
            out.append(BYTES[1])
            encode_ordered_accept(out, value)
        case OrderedCommit():
            out.append(BYTES[2])
            encode_ordered_commit(out, value)
        case Recover():
            out.append(BYTES[3])
            encode_recover(out, value)
        case Validate():
            out.append(BYTES[4])
            encode_validate(out, value)
        case Waiting():
            out.append(BYTES[5])
            encode_waiting(out, value)
        case Catchup():
            out.append(BYTES[6])
            encode_catchup(out, value)
        case Seal():
            out.append(BYTES[7])
        case OrderedVote():
            out.append(BYTES[8])
            encode_ordered_vote(out, value)
        case _:
            assert_never(value)


def decode_ordered_request(buffer: bytes, position: int) -> tuple[OrderedRequest, int]:
    match buffer[position]:
        case 0:
            return decode_pre_accept(buffer, position + 1)
        case 1:
            return decode_ordered_accept(buffer, position + 1)
        case 2:
            return decode_ordered_commit(buffer, position + 1)
        case 3:
            return decode_recover(buffer, position + 1)
        case 4:
            return decode_validate(buffer, position + 1)
        case 5:
            return decode_waiting(buffer, position + 1)
        case 6:
            return decode_catchup(buffer, position + 1)
        case 7:
            return SEAL, position + 1
        case 8:
            return decode_ordered_vote(buffer, position + 1)
        case _:
            raise unknown_tag("OrderedRequest", buffer, position)


def encode_in_term(out: list[bytes], record: InTerm) -> None:
    term = record.term
    out.append(BYTES[term] if 0 <= term <= 0x7F else uint(term))
    encode_ordered_request(out, record.request)


def decode_in_term(buffer: bytes, position: int) -> tuple[InTerm, int]:
    term = buffer[position]
    position += 1
    if term > 0x7F:
        term, position = decode_uint(buffer, position - 1)
    request, position = decode_ordered_request(buffer, position)
    return InTerm(term=term, request=request), position


def encode_pre_accept_ok(out: list[bytes], record: PreAcceptOk) -> None:
    also = record.also
    if also:
        encode_instance_ids(out, also)
    else:
        out.append(BYTES[0])


def decode_pre_accept_ok(buffer: bytes, position: int) -> tuple[PreAcceptOk, int]:
    if buffer[position]:
        also, position = decode_instance_ids(buffer, position)
    else:
        also = ()
        position += 1
    return PreAcceptOk(also=also), position


def encode_recover_ok(out: list[bytes], record: RecoverOk) -> None:
    encode_instance(out, record.held)


def decode_recover_ok(buffer: bytes, position: int) -> tuple[RecoverOk, int]:
    held, position = decode_instance(buffer, position)
    return RecoverOk(held=held), position


def encode_rival(out: list[bytes], record: Rival) -> None:
    id = record.id
    id_replica_id = id.replica_id
    id_slot = id.slot
    out.append(BYTES[id_replica_id] if 0 <= id_replica_id <= 0x7F else uint(id_replica_id))
    out.append(BYTES[id_slot] if 0 <= id_slot <= 0x7F else uint(id_slot))
    out.append(BYTES[1] if record.is_committed else BYTES[0])


def decode_rival(buffer: bytes, position: int) -> tuple[Rival, int]:
    id_replica_id = buffer[position]
    position += 1
    if id_replica_id > 0x7F:
        id_replica_id, position = decode_uint(buffer, position - 1)
    id_slot = buffer[position]
    position += 1
    if id_slot > 0x7F:
        id_slot, position = decode_uint(buffer, position - 1)
    id = InstanceId(replica_id=id_replica_id, slot=id_slot)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    is_committed = flag == 1
    position += 1
    return Rival(id=id, is_committed=is_committed), position


def encode_rivals(out: list[bytes], value: tuple[Rival, ...]) -> None:
    out.append(length_bytes(len(value), 0, 1024))
    for item in value:
        encode_rival(out, item)


def decode_rivals(buffer: bytes, position: int) -> tuple[tuple[Rival, ...], int]:
    count, position = decode_length(buffer, position, 0, 1024)
    items: list[Rival] = []
    for _ in range(count):
        item, position = decode_rival(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_validate_ok(out: list[bytes], record: ValidateOk) -> None:
    rivals = record.rivals
    if rivals:
        encode_rivals(out, rivals)
    else:
        out.append(BYTES[0])


def decode_validate_ok(buffer: bytes, position: int) -> tuple[ValidateOk, int]:
    if buffer[position]:
        rivals, position = decode_rivals(buffer, position)
    else:
        rivals = ()
        position += 1
    return ValidateOk(rivals=rivals), position


def encode_decided(out: list[bytes], record: Decided) -> None:
    encode_ordered_commit(out, record.commit)


def decode_decided(buffer: bytes, position: int) -> tuple[Decided, int]:
    commit, position = decode_ordered_commit(buffer, position)
    return Decided(commit=commit), position


def encode_overtaken(out: list[bytes], record: Overtaken) -> None:
    ballot = record.ballot
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))


def decode_overtaken(buffer: bytes, position: int) -> tuple[Overtaken, int]:
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    return Overtaken(ballot=ballot), position


def encode_commits(out: list[bytes], value: tuple[OrderedCommit, ...]) -> None:
    out.append(length_bytes(len(value), 0, 512))
    for item in value:
        encode_ordered_commit(out, item)


def decode_commits(buffer: bytes, position: int) -> tuple[tuple[OrderedCommit, ...], int]:
    count, position = decode_length(buffer, position, 0, 512)
    items: list[OrderedCommit] = []
    for _ in range(count):
        item, position = decode_ordered_commit(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_missed(out: list[bytes], record: Missed) -> None:
    executed = record.executed
    commits = record.commits
    if executed:
        encode_ends(out, executed)
    else:
        out.append(BYTES[0])
    if commits:
        encode_commits(out, commits)
    else:
        out.append(BYTES[0])
    out.append(BYTES[1] if record.more else BYTES[0])


def decode_missed(buffer: bytes, position: int) -> tuple[Missed, int]:
    if buffer[position]:
        executed, position = decode_ends(buffer, position)
    else:
        executed = ()
        position += 1
    if buffer[position]:
        commits, position = decode_commits(buffer, position)
    else:
        commits = ()
        position += 1
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    more = flag == 1
    position += 1
    return Missed(executed=executed, commits=commits, more=more), position


def encode_sealed(out: list[bytes], record: Sealed) -> None:
    ends = record.ends
    if ends:
        encode_ends(out, ends)
    else:
        out.append(BYTES[0])


def decode_sealed(buffer: bytes, position: int) -> tuple[Sealed, int]:
    if buffer[position]:
        ends, position = decode_ends(buffer, position)
    else:
        ends = ()
        position += 1
    return Sealed(ends=ends), position


def encode_ended(out: list[bytes], record: Ended) -> None:
    ends = record.ends
    if ends:
        encode_ends(out, ends)
    else:
        out.append(BYTES[0])


def decode_ended(buffer: bytes, position: int) -> tuple[Ended, int]:
    if buffer[position]:
        ends, position = decode_ends(buffer, position)
    else:
        ends = ()
        position += 1
    return Ended(ends=ends), position


def encode_closed(out: list[bytes], record: Closed) -> None:
    term = record.term
    out.append(BYTES[term] if 0 <= term <= 0x7F else uint(term))


def decode_closed(buffer: bytes, position: int) -> tuple[Closed, int]:
    term = buffer[position]
    position += 1
    if term > 0x7F:
        term, position = decode_uint(buffer, position - 1)
    return Closed(term=term), position


def encode_prepare(out: list[bytes], record: Prepare) -> None:
    key = record.key
    epoch = record.epoch
    ballot = record.ballot
    base = record.base
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    if not ballot.is_classic:
        raise InvalidValue("the fast round has no phase 1")
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))
    out.append(BYTES[base] if 0 <= base <= 0x7F else uint(base))


def decode_prepare(buffer: bytes, position: int) -> tuple[Prepare, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    base = buffer[position]
    position += 1
    if base > 0x7F:
        base, position = decode_uint(buffer, position - 1)
    if not ballot.is_classic:
        raise InvalidValue("the fast round has no phase 1")
    return Prepare(key=key, epoch=epoch, ballot=ballot, base=base), position


def encode_accept(out: list[bytes], record: Accept) -> None:
    key = record.key
    epoch = record.epoch
    ballot = record.ballot
    proposal = record.proposal
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    if ballot.counter < 1:
        raise InvalidValue("a vote needs a ballot")
    if proposal.version < 1:
        raise InvalidValue("version 0 is never voted on")
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))
    encode_proposal(out, proposal)


def decode_accept(buffer: bytes, position: int) -> tuple[Accept, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    proposal, position = decode_proposal(buffer, position)
    if ballot.counter < 1:
        raise InvalidValue("a vote needs a ballot")
    if proposal.version < 1:
        raise InvalidValue("version 0 is never voted on")
    return Accept(key=key, epoch=epoch, ballot=ballot, proposal=proposal), position


def encode_commit(out: list[bytes], record: Commit) -> None:
    key = record.key
    epoch = record.epoch
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    encode_proposal(out, record.proposal)


def decode_commit(buffer: bytes, position: int) -> tuple[Commit, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    proposal, position = decode_proposal(buffer, position)
    return Commit(key=key, epoch=epoch, proposal=proposal), position


def encode_read(out: list[bytes], record: Read) -> None:
    key = record.key
    epoch = record.epoch
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))


def decode_read(buffer: bytes, position: int) -> tuple[Read, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    return Read(key=key, epoch=epoch), position


def encode_update_config(out: list[bytes], record: UpdateConfig) -> None:
    encode_cluster_config(out, record.config)


def decode_update_config(buffer: bytes, position: int) -> tuple[UpdateConfig, int]:
    config, position = decode_cluster_config(buffer, position)
    return UpdateConfig(config=config), position


def encode_inspect(out: list[bytes], record: Inspect) -> None:
    key = record.key
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)


def decode_inspect(buffer: bytes, position: int) -> tuple[Inspect, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    return Inspect(key=key), position


def encode_carried_write(out: list[bytes], record: CarriedWrite) -> None:
    proposal_id = record.proposal_id
    floor = record.floor
    value = record.value
    mutable = record.mutable
    if_version = record.if_version
    amount = record.amount
    touch = record.touch
    keep_expiry = record.keep_expiry
    ttl_ms = record.ttl_ms
    session = record.session
    proposal_id_replica_id = proposal_id.replica_id
    if amount is not None and amount > 0x7FFF_FFFF_FFFF_FFFF:
        raise InvalidValue("an amount has at most 63 bits")
    if amount is not None and value is not None:
        raise InvalidValue("a write that adds has no value")
    if not mutable and (value is None or if_version is not None):
        raise InvalidValue("a reservation has a value and no version")
    if not mutable and (ttl_ms or session):
        raise InvalidValue("only a value of a mutable key has an expiry")
    if bool(ttl_ms) + bool(session) + keep_expiry > 1:
        raise InvalidValue("a write gives one expiry at most")
    if touch and value is not None:
        raise InvalidValue("a write that touches has no value")
    if ttl_ms > 35184372088832:
        raise InvalidValue("a time to live of more than a thousand years")
    if session and len(session) != 16:
        raise InvalidValue("a session's id has 16 bytes")
    out.append(BYTES[proposal_id_replica_id] if 0 <= proposal_id_replica_id <= 0x7F else uint(proposal_id_replica_id))
    encode_unsigned(out, proposal_id.nonce, 8)
    out.append(BYTES[floor] if 0 <= floor <= 0x7F else uint(floor))
    if value is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(value)
        out.append(BYTES[length] if length <= 0x7F else length_bytes(length, 0, 1048576))
        out.append(value)
    out.append(BYTES[1] if mutable else BYTES[0])
    if if_version is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        out.append(BYTES[if_version] if 0 <= if_version <= 0x7F else uint(if_version))
    out.append(BYTES[1] if record.returning else BYTES[0])
    if amount is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        out.append(BYTES[amount] if 0 <= amount <= 0x7F else uint(amount))
    out.append(BYTES[1] if record.negative else BYTES[0])
    out.append(BYTES[1] if record.if_absent else BYTES[0])
    out.append(BYTES[1] if touch else BYTES[0])
    out.append(BYTES[1] if keep_expiry else BYTES[0])
    out.append(BYTES[ttl_ms] if 0 <= ttl_ms <= 0x7F else uint(ttl_ms))
    length = len(session)
    out.append(BYTES[length] if length <= 0x10 else length_bytes(length, 0, 16))
    out.append(session)


def decode_carried_write(buffer: bytes, position: int) -> tuple[CarriedWrite, int]:
    proposal_id_replica_id = buffer[position]
    position += 1
    if proposal_id_replica_id > 0x7F:
        proposal_id_replica_id, position = decode_uint(buffer, position - 1)
    proposal_id_nonce = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    proposal_id = ProposalId(replica_id=proposal_id_replica_id, nonce=proposal_id_nonce)
    floor = buffer[position]
    position += 1
    if floor > 0x7F:
        floor, position = decode_uint(buffer, position - 1)
    value: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if length > 0x7F:
            length, position = decode_length(buffer, position - 1, 0, 1048576)
        value = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    mutable = flag == 1
    position += 1
    if_version: int | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        if_version = buffer[position]
        position += 1
        if if_version > 0x7F:
            if_version, position = decode_uint(buffer, position - 1)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    returning = flag == 1
    position += 1
    amount: int | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        amount = buffer[position]
        position += 1
        if amount > 0x7F:
            amount, position = decode_uint(buffer, position - 1)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    negative = flag == 1
    position += 1
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    if_absent = flag == 1
    position += 1
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    touch = flag == 1
    position += 1
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    keep_expiry = flag == 1
    position += 1
    ttl_ms = buffer[position]
    position += 1
    if ttl_ms > 0x7F:
        ttl_ms, position = decode_uint(buffer, position - 1)
    length = buffer[position]
    position += 1
    if length > 0x10:
        length, position = decode_length(buffer, position - 1, 0, 16)
    session = buffer[position : position + length]
    position += length
    if position > len(buffer):
        raise IndexError("cut short")
    if amount is not None and amount > 0x7FFF_FFFF_FFFF_FFFF:
        raise InvalidValue("an amount has at most 63 bits")
    if amount is not None and value is not None:
        raise InvalidValue("a write that adds has no value")
    if not mutable and (value is None or if_version is not None):
        raise InvalidValue("a reservation has a value and no version")
    if not mutable and (ttl_ms or session):
        raise InvalidValue("only a value of a mutable key has an expiry")
    if bool(ttl_ms) + bool(session) + keep_expiry > 1:
        raise InvalidValue("a write gives one expiry at most")
    if touch and value is not None:
        raise InvalidValue("a write that touches has no value")
    if ttl_ms > 35184372088832:
        raise InvalidValue("a time to live of more than a thousand years")
    if session and len(session) != 16:
        raise InvalidValue("a session's id has 16 bytes")
    record = CarriedWrite(
        proposal_id=proposal_id,
        floor=floor,
        value=value,
        mutable=mutable,
        if_version=if_version,
        returning=returning,
        amount=amount,
        negative=negative,
        if_absent=if_absent,
        touch=touch,
        keep_expiry=keep_expiry,
        ttl_ms=ttl_ms,
        session=session,
    )
    return record, position


def encode_carried_writes(out: list[bytes], value: tuple[CarriedWrite, ...]) -> None:
    out.append(length_bytes(len(value), 1, 64))
    for item in value:
        encode_carried_write(out, item)


def decode_carried_writes(buffer: bytes, position: int) -> tuple[tuple[CarriedWrite, ...], int]:
    count, position = decode_length(buffer, position, 1, 64)
    items: list[CarriedWrite] = []
    for _ in range(count):
        item, position = decode_carried_write(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_carry(out: list[bytes], record: Carry) -> None:
    key = record.key
    epoch = record.epoch
    number = record.number
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    encode_unsigned(out, record.sender, 8)
    encode_unsigned(out, record.receiver, 8)
    out.append(BYTES[number] if 0 <= number <= 0x7F else uint(number))
    encode_carried_writes(out, record.writes)


def decode_carry(buffer: bytes, position: int) -> tuple[Carry, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    sender = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    receiver = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    number = buffer[position]
    position += 1
    if number > 0x7F:
        number, position = decode_uint(buffer, position - 1)
    writes, position = decode_carried_writes(buffer, position)
    return Carry(key=key, epoch=epoch, sender=sender, receiver=receiver, number=number, writes=writes), position


def encode_carry_result(out: list[bytes], value: CarryResult) -> None:
    match value:
        case CarryResult.DONE:
            out.append(BYTES[0])
        case CarryResult.TAKEN:
            out.append(BYTES[1])
        case CarryResult.MISMATCH:
            out.append(BYTES[2])
        case CarryResult.IMMUTABLE:
            out.append(BYTES[3])
        case CarryResult.ABSENT:
            out.append(BYTES[4])
        case CarryResult.NO_INTEGER:
            out.append(BYTES[5])
        case CarryResult.UNKNOWN:
            out.append(BYTES[6])
        case CarryResult.REFUSED:
            out.append(BYTES[7])
        case _:
            assert_never(value)


def decode_carry_result(buffer: bytes, position: int) -> tuple[CarryResult, int]:
    match buffer[position]:
        case 0:
            return CarryResult.DONE, position + 1
        case 1:
            return CarryResult.TAKEN, position + 1
        case 2:
            return CarryResult.MISMATCH, position + 1
        case 3:
            return CarryResult.IMMUTABLE, position + 1
        case 4:
            return CarryResult.ABSENT, position + 1
        case 5:
            return CarryResult.NO_INTEGER, position + 1
        case 6:
            return CarryResult.UNKNOWN, position + 1
        case 7:
            return CarryResult.REFUSED, position + 1
        case _:
            raise unknown_tag("CarryResult", buffer, position)


def encode_carry_answer(out: list[bytes], record: CarryAnswer) -> None:
    proposal_id = record.proposal_id
    version = record.version
    value = record.value
    committed = record.committed
    proposal_id_replica_id = proposal_id.replica_id
    out.append(BYTES[proposal_id_replica_id] if 0 <= proposal_id_replica_id <= 0x7F else uint(proposal_id_replica_id))
    encode_unsigned(out, proposal_id.nonce, 8)
    encode_carry_result(out, record.result)
    out.append(BYTES[version] if 0 <= version <= 0x7F else uint(version))
    if value is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(value)
        out.append(BYTES[length] if length <= 0x7F else length_bytes(length, 0, 1048576))
        out.append(value)
    if committed is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_proposal(out, committed)
    encode_str(out, record.reason, 0, 1024)


def decode_carry_answer(buffer: bytes, position: int) -> tuple[CarryAnswer, int]:
    proposal_id_replica_id = buffer[position]
    position += 1
    if proposal_id_replica_id > 0x7F:
        proposal_id_replica_id, position = decode_uint(buffer, position - 1)
    proposal_id_nonce = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    proposal_id = ProposalId(replica_id=proposal_id_replica_id, nonce=proposal_id_nonce)
    result, position = decode_carry_result(buffer, position)
    version = buffer[position]
    position += 1
    if version > 0x7F:
        version, position = decode_uint(buffer, position - 1)
    value: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if length > 0x7F:
            length, position = decode_length(buffer, position - 1, 0, 1048576)
        value = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    committed: Proposal | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        committed, position = decode_proposal(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    reason, position = decode_str(buffer, position, 0, 1024)
    record = CarryAnswer(
        proposal_id=proposal_id, result=result, version=version, value=value, committed=committed, reason=reason
    )
    return record, position


def encode_carry_answer_list(out: list[bytes], value: tuple[CarryAnswer, ...]) -> None:
    out.append(length_bytes(len(value), 1, 64))
    for item in value:
        encode_carry_answer(out, item)


def decode_carry_answer_list(buffer: bytes, position: int) -> tuple[tuple[CarryAnswer, ...], int]:
    count, position = decode_length(buffer, position, 1, 64)
    items: list[CarryAnswer] = []
    for _ in range(count):
        item, position = decode_carry_answer(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_carry_answers(out: list[bytes], record: CarryAnswers) -> None:
    key = record.key
    owner = record.owner
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    out.append(BYTES[owner] if 0 <= owner <= 0x7F else uint(owner))
    encode_carry_answer_list(out, record.answers)


def decode_carry_answers(buffer: bytes, position: int) -> tuple[CarryAnswers, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    owner = buffer[position]
    position += 1
    if owner > 0x7F:
        owner, position = decode_uint(buffer, position - 1)
    answers, position = decode_carry_answer_list(buffer, position)
    return CarryAnswers(key=key, owner=owner, answers=answers), position


def encode_request(out: list[bytes], value: Request) -> None:
    match value:
        case Prepare():
            out.append(BYTES[0])
            encode_prepare(out, value)
        case Accept():
            out.append(BYTES[1])
            encode_accept(out, value)
        case Commit():
            out.append(BYTES[2])
            encode_commit(out, value)
        case Read():
            out.append(BYTES[3])
            encode_read(out, value)
        case UpdateConfig():
            out.append(BYTES[4])
            encode_update_config(out, value)
        case Inspect():
            out.append(BYTES[5])
            encode_inspect(out, value)
        case Carry():
            out.append(BYTES[7])
            encode_carry(out, value)
        case CarryAnswers():
            out.append(BYTES[8])
            encode_carry_answers(out, value)
        case InTerm():
            out.append(BYTES[6])
            encode_in_term(out, value)
        case _:
            assert_never(value)


def decode_request(buffer: bytes, position: int) -> tuple[Request, int]:
    match buffer[position]:
        case 0:
            return decode_prepare(buffer, position + 1)
        case 1:
            return decode_accept(buffer, position + 1)
        case 2:
            return decode_commit(buffer, position + 1)
        case 3:
            return decode_read(buffer, position + 1)
        case 4:
            return decode_update_config(buffer, position + 1)
        case 5:
            return decode_inspect(buffer, position + 1)
        case 7:
            return decode_carry(buffer, position + 1)
        case 8:
            return decode_carry_answers(buffer, position + 1)
        case 6:
            return decode_in_term(buffer, position + 1)
        case _:
            raise unknown_tag("Request", buffer, position)


def encode_prepare_ok(out: list[bytes], record: PrepareOk) -> None:
    vote = record.vote
    if vote is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_vote(out, vote)


def decode_prepare_ok(buffer: bytes, position: int) -> tuple[PrepareOk, int]:
    vote: Vote | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        vote, position = decode_vote(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    return PrepareOk(vote=vote), position


def encode_read_ok(out: list[bytes], record: ReadOk) -> None:
    committed = record.committed
    vote = record.vote
    if committed is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_proposal(out, committed)
    if vote is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_vote(out, vote)


def decode_read_ok(buffer: bytes, position: int) -> tuple[ReadOk, int]:
    committed: Proposal | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        committed, position = decode_proposal(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    vote: Vote | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        vote, position = decode_vote(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    return ReadOk(committed=committed, vote=vote), position


def encode_already_committed(out: list[bytes], record: AlreadyCommitted) -> None:
    lineage = record.lineage
    encode_proposal(out, record.committed)
    if lineage:
        encode_lineage(out, lineage)
    else:
        out.append(BYTES[0])


def decode_already_committed(buffer: bytes, position: int) -> tuple[AlreadyCommitted, int]:
    committed, position = decode_proposal(buffer, position)
    if buffer[position]:
        lineage, position = decode_lineage(buffer, position)
    else:
        lineage = ()
        position += 1
    return AlreadyCommitted(committed=committed, lineage=lineage), position


def encode_higher_ballot(out: list[bytes], record: HigherBallot) -> None:
    ballot = record.ballot
    ballot_counter = ballot.counter
    ballot_replica_id = ballot.replica_id
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    out.append(BYTES[ballot_counter] if 0 <= ballot_counter <= 0x7F else uint(ballot_counter))
    out.append(BYTES[ballot_replica_id] if 0 <= ballot_replica_id <= 0x7F else uint(ballot_replica_id))


def decode_higher_ballot(buffer: bytes, position: int) -> tuple[HigherBallot, int]:
    ballot_counter = buffer[position]
    position += 1
    if ballot_counter > 0x7F:
        ballot_counter, position = decode_uint(buffer, position - 1)
    ballot_replica_id = buffer[position]
    position += 1
    if ballot_replica_id > 0x7F:
        ballot_replica_id, position = decode_uint(buffer, position - 1)
    if ballot_counter == 0 and ballot_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    ballot = Ballot(counter=ballot_counter, replica_id=ballot_replica_id)
    return HigherBallot(ballot=ballot), position


def encode_declined_ids(out: list[bytes], value: tuple[ProposalId, ...]) -> None:
    out.append(length_bytes(len(value), 0, 64))
    for item in value:
        encode_proposal_id(out, item)


def decode_declined_ids(buffer: bytes, position: int) -> tuple[tuple[ProposalId, ...], int]:
    count, position = decode_length(buffer, position, 0, 64)
    items: list[ProposalId] = []
    for _ in range(count):
        item, position = decode_proposal_id(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_carry_ok(out: list[bytes], record: CarryOk) -> None:
    declined = record.declined
    if declined:
        encode_declined_ids(out, declined)
    else:
        out.append(BYTES[0])
    encode_unsigned(out, record.life, 8)


def decode_carry_ok(buffer: bytes, position: int) -> tuple[CarryOk, int]:
    if buffer[position]:
        declined, position = decode_declined_ids(buffer, position)
    else:
        declined = ()
        position += 1
    life = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    return CarryOk(declined=declined, life=life), position


def encode_behind(out: list[bytes], record: Behind) -> None:
    version = record.version
    out.append(BYTES[version] if 0 <= version <= 0x7F else uint(version))


def decode_behind(buffer: bytes, position: int) -> tuple[Behind, int]:
    version = buffer[position]
    position += 1
    if version > 0x7F:
        version, position = decode_uint(buffer, position - 1)
    return Behind(version=version), position


def encode_stale_commit(out: list[bytes], record: StaleCommit) -> None:
    version = record.version
    out.append(BYTES[version] if 0 <= version <= 0x7F else uint(version))


def decode_stale_commit(buffer: bytes, position: int) -> tuple[StaleCommit, int]:
    version = buffer[position]
    position += 1
    if version > 0x7F:
        version, position = decode_uint(buffer, position - 1)
    return StaleCommit(version=version), position


def encode_stale_epoch(out: list[bytes], record: StaleEpoch) -> None:
    encode_cluster_config(out, record.config)


def decode_stale_epoch(buffer: bytes, position: int) -> tuple[StaleEpoch, int]:
    config, position = decode_cluster_config(buffer, position)
    return StaleEpoch(config=config), position


def encode_epoch_ahead(out: list[bytes], record: EpochAhead) -> None:
    epoch = record.epoch
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))


def decode_epoch_ahead(buffer: bytes, position: int) -> tuple[EpochAhead, int]:
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    return EpochAhead(epoch=epoch), position


def encode_commit_conflict(out: list[bytes], record: CommitConflict) -> None:
    encode_proposal(out, record.committed)


def decode_commit_conflict(buffer: bytes, position: int) -> tuple[CommitConflict, int]:
    committed, position = decode_proposal(buffer, position)
    return CommitConflict(committed=committed), position


def encode_config_ok(out: list[bytes], record: ConfigOk) -> None:
    epoch = record.epoch
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))


def decode_config_ok(buffer: bytes, position: int) -> tuple[ConfigOk, int]:
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    return ConfigOk(epoch=epoch), position


def encode_failed(out: list[bytes], record: Failed) -> None:
    encode_str(out, record.reason, 0, 1024)


def decode_failed(buffer: bytes, position: int) -> tuple[Failed, int]:
    reason, position = decode_str(buffer, position, 0, 1024)
    return Failed(reason=reason), position


def encode_stamps(out: list[bytes], value: tuple[bytes, ...]) -> None:
    out.append(length_bytes(len(value), 0, 64))
    for item in value:
        encode_fixed(out, item, 10)


def decode_stamps(buffer: bytes, position: int) -> tuple[tuple[bytes, ...], int]:
    count, position = decode_length(buffer, position, 0, 64)
    items: list[bytes] = []
    for _ in range(count):
        item, position = decode_fixed(buffer, position, 10)
        items.append(item)
    return tuple(items), position


def encode_inspected(out: list[bytes], record: Inspected) -> None:
    epoch = record.epoch
    committed = record.committed
    lineage = record.lineage
    promised = record.promised
    vote = record.vote
    cached = record.cached
    changelog = record.changelog
    owner = record.owner
    waiting = record.waiting
    promised_counter = promised.counter
    promised_replica_id = promised.replica_id
    if promised_counter == 0 and promised_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    if committed is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_proposal(out, committed)
    if lineage:
        encode_lineage(out, lineage)
    else:
        out.append(BYTES[0])
    out.append(BYTES[promised_counter] if 0 <= promised_counter <= 0x7F else uint(promised_counter))
    out.append(BYTES[promised_replica_id] if 0 <= promised_replica_id <= 0x7F else uint(promised_replica_id))
    if vote is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_vote(out, vote)
    if cached is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_proposal(out, cached)
    if changelog:
        encode_stamps(out, changelog)
    else:
        out.append(BYTES[0])
    out.append(BYTES[owner] if 0 <= owner <= 0x7F else uint(owner))
    out.append(BYTES[waiting] if 0 <= waiting <= 0x7F else uint(waiting))


def decode_inspected(buffer: bytes, position: int) -> tuple[Inspected, int]:
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    committed: Proposal | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        committed, position = decode_proposal(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    if buffer[position]:
        lineage, position = decode_lineage(buffer, position)
    else:
        lineage = ()
        position += 1
    promised_counter = buffer[position]
    position += 1
    if promised_counter > 0x7F:
        promised_counter, position = decode_uint(buffer, position - 1)
    promised_replica_id = buffer[position]
    position += 1
    if promised_replica_id > 0x7F:
        promised_replica_id, position = decode_uint(buffer, position - 1)
    if promised_counter == 0 and promised_replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    promised = Ballot(counter=promised_counter, replica_id=promised_replica_id)
    vote: Vote | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        vote, position = decode_vote(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    cached: Proposal | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        cached, position = decode_proposal(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    if buffer[position]:
        changelog, position = decode_stamps(buffer, position)
    else:
        changelog = ()
        position += 1
    owner = buffer[position]
    position += 1
    if owner > 0x7F:
        owner, position = decode_uint(buffer, position - 1)
    waiting = buffer[position]
    position += 1
    if waiting > 0x7F:
        waiting, position = decode_uint(buffer, position - 1)
    record = Inspected(
        epoch=epoch,
        committed=committed,
        lineage=lineage,
        promised=promised,
        vote=vote,
        cached=cached,
        changelog=changelog,
        owner=owner,
        waiting=waiting,
    )
    return record, position


def encode_reply(out: list[bytes], value: Reply) -> None:
    match value:
        case PrepareOk():
            out.append(BYTES[0])
            encode_prepare_ok(out, value)
        case AcceptOk():
            out.append(BYTES[1])
        case CommitOk():
            out.append(BYTES[2])
        case ReadOk():
            out.append(BYTES[3])
            encode_read_ok(out, value)
        case AlreadyCommitted():
            out.append(BYTES[4])
            encode_already_committed(out, value)
        case HigherBallot():
            out.append(BYTES[5])
            encode_higher_ballot(out, value)
        case Behind():
            out.append(BYTES[6])
            encode_behind(out, value)
        case StaleCommit():
            out.append(BYTES[7])
            encode_stale_commit(out, value)
        case StaleEpoch():
            out.append(BYTES[8])
            encode_stale_epoch(out, value)
        case EpochAhead():
            out.append(BYTES[9])
            encode_epoch_ahead(out, value)
        case CommitConflict():
            out.append(BYTES[10])
            encode_commit_conflict(out, value)
        case ConfigOk():
            out.append(BYTES[11])
            encode_config_ok(out, value)
        case Failed():
            out.append(BYTES[12])
            encode_failed(out, value)
        case Inspected():
            out.append(BYTES[13])
            encode_inspected(out, value)
        case CarryOk():
            out.append(BYTES[27])
            encode_carry_ok(out, value)
        case PreAcceptOk():
            out.append(BYTES[14])
            encode_pre_accept_ok(out, value)
        case Voted():
            out.append(BYTES[15])
        case RecoverOk():
            out.append(BYTES[16])
            encode_recover_ok(out, value)
        case ValidateOk():
            out.append(BYTES[17])
            encode_validate_ok(out, value)
        case Decided():
            out.append(BYTES[18])
            encode_decided(out, value)
        case Overtaken():
            out.append(BYTES[19])
            encode_overtaken(out, value)
        case Forgotten():
            out.append(BYTES[20])
        case Overloaded():
            out.append(BYTES[21])
        case Noted():
            out.append(BYTES[22])
        case Missed():
            out.append(BYTES[23])
            encode_missed(out, value)
        case Sealed():
            out.append(BYTES[24])
            encode_sealed(out, value)
        case Ended():
            out.append(BYTES[25])
            encode_ended(out, value)
        case Closed():
            out.append(BYTES[26])
            encode_closed(out, value)
        case _:
            assert_never(value)


def decode_reply(buffer: bytes, position: int) -> tuple[Reply, int]:
    match buffer[position]:
        case 0:
            return decode_prepare_ok(buffer, position + 1)
        case 1:
            return ACCEPT_OK, position + 1
        case 2:
            return COMMIT_OK, position + 1
        case 3:
            return decode_read_ok(buffer, position + 1)
        case 4:
            return decode_already_committed(buffer, position + 1)
        case 5:
            return decode_higher_ballot(buffer, position + 1)
        case 6:
            return decode_behind(buffer, position + 1)
        case 7:
            return decode_stale_commit(buffer, position + 1)
        case 8:
            return decode_stale_epoch(buffer, position + 1)
        case 9:
            return decode_epoch_ahead(buffer, position + 1)
        case 10:
            return decode_commit_conflict(buffer, position + 1)
        case 11:
            return decode_config_ok(buffer, position + 1)
        case 12:
            return decode_failed(buffer, position + 1)
        case 13:
            return decode_inspected(buffer, position + 1)
        case 27:
            return decode_carry_ok(buffer, position + 1)
        case 14:
            return decode_pre_accept_ok(buffer, position + 1)
        case 15:
            return VOTED, position + 1
        case 16:
            return decode_recover_ok(buffer, position + 1)
        case 17:
            return decode_validate_ok(buffer, position + 1)
        case 18:
            return decode_decided(buffer, position + 1)
        case 19:
            return decode_overtaken(buffer, position + 1)
        case 20:
            return FORGOTTEN, position + 1
        case 21:
            return OVERLOADED, position + 1
        case 22:
            return NOTED, position + 1
        case 23:
            return decode_missed(buffer, position + 1)
        case 24:
            return decode_sealed(buffer, position + 1)
        case 25:
            return decode_ended(buffer, position + 1)
        case 26:
            return decode_closed(buffer, position + 1)
        case _:
            raise unknown_tag("Reply", buffer, position)


def encode_requests(out: list[bytes], value: tuple[Request, ...]) -> None:
    out.append(length_bytes(len(value), 0, 4096))
    for item in value:
        encode_request(out, item)


def decode_requests(buffer: bytes, position: int) -> tuple[tuple[Request, ...], int]:
    count, position = decode_length(buffer, position, 0, 4096)
    items: list[Request] = []
    for _ in range(count):
        item, position = decode_request(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_replies(out: list[bytes], value: tuple[Reply, ...]) -> None:
    out.append(length_bytes(len(value), 0, 4096))
    for item in value:
        encode_reply(out, item)


def decode_replies(buffer: bytes, position: int) -> tuple[tuple[Reply, ...], int]:
    count, position = decode_length(buffer, position, 0, 4096)
    items: list[Reply] = []
    for _ in range(count):
        item, position = decode_reply(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_peer_request(out: list[bytes], record: PeerRequest) -> None:
    sender = record.sender
    recipient = record.recipient
    requests = record.requests
    out.append(BYTES[sender] if 0 <= sender <= 0x7F else uint(sender))
    out.append(BYTES[recipient] if 0 <= recipient <= 0x7F else uint(recipient))
    if requests:
        encode_requests(out, requests)
    else:
        out.append(BYTES[0])


def decode_peer_request(buffer: bytes, position: int) -> tuple[PeerRequest, int]:
    sender = buffer[position]
    position += 1
    if sender > 0x7F:
        sender, position = decode_uint(buffer, position - 1)
    recipient = buffer[position]
    position += 1
    if recipient > 0x7F:
        recipient, position = decode_uint(buffer, position - 1)
    if buffer[position]:
        requests, position = decode_requests(buffer, position)
    else:
        requests = ()
        position += 1
    return PeerRequest(sender=sender, recipient=recipient, requests=requests), position


def encode_peer_response(out: list[bytes], record: PeerResponse) -> None:
    replies = record.replies
    if replies:
        encode_replies(out, replies)
    else:
        out.append(BYTES[0])


def decode_peer_response(buffer: bytes, position: int) -> tuple[PeerResponse, int]:
    if buffer[position]:
        replies, position = decode_replies(buffer, position)
    else:
        replies = ()
        position += 1
    return PeerResponse(replies=replies), position


def encode_changelog_entry(out: list[bytes], record: ChangelogEntry) -> None:
    key = record.key
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    encode_proposal(out, record.committed)


def decode_changelog_entry(buffer: bytes, position: int) -> tuple[ChangelogEntry, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    committed, position = decode_proposal(buffer, position)
    return ChangelogEntry(key=key, committed=committed), position


def encode_entries(out: list[bytes], value: tuple[ChangelogEntry, ...]) -> None:
    out.append(length_bytes(len(value), 0, 1024))
    for item in value:
        encode_changelog_entry(out, item)


def decode_entries(buffer: bytes, position: int) -> tuple[tuple[ChangelogEntry, ...], int]:
    count, position = decode_length(buffer, position, 0, 1024)
    items: list[ChangelogEntry] = []
    for _ in range(count):
        item, position = decode_changelog_entry(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_stretch(out: list[bytes], record: Stretch) -> None:
    until = record.until
    count = record.count
    if until is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(until)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(until)
    out.append(BYTES[count] if 0 <= count <= 0x7F else uint(count))
    encode_fixed(out, record.digest, 16)


def decode_stretch(buffer: bytes, position: int) -> tuple[Stretch, int]:
    until: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        until = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    count = buffer[position]
    position += 1
    if count > 0x7F:
        count, position = decode_uint(buffer, position - 1)
    digest, position = decode_fixed(buffer, position, 16)
    return Stretch(until=until, count=count, digest=digest), position


def encode_snapshot_read(out: list[bytes], record: SnapshotRead) -> None:
    reader = record.reader
    after = record.after
    out.append(BYTES[reader] if 0 <= reader <= 0x7F else uint(reader))
    encode_unsigned(out, record.store, 8)
    if after is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(after)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(after)
    encode_stretch(out, record.held)


def decode_snapshot_read(buffer: bytes, position: int) -> tuple[SnapshotRead, int]:
    reader = buffer[position]
    position += 1
    if reader > 0x7F:
        reader, position = decode_uint(buffer, position - 1)
    store = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    after: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        after = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    held, position = decode_stretch(buffer, position)
    return SnapshotRead(reader=reader, store=store, after=after, held=held), position


def encode_changelog_read(out: list[bytes], record: ChangelogRead) -> None:
    reader = record.reader
    out.append(BYTES[reader] if 0 <= reader <= 0x7F else uint(reader))
    encode_unsigned(out, record.store, 8)
    encode_fixed(out, record.after, 10)


def decode_changelog_read(buffer: bytes, position: int) -> tuple[ChangelogRead, int]:
    reader = buffer[position]
    position += 1
    if reader > 0x7F:
        reader, position = decode_uint(buffer, position - 1)
    store = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    after, position = decode_fixed(buffer, position, 10)
    return ChangelogRead(reader=reader, store=store, after=after), position


def encode_unsettled_read(out: list[bytes], record: UnsettledRead) -> None:
    epoch = record.epoch
    after = record.after
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    if after is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(after)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(after)


def decode_unsettled_read(buffer: bytes, position: int) -> tuple[UnsettledRead, int]:
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    after: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        after = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    return UnsettledRead(epoch=epoch, after=after), position


def encode_stretches(out: list[bytes], value: tuple[Stretch, ...]) -> None:
    out.append(length_bytes(len(value), 0, 128))
    for item in value:
        encode_stretch(out, item)


def decode_stretches(buffer: bytes, position: int) -> tuple[tuple[Stretch, ...], int]:
    count, position = decode_length(buffer, position, 0, 128)
    items: list[Stretch] = []
    for _ in range(count):
        item, position = decode_stretch(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_values_read(out: list[bytes], record: ValuesRead) -> None:
    epoch = record.epoch
    after = record.after
    held = record.held
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    if after is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(after)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(after)
    if held:
        encode_stretches(out, held)
    else:
        out.append(BYTES[0])


def decode_values_read(buffer: bytes, position: int) -> tuple[ValuesRead, int]:
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    after: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        after = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    if buffer[position]:
        held, position = decode_stretches(buffer, position)
    else:
        held = ()
        position += 1
    return ValuesRead(epoch=epoch, after=after, held=held), position


def encode_kept_id(out: list[bytes], record: KeptId) -> None:
    term = record.term
    id = record.id
    id_replica_id = id.replica_id
    id_slot = id.slot
    out.append(BYTES[term] if 0 <= term <= 0x7F else uint(term))
    out.append(BYTES[id_replica_id] if 0 <= id_replica_id <= 0x7F else uint(id_replica_id))
    out.append(BYTES[id_slot] if 0 <= id_slot <= 0x7F else uint(id_slot))


def decode_kept_id(buffer: bytes, position: int) -> tuple[KeptId, int]:
    term = buffer[position]
    position += 1
    if term > 0x7F:
        term, position = decode_uint(buffer, position - 1)
    id_replica_id = buffer[position]
    position += 1
    if id_replica_id > 0x7F:
        id_replica_id, position = decode_uint(buffer, position - 1)
    id_slot = buffer[position]
    position += 1
    if id_slot > 0x7F:
        id_slot, position = decode_uint(buffer, position - 1)
    id = InstanceId(replica_id=id_replica_id, slot=id_slot)
    return KeptId(term=term, id=id), position


def encode_kept_read(out: list[bytes], record: KeptRead) -> None:
    epoch = record.epoch
    after = record.after
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    if after is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        encode_kept_id(out, after)


def decode_kept_read(buffer: bytes, position: int) -> tuple[KeptRead, int]:
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    after: KeptId | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        after, position = decode_kept_id(buffer, position)
    elif flag:
        raise wrong_flag(buffer, position - 1)
    return KeptRead(epoch=epoch, after=after), position


def encode_votes_read(out: list[bytes], record: VotesRead) -> None:
    epoch = record.epoch
    after = record.after
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    if after is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(after)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(after)


def decode_votes_read(buffer: bytes, position: int) -> tuple[VotesRead, int]:
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    after: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        after = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    return VotesRead(epoch=epoch, after=after), position


def encode_held_read(out: list[bytes], record: HeldRead) -> None:
    after = record.after
    held = record.held
    if after is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(after)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(after)
    if held:
        encode_stretches(out, held)
    else:
        out.append(BYTES[0])


def decode_held_read(buffer: bytes, position: int) -> tuple[HeldRead, int]:
    after: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        after = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    if buffer[position]:
        held, position = decode_stretches(buffer, position)
    else:
        held = ()
        position += 1
    return HeldRead(after=after, held=held), position


def encode_actors_read(out: list[bytes], record: ActorsRead) -> None:
    after = record.after
    if after is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(after)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 2112))
        out.append(after)


def decode_actors_read(buffer: bytes, position: int) -> tuple[ActorsRead, int]:
    after: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 2112)
        after = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    return ActorsRead(after=after), position


def encode_fast_votes_read(out: list[bytes], record: FastVotesRead) -> None:
    proposer = record.proposer
    after = record.after
    out.append(BYTES[proposer] if 0 <= proposer <= 0x7F else uint(proposer))
    if after is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(after)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(after)


def decode_fast_votes_read(buffer: bytes, position: int) -> tuple[FastVotesRead, int]:
    proposer = buffer[position]
    position += 1
    if proposer > 0x7F:
        proposer, position = decode_uint(buffer, position - 1)
    after: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        after = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    return FastVotesRead(proposer=proposer, after=after), position


def encode_member_request(out: list[bytes], value: MemberRequest) -> None:
    match value:
        case SnapshotRead():
            out.append(BYTES[0])
            encode_snapshot_read(out, value)
        case ChangelogRead():
            out.append(BYTES[1])
            encode_changelog_read(out, value)
        case UnsettledRead():
            out.append(BYTES[2])
            encode_unsettled_read(out, value)
        case StatusRead():
            out.append(BYTES[3])
        case ValuesRead():
            out.append(BYTES[4])
            encode_values_read(out, value)
        case KeptRead():
            out.append(BYTES[5])
            encode_kept_read(out, value)
        case VotesRead():
            out.append(BYTES[6])
            encode_votes_read(out, value)
        case HeldRead():
            out.append(BYTES[7])
            encode_held_read(out, value)
        case FrontierRead():
            out.append(BYTES[8])
        case ActorsRead():
            out.append(BYTES[9])
            encode_actors_read(out, value)
        case FiguresRead():
            out.append(BYTES[10])
        case FastVotesRead():
            out.append(BYTES[11])
            encode_fast_votes_read(out, value)
        case _:
            assert_never(value)


def decode_member_request(buffer: bytes, position: int) -> tuple[MemberRequest, int]:
    match buffer[position]:
        case 0:
            return decode_snapshot_read(buffer, position + 1)
        case 1:
            return decode_changelog_read(buffer, position + 1)
        case 2:
            return decode_unsettled_read(buffer, position + 1)
        case 3:
            return STATUS_READ, position + 1
        case 4:
            return decode_values_read(buffer, position + 1)
        case 5:
            return decode_kept_read(buffer, position + 1)
        case 6:
            return decode_votes_read(buffer, position + 1)
        case 7:
            return decode_held_read(buffer, position + 1)
        case 8:
            return FRONTIER_READ, position + 1
        case 9:
            return decode_actors_read(buffer, position + 1)
        case 10:
            return FIGURES_READ, position + 1
        case 11:
            return decode_fast_votes_read(buffer, position + 1)
        case _:
            raise unknown_tag("MemberRequest", buffer, position)


def encode_snapshot_page(out: list[bytes], record: SnapshotPage) -> None:
    entries = record.entries
    encode_unsigned(out, record.store, 8)
    if entries:
        encode_entries(out, entries)
    else:
        out.append(BYTES[0])
    encode_fixed(out, record.cursor, 10)
    out.append(BYTES[1] if record.more else BYTES[0])


def decode_snapshot_page(buffer: bytes, position: int) -> tuple[SnapshotPage, int]:
    store = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    if buffer[position]:
        entries, position = decode_entries(buffer, position)
    else:
        entries = ()
        position += 1
    cursor, position = decode_fixed(buffer, position, 10)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    more = flag == 1
    position += 1
    return SnapshotPage(store=store, entries=entries, cursor=cursor, more=more), position


def encode_changelog_page(out: list[bytes], record: ChangelogPage) -> None:
    entries = record.entries
    if entries:
        encode_entries(out, entries)
    else:
        out.append(BYTES[0])
    encode_fixed(out, record.cursor, 10)
    out.append(BYTES[1] if record.more else BYTES[0])


def decode_changelog_page(buffer: bytes, position: int) -> tuple[ChangelogPage, int]:
    if buffer[position]:
        entries, position = decode_entries(buffer, position)
    else:
        entries = ()
        position += 1
    cursor, position = decode_fixed(buffer, position, 10)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    more = flag == 1
    position += 1
    return ChangelogPage(entries=entries, cursor=cursor, more=more), position


def encode_unsettled(out: list[bytes], record: Unsettled) -> None:
    key = record.key
    version = record.version
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    out.append(BYTES[version] if 0 <= version <= 0x7F else uint(version))


def decode_unsettled(buffer: bytes, position: int) -> tuple[Unsettled, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    version = buffer[position]
    position += 1
    if version > 0x7F:
        version, position = decode_uint(buffer, position - 1)
    return Unsettled(key=key, version=version), position


def encode_unsettled_keys(out: list[bytes], value: tuple[Unsettled, ...]) -> None:
    out.append(length_bytes(len(value), 0, 1024))
    for item in value:
        encode_unsettled(out, item)


def decode_unsettled_keys(buffer: bytes, position: int) -> tuple[tuple[Unsettled, ...], int]:
    count, position = decode_length(buffer, position, 0, 1024)
    items: list[Unsettled] = []
    for _ in range(count):
        item, position = decode_unsettled(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_unsettled_page(out: list[bytes], record: UnsettledPage) -> None:
    keys = record.keys
    if keys:
        encode_unsettled_keys(out, keys)
    else:
        out.append(BYTES[0])
    out.append(BYTES[1] if record.more else BYTES[0])


def decode_unsettled_page(buffer: bytes, position: int) -> tuple[UnsettledPage, int]:
    if buffer[position]:
        keys, position = decode_unsettled_keys(buffer, position)
    else:
        keys = ()
        position += 1
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    more = flag == 1
    position += 1
    return UnsettledPage(keys=keys, more=more), position


def encode_member_status(out: list[bytes], record: MemberStatus) -> None:
    epoch = record.epoch
    sources = record.sources
    keys = record.keys
    copied = record.copied
    source = record.source
    encode_unsigned(out, record.identity, 8)
    out.append(BYTES[epoch] if 0 <= epoch <= 0x7F else uint(epoch))
    if sources:
        encode_voters(out, sources)
    else:
        out.append(BYTES[0])
    out.append(BYTES[1] if record.synced else BYTES[0])
    out.append(BYTES[keys] if 0 <= keys <= 0x7F else uint(keys))
    out.append(BYTES[copied] if 0 <= copied <= 0x7F else uint(copied))
    out.append(BYTES[source] if 0 <= source <= 0x7F else uint(source))


def decode_member_status(buffer: bytes, position: int) -> tuple[MemberStatus, int]:
    identity = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    epoch = buffer[position]
    position += 1
    if epoch > 0x7F:
        epoch, position = decode_uint(buffer, position - 1)
    if buffer[position]:
        sources, position = decode_voters(buffer, position)
    else:
        sources = ()
        position += 1
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    synced = flag == 1
    position += 1
    keys = buffer[position]
    position += 1
    if keys > 0x7F:
        keys, position = decode_uint(buffer, position - 1)
    copied = buffer[position]
    position += 1
    if copied > 0x7F:
        copied, position = decode_uint(buffer, position - 1)
    source = buffer[position]
    position += 1
    if source > 0x7F:
        source, position = decode_uint(buffer, position - 1)
    record = MemberStatus(
        identity=identity, epoch=epoch, sources=sources, synced=synced, keys=keys, copied=copied, source=source
    )
    return record, position


def encode_pair(out: list[bytes], record: Pair) -> None:
    key = record.key
    value = record.value
    length = len(key)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
    out.append(key)
    length = len(value)
    out.append(BYTES[length] if length <= 0x7F else length_bytes(length, 0, 1048576))
    out.append(value)


def decode_pair(buffer: bytes, position: int) -> tuple[Pair, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 1024)
    key = buffer[position : position + length]
    position += length
    length = buffer[position]
    position += 1
    if length > 0x7F:
        length, position = decode_length(buffer, position - 1, 0, 1048576)
    value = buffer[position : position + length]
    position += length
    return Pair(key=key, value=value), position


def encode_pairs(out: list[bytes], value: tuple[Pair, ...]) -> None:
    out.append(length_bytes(len(value), 0, 8192))
    for item in value:
        encode_pair(out, item)


def decode_pairs(buffer: bytes, position: int) -> tuple[tuple[Pair, ...], int]:
    count, position = decode_length(buffer, position, 0, 8192)
    items: list[Pair] = []
    for _ in range(count):
        item, position = decode_pair(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_places(out: list[bytes], value: tuple[int, ...]) -> None:
    out.append(length_bytes(len(value), 0, 128))
    for item in value:
        out.append(BYTES[item] if 0 <= item <= 0x7F else uint(item))


def decode_places(buffer: bytes, position: int) -> tuple[tuple[int, ...], int]:
    count, position = decode_length(buffer, position, 0, 128)
    items: list[int] = []
    for _ in range(count):
        item = buffer[position]
        position += 1
        if item > 0x7F:
            item, position = decode_uint(buffer, position - 1)
        items.append(item)
    return tuple(items), position


def encode_values_page(out: list[bytes], record: ValuesPage) -> None:
    differing = record.differing
    pairs = record.pairs
    through = record.through
    if differing:
        encode_places(out, differing)
    else:
        out.append(BYTES[0])
    if pairs:
        encode_pairs(out, pairs)
    else:
        out.append(BYTES[0])
    if through is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(through)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(through)


def decode_values_page(buffer: bytes, position: int) -> tuple[ValuesPage, int]:
    if buffer[position]:
        differing, position = decode_places(buffer, position)
    else:
        differing = ()
        position += 1
    if buffer[position]:
        pairs, position = decode_pairs(buffer, position)
    else:
        pairs = ()
        position += 1
    through: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        through = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    return ValuesPage(differing=differing, pairs=pairs, through=through), position


def encode_kept(out: list[bytes], record: Kept) -> None:
    term = record.term
    out.append(BYTES[term] if 0 <= term <= 0x7F else uint(term))
    encode_ordered_commit(out, record.commit)


def decode_kept(buffer: bytes, position: int) -> tuple[Kept, int]:
    term = buffer[position]
    position += 1
    if term > 0x7F:
        term, position = decode_uint(buffer, position - 1)
    commit, position = decode_ordered_commit(buffer, position)
    return Kept(term=term, commit=commit), position


def encode_kept_ones(out: list[bytes], value: tuple[Kept, ...]) -> None:
    out.append(length_bytes(len(value), 0, 1024))
    for item in value:
        encode_kept(out, item)


def decode_kept_ones(buffer: bytes, position: int) -> tuple[tuple[Kept, ...], int]:
    count, position = decode_length(buffer, position, 0, 1024)
    items: list[Kept] = []
    for _ in range(count):
        item, position = decode_kept(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_kept_page(out: list[bytes], record: KeptPage) -> None:
    kept = record.kept
    if kept:
        encode_kept_ones(out, kept)
    else:
        out.append(BYTES[0])
    out.append(BYTES[1] if record.more else BYTES[0])


def decode_kept_page(buffer: bytes, position: int) -> tuple[KeptPage, int]:
    if buffer[position]:
        kept, position = decode_kept_ones(buffer, position)
    else:
        kept = ()
        position += 1
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    more = flag == 1
    position += 1
    return KeptPage(kept=kept, more=more), position


def encode_held_page(out: list[bytes], record: HeldPage) -> None:
    entries = record.entries
    through = record.through
    if entries:
        encode_entries(out, entries)
    else:
        out.append(BYTES[0])
    if through is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(through)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(through)


def decode_held_page(buffer: bytes, position: int) -> tuple[HeldPage, int]:
    if buffer[position]:
        entries, position = decode_entries(buffer, position)
    else:
        entries = ()
        position += 1
    through: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        through = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    return HeldPage(entries=entries, through=through), position


def encode_frontier(out: list[bytes], record: Frontier) -> None:
    term = record.term
    slots = record.slots
    out.append(BYTES[term] if 0 <= term <= 0x7F else uint(term))
    if slots:
        encode_ends(out, slots)
    else:
        out.append(BYTES[0])


def decode_frontier(buffer: bytes, position: int) -> tuple[Frontier, int]:
    term = buffer[position]
    position += 1
    if term > 0x7F:
        term, position = decode_uint(buffer, position - 1)
    if buffer[position]:
        slots, position = decode_ends(buffer, position)
    else:
        slots = ()
        position += 1
    return Frontier(term=term, slots=slots), position


def encode_actor_row(out: list[bytes], record: ActorRow) -> None:
    row = record.row
    value = record.value
    length = len(row)
    out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 2112))
    out.append(row)
    length = len(value)
    out.append(BYTES[length] if length <= 0x7F else length_bytes(length, 0, 1052672))
    out.append(value)


def decode_actor_row(buffer: bytes, position: int) -> tuple[ActorRow, int]:
    length = buffer[position]
    position += 1
    if not 1 <= length <= 0x7F:
        length, position = decode_length(buffer, position - 1, 1, 2112)
    row = buffer[position : position + length]
    position += length
    length = buffer[position]
    position += 1
    if length > 0x7F:
        length, position = decode_length(buffer, position - 1, 0, 1052672)
    value = buffer[position : position + length]
    position += length
    return ActorRow(row=row, value=value), position


def encode_actor_rows(out: list[bytes], value: tuple[ActorRow, ...]) -> None:
    out.append(length_bytes(len(value), 0, 1024))
    for item in value:
        encode_actor_row(out, item)


def decode_actor_rows(buffer: bytes, position: int) -> tuple[tuple[ActorRow, ...], int]:
    count, position = decode_length(buffer, position, 0, 1024)
    items: list[ActorRow] = []
    for _ in range(count):
        item, position = decode_actor_row(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_actors_page(out: list[bytes], record: ActorsPage) -> None:
    rows = record.rows
    if rows:
        encode_actor_rows(out, rows)
    else:
        out.append(BYTES[0])
    out.append(BYTES[1] if record.more else BYTES[0])


def decode_actors_page(buffer: bytes, position: int) -> tuple[ActorsPage, int]:
    if buffer[position]:
        rows, position = decode_actor_rows(buffer, position)
    else:
        rows = ()
        position += 1
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    more = flag == 1
    position += 1
    return ActorsPage(rows=rows, more=more), position


def encode_figures(out: list[bytes], record: Figures) -> None:
    report = record.report
    length = len(report)
    out.append(BYTES[length] if length <= 0x7F else length_bytes(length, 0, 65536))
    out.append(report)


def decode_figures(buffer: bytes, position: int) -> tuple[Figures, int]:
    length = buffer[position]
    position += 1
    if length > 0x7F:
        length, position = decode_length(buffer, position - 1, 0, 65536)
    report = buffer[position : position + length]
    position += length
    return Figures(report=report), position


def encode_member_reply(out: list[bytes], value: MemberReply) -> None:
    match value:
        case SnapshotPage():
            out.append(BYTES[0])
            encode_snapshot_page(out, value)
        case ChangelogPage():
            out.append(BYTES[1])
            encode_changelog_page(out, value)
        case CursorTruncated():
            out.append(BYTES[2])
        case UnsettledPage():
            out.append(BYTES[3])
            encode_unsettled_page(out, value)
        case MemberStatus():
            out.append(BYTES[4])
            encode_member_status(out, value)
        case StaleEpoch():
            out.append(BYTES[5])
            encode_stale_epoch(out, value)
        case EpochAhead():
            out.append(BYTES[6])
            encode_epoch_ahead(out, value)
        case Failed():
            out.append(BYTES[7])
            encode_failed(out, value)
        case ValuesPage():
            out.append(BYTES[8])
            encode_values_page(out, value)
        case KeptPage():
            out.append(BYTES[9])
            encode_kept_page(out, value)
        case Unfinished():
            out.append(BYTES[10])
        case HeldPage():
            out.append(BYTES[11])
            encode_held_page(out, value)
        case Frontier():
            out.append(BYTES[12])
            encode_frontier(out, value)
        case ActorsPage():
            out.append(BYTES[13])
            encode_actors_page(out, value)
        case Figures():
            out.append(BYTES[14])
            encode_figures(out, value)
        case _:
            assert_never(value)


def decode_member_reply(buffer: bytes, position: int) -> tuple[MemberReply, int]:
    match buffer[position]:
        case 0:
            return decode_snapshot_page(buffer, position + 1)
        case 1:
            return decode_changelog_page(buffer, position + 1)
        case 2:
            return CURSOR_TRUNCATED, position + 1
        case 3:
            return decode_unsettled_page(buffer, position + 1)
        case 4:
            return decode_member_status(buffer, position + 1)
        case 5:
            return decode_stale_epoch(buffer, position + 1)
        case 6:
            return decode_epoch_ahead(buffer, position + 1)
        case 7:
            return decode_failed(buffer, position + 1)
        case 8:
            return decode_values_page(buffer, position + 1)
        case 9:
            return decode_kept_page(buffer, position + 1)
        case 10:
            return UNFINISHED, position + 1
        case 11:
            return decode_held_page(buffer, position + 1)
        case 12:
            return decode_frontier(buffer, position + 1)
        case 13:
            return decode_actors_page(buffer, position + 1)
        case 14:
            return decode_figures(buffer, position + 1)
        case _:
            raise unknown_tag("MemberReply", buffer, position)


def encode_member(out: list[bytes], record: Member) -> None:
    id = record.id
    out.append(BYTES[id] if 0 <= id <= 0x7F else uint(id))
    encode_str(out, record.url, 0, 2048)
    encode_str(out, record.datacenter, 0, 255)


def decode_member(buffer: bytes, position: int) -> tuple[Member, int]:
    id = buffer[position]
    position += 1
    if id > 0x7F:
        id, position = decode_uint(buffer, position - 1)
    url, position = decode_str(buffer, position, 0, 2048)
    datacenter, position = decode_str(buffer, position, 0, 255)
    return Member(id=id, url=url, datacenter=datacenter), position


def encode_requested_members(out: list[bytes], value: tuple[Member, ...]) -> None:
    out.append(length_bytes(len(value), 1, 64))
    for item in value:
        encode_member(out, item)


def decode_requested_members(buffer: bytes, position: int) -> tuple[tuple[Member, ...], int]:
    count, position = decode_length(buffer, position, 1, 64)
    items: list[Member] = []
    for _ in range(count):
        item, position = decode_member(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_change_request(out: list[bytes], record: ChangeRequest) -> None:
    members = record.members
    if members[0].id < 1:
        raise InvalidValue("replica id 0 belongs to legacy values")
    if any(a.id >= b.id for a, b in pairwise(members)):
        raise InvalidValue("replica ids rise")
    encode_requested_members(out, members)


def decode_change_request(buffer: bytes, position: int) -> tuple[ChangeRequest, int]:
    members, position = decode_requested_members(buffer, position)
    if members[0].id < 1:
        raise InvalidValue("replica id 0 belongs to legacy values")
    if any(a.id >= b.id for a, b in pairwise(members)):
        raise InvalidValue("replica ids rise")
    return ChangeRequest(members=members), position


def encode_committed_record(out: list[bytes], record: CommittedRecord) -> None:
    lineage = record.lineage
    encode_proposal(out, record.committed)
    if lineage:
        encode_lineage(out, lineage)
    else:
        out.append(BYTES[0])


def decode_committed_record(buffer: bytes, position: int) -> tuple[CommittedRecord, int]:
    committed, position = decode_proposal(buffer, position)
    if buffer[position]:
        lineage, position = decode_lineage(buffer, position)
    else:
        lineage = ()
        position += 1
    return CommittedRecord(committed=committed, lineage=lineage), position


def encode_expiry_entry(out: list[bytes], record: ExpiryEntry) -> None:
    version = record.version
    home = record.home
    out.append(BYTES[version] if 0 <= version <= 0x7F else uint(version))
    out.append(BYTES[home] if 0 <= home <= 0x7F else uint(home))
    encode_expiry(out, record.expiry)


def decode_expiry_entry(buffer: bytes, position: int) -> tuple[ExpiryEntry, int]:
    version = buffer[position]
    position += 1
    if version > 0x7F:
        version, position = decode_uint(buffer, position - 1)
    home = buffer[position]
    position += 1
    if home > 0x7F:
        home, position = decode_uint(buffer, position - 1)
    expiry, position = decode_expiry(buffer, position)
    return ExpiryEntry(version=version, home=home, expiry=expiry), position


def encode_progress(out: list[bytes], record: Progress) -> None:
    after = record.after
    encode_unsigned(out, record.store, 8)
    encode_fixed(out, record.cursor, 10)
    if after is None:
        out.append(BYTES[0])
    else:
        out.append(BYTES[1])
        length = len(after)
        out.append(BYTES[length] if 1 <= length <= 0x7F else length_bytes(length, 1, 1024))
        out.append(after)
    out.append(BYTES[1] if record.copied else BYTES[0])


def decode_progress(buffer: bytes, position: int) -> tuple[Progress, int]:
    store = int.from_bytes(buffer[position : position + 8], "little")
    position += 8
    cursor, position = decode_fixed(buffer, position, 10)
    after: bytes | None = None
    flag = buffer[position]
    position += 1
    if flag == 1:
        length = buffer[position]
        position += 1
        if not 1 <= length <= 0x7F:
            length, position = decode_length(buffer, position - 1, 1, 1024)
        after = buffer[position : position + length]
        position += length
    elif flag:
        raise wrong_flag(buffer, position - 1)
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    copied = flag == 1
    position += 1
    return Progress(store=store, cursor=cursor, after=after, copied=copied), position
