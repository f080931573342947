"""Links to the other members, which follow the configuration, and which of their requests are handled."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from epoxy.api.http.routes import Route, signed_route
from epoxy.codec.plain_requests import Incoming
from epoxy.model.access import Access
from epoxy.model.members import MemberReply, MemberRequest
from epoxy.model.messages import Failed, Reply, StaleEpoch
from epoxy.model.records import KeyState
from epoxy.node.service import Node
from epoxy.transport.limits import (
    CHANGELOG_READ_PATH,
    GATEWAY_PATHS,
    MEMBER_PATH,
    MESSAGE_PATH,
    PROBE_PATH,
    RELAY_PATH,
    STREAM_PATH,
)
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.gateway_refusal import refuse_peer
from epoxy.transport.peers.keyring import Keyring
from epoxy.transport.peers.member_rpc import MemberRpcClient, MemberRpcEndpoint
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.peers.transport import Handle, PeerEndpoint, Peers
from epoxy.transport.wan import aws
from epoxy.transport.wan.emulation import Link

Replied = Callable[[Sequence[Reply]], None]

UNLINK_DELAY_S = 5.0
"""How long the links to removed members stay, for the coordinator to tell them. A member that misses the message gets
the configuration as the answer to its next request."""

UNCONFIRMED = Failed(reason="not enough of the others have confirmed this store since it started")


def not_gateway_routes() -> list[Route]:
    """What a node that is not the gateway of its datacenter serves at the addresses of peers: a word that it is not."""
    methods = {STREAM_PATH: "GET", PROBE_PATH: "GET", RELAY_PATH: "GET"}
    return [signed_route(methods.get(path, "POST"), path, refuse_peer, Access.PEER) for path in sorted(GATEWAY_PATHS)]


class PeerRouter:
    def __init__(self, node: Node, peers: Peers, member_rpc: MemberRpcClient, link: Link, handle: Handle) -> None:
        assert node.member is not None, "a node without a Membership has no peers"
        self._node = node
        self._replica = node.replica
        self._member = node.member
        self._gate = node.member.gate
        self._peers = peers
        self._member_rpc = member_rpc
        self._link = link
        self._handle = handle
        self._links: dict[int, str] = {}
        self._loop = asyncio.get_running_loop()
        self.identity = self._gate.identity
        self._replica.config_watchers.append(self._config_changed)

    def start(self) -> None:
        self._follow()

    def stop(self) -> None:
        self._links = {}
        self._member_rpc.stop()

    def ids(self) -> frozenset[int]:
        return frozenset(self._replica.config.replica_ids) - {self._replica.me}

    def authenticator(self, secret: bytes | Keyring, *, certificates: bool) -> Authenticator:
        verifier = Verifier(self._replica.me, secret, cluster=self._node.settings.cluster.id)
        return Authenticator(
            *(verifier, self._gate),
            link=self._link,
            certificates=certificates,
            has_left=self._has_left,
            versions=self._peers.versions,
        )

    def routes(self, authenticator: Authenticator) -> list[Route]:
        messages = PeerEndpoint(self._handle, authenticator, handler_for=self._handler_for)
        member_rpc = MemberRpcEndpoint(self._answer, authenticator)
        return [
            signed_route("GET", STREAM_PATH, messages, Access.PEER),
            signed_route("POST", MESSAGE_PATH, messages, Access.PEER),
            signed_route("POST", MEMBER_PATH, member_rpc, Access.PEER),
            signed_route("POST", CHANGELOG_READ_PATH, member_rpc, Access.PEER),
        ]

    # Links

    def _config_changed(self, _key: bytes, _before: KeyState, _after: KeyState) -> None:
        """Called within a transaction, where no connection may be closed: links follow in the next turn of the loop."""
        self._loop.call_soon(self._follow)

    def refused(self) -> None:
        """The store of this node was refused: it has no part in anything any more. The links go in the next turn of the
        loop, because one of them may have brought the news."""
        self._links = {}
        self._loop.call_soon(self._unlink)

    def _follow(self) -> None:
        """Link to all other members, or to none while this replica is no member itself, or its store is refused."""
        config, me = self._replica.config, self._replica.me
        takes_part = config.info(me) is not None and not self._gate.refused
        others = [info for info in config.replicas if info.id != me] if takes_part else []
        if self._node.settings.wan.emulate:
            self._link.measure({info.id: self._rtt_ms(info.id) for info in others})
        links = {info.id: info.url for info in others}
        self._connect(self._links | links)
        self._links = links
        self._loop.call_later(UNLINK_DELAY_S, self._unlink)

    def _unlink(self) -> None:
        """Drop the links to removed members."""
        self._connect(self._links)

    def _connect(self, links: Mapping[int, str]) -> None:
        self._peers.set_links(links)
        self._member_rpc.set_links(links)

    def _rtt_ms(self, replica: int) -> float:
        here, there = self._node.settings.node.datacenter, self._node.datacenter_of(replica)
        return aws.rtt_ms(here, there) if there in aws.REGIONS else 0.0

    # Requests of others

    def _has_left(self, header: SignedHeader) -> bool:
        """A sender that is no member here, with a newer epoch, may be one that this replica does not know of yet."""
        config = self._replica.config
        return header.sender not in config.replica_ids and header.epoch <= config.epoch

    def _handler_for(self, header: SignedHeader) -> Handle:
        if self._has_left(header):
            return self._refuse_removed
        return self._handle if self._gate.may_vote else self._handle_unconfirmed

    def _refuse_removed(self, requests: Sequence[Incoming], answered: Replied) -> None:
        """A removed member that does not know it yet gets the configuration as its answer."""
        self._handle((), lambda _: answered([StaleEpoch(config=self._replica.config)] * len(requests)))

    def _handle_unconfirmed(self, requests: Sequence[Incoming], answered: Replied) -> None:
        """A replica that may not vote yet accepts configurations, and refuses all other requests."""
        if self._gate.serves(requests):
            self._handle(requests, answered)
        else:
            self._handle((), lambda _: answered([UNCONFIRMED] * len(requests)))

    def _answer(self, header: SignedHeader, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        if self._has_left(header):
            self._handle((), lambda _: answered(StaleEpoch(config=self._replica.config)))
        else:
            self._member.answer(request, answered)
