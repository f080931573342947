"""Messages and records for changes of members. The messages have a path of their own, so that a page of a thousand keys
does not delay votes."""

from msgspec import Struct

from epoxy.model.instances import InstanceId, OrderedCommit
from epoxy.model.messages import EpochAhead, Failed, StaleEpoch
from epoxy.model.node_urls import split_urls
from epoxy.model.records import ChangelogEntry

NO_STAMP = bytes(10)
"""Before the first row of a changelog."""

MAX_PAGE_ROWS = 1024
MAX_PAGE_BYTES = 1 << 20
"""A page ends at whichever limit comes first. A thousand small keys cost a source about ten milliseconds, and a page
that ends with a value of 1 MiB is still half of a frame of 4 MiB."""

STRETCH_ROWS = 64
MAX_STRETCHES = 128
"""Of the ordered engine's values: rows in a stretch, and stretches in one request. A learner asks for 16 stretches, a
page of the usual length; in a joint epoch, when all transactions wait, 8,192 values cost one round trip and some 15
milliseconds of a source's time."""

MAX_VALUE_ROWS = STRETCH_ROWS * MAX_STRETCHES

MAX_FIGURES_BYTES = 1 << 16
"""Of a report as JSON: a hundred bytes for each of 64 members, and room for ten times as much."""

DIGEST_BYTES = 16
"""Against chance 128 bits are enough, and an attacker gains nothing by two equal digests."""


class Member(Struct, frozen=True, kw_only=True):
    """`url`: as `ReplicaInfo` has it."""

    id: int
    url: str = ""
    datacenter: str = ""

    @property
    def urls(self) -> tuple[str, ...]:
        return split_urls(self.url)


class ChangeRequest(Struct, frozen=True, kw_only=True):
    """The members an operator wants; those not named shall leave. The value of `CHANGE_REQUEST_KEY`.

    Invariants: 1. At least one member.  2. Ids are unique, positive and sorted.
    """

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        ids = [member.id for member in self.members]
        assert ids, "a cluster without members decides nothing"
        assert ids == sorted(set(ids)), self
        assert ids[0] > 0, self


# Requests.


class Stretch(Struct, frozen=True, kw_only=True):
    """What a replica holds beyond some key, through `until` (None: through the last key): how many keys, and a digest
    of them with what is committed for each."""

    until: bytes | None
    count: int
    digest: bytes


class SnapshotRead(Struct, frozen=True, kw_only=True):
    """Asks for a page of all that is committed, in the order of the keys, beyond `after` and within the stretch that
    the reader has summarised; the page is empty if the digests are equal. `after` belongs to the store of identity
    `store`: another one answers CursorTruncated. 0: from the beginning, of any store."""

    reader: int
    store: int
    after: bytes | None
    held: Stretch


class ChangelogRead(Struct, frozen=True, kw_only=True):
    """Asks for a page of what was learned after this stamp of `store`."""

    reader: int
    store: int
    after: bytes


class UnsettledRead(Struct, frozen=True, kw_only=True):
    """Asks for a page of the keys, beyond `after`, with a vote of an earlier epoch and no known decision. A replica
    that answers has adopted the epoch, and does not vote in an earlier one again."""

    epoch: int
    after: bytes | None


class StatusRead(Struct, frozen=True, kw_only=True):
    """Asks for the MemberStatus. Not bound to an epoch, because it is sent when epochs differ."""


class ValuesRead(Struct, frozen=True, kw_only=True):
    """Asks for the ordered engine's values beyond `after`, in those stretches of the reader that differ; each stretch
    begins where the one before ends. No stretches: a page of all values. In a joint `epoch`, the values at the end of
    the term; 0: the current ones."""

    epoch: int
    after: bytes | None
    held: tuple[Stretch, ...]


class KeptId(Struct, frozen=True, kw_only=True):
    """An instance of any term. Slots begin again in each."""

    term: int
    id: InstanceId


class KeptRead(Struct, frozen=True, kw_only=True):
    """Asks for a page of the decided instances that are still kept, of all terms, beyond `after`."""

    epoch: int
    after: KeptId | None


# Requests of a backup.


class VotesRead(Struct, frozen=True, kw_only=True):
    """As UnsettledRead, for votes of every epoch that count, this one included."""

    epoch: int
    after: bytes | None


class HeldRead(Struct, frozen=True, kw_only=True):
    """Asks for what is committed beyond `after`, in those stretches of the reader that differ; each stretch begins
    where the one before ends. Their digests are of rows as they are stored: see `store/row_pages.py`."""

    after: bytes | None
    held: tuple[Stretch, ...]


class FrontierRead(Struct, frozen=True, kw_only=True):
    """Asks for the Frontier."""


class ActorsRead(Struct, frozen=True, kw_only=True):
    """Asks for a page of the rows of actors, beyond this row."""

    after: bytes | None


class FastVotesRead(Struct, frozen=True, kw_only=True):
    """Asks for a page of the clients' keys, beyond `after`, with a vote in the fast round for a proposal of this
    replica and no known decision. Answered after the start of the sender is on record: from then on no Accept of an
    earlier start is voted for."""

    proposer: int
    after: bytes | None


class FiguresRead(Struct, frozen=True, kw_only=True):
    """Asks for the Figures, while a client looks at the cluster through another member."""


MemberRequest = (
    SnapshotRead
    | ChangelogRead
    | UnsettledRead
    | StatusRead
    | ValuesRead
    | KeptRead
    | VotesRead
    | HeldRead
    | FrontierRead
    | ActorsRead
    | FiguresRead
    | FastVotesRead
)

# Replies.


class SnapshotPage(Struct, frozen=True, kw_only=True):
    """`cursor` is the newest row of the changelog at this moment: what is learned after the first page is beyond that
    page's cursor. `more`: within the stretch that was asked for."""

    store: int
    entries: tuple[ChangelogEntry, ...]
    cursor: bytes
    more: bool


class ChangelogPage(Struct, frozen=True, kw_only=True):
    """`cursor`: where the next page begins."""

    entries: tuple[ChangelogEntry, ...]
    cursor: bytes
    more: bool


class CursorTruncated(Struct, frozen=True, kw_only=True):
    """Rows beyond the cursor are gone, or it belongs to another store. The reader begins with a snapshot."""


class Unsettled(Struct, frozen=True, kw_only=True):
    """`version`: the first one that the decision of the vote's instance makes."""

    key: bytes
    version: int


class UnsettledPage(Struct, frozen=True, kw_only=True):
    keys: tuple[Unsettled, ...]
    more: bool


class MemberStatus(Struct, frozen=True, kw_only=True):
    """`sources`: replicas whose decisions this one has copied, up to some moment. `synced`: since it adopted this joint
    epoch it has settled and copied what a slow quorum of the old members held. To show progress: how many `keys` it
    holds, as last counted, and how many of the snapshot of `source` it has `copied`."""

    identity: int
    epoch: int
    sources: tuple[int, ...] = ()
    synced: bool = False
    keys: int = 0
    copied: int = 0
    source: int = 0


class Pair(Struct, frozen=True, gc=False):
    """A key of the ordered engine, and the record of what is held of it."""

    key: bytes
    value: bytes


class ValuesPage(Struct, frozen=True, kw_only=True):
    """Which of the stretches differ, by index, and the values of the source in them, up to the end of the page:
    `through` this key, None: to the last one."""

    differing: tuple[int, ...]
    pairs: tuple[Pair, ...]
    through: bytes | None


class Kept(Struct, frozen=True, kw_only=True):
    """Decided in this term."""

    term: int
    commit: OrderedCommit


class KeptPage(Struct, frozen=True, kw_only=True):
    kept: tuple[Kept, ...]
    more: bool


class Unfinished(Struct, frozen=True, kw_only=True):
    """The term has not ended at this source yet. Ask another one, or later."""


class HeldPage(Struct, frozen=True, kw_only=True):
    """What the source holds in stretches that differ, up to the end of the page: `through` this key, None: to the last
    one."""

    entries: tuple[ChangelogEntry, ...]
    through: bytes | None


class Frontier(Struct, frozen=True, kw_only=True):
    """The term of the ordered engine here, and the last slot known of each replica in it."""

    term: int
    slots: tuple[InstanceId, ...]


class ActorRow(Struct, frozen=True, gc=False):
    """As in the store of its datacenter."""

    row: bytes
    value: bytes


class ActorsPage(Struct, frozen=True, kw_only=True):
    rows: tuple[ActorRow, ...]
    more: bool


class Figures(Struct, frozen=True, kw_only=True):
    """A `MemberReport` (`model/api_world.py`) as JSON: what people are shown may grow without a new message."""

    report: bytes


KeySyncReply = SnapshotPage | ChangelogPage | CursorTruncated | UnsettledPage | MemberStatus
TxnSyncReply = ValuesPage | KeptPage | Unfinished
BackupReply = HeldPage | Frontier | ActorsPage
MemberReply = KeySyncReply | StaleEpoch | EpochAhead | Failed | TxnSyncReply | BackupReply | Figures

# Stored.


class Progress(Struct, frozen=True, kw_only=True):
    """How far this replica has copied one source, valid while that has this `store`: an id may be given to another
    machine, whose stamps begin again. Until the snapshot is `copied`, `after` is its last key stored here; `cursor` is
    where reading the changelog continues."""

    store: int
    cursor: bytes
    after: bytes | None = None
    copied: bool = False
