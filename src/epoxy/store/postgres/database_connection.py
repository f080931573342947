"""One connection to a PostgreSQL server that is made again when it is lost, on the event loop that uses it.

A time limit ends the connection and asks the server for nothing. To cancel a commit that waits for its synchronous
standby would be worse than to wait: the server then answers that it is committed, with a warning that the standby may
not have it. So no statement has a limit at the server, except for locks, and an answer with a warning counts as none.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg
from msgspec import Struct, field

from epoxy.model.errors import StoreRefused, StoreUnavailable
from epoxy.store.postgres.schema import examine, prepare, schema_name
from epoxy.store.postgres.timeline import NewestTimeline

T = TypeVar("T")
Work = Callable[[Any], Awaitable[T]]
"""Statements over a connection of asyncpg, which has no types."""

log = logging.getLogger(__name__)

CONNECT_S = 5.0
"""For each host that is named: many times what a connection with TLS takes to the other side of the world."""

STATEMENT_S = 15.0
"""For one use of a connection: 16 MiB, the largest batch, over a slow link (1.2 MB/s)."""

LOCK_MS = 5000
"""Locks are held for the time of a commit. A longer wait means that a commit waits for its standby, or that the server
has not noticed yet that a client is gone; the statement is asked for again."""

LIVENESS_MS = 5000
"""How often a server looks whether the client of a running statement is still there."""

FIRST_BACKOFF_S = 0.05
LAST_BACKOFF_S = 2.0
"""Between attempts to connect. A server that restarts is back within a second or two; one that is away for long is
asked as often as a health check would."""

LEASE_BACKOFF_S = 0.2
"""The longest of the connection that renews leases. When the database is back, sessions that do not renew theirs are
fenced after half a lease, and the shortest lease has 500 ms."""

MAX_WAITING = 1024
"""Callers that wait for one connection. The store asks for one batch, one fence and a few loads at a time."""

ATTEMPTS = 8
"""Of a transaction that the server aborts because of another (deadlock, serialization)."""

ABORTED = ("40001", "40P01")
LOCK_NOT_AVAILABLE = "55P03"
LOST = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)

SETTINGS = {
    "default_transaction_isolation": "read committed",
    "client_min_messages": "warning",
    "statement_timeout": "0",
    "lock_timeout": str(LOCK_MS),
    "idle_in_transaction_session_timeout": str(int(STATEMENT_S * 1000)),
    "client_connection_check_interval": str(LIVENESS_MS),
    # Plans are made once, when tables may be empty: they must be those of large ones.
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "jit": "off",
}


class DatabaseAddress(Struct, frozen=True, kw_only=True):
    """`dsn`: a `postgresql://` URL, with as many hosts as there are servers that may be the primary, and its TLS.
    `timelines`: shared by all connections of a node."""

    dsn: str
    schema: str
    cluster: str
    replica: int
    timelines: NewestTimeline = field(default_factory=NewestTimeline)


async def open_connection(address: DatabaseAddress, role: str) -> Any:
    """A connection to a server that takes writes. Raises StoreError."""
    settings = {**SETTINGS, "search_path": schema_name(address.schema), "application_name": f"epoxy {role}"}
    try:
        return await asyncpg.connect(
            address.dsn,
            timeout=CONNECT_S,
            server_settings=settings,
            max_cached_statement_lifetime=0,
            target_session_attrs="read-write",
        )
    except asyncpg.ClientConfigurationError as error:
        raise StoreRefused(f"the address of the database is not understood: {error}") from error
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise StoreRefused(f"the database refuses the connection: {error}. {remedy(error)}") from error
    except LOST as error:
        raise StoreUnavailable(f"no connection to the database: {described(error)}") from error


async def connect(address: DatabaseAddress, role: str, *, make_tables: bool = False) -> Any:
    """The same, to one that has this replica's tables."""
    async with first_use(address, role) as connection:
        if make_tables:
            await prepare(connection, address.schema, address.cluster, address.replica)
        else:
            await examine(connection, address.cluster, address.replica)
    return connection


@asynccontextmanager
async def first_use(address: DatabaseAddress, role: str) -> AsyncIterator[Any]:
    """A new connection, with a time limit. If its use fails it is closed, and the reason is told as a StoreError."""
    connection = await open_connection(address, role)
    try:
        async with asyncio.timeout(STATEMENT_S):
            yield connection
    except BaseException as error:
        connection.terminate()
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            raise StoreRefused(f"the database refuses what the tables need: {error}. {remedy(error)}") from error
        if isinstance(error, LOST):
            raise StoreUnavailable(f"the database failed: {described(error)}") from error
        raise


def described(error: BaseException) -> str:
    """In one line. What a server says has its own hints below."""
    unsaid = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    told = str(error).partition("\n")[0] or unsaid
    return f"{told}. {remedy(error)}" if isinstance(error, asyncpg.DiskFullError) else told


def remedy(error: BaseException) -> str:
    """What the operator does about a refusal."""
    match error:
        case asyncpg.InvalidPasswordError():
            return "Is the password in store.url, or in EPOXY_STORE_URL, the one of this role?"
        case asyncpg.InvalidCatalogNameError():
            return "Is it the one that store.url should name? If so: CREATE DATABASE name OWNER role"
        case asyncpg.InsufficientPrivilegeError():
            return "GRANT CREATE ON DATABASE name TO role, or name a role in store.url that owns the tables"
        case asyncpg.DiskFullError():
            return "The database's disk needs room; nothing is lost, and all goes on when it has some"
        case _:
            return "May the role in store.url log in (ALTER ROLE role LOGIN), and does pg_hba.conf let this host in?"


class DatabaseConnection:
    """For one kind of work, so that kinds do not wait for each other. One use at a time, in the order of the calls."""

    def __init__(self, address: DatabaseAddress, role: str, most_backoff_s: float = math.inf) -> None:
        self._address = address
        self._role = role
        self._most_backoff_s = most_backoff_s
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._connection: Any = None
        self._timeline = 0
        self._warned = False
        self._backoff_s = 0.0
        self._trouble = ""
        self._closed = False

    async def run(self, work: Work[T]) -> T:
        """Raises StoreUnavailable. What was asked for may have taken effect, or may still do so. Work that the server
        aborts for the sake of another transaction is run again."""
        if self._waiting >= MAX_WAITING:
            raise StoreUnavailable(f"{MAX_WAITING} calls wait for the database already")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._run(work)
        finally:
            self._waiting -= 1

    async def _run(self, work: Work[T]) -> T:
        try:
            connection = await self._connected()
            timer = asyncio.get_running_loop().call_later(STATEMENT_S, connection.terminate)
            try:
                result = await self._attempted(connection, work)
            finally:
                timer.cancel()
            if self._is_past:
                self._drop()
                raise StoreUnavailable("the database has failed over, and its old primary was asked")
        except LOST as error:
            if getattr(error, "sqlstate", None) != LOCK_NOT_AVAILABLE:
                self._drop()
            raise self._told(StoreUnavailable(f"the database failed: {described(error)}")) from error
        except StoreUnavailable as error:
            raise self._told(error) from None
        except StoreRefused as error:
            # The database took this node when it started. What was done to it since may be undone.
            raise self._told(StoreUnavailable(str(error))) from error
        except Exception as error:
            # An answer that is not understood. The caller waits for one, and may have nothing else that wakes it up.
            self._drop()
            if not self._trouble:
                log.exception("an answer of the database is not understood (%s)", self._role)
            raise self._told(StoreUnavailable(f"the database failed: {error!r}")) from error
        except asyncio.CancelledError:
            self._drop()
            raise
        self._backoff_s = 0.0
        if self._trouble:
            log.warning("the database is back (%s)", self._role)
            self._trouble = ""
        return result

    async def _attempted(self, connection: Any, work: Work[T]) -> T:
        for attempt in range(ATTEMPTS):
            self._warned = False
            try:
                result = await work(connection)
            except asyncpg.PostgresError as error:
                if error.sqlstate not in ABORTED or attempt + 1 == ATTEMPTS:
                    raise
                continue
            if self._warned:
                self._drop()
                raise StoreUnavailable("the server answered with a warning: its standby may not have the commit")
            return result
        raise AssertionError("the last attempt returns or raises")

    @property
    def _is_past(self) -> bool:
        return self._address.timelines.is_past(self._timeline)

    async def _connected(self) -> Any:
        if self._connection is not None and self._is_past:
            self._drop()
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        if self._closed:
            raise StoreUnavailable("the database is closed")
        if self._backoff_s:
            await asyncio.sleep(self._backoff_s)
        self._backoff_s = min(max(self._backoff_s * 2, FIRST_BACKOFF_S), LAST_BACKOFF_S, self._most_backoff_s)
        connection = await connect(self._address, self._role)
        try:
            async with asyncio.timeout(STATEMENT_S):
                self._timeline = await self._address.timelines.admit(connection)
        except BaseException:
            connection.terminate()
            raise
        connection.add_log_listener(self._note)
        self._connection = connection
        return connection

    def _note(self, _connection: object, message: Any) -> None:
        self._warned = self._warned or message.severity_en == "WARNING"

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _told(self, error: StoreUnavailable) -> StoreUnavailable:
        """Say it once, not with every attempt."""
        if not self._trouble and not self._closed:
            log.warning("%s (%s); it is asked again", error, self._role)
        self._trouble = str(error)
        return error

    def close(self) -> None:
        """Without a word to the server, which may be silent."""
        self._closed = True
        self._drop()
