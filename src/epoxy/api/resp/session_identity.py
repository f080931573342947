"""Who a Redis client is: what it has shown, what that allows, and what changes when grants do."""

from functools import partial
from typing import TYPE_CHECKING

from epoxy.api.resp import session_access
from epoxy.api.resp.command import Arguments, CommandSpec, Credential, RespSession
from epoxy.api.resp.limits import UNAUTHENTICATED
from epoxy.api.resp.session_access import nothing_shown, open_to_all
from epoxy.codec.resp import CommandReader
from epoxy.protocol.access.principal import OPEN, Principal
from epoxy.runtime.admission import Caller

if TYPE_CHECKING:
    from epoxy.api.resp.server import RespServer


class IdentifiedSession(RespSession):
    """The part of a connection that knows its principal."""

    def __init__(self, server: "RespServer") -> None:
        super().__init__(server.node, server.next_number())
        self._server = server
        self._limits = server.limits
        self.caller = Caller(server.limits.request_timeout_ms)
        self.reserve_prefixes = server.reserve_prefixes
        self.reader = CommandReader(UNAUTHENTICATED)
        self._access = server.node.access
        self._generation = self._access.generation
        self._credential: Credential = nothing_shown
        self._reads_unchecked = False
        """Whether any cached value may be given to this client, without a look at its key."""
        self._checked: set[bytes] = set()
        """Keys, as the cache has them, that this client may read."""

    def identify(self, credential: Credential) -> bool:
        principal = credential()
        if principal is not None:
            self._become(principal, credential)
        return principal is not None

    def forget(self) -> None:
        credential = (
            open_to_all if self._access.is_open else partial(self._access.of_certificate, self.certificate_names)
        )
        self._become(credential(), credential)

    def _identify_again(self) -> None:
        """Grants have changed: that of this client may have other rights now, or none."""
        self._generation = self._access.generation
        self._become(self._credential(), self._credential)

    def _become(self, principal: Principal | None, credential: Credential) -> None:
        self.principal, self._credential = principal, credential
        self._reads_unchecked = principal is not None and principal.reads_all and not principal.requests_per_s
        self._checked = self._server.checked_keys(principal)
        self.reader.limits = self._limits.reader if principal is not None else UNAUTHENTICATED

    def _may_read_all(self, keys: list[bytes]) -> bool:
        """`keys` as the cache has them: a length, the end of its line, the key. A client with a limited rate is counted
        where commands are run."""
        principal = self.principal
        if principal is None or principal.requests_per_s:
            return False
        if False in [principal.may_read(key[key.find(b"\n") + 1 :]) for key in keys]:
            return False
        self._server.remember_checked(self._checked, keys)
        return True

    def _refusal(self, command: CommandSpec, arguments: Arguments) -> bytes | None:
        if self._generation != self._access.generation:
            self._identify_again()
        principal = self.principal
        if principal is OPEN:
            return None
        if principal is None:
            return session_access.NOAUTH
        refused = session_access.refusal(principal, command, arguments)
        if refused is None and principal.requests_per_s and (wait_s := self.node.quotas.wait_s(principal)):
            return session_access.over_rate(principal, wait_s)
        return refused
