"""The other members, as the configuration has them: links to them, and who of them is heard."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.members import MemberReply, MemberRequest
from epoxy.model.messages import Failed, Reply, Request, StaleEpoch, UpdateConfig
from epoxy.model.records import KeyState
from epoxy.node.service import Node
from epoxy.transport.http.exchange import Handler
from epoxy.transport.limits import CHANGELOG_READ_PATH, MEMBER_PATH, MESSAGE_PATH, STREAM_PATH
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.member_rpc import MemberRpcClient, MemberRpcEndpoint
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.peers.transport import Handle, PeerEndpoint, Peers
from epoxy.transport.wan import aws
from epoxy.transport.wan.emulation import Link

Replied = Callable[[Sequence[Reply]], None]

FAREWELL_S = 5.0
"""For the coordinator to tell those who leave. Who misses it is told when it asks for something."""

UNCONFIRMED = Failed(reason="most of the others have not met this store yet")


class Neighbours:
    def __init__(self, node: Node, peers: Peers, questions: MemberRpcClient, link: Link, handle: Handle) -> None:
        assert node.member is not None, "only a node that is on its own has no neighbours"
        self._node = node
        self._replica = node.replica
        self._member = node.member
        self._guard = node.member.guard
        self._peers = peers
        self._questions = questions
        self._link = link
        self._handle = handle
        self._links: dict[int, str] = {}
        self._loop = asyncio.get_running_loop()
        self.identity = self._guard.identity
        self.heard = self._guard.heard
        self._replica.config_watchers.append(self._committed)

    def start(self) -> None:
        self._follow()

    def stop(self) -> None:
        self._links = {}
        self._questions.stop()

    def ids(self) -> frozenset[int]:
        return frozenset(self._replica.config.replica_ids) - {self._replica.me}

    def doors(self, secret: bytes, *, certificates: bool) -> dict[bytes, Handler]:
        verifier = Verifier(self._replica.me, secret, store=self.identity)
        authenticator = Authenticator(verifier, link=self._link, certificates=certificates, recognises=self._recognises)
        messages = PeerEndpoint(self._handle, authenticator, handler_for=self._handler_for)
        questions = MemberRpcEndpoint(self._answer, authenticator)
        return {MESSAGE_PATH: messages, STREAM_PATH: messages, MEMBER_PATH: questions, CHANGELOG_READ_PATH: questions}

    # Links

    def _committed(self, key: bytes, _before: KeyState, _after: KeyState) -> None:
        """In the middle of a transaction, where nobody may be hung up on."""
        if key == CONFIG_KEY:
            self._loop.call_soon(self._follow)

    def _follow(self) -> None:
        """One that is no member, or not yet, has nobody to talk to; it is told when it becomes one."""
        config, me = self._replica.config, self._replica.me
        others = [info for info in config.replicas if info.id != me] if config.info(me) is not None else []
        if self._node.settings.wan.emulate:
            self._link.measure({info.id: self._rtt_ms(info.id) for info in others})
        links = {info.id: info.url for info in others}
        self._connect(self._links | links)
        self._links = links
        self._loop.call_later(FAREWELL_S, self._part)

    def _part(self) -> None:
        """From those who have left, once they have been told."""
        self._connect(self._links)

    def _connect(self, links: Mapping[int, str]) -> None:
        self._peers.set_links(links)
        self._questions.set_links(links)

    def _rtt_ms(self, replica: int) -> float:
        here, there = self._node.settings.node.datacenter, self._node.datacenter_of(replica)
        return aws.rtt_ms(here, there) if there in aws.REGIONS else 0.0

    # Who is heard

    def _recognises(self, header: SignedHeader) -> bool | None:
        return None if self._has_left(header) else self._guard.admits(header.sender, header.store)

    def _has_left(self, header: SignedHeader) -> bool:
        """A stranger with a newer epoch than ours may be a member we have not heard of; any other is none."""
        config = self._replica.config
        return header.sender not in config.replica_ids and header.epoch <= config.epoch

    def _handler_for(self, header: SignedHeader) -> Handle:
        if self._has_left(header):
            return self._turn_away
        return self._handle if self._guard.may_vote else self._listen

    def _turn_away(self, requests: Sequence[Request], answered: Replied) -> None:
        """Whoever was removed and has not heard of it is told with what it asks for next."""
        self._handle((), lambda _: answered([StaleEpoch(config=self._replica.config)] * len(requests)))

    def _listen(self, requests: Sequence[Request], answered: Replied) -> None:
        """One that may not speak for itself yet takes configurations from others, and no part in anything else."""
        if all(isinstance(request, UpdateConfig) for request in requests):
            self._handle(requests, answered)
        else:
            self._handle((), lambda _: answered([UNCONFIRMED] * len(requests)))

    def _answer(self, header: SignedHeader, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        if self._has_left(header):
            self._handle((), lambda _: answered(StaleEpoch(config=self._replica.config)))
        else:
            self._member.answer(request, answered)
