"""Plain requests against the rules: `python -m tests.node.keys.plain_differential --requests 1000000`.

Two replicas are sent the same frames, bytes for bytes: one handles them as they arrive, plain requests over their
bytes; the other decodes every request, and has the rules alone. After each frame their rows, replies, states and calls
of watchers are the same, or it is a finding. Frames hold what peers may send in any order, and bytes that were changed
on the way; between them come operations of flows, decisions that are found elsewhere, and new configurations.

A run is a function of its seed.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.codec.plain_requests import PlainRequest, read_peer_request
from epoxy.codec.tuple import pack
from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import CodecError
from epoxy.model.marks import OWNED
from epoxy.model.messages import Accept, Commit, Inspect, Prepare, Read, Reply, Request, UpdateConfig
from epoxy.model.records import (
    FRESH,
    ChangelogEntry,
    CommittedRecord,
    Expiry,
    KeyState,
    Proposal,
    ProposalId,
    Settled,
    Vote,
)
from epoxy.model.writes import Write
from epoxy.node.keys.replica import Replica
from epoxy.protocol.keys.operations import Cache, Conclude, Reserve, Select
from epoxy.store.keyspace import KV, LEGACY_LAYOUT
from epoxy.store.memory import MemoryStore
from tests.codec.earlier import encode
from tests.fuzz.harness import BYTE_MUTATIONS
from tests.protocol.keys.harness import A, B, C, config_of, waiting

KEYS = (b"k", b"key/1", b"a\x00b\x00", b"x" * 200, b"n\xc3\xb6", b"\xff/config", b"\xff/other")
VERSIONS = (1, 1, 2, 3, 126, 127, 128, 129, 70_000)
SIZES = (0, 1, 5, 127, 128, 300, 4090, 5000)
FRAMES = 60
"""Of a world: then the next begins, with other rows."""

TOKENS = (b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80", b"\xff", b"\x80\x01", b"\x81\x00", OWNED)


class Finding(Exception):
    """The two differ."""


class Witness:
    """What one replica tells its watchers."""

    def __init__(self, replica: Replica, *, states: bool, dice_seed: int) -> None:
        """`states`: a watcher wants all of them. Without it some watchers can do without for some keys."""
        self.calls: list[tuple[object, ...]] = []
        self._wanted = dice_seed
        replica.refused = lambda accept: self.calls.append(("refused", accept))
        if states:
            replica.watchers.append(partial(self._called, "state"))
            replica.commit_watchers.append(partial(self._called, "commit"))
        for number in range(2):
            replica.short_watchers.append((partial(self._called, number), partial(self._short, number)))

    def _called(self, name: object, key: bytes, before: KeyState, after: KeyState) -> None:
        """A short call tells less. Its name is told with it, so that none is missed."""
        self.calls.append((name, key, before, after))

    def _short(self, number: int, request: PlainRequest) -> bool:
        if (len(request.key) + number + self._wanted) % 3 == 0:
            return False
        self.calls.append((number, request))
        return True


def comparable(call: tuple[object, ...], states: tuple[object, ...]) -> bool:
    """Whether a call tells the same as the full one of the other replica."""
    if len(call) == 2 and isinstance(call[1], PlainRequest):
        name, key, before, after = states
        decided = call[1].decoded()
        assert isinstance(decided, Commit)
        assert isinstance(before, KeyState)
        assert isinstance(after, KeyState)
        plain = call[1]
        fields = (plain.key, plain.version, plain.mutable, plain.home)
        committed = decided.proposal
        return (
            (call[0], plain.key, decided.proposal) == (name, key, after.committed)
            and fields == (key, committed.version, committed.mutable, committed.home)
            and (plain.version == 1) is (before.committed is None)
            and plain.key < FIRST_SYSTEM_KEY
        )
    return call == states


class Pair:
    """Both replicas. `plain` takes frames as they arrive."""

    def __init__(self, dice: Random) -> None:
        rows = earlier_rows(dice)
        self.alarms: tuple[list[str], list[str]] = ([], [])
        self.stores = MemoryStore(contents=rows), MemoryStore(contents=rows)
        self.plain, self.rules = [
            Replica(A, store, config_of(epoch=2), alarms.append)
            for store, alarms in zip(self.stores, self.alarms, strict=True)
        ]
        states, seed = dice.random() < 0.3, dice.randrange(3)
        self.witnesses = [Witness(each, states=states, dice_seed=seed) for each in (self.plain, self.rules)]

    def both(self, act: Callable[[Replica], object], what: object) -> None:
        results = []
        for replica in (self.plain, self.rules):
            try:
                results.append(act(replica))
            except AssertionError as error:
                results.append(type(error))
        self.same(results[0], results[1], what)
        self.compare(what)

    def frame(self, body: bytes) -> int:
        """The number of its requests; 0 if it is refused."""
        try:
            requests = wire.decode_peer_request(body).requests
        except CodecError as error:
            try:
                read_peer_request(body)
            except CodecError as other:
                self.same(type(other), type(error), body)
                return 0
            raise Finding(f"a frame is taken that the decoder refuses with {error!r}: {body.hex()}") from None
        try:
            incoming = read_peer_request(body)[2]
        except CodecError as error:
            raise Finding(f"a frame is refused that the decoder takes, with {error!r}: {body.hex()}") from None
        replies: list[list[Reply]] = []
        self.plain.handle_all(incoming, replies.append)
        self.rules.handle_all(requests, replies.append)
        self.same(replies[0], replies[1], requests)
        self.compare(requests)
        return len(requests)

    def compare(self, what: object) -> None:
        first, second = self.stores
        self.same(first._visible.values, second._visible.values, what)
        self.same(*self.alarms, what)
        calls, expected = (witness.calls for witness in self.witnesses)
        if len(calls) != len(expected) or not all(map(comparable, calls, expected)):
            raise Finding(f"watchers: {calls}, and by the rules {expected}, after {what}")
        calls.clear()
        expected.clear()

    def states(self, what: object) -> None:
        for key in KEYS:
            self.same(self.plain.state(key), self.rules.state(key), what)

    def same(self, ours: object, rules: object, what: object) -> None:
        if ours != rules:
            raise Finding(f"{ours}, and by the rules {rules}, after {what}")


def earlier_rows(dice: Random) -> dict[bytes, bytes]:
    """What a store may have from before: records of earlier formats, votes, promises, values of the first layout."""
    store = MemoryStore()
    keyspace = Replica(A, store, config_of(epoch=2), print).keyspace
    rows: dict[bytes, bytes] = {}
    for key in KEYS[:-2]:
        if dice.random() < 0.5:
            continue
        value, ballot, vote, cached, _ = keyspace.rows_of(key)
        committed = proposal(dice, dice.choice((1, 2, 200)))
        if dice.random() < 0.7:
            settled = [
                Settled(n, ProposalId(B, n), folded(dice)[:1])
                for n in range(100, 100 - dice.choice((0, 1, 7, 8, 8)), -1)
            ]
            lineage = tuple(settled) if committed.version > 101 else ()
            record = CommittedRecord(committed=committed, lineage=lineage)
            rows[value] = wire.encode_committed_record(record)
            if committed.expiry is None and dice.random() < 0.2:
                rows[value] = wire.HEADER_3 + encode(record, folds=True)
        base = committed.version if value in rows else 0
        if (value not in rows or committed.mutable) and dice.random() < 0.5:
            given = replace(proposal(dice, base + 1), folded=(), version=base + 1)
            if dice.random() < 0.3:
                rows[ballot] = wire.encode_ballot(Ballot(2, dice.choice((B, C))))
            rows[vote] = wire.encode_vote(Vote(proposal=given, ballot=Ballot(1, B), epoch=dice.choice((1, 2))))
        if dice.random() < 0.1 and value not in rows:
            rows[cached] = wire.encode_cached(committed)
            rows[keyspace._caches] = b""
    if dice.random() < 0.05:
        rows[pack((LEGACY_LAYOUT, A, KV, KEYS[0], 0))] = b"old"
    return rows


def folded(dice: Random) -> tuple[ProposalId, ...]:
    return tuple([ProposalId(dice.choice((A, B, 200)), n) for n in range(dice.randrange(3))])


def proposal(dice: Random, version: int) -> Proposal:
    value: bytes | None = b"v" * dice.choice(SIZES)
    mutable, extra = dice.random() < 0.6, dice.random()
    writes: tuple[ProposalId, ...] = ()
    proposer, expiry = 0, None
    if extra < 0.05 and mutable:
        value = None
    elif extra < 0.1:
        value = OWNED + dice.choice((b"", b"x", b" 1 0 0  1\nheld"))
    elif extra < 0.15 and mutable:
        expiry = dice.choice((Expiry(ttl_ms=5000, since=version), Expiry(ttl_ms=0, since=version, session=b"s" * 16)))
    elif extra < 0.2 and version > 3:
        writes = folded(dice)
    elif extra < 0.25:
        proposer = C
    return Proposal(
        value=value,
        version=version,
        mutable=mutable,
        proposal_id=ProposalId(dice.choice((B, B, B, C, 200)), dice.choice((1, 1, 2, (1 << 64) - 1))),
        folded=writes,
        proposer=proposer,
        expiry=expiry,
    )


def ballot(dice: Random) -> Ballot:
    return Ballot(dice.choice((1, 1, 1, 1, 1, 1, 2, 3)), dice.choice((B, B, C, 200)))


def request(dice: Random, pair: Pair) -> Request:
    """Mostly what follows from the state of the key."""
    key, kind, epoch = dice.choice(KEYS), dice.random(), dice.choice((2, 2, 2, 2, 2, 2, 1, 3))
    state = pair.rules.state(key) if key != KEYS[-2] else FRESH
    if key == KEYS[-2]:
        return Read(key=key, epoch=epoch)
    if kind < 0.4:
        version = state.version + 1 if dice.random() < 0.8 else dice.choice(VERSIONS)
        given = proposal(dice, version)
        if state.vote is not None and dice.random() < 0.3:
            given = state.vote.proposal
        return Accept(key=key, epoch=epoch, ballot=ballot(dice), proposal=given)
    if kind < 0.85:
        given = proposal(dice, state.version + 1 if dice.random() < 0.7 else dice.choice(VERSIONS))
        if state.vote is not None and dice.random() < 0.8:
            given = changed(dice, state.vote.proposal) if dice.random() < 0.1 else state.vote.proposal
        elif state.committed is not None and dice.random() < 0.2:
            given = state.committed
        return Commit(key=key, epoch=epoch, proposal=given)
    if kind < 0.92:
        return Read(key=key, epoch=epoch)
    if kind < 0.98:
        return Prepare(key=key, epoch=epoch, ballot=Ballot(dice.choice((2, 3, 4)), B), base=state.version)
    return Inspect(key=key)


def changed(dice: Random, given: Proposal) -> Proposal:
    return dice.choice(
        (
            replace(given, proposal_id=replace(given.proposal_id, nonce=given.proposal_id.nonce ^ 2)),
            replace(given, value=(given.value or b"") + b"!", expiry=None),
            replace(given, version=given.version + 1),
        )
    )


def beside(dice: Random, pair: Pair) -> None:
    """What is not a peer's request."""
    key = dice.choice(KEYS[:-2])
    state, kind, epoch = pair.rules.state(key), dice.randrange(7), pair.rules.config.epoch
    if kind == 0:
        write = Write(key=key, value=b"mine", mutable=True)
        op: Any = Select(key=key, writes=(waiting(write),), me=A, epoch=epoch)
    elif kind == 1 and state.vote is not None:
        op = Conclude(key=key, proposal=state.vote.proposal, epoch=epoch)
    elif kind == 2:
        op = Reserve(key=key, base=state.version, above=NO_BALLOT, me=A, epoch=epoch)
    elif kind == 3:
        op = Cache(key=key, proposal=proposal(dice, 1))
    elif kind == 4:
        entries = [ChangelogEntry(key=each, committed=proposal(dice, dice.choice((1, 2, 130)))) for each in (key,)]
        pair.both(lambda replica: replica.learn_all(entries, lambda _tx: None), entries)
        return
    elif kind == 5:
        pair.both(lambda replica: replica.forget_states(), "forgotten")
        return
    else:
        pair.both(lambda replica: replica.newest(key), "newest")
        return
    pair.both(partial(performed, op), op)


def performed(op: Any, replica: Replica) -> object:
    results: list[object] = []
    replica.perform(op, results.append)
    return results


def body(requests: Sequence[Request]) -> bytes:
    return wire.join_peer_request(B, A, len(requests), [wire.encode_requests(requests)])


def frames(dice: Random, pair: Pair) -> Iterator[bytes]:
    for number in range(FRAMES):
        requests: list[Request] = [request(dice, pair) for _ in range(dice.choice((1, 1, 1, 2, 5)))]
        if number == FRAMES // 2 and dice.random() < 0.1:
            requests.append(UpdateConfig(config=config_of(epoch=3)))
        whole = body(requests)
        yield dice.choice(BYTE_MUTATIONS)(dice, whole, TOKENS) if dice.random() < 0.1 else whole


def run(requests: int, seed: int, *, told: Callable[[int], None] = lambda _: None) -> Counter[str]:
    """At least so many requests. What they were."""
    dice, counts = Random(f"plain/{seed}"), Counter[str]()
    while counts["requests"] < requests:
        pair = Pair(dice)
        for each in frames(dice, pair):
            handled = pair.frame(each)
            counts["requests"] += max(1, handled)
            counts["refused frames"] += not handled
            if dice.random() < 0.1:
                beside(dice, pair)
        pair.states("a world")
        told(counts["requests"])
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        counts = run(options.requests, options.seed)
    except Finding as finding:
        print(f"seed {options.seed}: {finding}")
        return 1
    print(f"seed {options.seed}: {dict(counts)}, no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
