"""The table of grants as a value: what was written is read, and nothing else is."""

import msgspec
import pytest
from msgspec.structs import replace

from epoxy.model.access import MAX_GRANTS, MAX_PREFIX_BYTES, MAX_PREFIXES, AccessRole, AccessTable, Grant, TokenDigest
from epoxy.model.errors import CodecError, InvalidRequest
from epoxy.node.access.table_record import FORMAT, decode_table, encode_table

DIGEST = TokenDigest(sha256=bytes(32), expires_s=7)
FULL = Grant(
    name="ci",
    roles=(AccessRole.WRITER, AccessRole.WORKER),
    prefixes=(b"user/", b"\xfe"),
    pools=("chat",),
    digests=(DIGEST, TokenDigest(sha256=bytes([1] * 32))),
    san="spiffe://x/ci",
    expires_s=9,
    requests_per_s=10,
    stored_bytes=11,
    created_s=12,
    created_by="root",
)


def numbered(number: int, **more: object) -> Grant:
    digest = TokenDigest(sha256=number.to_bytes(32, "big"))
    return replace(Grant(name=f"g{number:04}", roles=(AccessRole.READER,), digests=(digest,)), **more)


@pytest.mark.parametrize("table", [AccessTable(), AccessTable(grants=(FULL,))])
def test_what_was_written_is_read(table: AccessTable) -> None:
    assert decode_table(encode_table(table)) == table


def test_a_thousand_usual_grants_fit() -> None:
    table = AccessTable(grants=tuple(numbered(i, prefixes=(b"tenant/%d/" % i,)) for i in range(MAX_GRANTS)))
    value = encode_table(table)
    assert len(value) < 150_000
    assert decode_table(value) == table


def test_a_table_that_does_not_fit_is_refused() -> None:
    long = tuple(bytes([i]) * MAX_PREFIX_BYTES for i in range(MAX_PREFIXES))
    with pytest.raises(InvalidRequest, match="all grants together"):
        encode_table(AccessTable(grants=tuple(numbered(i, prefixes=long) for i in range(MAX_GRANTS))))


@pytest.mark.parametrize(
    "grants",
    [
        (replace(FULL, name="b", digests=()), FULL),
        (FULL, FULL),
        (FULL, replace(FULL, name="d", san="x")),
        (replace(numbered(1), san="x"), replace(numbered(2), san="x")),
        (replace(FULL, digests=(TokenDigest(sha256=b"short"),)),),
        (replace(FULL, roles=()),),
        (replace(FULL, expires_s=-1),),
        tuple(numbered(i) for i in range(MAX_GRANTS + 1)),
    ],
)
def test_a_table_that_could_not_have_been_made_is_unreadable(grants: tuple[Grant, ...]) -> None:
    with pytest.raises(CodecError):
        decode_table(encode_table(AccessTable(grants=grants)))


@pytest.mark.parametrize(
    "document",
    [
        {"grants": [], "colour": 1},
        {"grants": [{"name": "a", "roles": ["writer"], "digests": [{"sha256": bytes(32)}], "colour": 1}]},
        {"grants": [{"name": "a", "roles": ["king"], "digests": [{"sha256": bytes(32)}]}]},
        {"grants": [{"name": 1, "roles": ["writer"], "digests": [{"sha256": bytes(32)}]}]},
        [],
    ],
)
def test_what_this_version_does_not_know_makes_it_unreadable(document: object) -> None:
    with pytest.raises(CodecError):
        decode_table(FORMAT + msgspec.msgpack.encode(document))
