"""The nouns of placement."""

from msgspec import Struct

from epoxy.model.actors import MAX_NAME_BYTES, size_of
from epoxy.model.errors import InvalidRequest

MAX_WEIGHT = 16
"""An envoy of weight w has w times as many places: 16 times 64 rows are as many as one connect should write."""

MAX_CAPACITY = 1_000_000
"""Slots of one envoy: more actors than one process hosts."""

MAX_VERSION = 2**31 - 1


class EnvoyPool(Struct, frozen=True):
    """Envoys that can take each other's place."""

    namespace: str
    name: str


class EnvoyId(Struct, frozen=True, order=True):
    namespace: str
    key: str


class KeyInUse(InvalidRequest):
    """Another process has the envoy's key, and its lease is not over. `retry`: its connection is gone, so the key may
    become free."""

    def __init__(self, message: str, *, retry: bool) -> None:
        super().__init__(message)
        self.retry = retry


class EnvoyRegistration(Struct, frozen=True, kw_only=True):
    """What an envoy says of itself when it connects. `weight` is its size beside others; `capacity` the most actors it
    takes (0: no limit); `incarnation` tells its process from others with the same key.

    Invariants: 1. names are not empty and within their limit.  2. Numbers are within theirs.
    """

    namespace: str
    pool: str
    envoy_key: str
    version: int = 1
    protocol_version: int = 1
    weight: int = 1
    capacity: int = 0
    incarnation: str = ""

    def __post_init__(self) -> None:
        if self.incarnation:
            check_name("incarnation", self.incarnation)
        for what, name in (("namespace", self.namespace), ("pool", self.pool), ("envoy_key", self.envoy_key)):
            check_name(what, name)
        numbers = (
            ("version", self.version, 0, MAX_VERSION),
            ("protocol_version", self.protocol_version, 1, MAX_VERSION),
            ("weight", self.weight, 1, MAX_WEIGHT),
            ("slots", self.capacity, 0, MAX_CAPACITY),
        )
        for what, value, low, high in numbers:
            if not low <= value <= high:
                raise InvalidRequest(f"{what} is a number from {low} to {high}, not {value}")

    @property
    def id(self) -> EnvoyId:
        return EnvoyId(self.namespace, self.envoy_key)

    @property
    def pool_id(self) -> EnvoyPool:
        return EnvoyPool(self.namespace, self.pool)


class Envoy(Struct, frozen=True, kw_only=True):
    """An envoy as its rows have it. `places` are its rows on the ring: 0 for one that is draining or expired.

    Invariant: an expired envoy has no places.
    """

    namespace: str
    key: str
    pool: str
    version: int
    protocol_version: int
    weight: int
    capacity: int
    places: int
    create_ts: int
    last_ping_ts: int
    last_rtt_ms: int
    expired_ts: int | None
    draining_ts: int | None

    @property
    def id(self) -> EnvoyId:
        return EnvoyId(self.namespace, self.key)

    @property
    def pool_id(self) -> EnvoyPool:
        return EnvoyPool(self.namespace, self.pool)

    def is_fresh(self, now_ms: int, threshold_ms: int) -> bool:
        return self.last_ping_ts >= now_ms - threshold_ms


def check_name(what: str, name: str) -> None:
    if not 1 <= (size := size_of(what, name)) <= MAX_NAME_BYTES:
        raise InvalidRequest(f"{what} has 1 to {MAX_NAME_BYTES} bytes, not {size}")
