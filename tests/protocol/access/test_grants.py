import pytest
from msgspec.structs import replace

from epoxy.model.access import MAX_GRANTS, MAX_PREFIXES, AccessRole, AccessTable, Grant, TokenDigest
from epoxy.model.errors import InvalidRequest
from epoxy.node.access.table_record import decode_table, encode_table
from epoxy.protocol.access.grants import PrincipalIndex, check_new, rotated, with_grant, without_grant

CI = Grant(name="ci", roles=(AccessRole.WRITER,), digests=(TokenDigest(sha256=b"one"),))


def test_a_grant_is_found_by_its_token_until_it_is_revoked() -> None:
    table = with_grant(AccessTable(), CI)
    found = PrincipalIndex(table, now_s=0).of_digest(b"one")
    assert found is not None
    assert found.name == "ci"
    assert PrincipalIndex(without_grant(table, "ci"), now_s=0).of_digest(b"one") is None


def test_grants_stand_in_the_order_of_their_names() -> None:
    table = with_grant(with_grant(AccessTable(), CI), replace(CI, name="admin"))
    assert [grant.name for grant in table.grants] == ["admin", "ci"]


def test_a_name_is_given_once_and_a_certificate_has_one_grant() -> None:
    table = with_grant(AccessTable(), replace(CI, san="ci.example"))
    with pytest.raises(InvalidRequest, match="named 'ci'"):
        with_grant(table, CI)
    with pytest.raises(InvalidRequest, match="certificates of"):
        with_grant(table, replace(CI, name="other", san="ci.example"))
    with pytest.raises(InvalidRequest, match="no grant named"):
        without_grant(table, "other")


def test_there_is_a_most() -> None:
    full = AccessTable(grants=tuple(replace(CI, name=f"t{number}") for number in range(MAX_GRANTS)))
    with pytest.raises(InvalidRequest, match="the most"):
        with_grant(full, CI)


def test_a_grant_ends_and_the_index_says_when() -> None:
    table = with_grant(
        with_grant(AccessTable(), replace(CI, expires_s=100)), replace(CI, name="b", digests=(), san="b")
    )
    before, after = PrincipalIndex(table, now_s=99), PrincipalIndex(table, now_s=100)
    assert before.next_end_s == 100
    assert before.of_digest(b"one") is not None
    assert after.next_end_s == 0
    assert after.of_digest(b"one") is None
    assert "ci" not in after.by_name


def test_a_rotated_token_and_the_one_before_it_are_accepted_for_a_while() -> None:
    table = rotated(with_grant(AccessTable(), CI), "ci", b"two", old_until_s=50, now_s=10)
    during, after = PrincipalIndex(table, now_s=49), PrincipalIndex(table, now_s=50)
    assert during.of_digest(b"one") is not None
    assert during.of_digest(b"two") is not None
    assert during.next_end_s == 50
    assert after.of_digest(b"one") is None
    assert after.of_digest(b"two") is not None
    third = PrincipalIndex(rotated(table, "ci", b"three", old_until_s=60, now_s=20), now_s=20)
    assert third.of_digest(b"one") is None
    assert third.of_digest(b"two") is not None


def test_rotating_does_not_prolong_a_token_that_was_to_end_sooner() -> None:
    short = replace(CI, digests=(TokenDigest(sha256=b"one", expires_s=20),))
    table = rotated(with_grant(AccessTable(), short), "ci", b"two", old_until_s=50, now_s=10)
    assert PrincipalIndex(table, now_s=20).of_digest(b"one") is None
    gone_at_once = rotated(with_grant(AccessTable(), CI), "ci", b"two", old_until_s=10, now_s=10)
    assert PrincipalIndex(gone_at_once, now_s=10).of_digest(b"one") is None


def test_a_grant_that_has_ended_gets_no_further_token() -> None:
    table = with_grant(AccessTable(), replace(CI, expires_s=100))
    assert rotated(table, "ci", b"two", old_until_s=99, now_s=99).grants[0].digests[0].sha256 == b"two"
    with pytest.raises(InvalidRequest, match="has ended"):
        rotated(table, "ci", b"two", old_until_s=100, now_s=100)


def test_a_certificate_is_found_by_any_of_its_names() -> None:
    index = PrincipalIndex(with_grant(AccessTable(), replace(CI, san="ci.example")), now_s=0)
    found = index.of_certificate(["x.example", "ci.example"])
    assert found is not None
    assert found.name == "ci"
    assert index.of_certificate(["x.example"]) is None


@pytest.mark.parametrize(
    "flawed",
    [
        replace(CI, name=""),
        replace(CI, name="a b"),
        replace(CI, name="a" * 65),
        replace(CI, name="default"),
        replace(CI, roles=()),
        replace(CI, roles=(AccessRole.READER, AccessRole.READER)),
        replace(CI, prefixes=(b"",)),
        replace(CI, prefixes=(b"a",) * (MAX_PREFIXES + 1)),
        replace(CI, pools=("p" * 129,)),
        replace(CI, digests=()),
        replace(CI, san="x" * 257),
        replace(CI, stored_bytes=-1),
    ],
)
def test_a_grant_that_cannot_be_is_refused(flawed: Grant) -> None:
    with pytest.raises(InvalidRequest):
        with_grant(AccessTable(), flawed)


@pytest.mark.parametrize(
    "misleading",
    [
        replace(CI, san="two names"),
        replace(CI, san="Web.example.com"),
        replace(CI, pools=("chat",)),
        replace(CI, roles=(AccessRole.WORKER,), prefixes=(b"chat",)),
        replace(CI, roles=(AccessRole.OPERATOR,), prefixes=(b"user/",)),
    ],
)
def test_a_grant_that_would_mislead_is_not_made_and_stays_readable_where_it_was(misleading: Grant) -> None:
    with pytest.raises(InvalidRequest):
        check_new(misleading)
    stored = replace(misleading, digests=(TokenDigest(sha256=bytes(32)),))
    table = decode_table(encode_table(with_grant(AccessTable(), stored)))
    assert rotated(table, "ci", b"two", old_until_s=0, now_s=1).grant("ci") is not None


@pytest.mark.parametrize(
    "sound",
    [
        replace(CI, roles=(AccessRole.WORKER, AccessRole.CALLER), prefixes=(b"chat",), pools=("chat",)),
        replace(CI, san="spiffe://example.com/Web"),
        replace(CI, san="Ada@example.com"),
        replace(CI, san="fd00::1"),
    ],
)
def test_what_limits_one_role_of_several_is_taken_and_names_that_have_capitals(sound: Grant) -> None:
    check_new(sound)
