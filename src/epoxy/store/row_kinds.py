"""The kinds of rows in a data directory, and what is done about one that is rotten.

A kind follows from the row's key. What was promised, voted or counted by this replica alone cannot be asked for
elsewhere: an absent row stands for "nothing", so a replica that went on without one could vote twice. Such a node ends.
A row that looks like none of ours ends it, too: its key may be what was changed, and another row is missing then.
"""

import enum

from msgspec import Struct

from epoxy.codec.tuple import STAMP_BYTES, Item, pack, unpack
from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.errors import CodecError
from epoxy.protocol.placement import rows as placement_rows
from epoxy.store import keyspace, member_rows, scrub_rows, txn_rows

ACTORS = 4
"""The first number of rows of `actors.directory`, which is above this room."""

ACTOR_RECORD = 0
"""The actors' own records; the other rows there are indexes of them."""


class RowKind(enum.Enum):
    """In words for a log line."""

    VALUE = "a committed value"
    CONFIGURATION = "the configuration"
    BALLOT = "a promise"
    VOTE = "a vote"
    EXPIRY = "the expiry of a value"
    CACHE = "a cached value"
    CACHES = "the note that values are cached"
    CHANGELOG = "a row of the changelog"
    TRUNCATED = "the beginning of the changelog"
    MEASURED = "the size of the changelog"
    PROGRESS = "the progress of a copy"
    SCRUB = "the progress of a scrub"
    IDENTITY = "the identity of a store"
    START = "the last start of this store"
    SIGHTING = "the last start of another store"
    REFUSED = "the reason why this store is refused"
    TXN_VALUE = "a value of transactions"
    TXN_EXPIRY = "the expiry of a value of transactions"
    TERM = "the term of transactions"
    INSTANCE = "an instance of transactions"
    EXECUTED = "the progress of transactions"
    ACTOR = "an actor"
    ACTOR_INDEX = "an index of actors"
    ENVOY = "a row of an envoy"
    UNKNOWN = "a row of no known kind"


class Remedy(enum.Enum):
    """What is done about a rotten row, in words for a log line."""

    RESTORE = "it is read from a quorum of the others"
    DROP = "it is dropped, and made again when it is needed"
    RENEW = "it is written anew, from the rows beside it"
    TRUNCATE = "the changelog is truncated through it: its readers begin with a snapshot"
    REFUSE = "requests that need it are refused: only this node has it"
    END = "this node ends for good: replace it"


REMEDIES = {
    RowKind.VALUE: Remedy.RESTORE,
    RowKind.CONFIGURATION: Remedy.END,
    RowKind.BALLOT: Remedy.END,
    RowKind.VOTE: Remedy.END,
    RowKind.EXPIRY: Remedy.RENEW,
    RowKind.CACHE: Remedy.DROP,
    RowKind.CACHES: Remedy.RENEW,
    RowKind.CHANGELOG: Remedy.TRUNCATE,
    RowKind.TRUNCATED: Remedy.RENEW,
    RowKind.MEASURED: Remedy.DROP,
    RowKind.PROGRESS: Remedy.DROP,
    RowKind.SCRUB: Remedy.DROP,
    RowKind.IDENTITY: Remedy.END,
    RowKind.START: Remedy.END,
    RowKind.SIGHTING: Remedy.END,
    RowKind.REFUSED: Remedy.END,
    RowKind.TXN_VALUE: Remedy.END,
    RowKind.TXN_EXPIRY: Remedy.RENEW,
    RowKind.TERM: Remedy.END,
    RowKind.INSTANCE: Remedy.END,
    RowKind.EXECUTED: Remedy.END,
    RowKind.ACTOR: Remedy.REFUSE,
    RowKind.ACTOR_INDEX: Remedy.REFUSE,
    RowKind.ENVOY: Remedy.REFUSE,
    RowKind.UNKNOWN: Remedy.END,
}
"""The configuration: the epoch in force is not known without it, so no quorum is. A value of transactions has no
version: which of the transactions executed here and elsewhere it includes cannot be told."""


class Row(Struct, frozen=True):
    """A row by its key. `name`: the client's key, the stamp of a row of the changelog, or empty."""

    kind: RowKind
    name: bytes = b""

    @property
    def remedy(self) -> Remedy:
        return REMEDIES[self.kind]


UNKNOWN = Row(RowKind.UNKNOWN)

SINGLE = {
    (keyspace.LAYOUT, keyspace.CACHES): RowKind.CACHES,
    (keyspace.LAYOUT, keyspace.TRUNCATED): RowKind.TRUNCATED,
    (keyspace.LAYOUT, member_rows.IDENTITY): RowKind.IDENTITY,
    (keyspace.LAYOUT, member_rows.START): RowKind.START,
    (keyspace.LAYOUT, member_rows.REFUSED): RowKind.REFUSED,
    (keyspace.LAYOUT, member_rows.MEASURED): RowKind.MEASURED,
    (keyspace.LAYOUT, scrub_rows.SCRUB): RowKind.SCRUB,
    (keyspace.LEGACY_LAYOUT, txn_rows.TERM): RowKind.TERM,
}
"""Nothing follows these numbers in the key."""

TXN_VALUES = (keyspace.LEGACY_LAYOUT, txn_rows.VALUES)

KEYED = {
    (keyspace.LAYOUT, keyspace.VOTES): RowKind.VOTE,
    (keyspace.LAYOUT, keyspace.EXPIRIES): RowKind.EXPIRY,
    (keyspace.LEGACY_LAYOUT, txn_rows.ENDING): RowKind.TXN_EXPIRY,
    TXN_VALUES: RowKind.TXN_VALUE,
}
"""A client's key follows."""

NUMBERED = {
    (keyspace.LAYOUT, member_rows.PROGRESS): (RowKind.PROGRESS, 1),
    (keyspace.LAYOUT, member_rows.NOTED): (RowKind.IDENTITY, 1),
    (keyspace.LAYOUT, member_rows.SIGHTINGS): (RowKind.SIGHTING, 1),
    (keyspace.LEGACY_LAYOUT, txn_rows.INSTANCES): (RowKind.INSTANCE, 4),
    (keyspace.LEGACY_LAYOUT, txn_rows.EXECUTED): (RowKind.EXECUTED, 3),
    (keyspace.LEGACY_LAYOUT, txn_rows.FORGOTTEN): (RowKind.EXECUTED, 2),
}
"""So many numbers follow."""

FIELDS: dict[tuple[int, int], dict[bytes, RowKind]] = {
    (keyspace.LAYOUT, keyspace.KV): {
        keyspace.VALUE: RowKind.VALUE,
        keyspace.BALLOT: RowKind.BALLOT,
        keyspace.CACHE: RowKind.CACHE,
    },
    (keyspace.LEGACY_LAYOUT, keyspace.KV): {
        keyspace.LEGACY_COMMITTED: RowKind.VALUE,
        keyspace.LEGACY_VALUE: RowKind.VALUE,
    },
}
"""A client's key follows, and a field."""


def row_of(key: bytes, replica_id: int) -> Row:
    """What the row of this key is, in the directory of this replica."""
    changelog = pack((keyspace.LAYOUT, replica_id, keyspace.CHANGELOG)) + keyspace.VERSIONSTAMP
    if key.startswith(changelog):
        stamp = key[len(changelog) : len(changelog) + STAMP_BYTES]
        is_whole = key == changelog + stamp + keyspace.USER_VERSION and len(stamp) == STAMP_BYTES
        return Row(RowKind.CHANGELOG, stamp) if is_whole else UNKNOWN
    try:
        parts = unpack(key)
    except CodecError:
        return UNKNOWN
    match parts:
        case (keyspace.LAYOUT | keyspace.LEGACY_LAYOUT as layout, int(owner), int(code), *rest) if owner == replica_id:
            return of_replica((layout, code), rest)
        case (placement_rows.ROOT, *_):
            return Row(RowKind.ENVOY)
        case (root, int(index), *_) if root == ACTORS:
            return Row(RowKind.ACTOR if index == ACTOR_RECORD else RowKind.ACTOR_INDEX)
        case _:
            return UNKNOWN


def of_replica(code: tuple[int, int], rest: list[Item]) -> Row:
    match rest:
        case [] if code in SINGLE:
            return Row(SINGLE[code])
        case [bytes(name)] if code in KEYED:
            return Row(KEYED[code], name)
        case [bytes(name), int(field)] if code == TXN_VALUES and pack((field,)) == txn_rows.HELD:
            return Row(RowKind.TXN_VALUE, name)
        case [bytes(name), int(field)] if code in FIELDS:
            kind = FIELDS[code].get(pack((field,)), RowKind.UNKNOWN)
            return Row(RowKind.CONFIGURATION if (kind, name) == (RowKind.VALUE, CONFIG_KEY) else kind, name)
        case [*numbers] if code in NUMBERED:
            kind, count = NUMBERED[code]
            is_whole = len(numbers) == count and all(isinstance(number, int) for number in numbers)
            return Row(kind) if is_whole else UNKNOWN
        case _:
            return UNKNOWN
