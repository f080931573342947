"""Who may do what, in one node's process: what its log says about it."""

from epoxy.node.process.auth import exposed_listeners
from epoxy.node.process.logs import LOGGER
from epoxy.node.service import Node


def log_access(node: Node) -> None:
    access = node.access
    facts = {"auth": "open" if access.is_open else "tokens", "grants": len(access.table.grants)}
    LOGGER.info("access", extra={**facts, "version": access.version})
    exposed = exposed_listeners(node.settings.node)
    if access.is_open and exposed:
        listeners = [f"{name} {address}" for name, address in exposed.items()]
        detail = 'access.auth is "open", and other machines can reach this node'
        LOGGER.warning("every client may do everything", extra={"listeners": listeners, "detail": detail})
