"""What a rescue makes of writes that were under way: for a key, the votes that the surviving replicas hold for the
version after the newest committed one.

If the survivors are a quorum, the choice rule says which vote an earlier round may have chosen; everything that was
acknowledged is committed or chosen by it, and nothing is in doubt. Otherwise a vote may have been acknowledged or not,
and a write that only lost members saw has left no trace. The vote is taken then: a client whose write was not
acknowledged was never told that it failed, so its write may still happen; one whose write was acknowledged must find
it.
"""

import enum
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.model.cluster import ClusterConfig
from epoxy.model.records import CommittedRecord, KeyState, Proposal, Vote
from epoxy.protocol.keys.acceptor import lineage_after
from epoxy.protocol.keys.recovery import choose, highest, still_counts


class Doubt(enum.Enum):
    """Why the last write of a key may be missing."""

    VOTE = "vote"
    """A survivor has voted for a write that it does not know to be decided."""
    PROMISE = "promise"
    """A survivor has promised to vote, and was not asked to."""
    TRANSACTION = "transaction"
    """A survivor knows of a transaction that is not decided."""
    ROTTEN = "rotten"
    """A survivor's row of it is damaged."""
    CONFLICT = "conflict"
    """Two survivors have different values for one version. Never happens, unless a disk was not what it was."""


class OpenWrite(Struct, frozen=True, kw_only=True):
    """`replicas`: those that hold it. `taken`: it is in the backup."""

    key: bytes
    doubt: Doubt
    version: int = 0
    value: bytes | None = None
    replicas: tuple[int, ...] = ()
    taken: bool = False


class HeldKey:
    """What the survivors hold of one key."""

    __slots__ = ("key", "promised", "records", "rotten", "votes")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.records: dict[int, bytes] = {}
        self.promised: set[int] = set()
        self.votes: dict[int, Vote] = {}
        self.rotten: set[int] = set()


class Settlement(Struct, frozen=True):
    """The record of a key, None if it was never committed; and what is in doubt."""

    record: bytes | None
    doubts: tuple[OpenWrite, ...] = ()


class Survivors(Struct, frozen=True, kw_only=True):
    """`config`: the newest that they know. `voters`: those of them that vote in it. `quorum`: they are one, and each is
    what it was. `take`: votes that may have been acknowledged."""

    config: ClusterConfig
    voters: tuple[int, ...]
    quorum: bool
    take: bool = True


def settle(held: HeldKey, survivors: Survivors) -> Settlement:
    """A replica with a rotten row of the key does not count: it may have voted for anything."""
    newest, raw, found = newest_of(held)
    if held.rotten:
        survivors = replace(survivors, quorum=False)
        found += (OpenWrite(key=held.key, doubt=Doubt.ROTTEN, replicas=tuple(sorted(held.rotten))),)
    if newest is not None and not newest.committed.mutable:
        return Settlement(raw, found)
    base = newest.committed.version if newest is not None else 0
    votes = {each: vote for each, vote in held.votes.items() if is_open(vote, base, survivors.config)}
    winner = winner_of(votes, survivors)
    record = record_after(newest, winner) if winner is not None else raw
    if survivors.quorum:
        return Settlement(record, found)
    promised = tuple(
        sorted(each for each in held.promised - votes.keys() if is_current(held.records.get(each), newest))
    )
    return Settlement(record, (*found, *doubts_of(held.key, base + 1, votes, winner, promised)))


def newest_of(held: HeldKey) -> tuple[CommittedRecord | None, bytes | None, tuple[OpenWrite, ...]]:
    newest: CommittedRecord | None = None
    raw: bytes | None = None
    conflicts: tuple[OpenWrite, ...] = ()
    for replica, record in sorted(held.records.items()):
        if record == raw:
            continue
        found = wire.decode_committed_record(record)
        if newest is None or found.committed.version > newest.committed.version:
            newest, raw, conflicts = found, record, ()
        elif found.committed.version == newest.committed.version and found.committed != newest.committed:
            conflicts += (open_write(held.key, Doubt.CONFLICT, found.committed, (replica,), taken=False),)
    return newest, raw, conflicts


def is_open(vote: Vote, base: int, config: ClusterConfig) -> bool:
    """A vote belongs to the instance on top of the committed version, whatever versions its fold makes."""
    return vote.proposal.base == base and still_counts(vote, config)


def is_current(record: bytes | None, newest: CommittedRecord | None) -> bool:
    """A promise belongs to the version after the one that its replica has."""
    version = wire.decode_committed_record(record).committed.version if record is not None else 0
    return version == (newest.committed.version if newest is not None else 0)


def winner_of(votes: Mapping[int, Vote], survivors: Survivors) -> Proposal | None:
    if not votes:
        return None
    if survivors.quorum:
        return choose({voter: votes.get(voter) for voter in survivors.voters}, survivors.config)
    return most_likely(votes) if survivors.take else None


def doubts_of(
    key: bytes, version: int, votes: Mapping[int, Vote], winner: Proposal | None, promised: tuple[int, ...]
) -> Iterator[OpenWrite]:
    for proposal_id in sorted({vote.proposal.proposal_id for vote in votes.values()}):
        of = {each: vote.proposal for each, vote in votes.items() if vote.proposal.proposal_id == proposal_id}
        proposal = next(iter(of.values()))
        yield open_write(key, Doubt.VOTE, proposal, tuple(sorted(of)), taken=proposal == winner)
    if promised and not votes:
        yield OpenWrite(key=key, doubt=Doubt.PROMISE, version=version, replicas=promised)


def open_write(key: bytes, doubt: Doubt, proposal: Proposal, replicas: tuple[int, ...], *, taken: bool) -> OpenWrite:
    return OpenWrite(
        key=key, doubt=doubt, version=proposal.version, value=proposal.value, replicas=replicas, taken=taken
    )


def most_likely(votes: Mapping[int, Vote]) -> Proposal:
    """Classic rounds know what earlier ones chose: the highest. Of fast votes, the proposal with most of them."""
    classic = [vote for vote in votes.values() if vote.ballot.is_classic]
    if classic:
        return highest(classic).proposal
    counts = Counter(vote.ballot.replica_id for vote in votes.values())
    proposer = min(counts, key=lambda each: (-counts[each], each))
    return next(vote.proposal for vote in votes.values() if vote.ballot.replica_id == proposer)


def record_after(before: CommittedRecord | None, proposal: Proposal) -> bytes:
    state = KeyState(committed=before.committed, lineage=before.lineage) if before is not None else KeyState()
    return wire.encode_committed_record(CommittedRecord(committed=proposal, lineage=lineage_after(state)))
