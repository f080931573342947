"""Who may do what: roles, the grants that tokens and certificates stand for, and what a route or command demands.

Smaller than a system of rules, larger than a password: a grant has roles, and prefixes of keys and names, or pools,
that the roles are limited to. All grants are one value of the cluster, so a change of them is one commit.
"""

import enum
import re

from msgspec import Struct

from epoxy.model.cluster import FIRST_SYSTEM_KEY

ACCESS_KEY = FIRST_SYSTEM_KEY + b"/access"
"""Holds the AccessTable: replicated, and changed by compare-and-set, like any mutable key."""

USAGE_KEYS = FIRST_SYSTEM_KEY + b"/usage/"
"""Begin the keys of what each replica counted for quotas of bytes; its id follows."""

MAX_GRANTS = 1_000
MAX_PREFIXES = 16
"""Of one grant; and as many pools. A table of the most grants with the most prefixes would be longer than a value can
be: the change that makes it so is refused."""

MAX_NAME_BYTES = 64
MAX_SAN_BYTES = 256
MAX_PREFIX_BYTES = 128
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._@-]{{0,{MAX_NAME_BYTES - 1}}}")

DEFAULT_USER = "default"
"""What Redis clients say when they have a password alone: no grant has this name."""


class AccessRole(enum.Enum):
    READER = "reader"
    """Reads keys under its prefixes."""
    WRITER = "writer"
    """Reads and writes keys under its prefixes."""
    WORKER = "worker"
    """Connects as an envoy of its pools, and hosts their actors."""
    CALLER = "caller"
    """Makes, asks and ends actors under its prefixes."""
    OPERATOR = "operator"
    """Changes members, links and grants, drains, takes backups, reads what nodes say of themselves."""


class Access(enum.Enum):
    """What a route or a command demands of its client."""

    PUBLIC = "public"
    """Nothing: health, the description of the API, the handshake that names the client."""
    ANY = "any"
    """A grant, whatever its roles."""
    READ = "reader"
    WRITE = "writer"
    WORK = "worker"
    CALL = "caller"
    OPERATE = "operator"
    PEER = "peer"
    """The cluster's secret: a signature, and no grant."""


SATISFYING: dict[Access, frozenset[AccessRole]] = {
    Access.ANY: frozenset(AccessRole),
    Access.READ: frozenset((AccessRole.READER, AccessRole.WRITER)),
    Access.WRITE: frozenset((AccessRole.WRITER,)),
    Access.WORK: frozenset((AccessRole.WORKER,)),
    Access.CALL: frozenset((AccessRole.CALLER,)),
    Access.OPERATE: frozenset((AccessRole.OPERATOR,)),
    Access.PEER: frozenset(),
}
"""The roles that satisfy a demand. A writer reads, too; an operator has no part in the data."""


class TokenDigest(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """SHA-256 of a token. Tokens have 256 random bits, so a fast hash is enough. `expires_s`: Unix time; 0: never."""

    sha256: bytes
    expires_s: int = 0


class Grant(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`digests`: the newest first; two while a token is being replaced. None, if only a certificate stands for the
    grant: `san` is a name that the authority signed for its holder. `prefixes` limit keys and actors' names, `pools`
    limit workers; without them there is no limit. `requests_per_s` at each node, and `stored_bytes` in the cluster; 0:
    no limit. `expires_s` ends the grant as a whole."""

    name: str
    roles: tuple[AccessRole, ...]
    prefixes: tuple[bytes, ...] = ()
    pools: tuple[str, ...] = ()
    digests: tuple[TokenDigest, ...] = ()
    san: str = ""
    expires_s: int = 0
    requests_per_s: int = 0
    stored_bytes: int = 0
    created_s: int = 0
    created_by: str = ""


class AccessTable(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """All grants, by name in order."""

    grants: tuple[Grant, ...] = ()

    def grant(self, name: str) -> Grant | None:
        return next((grant for grant in self.grants if grant.name == name), None)
