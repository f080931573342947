"""The database of a node that shares it with others, and what of it is in the place of a disk."""

import asyncio

from epoxy.model.api import DiskUsage
from epoxy.model.errors import StoreUnavailable
from epoxy.node.process.config import Settings, without_password
from epoxy.node.process.logs import LOGGER
from epoxy.store.postgres.asyncpg_database import AsyncpgDatabase, open_database
from epoxy.store.shared.store import SharedStore

AGAIN_S = 0.5
"""Between two tries to reach the database at the start."""

REMIND_S = 60.0
"""Between two lines of the log about a database that stays away for the same reason."""

HINT = "is it running, and is store.url (or EPOXY_STORE_URL) its address?"


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
    time. A database that refuses this node is not waited for."""
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
                facts = {"url": without_password(store.url), "detail": told, "hint": HINT}
                LOGGER.warning("the database cannot be used; it is asked again", extra=facts)
            await asyncio.sleep(AGAIN_S)
