"""Who belongs to the cluster, how far a change is, and orders to change it."""

from functools import partial
from typing import assert_never

import msgspec
from msgspec import UNSET, Struct, UnsetType

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import BadRequest, choice, json_body, parameters
from epoxy.codec import json_text
from epoxy.model.cluster import ClusterConfig, ReplicaInfo
from epoxy.model.errors import CodecError
from epoxy.model.members import ChangeRequest, Member, MemberStatus
from epoxy.model.writes import ConsensusFailed, Refused
from epoxy.node.members.members_admin import Accepted, MembersView, Verdict
from epoxy.node.process.sections import read_url
from epoxy.protocol.members.change_request import Amendment, Objection

KNOWN = frozenset((b"progress",))
NONE: frozenset[bytes] = frozenset()

MAX_DATACENTER = 255
"""What the schema carries."""

MAX_ASKED = 64
"""Questions to all members, and orders, under way at a time. Each is a message to every member and back; they are for
people, and for the commands that wait for a change to be done."""

STATUSES = {"unknown_member": 404}
"""Of objections; the others are conflicts, with how things are or within the order."""


class Sizes(Struct, frozen=True, kw_only=True):
    fast: int
    slow: int


class Progress(Struct, frozen=True, kw_only=True):
    """What a member says of itself; `heard` False: it said nothing."""

    heard: bool
    epoch: int = 0
    keys: int = 0
    copied: int = 0
    sources: tuple[int, ...] = ()
    synced: bool = False


class Row(Struct, frozen=True, kw_only=True):
    id: int
    status: str
    url: str
    identity: int
    datacenter: str
    progress: Progress | UnsetType = UNSET


class Members(Struct, frozen=True, kw_only=True):
    """`wanted`: who shall be the members; as long as others are, a change is under way or waits for its turn."""

    epoch: int
    coordinator_id: int
    quorum_policy: str
    quorums: Sizes
    joint: bool
    previous: tuple[int, ...] | None
    wanted: tuple[int, ...]
    replicas: list[Row]
    settled: bool | UnsetType = UNSET
    waiting: str | UnsetType = UNSET


class Newcomer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: int
    url: str
    datacenter: str = ""


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a POST."""

    add: list[Newcomer] = []
    remove: list[int] = []
    force: bool = False


orders = msgspec.json.Decoder(Order, strict=False)
"""4.0 is a whole number, says JSON Schema."""


class Ordered(Struct, frozen=True, kw_only=True):
    """`queued`: another change is finished first."""

    wanted: tuple[int, ...]
    epoch: int
    queued: bool


class MembersRoutes:
    def __init__(self, node: Backend) -> None:
        self._node = node
        self._asked = 0

    def get(self, call: ApiCall) -> None:
        given = parameters(call.request.query, KNOWN)
        wants = choice("progress", given.get(b"progress", b"false"), (b"true", b"false")) == b"true"
        config, roster = self._node.replica.config, self._node.members_admin
        if not wants or roster is None:
            wish = roster.wish() if roster is not None else None
            call.json(200, members(config, wish, self._node))
        elif self._admits(call):
            roster.look(partial(self._looked, call))

    def _looked(self, call: ApiCall, look: MembersView) -> None:
        self._asked -= 1
        call.json(200, described(look, self._node))

    def post(self, call: ApiCall) -> None:
        parameters(call.request.query, NONE)
        order, roster = read_order(json_body(call.request)), self._node.members_admin
        if roster is None:
            call.fail(501, "not_implemented", "this node has no part in changing members")
        elif self._admits(call):
            roster.change(order, partial(self._ordered, call))

    def _ordered(self, call: ApiCall, verdict: Verdict) -> None:
        self._asked -= 1
        answer(call, verdict)

    def _admits(self, call: ApiCall) -> bool:
        if self._asked >= MAX_ASKED:
            message = f"{MAX_ASKED} questions about members are under way already"
            call.fail(429, "overloaded", message, retry_after_ms=RETRY_AFTER_MS)
            return False
        self._asked += 1
        return True


def read_order(body: bytes) -> Amendment:
    try:
        order = json_text.decode(orders, body)
    except CodecError as error:
        raise BadRequest(400, "bad_request", f"the body is no order to add and remove members: {error}") from error
    return Amendment(add=tuple(map(newcomer, order.add)), remove=tuple(map(checked, order.remove)), force=order.force)


def newcomer(given: Newcomer) -> Member:
    if len(given.datacenter.encode()) > MAX_DATACENTER:
        raise BadRequest(400, "bad_request", f"a datacenter's name has at most {MAX_DATACENTER} bytes")
    try:
        return Member(id=checked(given.id), url=read_url(given.url), datacenter=given.datacenter)
    except ValueError:
        raise BadRequest(
            400, "bad_request", f"{given.url!r} is no address of a node, as http://10.0.0.1:7800"
        ) from None


def checked(replica: int) -> int:
    if not 1 <= replica < 1 << 32:
        raise BadRequest(
            400, "bad_request", f"the id of a replica is a number from 1 to {(1 << 32) - 1}, not {replica}"
        )
    return replica


def answer(call: ApiCall, verdict: Verdict) -> None:
    match verdict:
        case Accepted():
            wanted = tuple(member.id for member in verdict.wish.members)
            call.json(202, Ordered(wanted=wanted, epoch=verdict.epoch, queued=verdict.queued))
        case Objection():
            call.fail(STATUSES.get(verdict.code, 409), verdict.code, verdict.words)
        case Refused():
            call.fail(503, "refused", verdict.reason, retry_after_ms=RETRY_AFTER_MS)
        case ConsensusFailed():
            call.fail(503, "consensus_failed", verdict.reason, definite=False)
        case _:
            assert_never(verdict)


def members(config: ClusterConfig, wish: ChangeRequest | None, node: Backend) -> Members:
    return Members(
        epoch=config.epoch,
        coordinator_id=config.coordinator_id,
        quorum_policy=config.quorum_policy.value,
        quorums=Sizes(fast=config.quorums.fast, slow=config.quorums.slow),
        joint=config.is_joint,
        previous=config.previous,
        wanted=tuple(member.id for member in wish.members) if wish is not None else config.active,
        replicas=[row(info, node) for info in config.replicas],
    )


def row(info: ReplicaInfo, node: Backend, progress: Progress | UnsetType = UNSET) -> Row:
    return Row(
        id=info.id,
        status=info.status.value,
        url=info.url,
        identity=info.identity,
        datacenter=node.datacenter_of(info.id),
        progress=progress,
    )


def described(look: MembersView, node: Backend) -> Members:
    rows = [row(info, node, progress(look.heard.get(info.id))) for info in look.config.replicas]
    plain = members(look.config, look.wish, node)
    return msgspec.structs.replace(plain, replicas=rows, settled=look.settled, waiting=look.waiting)


def progress(status: MemberStatus | None) -> Progress:
    if status is None:
        return Progress(heard=False)
    return Progress(
        heard=True,
        epoch=status.epoch,
        keys=status.keys,
        copied=status.copied,
        sources=status.sources,
        synced=status.synced,
    )
