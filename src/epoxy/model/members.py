"""What is said and kept while members change. These messages have an address of their own: a page of a thousand keys
must not stand in the way of a vote."""

from msgspec import Struct

from epoxy.model.instances import InstanceId, OrderedCommit
from epoxy.model.messages import EpochAhead, Failed, StaleEpoch
from epoxy.model.records import ChangelogEntry

NO_STAMP = bytes(10)
"""Before the first row of a changelog."""

MAX_PAGE_ROWS = 1024
MAX_PAGE_BYTES = 1 << 20
"""A page ends with whichever comes first. A thousand small keys cost a source about ten milliseconds, and a page that
ends with a value of 1 MiB still fits into a frame of 4 MiB twice over."""

STRETCH_ROWS = 64
MAX_STRETCHES = 128
"""Of the ordered engine's values: compared by as many, and so many stretches in one question. While they learn, a page
is 16 of them, as long as others; in a joint epoch, when all transactions wait for it, 8,192 values cost one round trip
and some 15 milliseconds of a source's time."""

MAX_VALUE_ROWS = STRETCH_ROWS * MAX_STRETCHES

DIGEST_BYTES = 16
"""Nobody chooses keys to make two digests equal and gains by it; 128 bits are enough against chance."""


class Member(Struct, frozen=True, kw_only=True):
    id: int
    url: str = ""
    datacenter: str = ""


class ChangeRequest(Struct, frozen=True, kw_only=True):
    """The value of the wish register: who shall vote. Whoever is not named shall leave.

    Invariants: 1. Somebody is named.  2. Ids are unique, positive and sorted.
    """

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        ids = [member.id for member in self.members]
        assert ids, "a cluster without members decides nothing"
        assert ids == sorted(set(ids)), self
        assert ids[0] > 0, self


# Requests.


class Stretch(Struct, frozen=True, kw_only=True):
    """What a replica holds beyond some key, through `until` (None: through the last key there is): how many keys, and
    a digest of them with what is committed for each."""

    until: bytes | None
    count: int
    digest: bytes


class SnapshotRead(Struct, frozen=True, kw_only=True):
    """A page of all you have committed, in the order of the keys, beyond `after`, as far as the stretch goes that the
    reader has looked through; an empty one if you hold the same. That place is in a `store`: another one answers that
    it is gone. 0: from the beginning, of whichever it is."""

    reader: int
    store: int
    after: bytes | None
    held: Stretch


class ChangelogRead(Struct, frozen=True, kw_only=True):
    """A page of what you have learned since this stamp, which `store` has given."""

    reader: int
    store: int
    after: bytes


class UnsettledRead(Struct, frozen=True, kw_only=True):
    """A page of the keys for which you voted before this epoch and know of no decision, beyond `after`. Whoever answers
    has adopted the epoch, and will not vote in an earlier one again."""

    epoch: int
    after: bytes | None


class StatusRead(Struct, frozen=True, kw_only=True):
    """Who are you, and how far have you come? Not bound to an epoch: it is asked when those differ."""


class ValuesRead(Struct, frozen=True, kw_only=True):
    """The ordered engine's values beyond `after`, of those stretches of the reader's that differ; one after the other,
    each begins where the one before ends. None: all that make a page. In a joint `epoch`, as they are when its term has
    come to its end here; 0: as they are now."""

    epoch: int
    after: bytes | None
    held: tuple[Stretch, ...]


class KeptId(Struct, frozen=True, kw_only=True):
    """An instance among those of all terms, whose slots begin again in each."""

    term: int
    id: InstanceId


class KeptRead(Struct, frozen=True, kw_only=True):
    """A page of the decided instances that you still keep, of all terms, beyond `after`."""

    epoch: int
    after: KeptId | None


MemberRequest = SnapshotRead | ChangelogRead | UnsettledRead | StatusRead | ValuesRead | KeptRead

# Replies.


class SnapshotPage(Struct, frozen=True, kw_only=True):
    """`cursor` is the newest row of the changelog at this moment: what the first page's cursor does not cover comes
    after it there. `more`: within the stretch that was asked for."""

    store: int
    entries: tuple[ChangelogEntry, ...]
    cursor: bytes
    more: bool


class ChangelogPage(Struct, frozen=True, kw_only=True):
    """`cursor`: read on from here."""

    entries: tuple[ChangelogEntry, ...]
    cursor: bytes
    more: bool


class CursorTruncated(Struct, frozen=True, kw_only=True):
    """Rows beyond that place are gone, or it is in another store. Begin with a snapshot."""


class Unsettled(Struct, frozen=True, kw_only=True):
    key: bytes
    version: int


class UnsettledPage(Struct, frozen=True, kw_only=True):
    keys: tuple[Unsettled, ...]
    more: bool


class MemberStatus(Struct, frozen=True, kw_only=True):
    """`sources`: the replicas all of whose decisions this one has copied, up to some moment. `synced`: since it adopted
    this joint epoch it has settled and copied what a slow quorum of the old members held. For those who watch: how many
    `keys` it holds, as last counted, and how many of the snapshot of `source` it has `copied`."""

    identity: int
    epoch: int
    sources: tuple[int, ...] = ()
    synced: bool = False
    keys: int = 0
    copied: int = 0
    source: int = 0


class Pair(Struct, frozen=True, gc=False):
    """A key of the ordered engine, and its value."""

    key: bytes
    value: bytes


class ValuesPage(Struct, frozen=True, kw_only=True):
    """Which of the stretches differ, by their place in the question, and all that these hold here, as far as the page
    goes: `through` this key, None: to the last one there is."""

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
    """The term has not come to its end here. Ask somebody else, or later."""


MemberReply = (
    SnapshotPage
    | ChangelogPage
    | CursorTruncated
    | UnsettledPage
    | MemberStatus
    | StaleEpoch
    | EpochAhead
    | Failed
    | ValuesPage
    | KeptPage
    | Unfinished
)

# Stored.


class Progress(Struct, frozen=True, kw_only=True):
    """How far this replica has come with one source, as long as that has this `store`: an id may be given to another
    machine, whose stamps begin again. Until the snapshot is `copied`, `after` is the last key of it that is kept here;
    `cursor` is where its changelog is to be read on."""

    store: int
    cursor: bytes
    after: bytes | None = None
    copied: bool = False
