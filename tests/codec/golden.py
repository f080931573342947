"""The values behind golden.txt, and the reader of that file."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
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
    NO_STAMP,
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
    StaleCommit,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import (
    LEGACY_PROPOSAL_ID,
    ChangelogEntry,
    CommittedRecord,
    Expiry,
    ExpiryEntry,
    Proposal,
    ProposalId,
    Settled,
    Vote,
)
from epoxy.model.transactions import Add, Compare, Delete, Expire, Get, Import, OrderedValue, Put, Txn

NOTHING = Stretch(until=None, count=0, digest=bytes(16))

WRITER = ProposalId(2, 0x1122334455667788)
FIRST = Proposal(value=b"v", version=1, mutable=False, proposal_id=WRITER)
TOMBSTONE = Proposal(value=None, version=300, mutable=True, proposal_id=ProposalId(200, 1))
LEGACY = Proposal(value=b"", version=0, mutable=False, proposal_id=LEGACY_PROPOSAL_ID)
VOTE = Vote(proposal=FIRST, ballot=fast_ballot(2), epoch=5)
PREPARE = Prepare(key=b"k", epoch=5, ballot=Ballot(3, 2), base=7)
FOLD = Proposal(
    value=b"42",
    version=300,
    mutable=True,
    proposal_id=ProposalId(200, 1),
    folded=(WRITER, ProposalId(200, 2)),
    proposer=3,
)
SESSION = bytes(range(16))
LEASED = Proposal(value=b"v", version=7, mutable=True, proposal_id=WRITER, expiry=Expiry(ttl_ms=30_000, since=5))
OF_A_SESSION = replace(LEASED, expiry=Expiry(ttl_ms=0, since=5, session=SESSION))
PUT = CarriedWrite(
    proposal_id=WRITER,
    floor=0,
    value=b"v",
    mutable=True,
    if_version=None,
    returning=False,
    amount=None,
    negative=False,
)
LINEAGE = (Settled(299, WRITER), Settled(298, ProposalId(200, 2), (WRITER,)))
IDENTITY = 0x0102030405060708
STAMP = bytes(range(10))
JOINT = ClusterConfig(
    epoch=2,
    coordinator_id=1,
    replicas=(
        ReplicaInfo(id=1, url="http://a", identity=IDENTITY, datacenter="east"),
        ReplicaInfo(id=2, status=ReplicaStatus.LEARNING),
    ),
    previous=(1, 3),
    quorum_policy=QuorumPolicy.FAST_PAXOS,
    sealed=1,
    term=1,
    since=1,
)

SLOT = InstanceId(2, 7)
DEPS = Deps(upto=(InstanceId(1, 4),), also=(InstanceId(2, 300),))
LOOK = Command(txns=(Txn(reads=(b"k",)),))
TRANSFER = Command(
    txns=(
        Txn(
            compares=(Compare(key=b"a", values=(b"1",), absent=True),),
            then=(Add(key=b"a", amount=5, negative=True), Put(key=b"b", value=b"v")),
            otherwise=(Get(key=b"a"), Delete(key=b"b")),
            reads=(b"r",),
        ),
    )
)
HANDED_OVER = Command(
    txns=(
        Txn(
            compares=(Compare(key=b"a", version=3),),
            then=(Put(key=b"a", value=b"v", ttl_ms=1000), Expire(key=b"b", version=5)),
            imports=(Import(key=b"a", held=OrderedValue(value=b"u", version=3, expiry=Expiry(ttl_ms=10, since=2))),),
        ),
    ),
    versioned=False,
)
NOP = OrderedCommit(id=SLOT, command=None, deps=Deps())

VALUES: dict[str, Any] = {
    "uint 0": 0,
    "uint 1": 1,
    "uint 126": 126,
    "uint 127": 127,
    "uint 128": 128,
    "uint 129": 129,
    "uint 255": 255,
    "uint largest": 0xFFFF_FFFF_FFFF_FFFF,
    "u32 0": 0,
    "u32 1": 1,
    "u32 255": 255,
    "u64 counting": 0x0102030405060708,
    "str bare": "BARE",
    "str omega": "Ω",
    "data four": b"\xde\xad\xbe\xef",
    "request prepare": PREPARE,
    "request accept": Accept(key=b"k", epoch=5, ballot=fast_ballot(2), proposal=FIRST),
    "request commit-tombstone": Commit(key=b"k1", epoch=5, proposal=TOMBSTONE),
    "request commit-fold": Commit(key=b"k", epoch=5, proposal=FOLD),
    "request commit-expiry": Commit(key=b"k", epoch=5, proposal=LEASED),
    "request read": Read(key=b"k", epoch=128),
    "request update-config": UpdateConfig(config=JOINT),
    "request inspect": Inspect(key=b"k"),
    "request carry": Carry(
        key=b"k",
        epoch=5,
        sender=IDENTITY,
        receiver=0,
        number=3,
        writes=(
            CarriedWrite(
                proposal_id=WRITER,
                floor=300,
                value=b"v",
                mutable=True,
                if_version=300,
                returning=True,
                amount=None,
                negative=False,
            ),
            CarriedWrite(
                proposal_id=ProposalId(200, 2),
                floor=0,
                value=None,
                mutable=True,
                if_version=None,
                returning=False,
                amount=5,
                negative=True,
            ),
        ),
    ),
    "request carry-expiries": Carry(
        key=b"k",
        epoch=5,
        sender=IDENTITY,
        receiver=IDENTITY,
        number=4,
        writes=(
            replace(PUT, if_absent=True, ttl_ms=30_000),
            replace(PUT, value=None, touch=True, session=SESSION),
            replace(PUT, keep_expiry=True),
        ),
    ),
    "request carry-answers": CarryAnswers(
        key=b"k",
        owner=3,
        answers=(
            CarryAnswer(
                proposal_id=WRITER,
                result=CarryResult.DONE,
                version=301,
                value=b"5",
                committed=TOMBSTONE,
                reason="",
            ),
            CarryAnswer(
                proposal_id=ProposalId(200, 2),
                result=CarryResult.UNKNOWN,
                version=0,
                value=None,
                committed=None,
                reason="timeout",
            ),
        ),
    ),
    "request pre-accept": InTerm(term=2, request=PreAccept(id=SLOT, command=TRANSFER, deps=DEPS)),
    "request ordered-accept-nop": InTerm(
        term=2, request=OrderedAccept(id=SLOT, ballot=Ballot(1, 3), command=None, deps=Deps())
    ),
    "request ordered-commit": InTerm(term=2, request=OrderedCommit(id=SLOT, command=LOOK, deps=DEPS)),
    "request recover": InTerm(term=2, request=Recover(id=SLOT, ballot=Ballot(1, 3))),
    "request validate": InTerm(term=2, request=Validate(id=SLOT, ballot=Ballot(1, 3), command=LOOK, deps=DEPS)),
    "request vote": InTerm(term=2, request=OrderedVote(sender=3, id=SLOT, ballot=Ballot(1, 3))),
    "request waiting": InTerm(term=2, request=Waiting(id=SLOT, count=3)),
    "request catchup": InTerm(term=2, request=Catchup(sender=3, executed=(InstanceId(1, 4),), known=())),
    "request seal": InTerm(term=2, request=Seal()),
    "reply prepare-ok-free": PrepareOk(vote=None),
    "reply prepare-ok-vote": PrepareOk(vote=VOTE),
    "reply accept-ok": AcceptOk(),
    "reply commit-ok": CommitOk(),
    "reply read-ok-nothing": ReadOk(committed=None, vote=None),
    "reply read-ok-both": ReadOk(committed=TOMBSTONE, vote=VOTE),
    "reply already-committed": AlreadyCommitted(committed=TOMBSTONE, lineage=LINEAGE),
    "reply higher-ballot": HigherBallot(ballot=Ballot(128, 3)),
    "reply behind": Behind(version=9),
    "reply stale-commit": StaleCommit(version=10),
    "reply stale-epoch": StaleEpoch(config=first_epoch((1,))),
    "reply epoch-ahead": EpochAhead(epoch=4),
    "reply commit-conflict": CommitConflict(committed=FIRST),
    "reply config-ok": ConfigOk(epoch=6),
    "reply failed": Failed(reason="timeout"),
    "reply inspected": Inspected(
        epoch=5,
        committed=FIRST,
        lineage=(),
        promised=Ballot(2, 3),
        vote=None,
        cached=None,
        changelog=(bytes(range(10)),),
        owner=3,
        waiting=17,
    ),
    "reply pre-accept-ok": PreAcceptOk(also=(SLOT,)),
    "reply voted": Voted(),
    "reply recover-ok": RecoverOk(
        held=Instance(id=SLOT, phase=Phase.PREACCEPTED, ballot=Ballot(1, 3), command=LOOK, deps=DEPS, initial=Deps())
    ),
    "reply validate-ok": ValidateOk(rivals=(Rival(id=SLOT, is_committed=True),)),
    "reply decided": Decided(commit=NOP),
    "reply overtaken": Overtaken(ballot=Ballot(1, 3)),
    "reply forgotten": Forgotten(),
    "reply overloaded": Overloaded(),
    "reply noted": Noted(),
    "reply missed": Missed(executed=(InstanceId(1, 4),), commits=(NOP,), more=False),
    "reply sealed": Sealed(ends=(SLOT,)),
    "reply ended": Ended(ends=(SLOT,)),
    "reply closed": Closed(term=3),
    "reply carry-ok": CarryOk(declined=(WRITER,), life=IDENTITY),
    "peer_request empty": PeerRequest(sender=1, recipient=2, requests=()),
    "peer_request two": PeerRequest(sender=1, recipient=2, requests=(Read(key=b"k", epoch=5), PREPARE)),
    "peer_response three": PeerResponse(replies=(AcceptOk(), Behind(version=9), CommitOk())),
    "committed_record first": CommittedRecord(committed=FIRST),
    "committed_record folds": CommittedRecord(
        committed=FOLD, lineage=(Settled(297, ProposalId(1, 7), (ProposalId(3, 6),)),)
    ),
    "committed_record lineage": CommittedRecord(
        committed=TOMBSTONE, lineage=(Settled(299, WRITER), Settled(298, ProposalId(200, 2)))
    ),
    "committed_record session": CommittedRecord(committed=OF_A_SESSION),
    "committed_record legacy": CommittedRecord(committed=LEGACY),
    "ballot none": NO_BALLOT,
    "ballot classic": Ballot(2, 64),
    "vote fast": VOTE,
    "cached tombstone": TOMBSTONE,
    "changelog_entry first": ChangelogEntry(key=b"k", committed=FIRST),
    "expiry_entry leased": ExpiryEntry(version=7, home=2, expiry=Expiry(ttl_ms=30_000, since=5)),
    "config joint": JOINT,
    "progress copied": Progress(store=IDENTITY, cursor=STAMP, copied=True),
    "progress half-way": Progress(store=IDENTITY, cursor=NO_STAMP, after=b"k"),
    "command transfer": TRANSFER,
    "command handed-over": HANDED_OVER,
    "ordered_value kept": OrderedValue(value=b"v", version=7, immutable=True),
    "instance_state voted-nop": InstanceState(
        phase=Phase.ACCEPTED, ballot=Ballot(1, 3), accepted=Ballot(1, 3), nop=True, deps=Deps(), initial=None
    ),
    "term ending": Term(number=2, voters=(1, 3), policy=QuorumPolicy.FAST_PAXOS, ending=True),
    "term_end two": TermEnd(ends=(InstanceId(1, 4), SLOT)),
    "member_request snapshot-first": SnapshotRead(reader=4, store=0, after=None, held=NOTHING),
    "member_request snapshot-next": SnapshotRead(
        reader=4, store=IDENTITY, after=b"k", held=Stretch(until=b"l", count=1, digest=bytes(range(16)))
    ),
    "member_request changelog": ChangelogRead(reader=4, store=IDENTITY, after=STAMP),
    "member_request unsettled": UnsettledRead(epoch=5, after=None),
    "member_request status": StatusRead(),
    "member_request values": ValuesRead(
        epoch=5, after=b"k", held=(Stretch(until=None, count=1, digest=bytes(range(16))),)
    ),
    "member_request kept": KeptRead(epoch=5, after=KeptId(term=1, id=SLOT)),
    "member_request votes": VotesRead(epoch=5, after=b"k"),
    "member_request held": HeldRead(after=b"k", held=(Stretch(until=None, count=1, digest=bytes(range(16))),)),
    "member_request frontier": FrontierRead(),
    "member_request actors": ActorsRead(after=b"r"),
    "member_request figures": FiguresRead(),
    "member_request fast-votes": FastVotesRead(proposer=3, after=b"k"),
    "member_reply snapshot-page": SnapshotPage(
        store=IDENTITY, entries=(ChangelogEntry(key=b"k", committed=FIRST),), cursor=STAMP, more=True
    ),
    "member_reply changelog-page": ChangelogPage(entries=(), cursor=STAMP, more=False),
    "member_reply cursor-truncated": CursorTruncated(),
    "member_reply unsettled-page": UnsettledPage(keys=(Unsettled(key=b"k", version=7),), more=False),
    "member_reply status": MemberStatus(
        identity=IDENTITY, epoch=5, sources=(1, 3), synced=True, keys=1000, copied=300, source=2
    ),
    "member_reply stale-epoch": StaleEpoch(config=first_epoch((1,))),
    "member_reply epoch-ahead": EpochAhead(epoch=4),
    "member_reply failed": Failed(reason="timeout"),
    "member_reply values-page": ValuesPage(differing=(0,), pairs=(Pair(b"k", b"v"),), through=b"k"),
    "member_reply kept-page": KeptPage(kept=(Kept(term=1, commit=NOP),), more=True),
    "member_reply unfinished": Unfinished(),
    "member_reply held-page": HeldPage(entries=(ChangelogEntry(key=b"k", committed=FIRST),), through=b"k"),
    "member_reply figures": Figures(report=b"{}"),
    "member_reply frontier": Frontier(term=2, slots=(InstanceId(1, 4), SLOT)),
    "member_reply actors-page": ActorsPage(rows=(ActorRow(b"r", b"v"),), more=True),
    "change_request two": ChangeRequest(members=(Member(id=1, url="http://a", datacenter="east"), Member(id=4))),
}


def read_golden(file: str = "golden.txt") -> dict[str, bytes]:
    """name -> bytes, in the order of the file."""
    found: dict[str, bytes] = {}
    name = ""
    for line in Path(__file__).with_name(file).read_text("utf-8").splitlines():
        if line.startswith("  "):
            found[name] += bytes.fromhex(line.strip().split("  ")[0])
        elif line and not line.startswith("#"):
            name = line
            assert name not in found, f"{name} twice"
            found[name] = b""
    return found
