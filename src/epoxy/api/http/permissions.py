"""What a principal may do with one key, name or pool: checks of the routes' handlers, whose refusal says what is
missing."""

from collections.abc import Iterable

from epoxy.api.http.backend import Backend
from epoxy.api.http.inputs import BadRequest, shown
from epoxy.model.access import SATISFYING, Access
from epoxy.model.actors import ActorName
from epoxy.model.transactions import Txn
from epoxy.protocol.access.principal import Principal


def forbidden(message: str) -> BadRequest:
    """Nothing was done."""
    return BadRequest(403, "forbidden", message)


def missing_role(principal: Principal, access: Access) -> str:
    roles = " or ".join(sorted(role.value for role in SATISFYING[access])) or "the cluster's secret"
    has = ", ".join(role.value for role in principal.grant.roles)
    return f"this needs the role {roles}; {quoted_name(principal)} has {has or 'none'}"


def check_read(principal: Principal, key: bytes) -> None:
    if not principal.may_read(key):
        raise forbidden(f"{limits(principal)}: it does not read '{shown(key)}'")


def check_write(principal: Principal, key: bytes) -> None:
    if not principal.may_write(key):
        raise forbidden(f"{limits(principal)}: it does not write '{shown(key)}'")


def check_list(principal: Principal, prefix: bytes) -> None:
    """A page is refused rather than filtered: a client must not take a part of the keys for all of them."""
    if not principal.may_list(prefix):
        wanted = f"prefix='{shown(prefix)}' is wider" if prefix else "without prefix= this is wider"
        raise forbidden(f"{limits(principal)}: {wanted}")


def check_txn(principal: Principal, txn: Txn) -> None:
    for key, is_written in txn.footprint.items():
        if is_written:
            check_write(principal, key)
        else:
            check_read(principal, key)


def check_stored(node: Backend, principal: Principal, more_bytes: int) -> None:
    refusal = node.quotas.refusal(principal, more_bytes)
    if refusal is not None:
        raise BadRequest(403, "quota_bytes", refusal)


def check_call(principal: Principal, name: ActorName) -> None:
    if not may_call(principal, name.namespace, name.name, name.key):
        raise forbidden(f"{limits(principal)}: it does not ask '{shown(joined(name.namespace, name.name, name.key))}'")


def check_call_all(principal: Principal, namespace: str, name: str | None, key_prefix: str = "") -> None:
    """All actors of a namespace, or of a name in it, or those of them whose keys begin like this."""
    words = (namespace, "") if name is None else (namespace, name, key_prefix)
    if not may_call(principal, *words):
        raise forbidden(f"{limits(principal)}: it does not list '{shown(joined(*words))}'")


def may_call(principal: Principal, namespace: str, *rest: str) -> bool:
    """Prefixes are of `namespace/name/key`, so a slash in one of the first two could pass for the border between them:
    for a grant with prefixes there are no such names."""
    is_plain = not any("/" in word for word in (namespace, *rest[:-1]))
    return principal.may_call(joined(namespace, *rest)) and (is_plain or not principal.grant.prefixes)


def joined(*words: str) -> bytes:
    return "/".join(words).encode("utf-8", "replace")


def limits(principal: Principal) -> str:
    return f"{quoted_name(principal)} is limited to {some(principal.grant.prefixes)}"


def some(prefixes: Iterable[bytes]) -> str:
    return ", ".join(f"'{shown(prefix)}'" for prefix in prefixes) or "no prefix"


def quoted_name(principal: Principal) -> str:
    return f"the grant '{principal.name}'"
