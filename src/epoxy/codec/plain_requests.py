"""Plain requests: the two messages of every commit that meets nothing, left as the bytes they came in.

A plain request is an Accept in the fast round or a Commit, about a client's key, of one write with a value: no fold, no
tombstone, no expiry, no mark of a key that belongs to transactions. Its fields are found without making a record of it,
and the rows that follow from it are pieces of its bytes (`store.keyspace`). All other requests are decoded.

The codec makes no difference: a request is plain only if the generated decoder would take it, and what is malformed in
a frame is refused before anything in it is handled.
"""

from typing import Final

from epoxy.codec import epoxy_v4 as v4
from epoxy.codec.bare import BYTES, decode_length, decode_uint, length_bytes, uint
from epoxy.codec.wire import HEADER, MAX_BATCH, MAX_ENCODED_BYTES, too_long, wrong_end, wrong_version
from epoxy.model.ballot import FAST_COUNTER
from epoxy.model.errors import Truncated
from epoxy.model.marks import OWNED
from epoxy.model.messages import Request
from epoxy.model.records import LINEAGE_LENGTH, MAX_KEY_BYTES, MAX_VALUE_BYTES, Proposal

ACCEPT: Final = 1
COMMIT: Final = 2
"""Tags of Request in the schema."""

SYSTEM_KEYS: Final = 0xFF
"""The first byte of the cluster's own keys."""

NONCE_BYTES: Final = 8

ONE_WRITE: Final = b"\x00\x00\x00"
"""The end of a proposal: nothing folded, no other proposer than the home, no expiry."""


class PlainRequest:
    """One of a frame, whose bytes it keeps: `begin` is the place of its tag, `end` the one behind it."""

    __slots__ = (
        "_ballot_at",
        "_epoch_at",
        "_frame",
        "_proposal_at",
        "begin",
        "end",
        "epoch",
        "home",
        "is_accept",
        "key",
        "mutable",
        "version",
    )

    def __init__(self, frame: bytes, begin: int, key: bytes, epoch: int, places: tuple[int, int, int]) -> None:
        """`places`: of the epoch, of the ballot, and of the proposal."""
        self._frame = frame
        self.begin = self.end = begin
        self.is_accept = frame[begin] == ACCEPT
        self.key = key
        self.epoch = epoch
        self._epoch_at, self._ballot_at, self._proposal_at = places
        self.version = self.home = 0
        self.mutable = False

    @property
    def proposal(self) -> bytes:
        return self._frame[self._proposal_at : self.end]

    @property
    def encoded(self) -> bytes:
        return self._frame[self.begin : self.end]

    def vote(self) -> bytes:
        """The stored record of the vote that an Accept asks for."""
        return self.vote_at(self._frame[self._ballot_at : self._proposal_at])

    def vote_at(self, ballot: bytes) -> bytes:
        """The stored record of a vote for its proposal at this ballot."""
        frame, ballot_at = self._frame, self._ballot_at
        return HEADER + frame[self._proposal_at : self.end] + ballot + frame[self._epoch_at : ballot_at]

    def accept_at(self, ballot: bytes) -> bytes:
        """The Accept for its proposal at this ballot."""
        frame = self._frame
        return BYTES[ACCEPT] + frame[self.begin + 1 : self._ballot_at] + ballot + frame[self._proposal_at : self.end]

    def changelog_entry(self) -> bytes:
        """The stored record of what a Commit decides."""
        frame = self._frame
        return HEADER + frame[self.begin + 1 : self._epoch_at] + frame[self._proposal_at : self.end]

    def decoded(self) -> Request:
        return v4.decode_request(self._frame, self.begin)[0]


Incoming = Request | PlainRequest
"""A request of a peer."""


def kind_of(request: object) -> str:
    """The name of its message."""
    if isinstance(request, PlainRequest):
        return "Accept" if request.is_accept else "Commit"
    return type(request).__name__


def decoded(request: Incoming) -> Request:
    return request.decoded() if isinstance(request, PlainRequest) else request


def read_peer_request(data: bytes) -> tuple[int, int, list[Incoming]]:
    """As `wire.decode_peer_request`: sender, recipient and requests."""
    if len(data) > MAX_ENCODED_BYTES:
        raise too_long(len(data))
    if not data.startswith(HEADER):
        raise wrong_version(data, is_stored=False)
    try:
        return read_frame(data)
    except IndexError:
        raise Truncated(f"more than the {len(data)} bytes are needed") from None


def read_frame(data: bytes) -> tuple[int, int, list[Incoming]]:
    sender, position = decode_uint(data, len(HEADER))
    recipient, position = decode_uint(data, position)
    count, position = decode_length(data, position, 0, MAX_BATCH)
    requests: list[Incoming] = []
    for _ in range(count):
        plain = plain_request(data, position)
        if plain is not None:
            requests.append(plain)
            position = plain.end
        else:
            request, position = v4.decode_request(data, position)
            requests.append(request)
    if position != len(data):
        raise wrong_end(data, position)
    return sender, recipient, requests


def plain_request(frame: bytes, begin: int) -> PlainRequest | None:
    """None: the decoder is to look at it."""
    tag = frame[begin]
    if tag != ACCEPT and tag != COMMIT:
        return None
    length, position = decode_length(frame, begin + 1, 1, MAX_KEY_BYTES)
    epoch_at = position + length
    key = frame[position:epoch_at]
    if frame[position] == SYSTEM_KEYS:
        return None
    epoch, ballot_at = decode_uint(frame, epoch_at)
    proposal_at = ballot_at
    if tag == ACCEPT:
        if frame[ballot_at] != FAST_COUNTER:
            return None
        _, proposal_at = decode_uint(frame, ballot_at + 1)
    if frame[proposal_at] != 1:
        return None
    length, position = decode_length(frame, proposal_at + 1, 0, MAX_VALUE_BYTES)
    is_marked = length >= len(OWNED) and frame.startswith(OWNED, position)
    version, position = decode_uint(frame, position + length)
    flag = frame[position]
    if version < 1 or flag > 1 or (is_marked and not flag):
        return None
    home, position = decode_uint(frame, position + 1)
    position += NONCE_BYTES
    if frame[position : position + len(ONE_WRITE)] != ONE_WRITE:
        return None
    plain = PlainRequest(frame, begin, key, epoch, (epoch_at, ballot_at, proposal_at))
    plain.version, plain.mutable, plain.home = version, flag == 1, home
    plain.end = position + len(ONE_WRITE)
    return plain


def plain_commit(key: bytes, epoch: int, proposal: Proposal) -> PlainRequest:
    """The Commit of a proposal that is plain, with the Accept and the rows that lead to it."""
    value, proposal_id = proposal.value, proposal.proposal_id
    assert value is not None, proposal
    head = BYTES[COMMIT] + length_bytes(len(key), 1, MAX_KEY_BYTES) + key
    begin = head + uint(epoch)
    places = (len(head), len(begin), len(begin))
    home, mutable, version = proposal_id.replica_id, proposal.mutable, proposal.version
    size, nonce = length_bytes(len(value), 0, MAX_VALUE_BYTES), proposal_id.nonce.to_bytes(NONCE_BYTES, "little")
    frame = b"".join((begin, BYTES[1], size, value, uint(version), BYTES[mutable], uint(home), nonce, ONE_WRITE))
    plain = PlainRequest(frame, 0, key, epoch, places)
    plain.version, plain.mutable, plain.home, plain.end = version, mutable, home, len(frame)
    return plain


def ballot_of(home: int) -> bytes:
    """Of the fast round, as it is encoded."""
    return BYTES[FAST_COUNTER] + uint(home)


def version_to_overwrite(record: bytes) -> int:
    """That of a committed record which a plain request may build on; 0: it may not. It is mutable and has no expiry."""
    if not record.startswith(HEADER):
        return 0
    position = after_value(record)
    version, position = decode_uint(record, position)
    if not record[position]:
        return 0
    position = after_ids(record, decode_uint(record, position + 1)[1] + NONCE_BYTES)
    _, position = decode_uint(record, position)
    return 0 if record[position] else version


def committed_in(record: bytes) -> Proposal:
    """What a committed record of this format holds, without its lineage."""
    return v4.decode_proposal(record, len(HEADER))[0]


def record_after(record: bytes, proposal: bytes) -> bytes:
    """The committed record of this proposal, which is decided on top of another record, or of none: the earlier
    decision goes to the front of its lineage, and the ninth is dropped."""
    if not record:
        return HEADER + proposal + b"\x00"
    version_at = after_value(record)
    mutable_at = decode_uint(record, version_at)[1]
    folded_at = decode_uint(record, mutable_at + 1)[1] + NONCE_BYTES
    proposer_at = after_ids(record, folded_at)
    count_at = decode_uint(record, proposer_at)[1] + 1
    kept = min(record[count_at], LINEAGE_LENGTH - 1)
    settled_at = end = count_at + 1
    if kept == record[count_at]:
        end = len(record)
    else:
        for _ in range(kept):
            end = after_settled(record, end)
    newest = record[version_at:mutable_at] + record[mutable_at + 1 : proposer_at]
    return HEADER + proposal + bytes((kept + 1,)) + newest + record[settled_at:end]


def after_value(record: bytes) -> int:
    """The place of the version, in a record whose value is not a tombstone's, or is."""
    at = len(HEADER)
    if not record[at]:
        return at + 1
    length, position = decode_length(record, at + 1, 0, MAX_VALUE_BYTES)
    return position + length


def after_ids(record: bytes, at: int) -> int:
    """Behind a list of proposal ids."""
    count, position = record[at], at + 1
    for _ in range(count):
        position = decode_uint(record, position)[1] + NONCE_BYTES
    return position


def after_settled(record: bytes, at: int) -> int:
    """Behind an earlier decision of a lineage: its version, its id, and those of its fold."""
    position = decode_uint(record, at)[1]
    return after_ids(record, decode_uint(record, position)[1] + NONCE_BYTES)
