"""The codec's public functions: every message and every stored record, to bytes and back.

`encode_x(value) -> bytes` and `decode_x(data) -> value`. Every encoding begins with the format version. Decoding raises
a `CodecError` or returns a value that encodes to the same bytes, except that stored records of formats 2 and 3 are
read, too: what is written anew has format 4. Between peers only format 4 is spoken. Encoding a value outside the
schema's limits raises one too, so that nothing is sent or stored that cannot be read again.

An encoding does not name its type: that follows from its place, a key of the store or the path of a request.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from epoxy.codec import commands_v3
from epoxy.codec import epoxy_v2 as v2
from epoxy.codec import epoxy_v3 as v3
from epoxy.codec import epoxy_v4 as v4
from epoxy.codec.bare import encode_data, length_bytes, uint
from epoxy.model.errors import CodecError, Oversized, TrailingBytes, Truncated, UnknownVersion
from epoxy.model.messages import Request
from epoxy.model.records import MAX_KEY_BYTES, Proposal, Settled
from epoxy.model.versions import RECORDS_FORMAT

FORMAT_VERSION = RECORDS_FORMAT
HEADER = FORMAT_VERSION.to_bytes(2, "little")
HEADER_2, HEADER_3 = EARLIER_HEADERS = (b"\x02\x00", b"\x03\x00")

STORED_HEADERS = (HEADER, *EARLIER_HEADERS)
"""With which stored records begin."""

MAX_ENCODED_BYTES = 4 << 20
"""The longest message, a ReadOk with a committed value and a vote, has two values of 1 MiB. Twice that leaves room for
a batch, and is small enough to buffer for every connection at once."""

MAX_BATCH = 4096
"""Messages in one frame, as the schema says."""

Value = TypeVar("Value")
Encoder = Callable[[list[bytes], Value], None]
Decoder = Callable[[bytes, int], tuple[Value, int]]


def pair(
    encode_body: Encoder[Value],
    decode_body: Decoder[Value],
    *,
    earlier: Mapping[bytes, Decoder[Value]] | None = None,
    header: bytes = HEADER,
) -> tuple[Callable[[Value], bytes], Callable[[bytes], Value]]:
    """The public functions of one type, from the generated ones. `earlier`: decoders of stored records of earlier
    formats, by their headers."""

    def encode(value: Value) -> bytes:
        out = [header]
        encode_body(out, value)
        data = b"".join(out)
        if len(data) > MAX_ENCODED_BYTES:
            raise too_long(len(data))
        return data

    def decode(data: bytes) -> Value:
        if len(data) > MAX_ENCODED_BYTES:
            raise too_long(len(data))
        decode_it = decode_body
        if not data.startswith(header):
            begin = data[: len(HEADER)]
            if earlier is None or begin not in earlier:
                raise wrong_version(data, is_stored=earlier is not None)
            decode_it = earlier[begin]
        try:
            value, position = decode_it(data, len(HEADER))
        except IndexError:
            raise Truncated(f"more than the {len(data)} bytes are needed") from None
        if position != len(data):
            raise wrong_end(data, position)
        return value

    return encode, decode


def stored(
    encode_body: Encoder[Value],
    decode_body: Decoder[Value],
    decode_2: Decoder[Value] | None = None,
    decode_3: Decoder[Value] | None = None,
) -> tuple[Callable[[Value], bytes], Callable[[bytes], Value]]:
    """Of a stored record. It is the same in an earlier format whose decoder is not given."""
    earlier = {
        HEADER_2: decode_2 if decode_2 is not None else decode_body,
        HEADER_3: decode_3 if decode_3 is not None else decode_body,
    }
    return pair(encode_body, decode_body, earlier=earlier)


def too_long(size: int) -> CodecError:
    return Oversized(f"{size} bytes, above the limit of {MAX_ENCODED_BYTES}")


def wrong_version(data: bytes, *, is_stored: bool) -> CodecError:
    if len(data) < len(HEADER):
        return Truncated(f"{len(data)} bytes hold no format version")
    remedy = "another release of Epoxy wrote this" if is_stored else "both nodes need the same release of Epoxy"
    return UnknownVersion(f"format version {int.from_bytes(data[: len(HEADER)], 'little')}: {remedy}")


def wrong_end(data: bytes, position: int) -> CodecError:
    """A slice beyond the end is only shorter; then the value seems to end beyond the data."""
    if position > len(data):
        return Truncated(f"{position} bytes wanted, and there are {len(data)}")
    return TrailingBytes(f"the value ends at byte {position} of {len(data)}")


# Between peers.
encode_peer_request, decode_peer_request = pair(v4.encode_peer_request, v4.decode_peer_request)
encode_peer_response, decode_peer_response = pair(v4.encode_peer_response, v4.decode_peer_response)


def encode_requests(requests: Sequence[Request]) -> bytes:
    """Requests without a frame: encoded once, and joined into the frames of all peers they are for."""
    out: list[bytes] = []
    for request in requests:
        v4.encode_request(out, request)
    return b"".join(out)


def join_peer_request(sender: int, recipient: int, count: int, requests: Sequence[bytes]) -> bytes:
    """The bytes of `encode_peer_request` for `count` requests that `encode_requests` has encoded."""
    data = b"".join([HEADER, uint(sender), uint(recipient), length_bytes(count, 0, MAX_BATCH), *requests])
    if len(data) > MAX_ENCODED_BYTES:
        raise too_long(len(data))
    return data


# Single messages.
encode_request, decode_request = pair(v4.encode_request, v4.decode_request)
encode_reply, decode_reply = pair(v4.encode_reply, v4.decode_reply)

# Between members while they change.
encode_member_request, decode_member_request = pair(v4.encode_member_request, v4.decode_member_request)
encode_member_reply, decode_member_reply = pair(v4.encode_member_reply, v4.decode_member_reply)
encode_change_request, decode_change_request = stored(v4.encode_change_request, v4.decode_change_request)

# Between nodes of one datacenter.
encode_txn, decode_txn = pair(v4.encode_txn, v4.decode_txn)

# The ordered engine's instances, as they are stored: the command once, the rest whenever it changes.
encode_command, decode_command = stored(
    v4.encode_command, v4.decode_command, commands_v3.decode_command, commands_v3.decode_command
)
encode_instance_state, decode_instance_state = stored(v4.encode_instance_state, v4.decode_instance_state)
encode_ordered_value, decode_ordered_value = pair(v4.encode_ordered_value, v4.decode_ordered_value)
encode_term, decode_term = stored(v4.encode_term, v4.decode_term)
encode_term_end, decode_term_end = stored(v4.encode_term_end, v4.decode_term_end)


def encode_decision(key: bytes, committed: Proposal, lineage: tuple[Settled, ...]) -> tuple[bytes, bytes]:
    """The bytes of `encode_committed_record` and `encode_changelog_entry`. Most of both is the proposal, which is
    encoded once."""
    out: list[bytes] = []
    v4.encode_proposal(out, committed)
    proposal = b"".join(out)
    record = [HEADER, proposal]
    v4.encode_lineage(record, lineage)
    entry = [HEADER]
    encode_data(entry, key, 1, MAX_KEY_BYTES)
    entry.append(proposal)
    return b"".join(record), b"".join(entry)


# Stored records: kv/{key}/value, ballot and cache; votes/{key}; changelog/{sequence}; expiries/{key}; config.
encode_committed_record, decode_committed_record = stored(
    v4.encode_committed_record, v4.decode_committed_record, v2.decode_committed_record, v3.decode_committed_record
)
encode_ballot, decode_ballot = stored(v4.encode_ballot, v4.decode_ballot)
encode_vote, decode_vote = stored(v4.encode_vote, v4.decode_vote, v2.decode_vote, v3.decode_vote)
encode_cached, decode_cached = stored(v4.encode_proposal, v4.decode_proposal, v2.decode_proposal, v3.decode_proposal)
encode_changelog_entry, decode_changelog_entry = stored(
    v4.encode_changelog_entry, v4.decode_changelog_entry, v2.decode_changelog_entry, v3.decode_changelog_entry
)
encode_expiry_entry, decode_expiry_entry = pair(v4.encode_expiry_entry, v4.decode_expiry_entry, earlier={})
encode_progress, decode_progress = stored(v4.encode_progress, v4.decode_progress)

# A configuration has one spelling for ever: replicas compare the bytes of an epoch's, and old ones are in format 2.
encode_config, decode_config = pair(v4.encode_cluster_config, v4.decode_cluster_config, header=HEADER_2)


def renewed(record: bytes) -> bytes:
    """The same CommittedRecord in the format that is written now."""
    return record if record.startswith(HEADER) else encode_committed_record(decode_committed_record(record))
