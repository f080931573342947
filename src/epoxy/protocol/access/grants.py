"""Changes of the table of grants, and the search for the grant of a token or a certificate."""

from collections.abc import Iterable

from msgspec.structs import replace

from epoxy.model.access import (
    DEFAULT_USER,
    MAX_GRANTS,
    MAX_NAME_BYTES,
    MAX_PREFIX_BYTES,
    MAX_PREFIXES,
    MAX_SAN_BYTES,
    NAME,
    AccessRole,
    AccessTable,
    Grant,
    TokenDigest,
)
from epoxy.model.errors import InvalidRequest
from epoxy.protocol.access.principal import Principal

KEYED = frozenset((AccessRole.READER, AccessRole.WRITER, AccessRole.CALLER))
"""The roles that prefixes limit."""


def with_grant(table: AccessTable, grant: Grant) -> AccessTable:
    """The table with a new grant. Raises InvalidRequest."""
    check_grant(grant)
    if table.grant(grant.name) is not None:
        raise InvalidRequest(f"there is a grant named {grant.name!r}; revoke it first, or rotate its token")
    if grant.san and any(grant.san == each.san for each in table.grants):
        raise InvalidRequest(f"there is a grant for certificates of {grant.san!r}")
    if len(table.grants) >= MAX_GRANTS:
        raise InvalidRequest(f"there are {MAX_GRANTS} grants, the most there can be; revoke one")
    return AccessTable(grants=tuple(sorted((*table.grants, grant), key=lambda each: each.name)))


def without_grant(table: AccessTable, name: str) -> AccessTable:
    if table.grant(name) is None:
        raise InvalidRequest(f"there is no grant named {name!r}")
    return AccessTable(grants=tuple(each for each in table.grants if each.name != name))


def rotated(table: AccessTable, name: str, sha256: bytes, old_until_s: int, now_s: int) -> AccessTable:
    """The table with another token for a grant. Its last one is accepted until `old_until_s`, those before it are not,
    so that a token is replaced at every client without a moment in which none is right."""
    grant = table.grant(name)
    if grant is None:
        raise InvalidRequest(f"there is no grant named {name!r}")
    if is_over(grant.expires_s, now_s):
        raise InvalidRequest(
            f"the grant {name!r} has ended, and another token would be refused; revoke it, and create it again"
        )
    kept = [replace(each, expires_s=sooner(each.expires_s, old_until_s)) for each in grant.digests[:1]]
    digests = (TokenDigest(sha256=sha256), *[each for each in kept if not is_over(each.expires_s, now_s)])
    return with_grant(without_grant(table, name), replace(grant, digests=digests))


def check_grant(grant: Grant) -> None:
    if not NAME.fullmatch(grant.name):
        raise InvalidRequest(
            f"a grant's name has 1 to {MAX_NAME_BYTES} letters, digits and . _ @ -, and begins with a letter or digit"
        )
    if grant.name == DEFAULT_USER:
        raise InvalidRequest(f"{DEFAULT_USER!r} is what Redis clients without a name say; choose another name")
    if not grant.roles or len(set(grant.roles)) != len(grant.roles):
        raise InvalidRequest(
            f"a grant has one or more roles, each once: {', '.join(role.value for role in AccessRole)}"
        )
    if len(grant.prefixes) > MAX_PREFIXES or len(grant.pools) > MAX_PREFIXES:
        raise InvalidRequest(f"a grant has at most {MAX_PREFIXES} prefixes and {MAX_PREFIXES} pools")
    texts = [*grant.prefixes, *[pool.encode() for pool in grant.pools]]
    if not all(1 <= len(text) <= MAX_PREFIX_BYTES for text in texts):
        raise InvalidRequest(f"a prefix or pool has 1 to {MAX_PREFIX_BYTES} bytes; leave it out for no limit")
    if len(grant.san.encode()) > MAX_SAN_BYTES:
        raise InvalidRequest(f"a certificate's name has at most {MAX_SAN_BYTES} bytes")
    if not grant.digests and not grant.san:
        raise InvalidRequest("a grant needs a token, or the name of a certificate")
    if min(grant.expires_s, grant.requests_per_s, grant.stored_bytes) < 0:
        raise InvalidRequest("an end, a rate or a size is not negative")


def check_new(grant: Grant) -> None:
    """What a grant is refused for when it is made, and not when it is read: a stored table stays readable. A limit that
    limits none of the roles would be taken for one: a worker with a prefix would host every pool."""
    if grant.prefixes and not KEYED.intersection(grant.roles):
        raise InvalidRequest("prefixes limit readers, writers and callers, and the grant is none of these")
    if grant.pools and AccessRole.WORKER not in grant.roles:
        raise InvalidRequest("pools limit workers, and the grant is none")
    san = grant.san
    if not san.isprintable() or " " in san:
        raise InvalidRequest("a certificate's name has no spaces")
    if not {":", "@"}.intersection(san) and san != san.lower():
        raise InvalidRequest(f"a certificate's DNS name is compared in lower case: {san.lower()!r}")


class PrincipalIndex:
    """The principals of a table that are in force at a moment, by what clients show."""

    def __init__(self, table: AccessTable, now_s: int) -> None:
        self._by_digest: dict[bytes, Principal] = {}
        self._by_san: dict[str, Principal] = {}
        self.by_name: dict[str, Principal] = {}
        self.next_end_s = 0
        """When the index must be made anew, because a grant or a token ends; 0: never."""
        for grant in table.grants:
            if not is_over(grant.expires_s, now_s):
                self._add(grant, now_s)

    def _add(self, grant: Grant, now_s: int) -> None:
        principal = self.by_name[grant.name] = Principal(grant)
        self._note_end(grant.expires_s)
        for digest in grant.digests:
            if not is_over(digest.expires_s, now_s):
                self._by_digest[digest.sha256] = principal
                self._note_end(digest.expires_s)
        if grant.san:
            self._by_san[grant.san] = principal

    def _note_end(self, end_s: int) -> None:
        self.next_end_s = sooner(self.next_end_s, end_s)

    def of_digest(self, sha256: bytes) -> Principal | None:
        return self._by_digest.get(sha256)

    def of_certificate(self, names: Iterable[str]) -> Principal | None:
        """The first name of a certificate that has a grant."""
        return next((self._by_san[name] for name in names if name in self._by_san), None)


def is_over(end_s: int, now_s: int) -> bool:
    return 0 < end_s <= now_s


def sooner(one_s: int, other_s: int) -> int:
    """Of two ends, where 0 is never."""
    return min(one_s, other_s) if one_s and other_s else one_s or other_s
