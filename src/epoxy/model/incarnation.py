"""Incarnations of a store: one for each start of a process on it.

A store that was copied, restored from an older copy, or shortened has the identity of the one it was made of. What
tells them apart is how often it was started, by which process, and how much of it was ever durable.
"""

import enum

from msgspec import Struct


class Incarnation(Struct, frozen=True, kw_only=True):
    """One start of a store; durable there before any other node is told of it.

    `counter` counts the starts of this store, `nonce` is drawn at this one, and `base` is the position of the log that
    the start found: everything up to there is in the store.
    """

    store: int
    counter: int
    nonce: int
    base: int


class Sighting(Struct, frozen=True, kw_only=True):
    """What a peer remembers, durably, of a store: its last start, and the highest position it reported."""

    store: int
    counter: int
    nonce: int
    position: int


class Greeting(Struct, frozen=True, kw_only=True):
    """Exchanged when two nodes connect: who speaks, how far its store reaches, and what it remembers of the other."""

    incarnation: Incarnation
    position: int
    known: Sighting | None = None


class MismatchCode(enum.Enum):
    """Why a node is not heard, as told in answers."""

    ANOTHER_STORE = "another_store"
    """Another store is on record for its id."""
    OLD_COPY = "old_copy"
    CLONE = "clone"
    SHORTENED = "shortened"
    STILL_RUNNING = "still_running"
    """An earlier start of its store still runs. It is heard once that one has ended."""
    REFUSED_HERE = "refused_here"
    """The node that answers was refused itself."""
    STARTING = "starting"
    """The start of the node that answers is not durable yet."""


class StoreMismatch(Struct, frozen=True):
    """A code for programs, and words for people."""

    code: MismatchCode
    words: str
