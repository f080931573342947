"""The commands that an agent answers to clients: those of Redis Sentinel, so that existing clients find the primary,
and our own.

The port speaks RESP and answers every client that can reach it, as a Sentinel does: the addresses of servers are no
secret. `ELECT FAILOVER` changes something, so it must be signed with the cluster's secret (`operator_orders.py`).
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from epoxy.codec import resp
from epoxy.model.address import Address
from epoxy.model.elect_status import AgentStatus, NodeStatus
from epoxy.protocol.elect.config import ElectConfig
from epoxy.protocol.elect.operator_orders import FAILOVER, OperatorOrder, OrderDesk

LIMITS = resp.ReaderLimits(arguments=16, argument_bytes=1024, command_bytes=8192)

SWITCH = "+switch-master"

MAX_CHANNELS = 64
"""Of one client. An agent publishes on one."""

MAX_TIME_DIGITS = 15
"""Of a time in milliseconds: 30,000 years."""


class SentinelSource(Struct, frozen=True, kw_only=True):
    """What a session needs of the agent."""

    config: Callable[[], ElectConfig]
    desk: OrderDesk
    secrets: Callable[[], tuple[bytes, ...]]
    now_ms: Callable[[], int]
    """The time of day: operators compare theirs."""
    status: Callable[[], AgentStatus]
    fail_over: Callable[[str], str | None]


class SentinelSession:
    """One client. `channels`: its subscriptions."""

    def __init__(self, source: SentinelSource) -> None:
        self.protocol = 2
        self.channels: set[str] = set()
        self.closing = False
        self._source = source

    def answer(self, command: Sequence[bytes]) -> bytes:
        words = [word.decode("utf-8", "replace") for word in command]
        handle = COMMANDS.get(words[0].upper())
        if handle is None:
            return resp.error(f"ERR unknown command '{words[0][:32]}'")
        return handle(self, words[1:])

    # Connections

    def ping(self, words: list[str]) -> bytes:
        if self.channels:
            return resp.array([resp.bulk(b"pong"), resp.bulk_text(words[0] if words else "")])
        return resp.bulk_text(words[0]) if words else resp.simple("PONG")

    def hello(self, words: list[str]) -> bytes:
        if words and words[0] not in ("2", "3"):
            return resp.error("NOPROTO unsupported protocol version")
        self.protocol = int(words[0]) if words else self.protocol
        pairs = {"server": "redis", "version": "7.0.0", "mode": "sentinel", "role": "master"}
        fields = [(resp.bulk_text(name), resp.bulk_text(value)) for name, value in pairs.items()]
        fields += [(resp.bulk(b"proto"), resp.integer(self.protocol)), (resp.bulk(b"id"), resp.integer(1))]
        fields.append((resp.bulk(b"modules"), resp.array([])))
        return resp.mapping(fields, self.protocol)

    def accept(self, _: list[str]) -> bytes:
        return resp.OK

    def quit(self, _: list[str]) -> bytes:
        self.closing = True
        return resp.OK

    def role(self, _: list[str]) -> bytes:
        names = resp.array([resp.bulk_text(self._source.config().cluster)])
        return resp.array([resp.bulk(b"sentinel"), names])

    def info(self, _: list[str]) -> bytes:
        status = self._source.status()
        state = "ok" if status.primary else "odown"
        replicas = len(status.nodes) - 1
        lines = [
            "# Sentinel",
            "sentinel_masters:1",
            f"master0:name={status.cluster},status={state},address={status.primary_address or '?:0'},"
            f"slaves={replicas},sentinels={len(status.nodes)}",
        ]
        return resp.verbatim("\r\n".join(lines) + "\r\n", self.protocol)

    # Sentinel

    def sentinel(self, words: list[str]) -> bytes:
        subcommand = words[0].lower() if words else ""
        if subcommand == "masters":
            return resp.array([self._table(self._master())])
        if subcommand not in ("get-master-addr-by-name", "master", "replicas", "slaves", "sentinels", "ckquorum"):
            return resp.error(f"ERR unknown SENTINEL subcommand '{subcommand[:32]}'")
        if len(words) < 2 or words[1] != self._source.config().cluster:
            if subcommand == "get-master-addr-by-name":
                return self._null()
            return resp.error("ERR No such master with that name")
        return self._about(subcommand)

    def _about(self, subcommand: str) -> bytes:
        status = self._source.status()
        if subcommand == "get-master-addr-by-name":
            return self._address(status)
        if subcommand == "master":
            return self._table(self._master())
        if subcommand == "ckquorum":
            return self._quorum(status)
        if subcommand == "sentinels":
            return resp.array([])
        primary = status.primary or status.leader
        return resp.array([self._table(self._replica(status, node)) for node in status.nodes if node.id != primary])

    def _address(self, status: AgentStatus) -> bytes:
        if status.primary is None:
            return self._null()
        address = self._source.config().node(status.primary).server
        return resp.array([resp.bulk_text(address.host), resp.bulk_text(str(address.port))])

    def _null(self) -> bytes:
        return resp.null(self.protocol) if self.protocol == 3 else b"*-1\r\n"

    def _quorum(self, status: AgentStatus) -> bytes:
        seen = sum(node.seen_ms is not None and node.state != "down" for node in status.nodes)
        if seen >= status.quorum:
            return resp.simple(f"OK {seen} usable Sentinels. Quorum and failover authorization can be reached")
        return resp.error(f"NOQUORUM {seen} usable agents, {status.quorum} are needed")

    def _master(self) -> dict[str, str]:
        """Without a primary, the last one with the flags of a master that is down, as a Sentinel reports it."""
        status = self._source.status()
        address = self._source.config().node(status.primary or status.leader).server
        return {
            **base(status.cluster, address, "master" if status.primary else "master,s_down,o_down"),
            "role-reported": "master",
            "config-epoch": str(status.leader_epoch),
            "num-slaves": str(len(status.nodes) - 1),
            "num-other-sentinels": str(sum(node.seen_ms is not None for node in status.nodes) - 1),
            "quorum": str(status.quorum),
            "failover-timeout": str(self._source.config().timing.election_timeout_ms),
            "parallel-syncs": str(len(status.nodes) - 1),
        }

    def _replica(self, status: AgentStatus, node: NodeStatus) -> dict[str, str]:
        config = self._source.config()
        address = config.node(node.id).server
        lately = node.seen_ms is not None and node.seen_ms < config.timing.down_after_ms
        alive = lately and node.state != "down"
        primary = config.node(status.primary or status.leader).server
        return {
            **base(str(address), address, "slave" if alive else "slave,s_down"),
            "role-reported": "slave",
            "master-link-status": "ok" if alive and status.primary else "err",
            "master-host": primary.host,
            "master-port": str(primary.port),
            "slave-priority": str(node.priority),
            "slave-repl-offset": str(node.offset),
        }

    def _table(self, fields: dict[str, str]) -> bytes:
        pairs = [(resp.bulk_text(name), resp.bulk_text(value)) for name, value in fields.items()]
        return resp.mapping(pairs, self.protocol)

    # Subscriptions

    def subscribe(self, words: list[str]) -> bytes:
        if len(self.channels | set(words)) > MAX_CHANNELS:
            return resp.error(f"ERR a client may subscribe to {MAX_CHANNELS} channels")
        return b"".join(self._subscribed("subscribe", word, joins=True) for word in words)

    def unsubscribe(self, words: list[str]) -> bytes:
        return b"".join(self._subscribed("unsubscribe", word, joins=False) for word in words or sorted(self.channels))

    def _subscribed(self, kind: str, channel: str, *, joins: bool) -> bytes:
        (self.channels.add if joins else self.channels.discard)(channel)
        return self._push([resp.bulk_text(kind), resp.bulk_text(channel), resp.integer(len(self.channels))])

    def published(self, channel: str, message: str) -> bytes:
        if channel in self.channels:
            return self._push([resp.bulk(b"message"), resp.bulk_text(channel), resp.bulk_text(message)])
        return b""

    def _push(self, items: list[bytes]) -> bytes:
        return b">%d\r\n%b" % (len(items), b"".join(items)) if self.protocol == 3 else resp.array(items)

    # Commands that Sentinel does not have

    def elect(self, words: list[str]) -> bytes:
        match [word if i else word.upper() for i, word in enumerate(words)]:
            case ["STATUS"]:
                return resp.bulk(msgspec.json.encode(self._source.status()))
            case ["LIFE"]:
                addressee = self._source.desk.addressee
                return resp.bulk_text(f"{addressee.agent} {addressee.life}")
            case ["FAILOVER", heir, time_ms, nonce, proof]:
                return self._fail_over(heir, time_ms, nonce, proof)
            case ["FAILOVER", _, _]:
                return resp.error("NOAUTH an order without time and nonce: use `epoxy elect failover` of this release")
            case _:
                return resp.error("ERR ELECT STATUS, ELECT LIFE, or ELECT FAILOVER node time nonce proof")

    def _fail_over(self, heir: str, time_ms: str, nonce: str, proof: str) -> bytes:
        if not (time_ms.isascii() and time_ms.isdecimal()) or len(time_ms) > MAX_TIME_DIGITS:
            return resp.error("ERR the time of an order is a number of milliseconds")
        source = self._source
        order = OperatorOrder(act=FAILOVER, target=heir, time_ms=int(time_ms), nonce=nonce)
        refused = source.desk.refusal(order, proof, source.secrets(), source.now_ms())
        if refused is not None:
            return resp.error(f"NOAUTH {refused}")
        reason = source.fail_over(heir)
        return resp.error(f"ERR {reason}") if reason else resp.OK


UNMEASURED = (
    *("last-ping-sent", "last-ok-ping-reply", "last-ping-reply"),
    *("down-after-milliseconds", "info-refresh", "role-reported-time"),
)


def base(name: str, address: Address, flags: str) -> dict[str, str]:
    return {
        "name": name,
        "ip": address.host,
        "port": str(address.port),
        "runid": "",
        "flags": flags,
        "link-pending-commands": "0",
        "link-refcount": "1",
        **dict.fromkeys(UNMEASURED, "0"),
    }


Handle = Callable[[SentinelSession, list[str]], bytes]
COMMANDS: dict[str, Handle] = {
    "PING": SentinelSession.ping,
    "HELLO": SentinelSession.hello,
    "AUTH": SentinelSession.accept,
    "CLIENT": SentinelSession.accept,
    "SELECT": SentinelSession.accept,
    "QUIT": SentinelSession.quit,
    "ROLE": SentinelSession.role,
    "INFO": SentinelSession.info,
    "SENTINEL": SentinelSession.sentinel,
    "SUBSCRIBE": SentinelSession.subscribe,
    "UNSUBSCRIBE": SentinelSession.unsubscribe,
    "ELECT": SentinelSession.elect,
}
