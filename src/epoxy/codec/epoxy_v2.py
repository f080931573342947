"""Made by `python -m epoxy.codec.generate` from schema/epoxy-v2.bare: change that, not this."""

# ruff: noqa: A001, C901 (fields keep their names; a union of thirteen members is one flat match)

from itertools import pairwise
from typing import assert_never

from epoxy.codec.bare import (
    decode_data,
    decode_fixed,
    decode_flag,
    decode_length,
    decode_str,
    decode_uint,
    decode_unsigned,
    encode_data,
    encode_fixed,
    encode_length,
    encode_str,
    encode_uint,
    encode_unsigned,
    unknown_tag,
)
from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.errors import InvalidValue
from epoxy.model.frames import PeerRequest, PeerResponse
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
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
from epoxy.model.records import ChangelogEntry, CommittedRecord, Proposal, ProposalId, Settled, Vote


def encode_ballot(out: bytearray, value: Ballot) -> None:
    if value.counter == 0 and value.replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    if 0 <= value.counter <= 0x7F:
        out.append(value.counter)
    else:
        encode_uint(out, value.counter)
    if 0 <= value.replica_id <= 0x7F:
        out.append(value.replica_id)
    else:
        encode_uint(out, value.replica_id)


def decode_ballot(buffer: bytes, position: int) -> tuple[Ballot, int]:
    counter = buffer[position]
    if counter <= 0x7F:
        position += 1
    else:
        counter, position = decode_uint(buffer, position)
    replica_id = buffer[position]
    if replica_id <= 0x7F:
        position += 1
    else:
        replica_id, position = decode_uint(buffer, position)
    if counter == 0 and replica_id != 0:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    record = Ballot(counter=counter, replica_id=replica_id)
    return record, position


def encode_proposal_id(out: bytearray, value: ProposalId) -> None:
    if 0 <= value.replica_id <= 0x7F:
        out.append(value.replica_id)
    else:
        encode_uint(out, value.replica_id)
    encode_unsigned(out, value.nonce, 8)


def decode_proposal_id(buffer: bytes, position: int) -> tuple[ProposalId, int]:
    replica_id = buffer[position]
    if replica_id <= 0x7F:
        position += 1
    else:
        replica_id, position = decode_uint(buffer, position)
    nonce, position = decode_unsigned(buffer, position, 8)
    record = ProposalId(replica_id=replica_id, nonce=nonce)
    return record, position


def encode_proposal(out: bytearray, value: Proposal) -> None:
    if value.value is None and not value.mutable:
        raise InvalidValue("an immutable key holds no tombstone")
    if value.value is None:
        out.append(0)
    else:
        out.append(1)
        encode_data(out, value.value, 0, 1048576)
    if 0 <= value.version <= 0x7F:
        out.append(value.version)
    else:
        encode_uint(out, value.version)
    out.append(1 if value.mutable else 0)
    encode_proposal_id(out, value.proposal_id)


def decode_proposal(buffer: bytes, position: int) -> tuple[Proposal, int]:
    value: bytes | None = None
    present, position = decode_flag(buffer, position)
    if present:
        value, position = decode_data(buffer, position, 0, 1048576)
    version = buffer[position]
    if version <= 0x7F:
        position += 1
    else:
        version, position = decode_uint(buffer, position)
    mutable, position = decode_flag(buffer, position)
    proposal_id, position = decode_proposal_id(buffer, position)
    if value is None and not mutable:
        raise InvalidValue("an immutable key holds no tombstone")
    record = Proposal(value=value, version=version, mutable=mutable, proposal_id=proposal_id)
    return record, position


def encode_vote(out: bytearray, value: Vote) -> None:
    encode_proposal(out, value.proposal)
    encode_ballot(out, value.ballot)
    if 0 <= value.epoch <= 0x7F:
        out.append(value.epoch)
    else:
        encode_uint(out, value.epoch)


def decode_vote(buffer: bytes, position: int) -> tuple[Vote, int]:
    proposal, position = decode_proposal(buffer, position)
    ballot, position = decode_ballot(buffer, position)
    epoch = buffer[position]
    if epoch <= 0x7F:
        position += 1
    else:
        epoch, position = decode_uint(buffer, position)
    record = Vote(proposal=proposal, ballot=ballot, epoch=epoch)
    return record, position


def encode_settled(out: bytearray, value: Settled) -> None:
    if 0 <= value.version <= 0x7F:
        out.append(value.version)
    else:
        encode_uint(out, value.version)
    encode_proposal_id(out, value.proposal_id)


def decode_settled(buffer: bytes, position: int) -> tuple[Settled, int]:
    version = buffer[position]
    if version <= 0x7F:
        position += 1
    else:
        version, position = decode_uint(buffer, position)
    proposal_id, position = decode_proposal_id(buffer, position)
    record = Settled(version=version, proposal_id=proposal_id)
    return record, position


def encode_lineage(out: bytearray, value: tuple[Settled, ...]) -> None:
    encode_length(out, len(value), 0, 8)
    for item in value:
        encode_settled(out, item)


def decode_lineage(buffer: bytes, position: int) -> tuple[tuple[Settled, ...], int]:
    length, position = decode_length(buffer, position, 0, 8)
    items: list[Settled] = []
    for _ in range(length):
        item, position = decode_settled(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_replica_status(out: bytearray, value: ReplicaStatus) -> None:
    match value:
        case ReplicaStatus.JOINING:
            out.append(0)
        case ReplicaStatus.LEARNING:
            out.append(1)
        case ReplicaStatus.ACTIVE:
            out.append(2)
        case ReplicaStatus.LEAVING:
            out.append(3)
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


def encode_quorum_policy(out: bytearray, value: QuorumPolicy) -> None:
    match value:
        case QuorumPolicy.OPTIMAL:
            out.append(0)
        case QuorumPolicy.FAST_PAXOS:
            out.append(1)
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


def encode_replica_info(out: bytearray, value: ReplicaInfo) -> None:
    if 0 <= value.id <= 0x7F:
        out.append(value.id)
    else:
        encode_uint(out, value.id)
    encode_replica_status(out, value.status)
    encode_str(out, value.url, 0, 2048)


def decode_replica_info(buffer: bytes, position: int) -> tuple[ReplicaInfo, int]:
    id = buffer[position]
    if id <= 0x7F:
        position += 1
    else:
        id, position = decode_uint(buffer, position)
    status, position = decode_replica_status(buffer, position)
    url, position = decode_str(buffer, position, 0, 2048)
    record = ReplicaInfo(id=id, status=status, url=url)
    return record, position


def encode_members(out: bytearray, value: tuple[ReplicaInfo, ...]) -> None:
    encode_length(out, len(value), 1, 64)
    for item in value:
        encode_replica_info(out, item)


def decode_members(buffer: bytes, position: int) -> tuple[tuple[ReplicaInfo, ...], int]:
    length, position = decode_length(buffer, position, 1, 64)
    items: list[ReplicaInfo] = []
    for _ in range(length):
        item, position = decode_replica_info(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_voters(out: bytearray, value: tuple[int, ...]) -> None:
    encode_length(out, len(value), 0, 64)
    for item in value:
        if 0 <= item <= 0x7F:
            out.append(item)
        else:
            encode_uint(out, item)


def decode_voters(buffer: bytes, position: int) -> tuple[tuple[int, ...], int]:
    length, position = decode_length(buffer, position, 0, 64)
    items: list[int] = []
    for _ in range(length):
        item = buffer[position]
        if item <= 0x7F:
            position += 1
        else:
            item, position = decode_uint(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_cluster_config(out: bytearray, value: ClusterConfig) -> None:
    if value.epoch < 1:
        raise InvalidValue("epochs begin at 1")
    if value.replicas[0].id < 1:
        raise InvalidValue("replica id 0 belongs to legacy values")
    if any(a.id >= b.id for a, b in pairwise(value.replicas)):
        raise InvalidValue("replica ids rise")
    if all(replica.status is not ReplicaStatus.ACTIVE for replica in value.replicas):
        raise InvalidValue("no replica is active")
    if 0 <= value.epoch <= 0x7F:
        out.append(value.epoch)
    else:
        encode_uint(out, value.epoch)
    if 0 <= value.coordinator_id <= 0x7F:
        out.append(value.coordinator_id)
    else:
        encode_uint(out, value.coordinator_id)
    encode_members(out, value.replicas)
    if value.previous is None:
        out.append(0)
    else:
        out.append(1)
        encode_voters(out, value.previous)
    encode_quorum_policy(out, value.quorum_policy)


def decode_cluster_config(buffer: bytes, position: int) -> tuple[ClusterConfig, int]:
    epoch = buffer[position]
    if epoch <= 0x7F:
        position += 1
    else:
        epoch, position = decode_uint(buffer, position)
    coordinator_id = buffer[position]
    if coordinator_id <= 0x7F:
        position += 1
    else:
        coordinator_id, position = decode_uint(buffer, position)
    replicas, position = decode_members(buffer, position)
    previous: tuple[int, ...] | None = None
    present, position = decode_flag(buffer, position)
    if present:
        previous, position = decode_voters(buffer, position)
    quorum_policy, position = decode_quorum_policy(buffer, position)
    if epoch < 1:
        raise InvalidValue("epochs begin at 1")
    if replicas[0].id < 1:
        raise InvalidValue("replica id 0 belongs to legacy values")
    if any(a.id >= b.id for a, b in pairwise(replicas)):
        raise InvalidValue("replica ids rise")
    if all(replica.status is not ReplicaStatus.ACTIVE for replica in replicas):
        raise InvalidValue("no replica is active")
    record = ClusterConfig(
        epoch=epoch,
        coordinator_id=coordinator_id,
        replicas=replicas,
        previous=previous,
        quorum_policy=quorum_policy,
    )
    return record, position


def encode_prepare(out: bytearray, value: Prepare) -> None:
    if not value.ballot.is_classic:
        raise InvalidValue("the fast round has no phase 1")
    if value.version < 1:
        raise InvalidValue("version 0 is never voted on")
    encode_data(out, value.key, 1, 1024)
    if 0 <= value.epoch <= 0x7F:
        out.append(value.epoch)
    else:
        encode_uint(out, value.epoch)
    encode_ballot(out, value.ballot)
    if 0 <= value.version <= 0x7F:
        out.append(value.version)
    else:
        encode_uint(out, value.version)


def decode_prepare(buffer: bytes, position: int) -> tuple[Prepare, int]:
    key, position = decode_data(buffer, position, 1, 1024)
    epoch = buffer[position]
    if epoch <= 0x7F:
        position += 1
    else:
        epoch, position = decode_uint(buffer, position)
    ballot, position = decode_ballot(buffer, position)
    version = buffer[position]
    if version <= 0x7F:
        position += 1
    else:
        version, position = decode_uint(buffer, position)
    if not ballot.is_classic:
        raise InvalidValue("the fast round has no phase 1")
    if version < 1:
        raise InvalidValue("version 0 is never voted on")
    record = Prepare(key=key, epoch=epoch, ballot=ballot, version=version)
    return record, position


def encode_accept(out: bytearray, value: Accept) -> None:
    if value.ballot.counter < 1:
        raise InvalidValue("a vote needs a ballot")
    if value.proposal.version < 1:
        raise InvalidValue("version 0 is never voted on")
    encode_data(out, value.key, 1, 1024)
    if 0 <= value.epoch <= 0x7F:
        out.append(value.epoch)
    else:
        encode_uint(out, value.epoch)
    encode_ballot(out, value.ballot)
    encode_proposal(out, value.proposal)


def decode_accept(buffer: bytes, position: int) -> tuple[Accept, int]:
    key, position = decode_data(buffer, position, 1, 1024)
    epoch = buffer[position]
    if epoch <= 0x7F:
        position += 1
    else:
        epoch, position = decode_uint(buffer, position)
    ballot, position = decode_ballot(buffer, position)
    proposal, position = decode_proposal(buffer, position)
    if ballot.counter < 1:
        raise InvalidValue("a vote needs a ballot")
    if proposal.version < 1:
        raise InvalidValue("version 0 is never voted on")
    record = Accept(key=key, epoch=epoch, ballot=ballot, proposal=proposal)
    return record, position


def encode_commit(out: bytearray, value: Commit) -> None:
    encode_data(out, value.key, 1, 1024)
    if 0 <= value.epoch <= 0x7F:
        out.append(value.epoch)
    else:
        encode_uint(out, value.epoch)
    encode_proposal(out, value.proposal)


def decode_commit(buffer: bytes, position: int) -> tuple[Commit, int]:
    key, position = decode_data(buffer, position, 1, 1024)
    epoch = buffer[position]
    if epoch <= 0x7F:
        position += 1
    else:
        epoch, position = decode_uint(buffer, position)
    proposal, position = decode_proposal(buffer, position)
    record = Commit(key=key, epoch=epoch, proposal=proposal)
    return record, position


def encode_read(out: bytearray, value: Read) -> None:
    encode_data(out, value.key, 1, 1024)
    if 0 <= value.epoch <= 0x7F:
        out.append(value.epoch)
    else:
        encode_uint(out, value.epoch)


def decode_read(buffer: bytes, position: int) -> tuple[Read, int]:
    key, position = decode_data(buffer, position, 1, 1024)
    epoch = buffer[position]
    if epoch <= 0x7F:
        position += 1
    else:
        epoch, position = decode_uint(buffer, position)
    record = Read(key=key, epoch=epoch)
    return record, position


def encode_update_config(out: bytearray, value: UpdateConfig) -> None:
    encode_cluster_config(out, value.config)


def decode_update_config(buffer: bytes, position: int) -> tuple[UpdateConfig, int]:
    config, position = decode_cluster_config(buffer, position)
    record = UpdateConfig(config=config)
    return record, position


def encode_inspect(out: bytearray, value: Inspect) -> None:
    encode_data(out, value.key, 1, 1024)


def decode_inspect(buffer: bytes, position: int) -> tuple[Inspect, int]:
    key, position = decode_data(buffer, position, 1, 1024)
    record = Inspect(key=key)
    return record, position


def encode_request(out: bytearray, value: Request) -> None:
    match value:
        case Prepare():
            out.append(0)
            encode_prepare(out, value)
        case Accept():
            out.append(1)
            encode_accept(out, value)
        case Commit():
            out.append(2)
            encode_commit(out, value)
        case Read():
            out.append(3)
            encode_read(out, value)
        case UpdateConfig():
            out.append(4)
            encode_update_config(out, value)
        case Inspect():
            out.append(5)
            encode_inspect(out, value)
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
        case _:
            raise unknown_tag("Request", buffer, position)


def encode_prepare_ok(out: bytearray, value: PrepareOk) -> None:
    if value.vote is None:
        out.append(0)
    else:
        out.append(1)
        encode_vote(out, value.vote)


def decode_prepare_ok(buffer: bytes, position: int) -> tuple[PrepareOk, int]:
    vote: Vote | None = None
    present, position = decode_flag(buffer, position)
    if present:
        vote, position = decode_vote(buffer, position)
    record = PrepareOk(vote=vote)
    return record, position


def encode_read_ok(out: bytearray, value: ReadOk) -> None:
    if value.committed is None:
        out.append(0)
    else:
        out.append(1)
        encode_proposal(out, value.committed)
    if value.vote is None:
        out.append(0)
    else:
        out.append(1)
        encode_vote(out, value.vote)


def decode_read_ok(buffer: bytes, position: int) -> tuple[ReadOk, int]:
    committed: Proposal | None = None
    present, position = decode_flag(buffer, position)
    if present:
        committed, position = decode_proposal(buffer, position)
    vote: Vote | None = None
    present, position = decode_flag(buffer, position)
    if present:
        vote, position = decode_vote(buffer, position)
    record = ReadOk(committed=committed, vote=vote)
    return record, position


def encode_already_committed(out: bytearray, value: AlreadyCommitted) -> None:
    encode_proposal(out, value.committed)
    encode_lineage(out, value.lineage)


def decode_already_committed(buffer: bytes, position: int) -> tuple[AlreadyCommitted, int]:
    committed, position = decode_proposal(buffer, position)
    lineage, position = decode_lineage(buffer, position)
    record = AlreadyCommitted(committed=committed, lineage=lineage)
    return record, position


def encode_higher_ballot(out: bytearray, value: HigherBallot) -> None:
    encode_ballot(out, value.ballot)


def decode_higher_ballot(buffer: bytes, position: int) -> tuple[HigherBallot, int]:
    ballot, position = decode_ballot(buffer, position)
    record = HigherBallot(ballot=ballot)
    return record, position


def encode_behind(out: bytearray, value: Behind) -> None:
    if 0 <= value.version <= 0x7F:
        out.append(value.version)
    else:
        encode_uint(out, value.version)


def decode_behind(buffer: bytes, position: int) -> tuple[Behind, int]:
    version = buffer[position]
    if version <= 0x7F:
        position += 1
    else:
        version, position = decode_uint(buffer, position)
    record = Behind(version=version)
    return record, position


def encode_stale_commit(out: bytearray, value: StaleCommit) -> None:
    if 0 <= value.version <= 0x7F:
        out.append(value.version)
    else:
        encode_uint(out, value.version)


def decode_stale_commit(buffer: bytes, position: int) -> tuple[StaleCommit, int]:
    version = buffer[position]
    if version <= 0x7F:
        position += 1
    else:
        version, position = decode_uint(buffer, position)
    record = StaleCommit(version=version)
    return record, position


def encode_stale_epoch(out: bytearray, value: StaleEpoch) -> None:
    encode_cluster_config(out, value.config)


def decode_stale_epoch(buffer: bytes, position: int) -> tuple[StaleEpoch, int]:
    config, position = decode_cluster_config(buffer, position)
    record = StaleEpoch(config=config)
    return record, position


def encode_epoch_ahead(out: bytearray, value: EpochAhead) -> None:
    if 0 <= value.epoch <= 0x7F:
        out.append(value.epoch)
    else:
        encode_uint(out, value.epoch)


def decode_epoch_ahead(buffer: bytes, position: int) -> tuple[EpochAhead, int]:
    epoch = buffer[position]
    if epoch <= 0x7F:
        position += 1
    else:
        epoch, position = decode_uint(buffer, position)
    record = EpochAhead(epoch=epoch)
    return record, position


def encode_commit_conflict(out: bytearray, value: CommitConflict) -> None:
    encode_proposal(out, value.committed)


def decode_commit_conflict(buffer: bytes, position: int) -> tuple[CommitConflict, int]:
    committed, position = decode_proposal(buffer, position)
    record = CommitConflict(committed=committed)
    return record, position


def encode_config_ok(out: bytearray, value: ConfigOk) -> None:
    if 0 <= value.epoch <= 0x7F:
        out.append(value.epoch)
    else:
        encode_uint(out, value.epoch)


def decode_config_ok(buffer: bytes, position: int) -> tuple[ConfigOk, int]:
    epoch = buffer[position]
    if epoch <= 0x7F:
        position += 1
    else:
        epoch, position = decode_uint(buffer, position)
    record = ConfigOk(epoch=epoch)
    return record, position


def encode_failed(out: bytearray, value: Failed) -> None:
    encode_str(out, value.reason, 0, 1024)


def decode_failed(buffer: bytes, position: int) -> tuple[Failed, int]:
    reason, position = decode_str(buffer, position, 0, 1024)
    record = Failed(reason=reason)
    return record, position


def encode_stamps(out: bytearray, value: tuple[bytes, ...]) -> None:
    encode_length(out, len(value), 0, 64)
    for item in value:
        encode_fixed(out, item, 10)


def decode_stamps(buffer: bytes, position: int) -> tuple[tuple[bytes, ...], int]:
    length, position = decode_length(buffer, position, 0, 64)
    items: list[bytes] = []
    for _ in range(length):
        item, position = decode_fixed(buffer, position, 10)
        items.append(item)
    return tuple(items), position


def encode_inspected(out: bytearray, value: Inspected) -> None:
    if 0 <= value.epoch <= 0x7F:
        out.append(value.epoch)
    else:
        encode_uint(out, value.epoch)
    if value.committed is None:
        out.append(0)
    else:
        out.append(1)
        encode_proposal(out, value.committed)
    encode_lineage(out, value.lineage)
    encode_ballot(out, value.promised)
    if value.vote is None:
        out.append(0)
    else:
        out.append(1)
        encode_vote(out, value.vote)
    if value.cached is None:
        out.append(0)
    else:
        out.append(1)
        encode_proposal(out, value.cached)
    encode_stamps(out, value.changelog)


def decode_inspected(buffer: bytes, position: int) -> tuple[Inspected, int]:
    epoch = buffer[position]
    if epoch <= 0x7F:
        position += 1
    else:
        epoch, position = decode_uint(buffer, position)
    committed: Proposal | None = None
    present, position = decode_flag(buffer, position)
    if present:
        committed, position = decode_proposal(buffer, position)
    lineage, position = decode_lineage(buffer, position)
    promised, position = decode_ballot(buffer, position)
    vote: Vote | None = None
    present, position = decode_flag(buffer, position)
    if present:
        vote, position = decode_vote(buffer, position)
    cached: Proposal | None = None
    present, position = decode_flag(buffer, position)
    if present:
        cached, position = decode_proposal(buffer, position)
    changelog, position = decode_stamps(buffer, position)
    record = Inspected(
        epoch=epoch,
        committed=committed,
        lineage=lineage,
        promised=promised,
        vote=vote,
        cached=cached,
        changelog=changelog,
    )
    return record, position


def encode_reply(out: bytearray, value: Reply) -> None:
    match value:
        case PrepareOk():
            out.append(0)
            encode_prepare_ok(out, value)
        case AcceptOk():
            out.append(1)
        case CommitOk():
            out.append(2)
        case ReadOk():
            out.append(3)
            encode_read_ok(out, value)
        case AlreadyCommitted():
            out.append(4)
            encode_already_committed(out, value)
        case HigherBallot():
            out.append(5)
            encode_higher_ballot(out, value)
        case Behind():
            out.append(6)
            encode_behind(out, value)
        case StaleCommit():
            out.append(7)
            encode_stale_commit(out, value)
        case StaleEpoch():
            out.append(8)
            encode_stale_epoch(out, value)
        case EpochAhead():
            out.append(9)
            encode_epoch_ahead(out, value)
        case CommitConflict():
            out.append(10)
            encode_commit_conflict(out, value)
        case ConfigOk():
            out.append(11)
            encode_config_ok(out, value)
        case Failed():
            out.append(12)
            encode_failed(out, value)
        case Inspected():
            out.append(13)
            encode_inspected(out, value)
        case _:
            assert_never(value)


def decode_reply(buffer: bytes, position: int) -> tuple[Reply, int]:
    match buffer[position]:
        case 0:
            return decode_prepare_ok(buffer, position + 1)
        case 1:
            return AcceptOk(), position + 1
        case 2:
            return CommitOk(), position + 1
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
        case _:
            raise unknown_tag("Reply", buffer, position)


def encode_requests(out: bytearray, value: tuple[Request, ...]) -> None:
    encode_length(out, len(value), 0, 4096)
    for item in value:
        encode_request(out, item)


def decode_requests(buffer: bytes, position: int) -> tuple[tuple[Request, ...], int]:
    length, position = decode_length(buffer, position, 0, 4096)
    items: list[Request] = []
    for _ in range(length):
        item, position = decode_request(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_replies(out: bytearray, value: tuple[Reply, ...]) -> None:
    encode_length(out, len(value), 0, 4096)
    for item in value:
        encode_reply(out, item)


def decode_replies(buffer: bytes, position: int) -> tuple[tuple[Reply, ...], int]:
    length, position = decode_length(buffer, position, 0, 4096)
    items: list[Reply] = []
    for _ in range(length):
        item, position = decode_reply(buffer, position)
        items.append(item)
    return tuple(items), position


def encode_peer_request(out: bytearray, value: PeerRequest) -> None:
    if 0 <= value.sender <= 0x7F:
        out.append(value.sender)
    else:
        encode_uint(out, value.sender)
    if 0 <= value.recipient <= 0x7F:
        out.append(value.recipient)
    else:
        encode_uint(out, value.recipient)
    encode_requests(out, value.requests)


def decode_peer_request(buffer: bytes, position: int) -> tuple[PeerRequest, int]:
    sender = buffer[position]
    if sender <= 0x7F:
        position += 1
    else:
        sender, position = decode_uint(buffer, position)
    recipient = buffer[position]
    if recipient <= 0x7F:
        position += 1
    else:
        recipient, position = decode_uint(buffer, position)
    requests, position = decode_requests(buffer, position)
    record = PeerRequest(sender=sender, recipient=recipient, requests=requests)
    return record, position


def encode_peer_response(out: bytearray, value: PeerResponse) -> None:
    encode_replies(out, value.replies)


def decode_peer_response(buffer: bytes, position: int) -> tuple[PeerResponse, int]:
    replies, position = decode_replies(buffer, position)
    record = PeerResponse(replies=replies)
    return record, position


def encode_committed_record(out: bytearray, value: CommittedRecord) -> None:
    encode_proposal(out, value.committed)
    encode_lineage(out, value.lineage)


def decode_committed_record(buffer: bytes, position: int) -> tuple[CommittedRecord, int]:
    committed, position = decode_proposal(buffer, position)
    lineage, position = decode_lineage(buffer, position)
    record = CommittedRecord(committed=committed, lineage=lineage)
    return record, position


def encode_changelog_entry(out: bytearray, value: ChangelogEntry) -> None:
    encode_data(out, value.key, 1, 1024)
    encode_proposal(out, value.committed)


def decode_changelog_entry(buffer: bytes, position: int) -> tuple[ChangelogEntry, int]:
    key, position = decode_data(buffer, position, 1, 1024)
    committed, position = decode_proposal(buffer, position)
    record = ChangelogEntry(key=key, committed=committed)
    return record, position
