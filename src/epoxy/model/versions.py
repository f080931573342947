"""The versions of this build that others meet: on the wire, and on disks.

Each has its own number, and the release has another. A wire version is negotiated: both ends of a connection say which
ones they speak, and use the highest that both do. A format on a disk is migrated forward when a node starts, and a
newer one than this build knows is refused. docs/upgrading.md has the rules; decision 0076 the reasons.
"""

from collections.abc import Callable

from msgspec import Struct

OLDEST_WIRE, NEWEST_WIRE = 5, 5
"""Versions of the frames between replicas that this build speaks. The release before it must be among their speakers:
two minor releases run mixed. 5: positions in every frame, messages in format 4."""

NODES_WIRE = 1
"""Of the links between nodes of one datacenter. One version: nodes that share a store refuse another one in words."""

RELAY_WIRE = 1
"""Of requests to actors that one datacenter passes on to another."""

ENVOY_WIRE = 2
"""Of what workers say to nodes."""

RECORDS_FORMAT, OLDEST_RECORDS = 4, 2
"""Of messages and of rows in a store. Rows of formats 2 and 3 are read, and written anew with their keys."""

DIRECTORY_FORMAT, OLDEST_DIRECTORY = 5, 4
"""Of data directories: the one that is written, and the oldest one that is migrated. 2: the configuration is the value
of a key. 3: votes have rows apart from their keys. 4: instances of the ordered engine are kept by term, which the
configuration counts. 5: rows carry checksums."""

EARLY_DIRECTORY = 6
"""Of a directory in that format whose process may have sent Accepts before its own votes were durable, until it ends in
order: a release that does not know what its next start owes the others must not start there (decision 0083)."""

TABLES_FORMAT = 2
"""Of the tables in a PostgreSQL. 2: batches are executed before they are durable."""

BACKUP_FORMAT = 1
"""Of the frame of backup files; the records in them have a format of their own."""

LAST_RELEASE, LAST_DIRECTORY, LAST_TABLES = "0.1", 5, 1
"""The minor release before this one, and the formats that it reads: whether there is a way back to it."""

MAX_PEERS = 256
"""Of which a release is remembered: every replica a cluster can have, each replaced a few times."""


class WireVersions(Struct, frozen=True, kw_only=True):
    """What one end of a connection speaks, and the release it is of."""

    oldest: int
    newest: int
    release: str

    @property
    def text(self) -> str:
        return f"{self.oldest}" if self.oldest == self.newest else f"{self.oldest} to {self.newest}"


NO_BUILD = WireVersions(oldest=0, newest=0, release="")
"""Of a node without a process and its links, as simulations have."""

UNTOLD = WireVersions(oldest=5, newest=5, release="0.1")
"""Of a peer that does not say what it speaks: 0.1.0, the one release before peers do."""


def highest_common(one: WireVersions, other: WireVersions) -> int | None:
    """None: they cannot speak with each other."""
    highest = min(one.newest, other.newest)
    return highest if highest >= max(one.oldest, other.oldest) else None


def no_common_version(me: int, mine: WireVersions, other: int, theirs: WireVersions) -> str:
    """Both ends with what they speak, and which of them is behind. For the log of one end and the answer to the
    other."""
    behind, target = (me, theirs) if mine.newest < theirs.oldest else (other, mine)
    return (
        f"no common wire version: replica {me} (release {mine.release}) speaks {mine.text}, replica {other} "
        f"(release {theirs.release}) speaks {theirs.text}; upgrade replica {behind}, one minor release after the "
        f"other, until it speaks {target.oldest}"
    )


def ignore(_words: str) -> None: ...


def unheeded(_peer: int) -> None: ...


class PeerVersions:
    """What this node speaks, and what its peers have said that they do. A peer that is away is remembered: its release
    is wanted then, too."""

    def __init__(
        self,
        me: int,
        mine: WireVersions = NO_BUILD,
        *,
        tell: Callable[[str], None] = ignore,
        warn: Callable[[str], None] = ignore,
    ) -> None:
        """`tell` and `warn` get a line for the log when a peer says something new."""
        self.me = me
        self.mine = mine
        self.mismatches = 0
        """Handshakes without a common version."""
        self._tell = tell
        self._warn = warn
        self._peers: dict[int, WireVersions] = {}
        self.changed: Callable[[int], None] = unheeded
        """Called when a peer says something new, before anything else is heard of it."""

    def of(self, peer: int) -> WireVersions | None:
        """None: it was not heard since this process started."""
        return self._peers.get(peer)

    def release_of(self, replica: int) -> str:
        """Of this one or of a peer; empty: not heard yet."""
        heard = self.mine if replica == self.me else self._peers.get(replica)
        return heard.release if heard is not None else ""

    def common(self, peer: int) -> int | None:
        """The version that is spoken with a peer; None: there is none, or the peer was not heard yet."""
        heard = self._peers.get(peer)
        return highest_common(self.mine, heard) if heard is not None else None

    def trouble(self, peer: int) -> str:
        """Why no version is spoken with a peer; empty: one is, or it was not heard yet."""
        heard = self._peers.get(peer)
        if heard is None or highest_common(self.mine, heard) is not None:
            return ""
        return no_common_version(self.me, self.mine, peer, heard)

    def heard(self, peer: int, theirs: WireVersions | None) -> int | None:
        """From a handshake whose sender has proved who it is; `theirs` None: it made no offer. The version to be
        spoken, if there is one."""
        said = theirs if theirs is not None else UNTOLD
        before = self._peers.get(peer)
        if before != said and (before is not None or len(self._peers) < MAX_PEERS):
            self._peers[peer] = said
            self.changed(peer)
            self._tell(f"replica {peer} runs release {said.release} and speaks wire versions {said.text}")
            if trouble := self.trouble(peer):
                self._warn(f"replica {peer} is not spoken to: {trouble}")
        version = highest_common(self.mine, said)
        self.mismatches += version is None
        return version
