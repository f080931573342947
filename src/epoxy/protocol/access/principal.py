"""What one client may do: its grant, in the form that a request is checked with."""

from collections.abc import Iterable

from epoxy.model.access import SATISFYING, Access, AccessRole, Grant


class Principal:
    """A client that has shown a token or a certificate. `reads`, `writes` and so on: whether it has the role at all;
    `may_...` also looks at prefixes and pools."""

    __slots__ = (
        "_pools",
        "_prefixes",
        "calls",
        "grant",
        "granted",
        "name",
        "operates",
        "reads",
        "reads_all",
        "requests_per_s",
        "stored_bytes",
        "works",
        "writes",
        "writes_all",
    )

    def __init__(self, grant: Grant) -> None:
        self.grant = grant
        self.name = grant.name
        self._prefixes = grant.prefixes
        self._pools = frozenset(grant.pools)
        self.granted = satisfies(grant.roles, Access.ANY)
        self.reads = satisfies(grant.roles, Access.READ)
        self.writes = satisfies(grant.roles, Access.WRITE)
        self.works = satisfies(grant.roles, Access.WORK)
        self.calls = satisfies(grant.roles, Access.CALL)
        self.operates = satisfies(grant.roles, Access.OPERATE)
        self.reads_all = self.reads and not grant.prefixes
        self.writes_all = self.writes and not grant.prefixes
        """Every key: an answer from a cache needs no look at the key."""
        self.requests_per_s = grant.requests_per_s
        self.stored_bytes = grant.stored_bytes
        """Quotas; 0: none."""

    def has(self, access: Access) -> bool:
        """Whether it has a role for this, for some key, name or pool."""
        return access is Access.PUBLIC or satisfies(self.grant.roles, access)

    def may_read(self, key: bytes) -> bool:
        return self.reads and (not self._prefixes or key.startswith(self._prefixes))

    def may_write(self, key: bytes) -> bool:
        return self.writes and (not self._prefixes or key.startswith(self._prefixes))

    def may_list(self, prefix: bytes) -> bool:
        """Whether it may read every key that begins like this."""
        return self.may_read(prefix)

    def may_call(self, actor: bytes) -> bool:
        """`actor`: namespace, name and key, joined by slashes."""
        return self.calls and (not self._prefixes or actor.startswith(self._prefixes))

    def may_work(self, namespace: str, pool: str) -> bool:
        """A pool stands for those of that name in all namespaces, or, as `namespace/pool`, for one. So a name with a
        slash in it is none of them."""
        if not self._pools:
            return self.works
        is_plain = "/" not in namespace and "/" not in pool
        return self.works and is_plain and (pool in self._pools or f"{namespace}/{pool}" in self._pools)


def satisfies(roles: Iterable[AccessRole], access: Access) -> bool:
    return not SATISFYING[access].isdisjoint(roles)


def lacks_role(principal: Principal, access: Access, what: str) -> str:
    """Why a client may not do something at all, for its eyes: the roles that would do, and those it has."""
    enough = [role.value for role in AccessRole if role in SATISFYING[access]]
    has = ", ".join([role.value for role in principal.grant.roles])
    return f"{what} needs {' or '.join(enough) or access.value}; {principal.name} is {has}"


def lacks_prefix(principal: Principal, key: str) -> str:
    """Why a client may not use a key or name, which is given as it may be shown."""
    shown = [prefix.decode("utf-8", "backslashreplace") for prefix in principal.grant.prefixes[:SHOWN_PREFIXES]]
    more = ", ..." if len(principal.grant.prefixes) > SHOWN_PREFIXES else ""
    return f"{key} is outside of the prefixes of {principal.name}: {', '.join(shown)}{more}"


SHOWN_PREFIXES = 3
"""In an error: enough to see which grant it is."""

OPEN = Principal(Grant(name="", roles=tuple(AccessRole)))
"""Every client of a node that asks for no tokens."""

STRANGER = Principal(Grant(name="", roles=()))
"""A client that has shown nothing, or nothing that was looked at."""
