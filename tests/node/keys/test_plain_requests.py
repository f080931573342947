"""Requests that are handled over their bytes do what the rules do, which are the oracle. Planted faults are found."""

import pytest
from msgspec.structs import replace

from epoxy.codec import epoxy_v4 as v4
from epoxy.codec import plain_requests as codec
from epoxy.codec import wire
from epoxy.codec.plain_requests import PlainRequest
from epoxy.codec.quoting import pack_bytes
from epoxy.model.errors import CodecError
from epoxy.model.marks import OWNED
from epoxy.model.messages import Commit
from epoxy.model.records import LINEAGE_LENGTH, KeyState
from epoxy.node.keys import plain_requests
from epoxy.node.keys.key_state_cache import KeyStateCache, PlainState
from epoxy.node.keys.plain_requests import PlainRequests
from epoxy.ports import Snapshot
from epoxy.store.keyspace import BALLOT, CACHE, VALUE, Rows, Stamped
from epoxy.store.plain_rows import PlainRows
from epoxy_sim.patching import Patch, applied, nothing
from tests.node.keys import plain_differential
from tests.node.keys.plain_differential import Finding
from tests.protocol.keys.harness import B

REQUESTS = 6_000

handle, read, decided, find_plain = PlainRequests.handle, PlainRows.read, PlainRows.decided, codec.plain_request
record_after, tell, vote_record = codec.record_after, PlainRequests._tell, PlainRequest.vote


def test_no_request_is_handled_differently() -> None:
    counts = plain_differential.run(REQUESTS, seed=1)
    assert counts["requests"] >= REQUESTS
    assert counts["refused frames"] > 50


@pytest.mark.pure("replaces a method")
def test_every_case_is_among_them() -> None:
    seen: set[tuple[bool, bool, bool, int]] = set()

    def watched(self: PlainRequests, request: PlainRequest) -> object:
        reply = handle(self, request)
        if reply is not None:
            state = self._states.entry(request.key)
            full = isinstance(state, PlainState) and lineage_of(state) == LINEAGE_LENGTH
            seen.add((request.is_accept, request.version > 1, request.mutable, full))
        return reply

    with applied((Patch(PlainRequests, "handle", watched),)):
        plain_differential.run(REQUESTS, seed=2)
    assert {(is_accept, overwrites, mutable) for is_accept, overwrites, mutable, _ in seen} == {
        (a, b, c) for a in (True, False) for b in (True, False) for c in (True, False)
    }
    assert (False, True, True, True) in seen, "a lineage that is full"


def lineage_of(state: PlainState) -> int:
    return len(wire.decode_committed_record(state.record).lineage) if state.record else 0


def any_epoch(request: PlainRequest, state: PlainState, _epoch: int) -> bool:
    return request.version == state.version + 1


def any_version(request: PlainRequest, _state: PlainState, epoch: int) -> bool:
    return request.epoch == epoch


def vote_stays(
    self: PlainRows, view: Snapshot, key: bytes, record: bytes, logged: bytes, *, voted: bool
) -> tuple[Rows, Stamped]:
    rows, entry = decided(self, view, key, record, logged, voted=voted)
    return {row: value for row, value in rows.items() if value is not None or row.endswith(CACHE)}, entry


def cached_stays(
    self: PlainRows, view: Snapshot, key: bytes, record: bytes, logged: bytes, *, voted: bool
) -> tuple[Rows, Stamped]:
    rows, entry = decided(self, view, key, record, logged, voted=voted)
    rows.pop(self._keys + pack_bytes(key) + CACHE, None)
    return rows, entry


def promise_unseen(self: PlainRows, view: Snapshot, key: bytes) -> tuple[bytes | None, bytes | None]:
    packed = pack_bytes(key)
    assert BALLOT
    return view.get(self._keys + packed + VALUE), view.get(self._votes + packed)


def first_layout_unseen(self: PlainRows, view: Snapshot, key: bytes) -> tuple[bytes | None, bytes | None]:
    return read(self, view, key) or (None, None)


def lineage_forgotten(_record: bytes, proposal: bytes) -> bytes:
    return record_after(b"", proposal)


def ninth_kept(record: bytes, proposal: bytes) -> bytes:
    if not record:
        return record_after(record, proposal)
    committed = wire.decode_committed_record(record)
    after = record_after(record, proposal)
    return after if len(committed.lineage) < 8 else after[:-1]


def ballot_behind_epoch(self: PlainRequest) -> bytes:
    vote = vote_record(self)
    return vote[:-3] + vote[-1:] + vote[-3:-1]


def marks_unseen(frame: bytes, begin: int) -> PlainRequest | None:
    hidden = frame.replace(OWNED, b"\x00" * len(OWNED))
    return find_plain(hidden, begin)


def any_key(frame: bytes, begin: int) -> PlainRequest | None:
    found = find_plain(frame.replace(b"\xff/other", b"k\xff\xffoth"), begin)
    if found is not None and found.key == b"k\xff\xffoth":
        found.key = b"\xff/other"
    return found


def any_ballot(frame: bytes, begin: int) -> PlainRequest | None:
    classic, fast = bytes((2, 2, B)), bytes((2, 1, B))
    return find_plain(frame.replace(classic, fast, 1), begin)


def any_end(frame: bytes, begin: int) -> PlainRequest | None:
    try:
        request, end = v4.decode_request(frame, begin)
    except CodecError:
        return None
    if not isinstance(request, Commit) or not request.proposal.folded:
        return find_plain(frame, begin)
    one = wire.encode_requests([replace(request, proposal=replace(request.proposal, folded=()))])
    found = find_plain(frame[:begin] + one, begin)
    if found is not None:
        found.end = end
    return found


def any_flag(frame: bytes, begin: int) -> PlainRequest | None:
    found = find_plain(frame, begin)
    if found is not None:
        found.mutable = True
    return found


def untold(self: PlainRequests, request: PlainRequest, before: PlainState, after: PlainState) -> None:
    if request.version == 1:
        tell(self, request, before, after)


def no_state(self: KeyStateCache, key: bytes) -> KeyState | PlainState | None:
    return self.get(key) if key else None


def ending_ones_too(record: bytes) -> int:
    committed = wire.decode_committed_record(record).committed
    return committed.version if committed.mutable else 0


def final_ones_too(record: bytes) -> int:
    committed = wire.decode_committed_record(record).committed
    return committed.version if committed.expiry is None else 0


FAULTS: dict[str, Patch] = {
    "skips the epoch": Patch(plain_requests, "is_next", any_epoch),
    "skips the base": Patch(plain_requests, "is_next", any_version),
    "ignores a vote": Patch(plain_requests, "is_open", lambda _state: True),
    "does not delete the vote": Patch(PlainRows, "decided", vote_stays),
    "does not delete what was cached": Patch(PlainRows, "decided", cached_stays),
    "does not look for a promise": Patch(PlainRows, "read", promise_unseen),
    "forgets the lineage": Patch(plain_requests, "record_after", lineage_forgotten),
    "cuts the lineage wrong": Patch(plain_requests, "record_after", ninth_kept),
    "splices the vote wrong": Patch(PlainRequest, "vote", ballot_behind_epoch),
    "does not see marks": Patch(codec, "plain_request", marks_unseen),
    "mistakes immutable keys": Patch(codec, "plain_request", any_flag),
    "does not tell of overwrites": Patch(PlainRequests, "_tell", untold),
    "does not remember": Patch(KeyStateCache, "put_plain", nothing),
    "does not forget": Patch(KeyStateCache, "drop", nothing),
    "overwrites what ends": Patch(plain_requests, "version_to_overwrite", ending_ones_too),
    "overwrites what is final": Patch(plain_requests, "version_to_overwrite", final_ones_too),
    "overlooks the first layout": Patch(PlainRows, "read", first_layout_unseen),
    "takes the cluster's keys": Patch(codec, "plain_request", any_key),
    "takes classic ballots": Patch(codec, "plain_request", any_ballot),
    "takes folds and what ends": Patch(codec, "plain_request", any_end),
}


@pytest.mark.pure("faults are planted in compiled modules")
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    with applied((FAULTS[name],)), pytest.raises((Finding, CodecError, AssertionError)):
        plain_differential.run(10 * REQUESTS, seed=3)
