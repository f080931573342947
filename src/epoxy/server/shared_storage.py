"""The database of a node that shares it with others, and what of it is in the place of a disk."""

import asyncio

from epoxy.model.api import DiskUsage
from epoxy.model.errors import StoreUnavailable, TablesInUse
from epoxy.node.process.config import Settings, without_password
from epoxy.node.process.logs import LOGGER
from epoxy.store.postgres.asyncpg_database import AsyncpgDatabase, open_database
from epoxy.store.shared.store import SharedStore

AGAIN_S = 0.5
"""Between two tries to reach the database at the start."""

REMIND_S = 60.0
"""Between two lines of the log about a database that stays away for the same reason."""

AWAY = "the database cannot be used; it is asked again"
HINT = "is it running, and is store.url (or EPOXY_STORE_URL) its address?"

IN_USE = "this node does not serve yet: it waits until no node of its datacenter uses the older tables"
STOP_THEM = (
    "stop those nodes, and start them with this release; the tables are then migrated, and this node goes on. "
    "`epoxy store migrate --dry-run` says more"
)


class SharedStorage:
    """The database's disk is not this machine's: how full it is and how long its syncs take is its operator's."""

    def __init__(self, settings: Settings, store: SharedStore, *, is_new: bool) -> None:
        self.store = store
        self.cluster = settings.cluster.id
        self.is_new = is_new
        settings.node.data_dir.mkdir(parents=True, exist_ok=True)  # for the audit log

    def longest_sync_ms(self) -> float | None:
        return None

    def disk_usage(self) -> DiskUsage | None:
        return None

    def close(self) -> None:
        self.store.close()


async def database_of(settings: Settings) -> AsyncpgDatabase:
    """Waits until it can be used, and says why it cannot: at once, when the reason is another one, and from time to
    time. Nodes that use an older format of the tables are waited for, each that stops is another reason. A database
    that refuses this node is not waited for."""
    store, loop = settings.store, asyncio.get_running_loop()
    told, told_s = "", 0.0
    while True:
        try:
            return await open_database(
                store.url, schema=store.schema, cluster=settings.cluster.id, replica=settings.node.id
            )
        except StoreUnavailable as error:
            if str(error) != told or loop.time() - told_s >= REMIND_S:
                told, told_s = str(error), loop.time()
                waits = isinstance(error, TablesInUse)
                facts = {"url": without_password(store.url), "detail": told, "hint": STOP_THEM if waits else HINT}
                LOGGER.warning(IN_USE if waits else AWAY, extra=facts)
            await asyncio.sleep(AGAIN_S)
