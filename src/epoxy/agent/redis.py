"""How the agent observes a Redis or Valkey server, and the commands that carry out orders.

A fenced server replicates from an address where no server can listen: it refuses every write with -READONLY, those of
scripts and transactions too, serves reads, and keeps what it needs to catch up without a full copy. Decision 0016 has
the reasons. The epoch of the last write is in the data itself, under a key that the first write of each epoch sets.
"""

from collections.abc import Mapping

from epoxy.codec import resp
from epoxy.model.address import Address
from epoxy.protocol.elect.codec import MAX_NUMBER
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.terms import (
    Fence,
    Follow,
    Mode,
    OpenServer,
    Order,
    Quiesce,
    ReplicationPosition,
    ServerReport,
)

NOWHERE = Address("127.0.0.1", 0)
"""No server can listen on port 0, so nothing is ever copied from there."""

EPOCH_KEY = "epoxy:elect:epoch"
MAX_DIGITS = len(str(MAX_NUMBER))

Command = tuple[str | int, ...]
Reply = bytes | int | None | list["Reply"] | Exception
OBSERVE: tuple[Command, ...] = (("INFO", "replication"), ("GET", EPOCH_KEY))
DISCONNECT_CLIENTS: tuple[Command, ...] = (("CLIENT", "KILL", "TYPE", "normal"), ("CLIENT", "KILL", "TYPE", "pubsub"))
"""What a Sentinel sends with every REPLICAOF. Clients that do not look for the primary after -READONLY do so when their
connection ends. The agent's own connection and those of replicas stay."""

FENCE: tuple[Command, ...] = (("REPLICAOF", NOWHERE.host, NOWHERE.port), ("CLIENT", "UNPAUSE"))


class ServerError(Exception):
    """An error reply of the server."""


def encode(command: Command) -> bytes:
    return resp.array([resp.bulk_text(str(word)) for word in command])


def commands_for(order: Order, config: ElectConfig, now_ms: int) -> tuple[Command, ...]:
    match order:
        case Fence():
            return FENCE
        case Follow():
            leader = config.node(order.leader).server
            return (("REPLICAOF", leader.host, leader.port), ("CLIENT", "UNPAUSE"), *DISCONNECT_CLIENTS)
        case OpenServer():
            return opening(order.epoch, config)
        case Quiesce():
            return (("CLIENT", "PAUSE", max(1, order.until_ms - now_ms), "WRITE"),)


def opening(epoch: int, config: ElectConfig) -> tuple[Command, ...]:
    """Sent in one write, so that no client writes between the promotion and the mark of its epoch. Replicas are
    required only after that: the mark itself must not wait for them."""
    lag_s = max(1, config.timing.lease_ms // 1000)
    return (
        ("CONFIG", "SET", "min-replicas-to-write", 0),
        ("REPLICAOF", "NO", "ONE"),
        ("SET", EPOCH_KEY, epoch),
        ("CONFIG", "SET", "min-replicas-max-lag", lag_s),
        ("CONFIG", "SET", "min-replicas-to-write", config.min_replicas_to_write),
        ("CLIENT", "UNPAUSE"),
    )


def read_info(reply: Reply) -> dict[str, str]:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else ""
    lines = (line.partition(":") for line in text.splitlines() if not line.startswith("#"))
    return {name: value for name, colon, value in lines if colon}


def number(info: Mapping[str, str], name: str) -> int:
    value = info.get(name, "")
    return int(value) if value.isdecimal() else 0


def read_report(replies: list[Reply], config: ElectConfig, *, quiet: bool) -> ServerReport:
    """A server that loads its data answers INFO and nothing else: its position is not known, so it is reported as not
    alive."""
    info, mark = read_info(replies[0]), replies[1]
    if (isinstance(mark, ServerError) and not is_wrong_type(mark)) or "role" not in info:
        return ServerReport(alive=False, mode=mode_of(info, quiet=quiet))
    history = epoch_of(mark)
    mode = mode_of(info, quiet=quiet)
    offset = number(info, "master_repl_offset" if info["role"] == "master" else "slave_repl_offset")
    return ServerReport(
        alive=True,
        mode=mode,
        leader=leader_of(info, config) if mode is Mode.FOLLOWING else "",
        position=ReplicationPosition(history, offset),
    )


def is_wrong_type(mark: ServerError) -> bool:
    """Whether a client has replaced the key by another type. The server is alive all the same, and its primary sets the
    mark again."""
    return str(mark).startswith("WRONGTYPE")


def epoch_of(mark: Reply) -> int:
    """Any client may write the key. Anything but an epoch counts as 0, until the primary sets the mark again."""
    if not isinstance(mark, bytes) or not mark.isdigit() or len(mark) > MAX_DIGITS:
        return 0
    epoch = int(mark)
    return epoch if epoch <= MAX_NUMBER else 0


def mode_of(info: Mapping[str, str], *, quiet: bool) -> Mode:
    if info.get("role") == "slave":
        return Mode.FENCED if number(info, "master_port") == NOWHERE.port else Mode.FOLLOWING
    return Mode.QUIET if quiet else Mode.OPEN


def leader_of(info: Mapping[str, str], config: ElectConfig) -> str:
    """The node it follows, by address; empty for an address outside the cluster."""
    followed = Address(info.get("master_host", ""), number(info, "master_port"))
    return next((node.id for node in config.nodes if node.server == followed), "")
