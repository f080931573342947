"""The table of grants as the value of ACCESS_KEY: one byte for the format, then MessagePack.

Decoding is strict: a field that this version does not know, or a grant that could not have been made, makes the whole
value unreadable. A table that is half understood could let a client do what its grant forbids.
"""

import msgspec

from epoxy.model.access import MAX_GRANTS, AccessTable
from epoxy.model.errors import InvalidRequest, InvalidValue, UnknownVersion
from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.protocol.access.grants import check_grant
from epoxy.protocol.access.tokens import DIGEST_BYTES

FORMAT = b"\x01"

DECODER = msgspec.msgpack.Decoder(AccessTable)
ENCODER = msgspec.msgpack.Encoder()


def encode_table(table: AccessTable) -> bytes:
    """Raises InvalidRequest for a table that is too large for a value."""
    value = FORMAT + ENCODER.encode(table)
    if len(value) > MAX_VALUE_BYTES:
        raise InvalidRequest(
            f"all grants together would take {len(value)} bytes; at most {MAX_VALUE_BYTES}: "
            "revoke some, or give them fewer and shorter prefixes"
        )
    return value


def decode_table(value: bytes | None) -> AccessTable:
    """Raises CodecError."""
    if value is None:
        raise InvalidValue("the grants were deleted")
    if value[:1] != FORMAT:
        raise UnknownVersion(f"grants of format {value[:1].hex() or 'none'}; this version reads {FORMAT.hex()}")
    try:
        table = DECODER.decode(value[1:])
    except msgspec.DecodeError as error:
        raise InvalidValue(f"grants that cannot be read: {error}") from error
    check_table(table)
    return table


def check_table(table: AccessTable) -> None:
    names = [grant.name for grant in table.grants]
    sans = [grant.san for grant in table.grants if grant.san]
    digests = [digest.sha256 for grant in table.grants for digest in grant.digests]
    if names != sorted(set(names)) or len(names) > MAX_GRANTS:
        raise InvalidValue("grants that are not in the order of their names, or too many")
    if len(set(sans)) != len(sans) or len(set(digests)) != len(digests):
        raise InvalidValue("two grants with one token, or one certificate")
    if not all(len(digest) == DIGEST_BYTES for digest in digests):
        raise InvalidValue("the digest of a token has another length")
    for grant in table.grants:
        try:
            check_grant(grant)
        except InvalidRequest as error:
            raise InvalidValue(f"the grant {grant.name!r}: {error}") from error
