"""Quotas of grants: requests a second at this node, and bytes stored in the cluster, approximately.

Rates are kept by each node for itself. Bytes are counted by the node through which they are committed: a name that was
never written before counts with its key and value, an overwrite with the difference of the values, a delete gives the
value back and not the key, because its tombstone stays. Every node publishes what it counted under a system key of its
own, some seconds after it has changed, and adds what the others published. How far that is off: docs/security.md. Of
several nodes of a datacenter only the gateway learns of such keys; the others look at them from time to time.

A value that ends by itself is given back by the node that counted it, when that learns of the next version: the end is
the cluster's write, and tells no grant.

Counts go by the grant's name. What a grant stored is still there after it was revoked, so one that is made anew under
its name begins where it ended.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial

import msgspec

from epoxy.codec.plain_requests import PlainRequest
from epoxy.model.access import MAX_GRANTS, USAGE_KEYS
from epoxy.model.errors import RottenRow, StoreUnavailable
from epoxy.model.integers import LONGEST_INTEGER
from epoxy.model.records import KeyState, Proposal
from epoxy.model.transactions import Add, Delete, Executed, Put, Txn, TxnOutcome
from epoxy.model.writes import Committed, Outcome, Write
from epoxy.node.access.control import AccessControl
from epoxy.node.keys.driver import Driver
from epoxy.ports import Dice, Store, Timer
from epoxy.protocol.access.principal import Principal

BURST_MS = 1_000.0
"""A client that was quiet may send the requests of one second at once."""

PUBLISH_MS = 10_000.0
"""From a change of the counts to its commit, and half as much more or less."""

MAX_LENT = 100_000
"""Values with an expiry that are remembered; of more, and after a restart, the oldest are not given back."""

KEPT_NAMES = 2 * MAX_GRANTS
"""Counts of grants, and of as many that were revoked."""

USAGE = msgspec.msgpack.Decoder(dict[str, int])


class Quotas:
    def __init__(self, access: AccessControl, driver: Driver, store: Store, dice: Dice, counter: bytes = b"") -> None:
        """`counter`: tells apart the nodes of one datacenter, each of which counts for itself."""
        self.refused = {"requests": 0, "bytes": 0}
        self._access = access
        self._driver = driver
        self._replica = driver.replica
        self._clock = driver.clock
        self._store = store
        self._dice = dice
        self._full_at_ms: dict[str, float] = {}
        """By name, when the requests of one second will be there again."""
        self._key = usage_key(self._replica.me) + counter
        self._own: dict[str, int] = {}
        self._of_others: dict[bytes, dict[str, int]] = {}
        self._sum_of_others: Counter[str] = Counter()
        self._lent: dict[bytes, tuple[str, int, int]] = {}
        """Values that end by themselves, as they were counted here: the grant, the version, the bytes."""
        self._published = b""
        self._timer: Timer | None = None
        """Until the counts are published; None: they did not change."""
        self._following: Timer | None = None
        self._load()
        self._replica.short_watchers.append((self._committed, self._committed_plain))

    def follow(self) -> None:
        """Look at what others published, as often as that changes: at a node that does not learn of it by itself."""
        self._following = self._clock.call_later(PUBLISH_MS, self.follow)
        if any(grant.stored_bytes for grant in self._access.table.grants):
            self._load()

    def stop(self) -> None:
        for timer in (self._timer, self._following):
            if timer is not None:
                timer.cancel()

    # Requests

    def wait_s(self, principal: Principal) -> float:
        """0: the request is admitted, and counted. Else how long to wait until it would be."""
        return self._wait_s(principal) if principal.requests_per_s else 0.0

    def _wait_s(self, principal: Principal) -> float:
        now, name, every_ms = self._clock.now_ms(), principal.name, 1000 / principal.requests_per_s
        full_at = max(now, self._full_at_ms.get(name, now)) + every_ms
        wait_ms = full_at - now - max(BURST_MS, every_ms)
        if wait_ms > 0.001:  # less is an error of rounding
            self.refused["requests"] += 1
            return wait_ms / 1000
        if len(self._full_at_ms) >= MAX_GRANTS and name not in self._full_at_ms:
            self._full_at_ms = {each: at for each, at in self._full_at_ms.items() if at > now}
        self._full_at_ms[name] = full_at
        return 0.0

    # Bytes

    def refusal(self, principal: Principal, more_bytes: int) -> str | None:
        """Before a write: why its key and value are too much. Deletes bring 0, and are never refused."""
        if not principal.stored_bytes or not more_bytes:
            return None
        used, limit = self.usage(principal.name), principal.stored_bytes
        if used + more_bytes <= limit:
            return None
        self.refused["bytes"] += 1
        return f"{principal.name} has stored {used} of {limit} bytes, and this write has {more_bytes}"

    def charge(self, principal: Principal, key: bytes, outcome: Outcome) -> None:
        """After a write. One whose outcome is not known is not counted."""
        if principal.stored_bytes and isinstance(outcome, Committed) and outcome.mine:
            self._add(principal.name, added_bytes(key, outcome.previous, outcome.proposal))
            if outcome.proposal.expiry is not None:
                self._lend(principal.name, key, outcome.proposal)

    def _lend(self, name: str, key: bytes, lent: Proposal) -> None:
        """Remember what to give back. The next version may be here already."""
        if len(self._lent) >= MAX_LENT:
            del self._lent[next(iter(self._lent))]
        self._lent[key] = (name, lent.version, len(lent.value or b""))
        self._give_back(key, self._replica.newest(key))

    def _give_back(self, key: bytes, newest: Proposal | None) -> None:
        name, version, count = self._lent[key]
        if newest is not None and newest.version > version:
            del self._lent[key]
            self._add(name, -count)

    def charging(
        self, principal: Principal, txn: Txn, answered: Callable[[TxnOutcome], None]
    ) -> Callable[[TxnOutcome], None]:
        """Before a transaction: what its outcome is to be given to, so that it is counted."""
        if not principal.stored_bytes or txn.is_read_only:
            return answered
        fresh = {key for key, is_written in txn.footprint.items() if is_written and self._is_fresh(key)}

        def executed(outcome: TxnOutcome) -> None:
            if isinstance(outcome, Executed):
                self._add(principal.name, added_by(txn, outcome, fresh))
            answered(outcome)

        return executed

    def usage(self, name: str) -> int:
        """Bytes that count for a grant of this name."""
        return max(0, self._own.get(name, 0) + self._sum_of_others[name])

    def _is_fresh(self, key: bytes) -> bool:
        try:
            return self._replica.newest(key) is None
        except RottenRow:
            return False

    def _add(self, name: str, count: int) -> None:
        """Nothing is given back beyond what counts: a client that deletes what another has stored gains no room."""
        count = max(count, -self.usage(name))
        if count:
            self._own[name] = self._own.get(name, 0) + count
            if len(self._own) > KEPT_NAMES:
                self._forget()
            self._publish_soon()

    def _forget(self) -> None:
        """The smallest count of a grant that was revoked."""
        granted = {grant.name for grant in self._access.table.grants}
        del self._own[min(self._own, key=lambda name: (name in granted, abs(self._own[name])))]

    # Published counts

    def _publish_soon(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(PUBLISH_MS * (0.5 + self._dice.uniform()), self._publish)

    def _publish(self) -> None:
        value = self._published = msgspec.msgpack.encode(self._own)
        self._driver.write(Write(key=self._key, value=value, mutable=True), partial(self._written, value))

    def _written(self, value: bytes, outcome: Outcome) -> None:
        """Counts that changed meanwhile, or were not committed, are published the next time."""
        self._timer = None
        if not isinstance(outcome, Committed) or value != msgspec.msgpack.encode(self._own):
            self._publish_soon()

    def _load(self) -> None:
        """What was published before this start. A damaged row is learned when it is repaired, and a database that is
        away looked at the next time."""
        try:
            for key, committed in self._replica.keyspace.everything(self._store.durable(), USAGE_KEYS, None):
                self._learn(key, committed)
        except (RottenRow, StoreUnavailable):
            pass

    def _committed(self, key: bytes, _before: KeyState, after: KeyState) -> None:
        if key.startswith(USAGE_KEYS) and after.committed is not None:
            self._learn(key, after.committed)
        elif key in self._lent:
            self._give_back(key, after.committed)

    def _committed_plain(self, request: PlainRequest) -> bool:
        return request.key not in self._lent

    def _learn(self, key: bytes, committed: Proposal) -> None:
        """A count that cannot be read leaves the one before."""
        try:
            counts = USAGE.decode(committed.value or b"")
        except msgspec.DecodeError:
            return
        if key != self._key:
            self._of_others[key] = counts
            self._sum_of_others = Counter()
            for each in self._of_others.values():
                self._sum_of_others.update(each)
        elif committed.value != self._published:
            # Of the process before this one, and perhaps committed only now.
            self._own |= {name: max(count, self._own.get(name, count)) for name, count in counts.items()}


def usage_key(replica: int) -> bytes:
    return USAGE_KEYS + b"%d" % replica


def added_bytes(key: bytes, before: Proposal | None, after: Proposal) -> int:
    """`before` may be a tombstone, and then the key was counted when it was first written; or end by itself, and then
    its value is given back where it was counted. If it is not known, which is rare, nothing is counted."""
    if before is None and after.version > 1:
        return 0
    replaced = -len(key)
    if before is not None:
        replaced = len(before.value or b"") if before.expiry is None else 0
    return len(after.value or b"") - replaced


def added_by(txn: Txn, outcome: Executed, fresh: set[bytes]) -> int:
    """`fresh`: keys that were never written before, as far as this replica knew. An Add counts only for those."""
    added, taken = 0, set[bytes]()
    for operation, done in zip(txn.then if outcome.succeeded else txn.otherwise, outcome.done, strict=True):
        is_taken = operation.key in fresh and operation.key not in taken
        match operation:
            case Put():
                added += len(operation.value) - len(done.value or b"")
            case Delete():
                added -= len(done.value or b"")
            case Add() if is_taken and done.wrong is None:
                added += LONGEST_INTEGER
            case _:
                continue
        if is_taken:
            taken.add(operation.key)
            added += len(operation.key)
    return added
