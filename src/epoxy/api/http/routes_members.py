"""Who belongs to the cluster, how far a change is, and orders to change it."""

from functools import partial
from typing import assert_never

import msgspec

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import BadRequest, flag, json_record
from epoxy.api.http.routes import JSON, NO_LENGTH, NOT_JSON, Parameter, Route, RouteAnswer, overloaded, refusal
from epoxy.model.access import Access
from epoxy.model.api import (
    MAX_DATACENTER_BYTES,
    MAX_REPLICA_ID,
    Flag,
    MemberProgress,
    MemberRow,
    Members,
    MembersOrder,
    Newcomer,
    Ordered,
    QuorumSizes,
)
from epoxy.model.cluster import ClusterConfig, ReplicaInfo
from epoxy.model.members import ChangeRequest, Member, MemberStatus
from epoxy.model.node_urls import BadUrls
from epoxy.model.writes import ConsensusFailed, Refused
from epoxy.node.members.members_admin import Accepted, MembersView, Verdict
from epoxy.node.process.sections import read_urls
from epoxy.protocol.members.change_request import Amendment, Objection

MAX_ASKED = 64
"""Questions to all members, and orders, under way at a time. Each is a message to every member and back; they are for
people, and for the commands that wait for a change to be done."""

STATUSES = {"unknown_member": 404}
"""Of objections; the others are conflicts, with the members there are or within the order."""

CONFLICTS = (
    *("already_member", "address_taken", "named_twice", "nothing_to_do"),
    *("nobody_left", "too_many_members", "would_lose_quorum"),
)

orders = msgspec.json.Decoder(MembersOrder, strict=False)
"""4.0 is a whole number, says JSON Schema."""


class MembersRoutes:
    def __init__(self, node: Backend) -> None:
        self._node = node
        self._asked = 0

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/members",
                handler=self.get,
                kind="http_get_members",
                access=Access.ANY,
                operation="getMembers",
                summary="Who belongs to the cluster, and how far a change is",
                parameters=(Parameter("progress", Flag, "Ask every member how far it is.", "false"),),
                answers={200: RouteAnswer("The members.", {JSON: Members}), 429: overloaded()},
                needs_ready=False,
            ),
            Route(
                method="POST",
                path="/v2/members",
                handler=self.post,
                kind="http_post_members",
                access=Access.OPERATE,
                operation="changeMembers",
                summary="Change who belongs to the cluster",
                body={JSON: MembersOrder},
                body_description="Who comes, who goes, and who moves to another address, in one change.",
                answers={
                    202: RouteAnswer("Written down; the members change when they can.", {JSON: Ordered}),
                    404: refusal("One to be removed or moved is none of the members.", "unknown_member"),
                    409: refusal("Not possible with the members there are, or within the order.", *CONFLICTS),
                    411: NO_LENGTH,
                    415: NOT_JSON,
                    429: overloaded(),
                    501: refusal("The members of this node never change.", "not_implemented"),
                    503: refusal("No decision in time, or not now.", "refused", "consensus_failed"),
                },
            ),
        ]

    def get(self, call: ApiCall) -> None:
        wants = flag(call.parameters(), b"progress")
        config, admin = self._node.replica.config, self._node.members_admin
        if not wants or admin is None:
            request = admin.change_request() if admin is not None else None
            call.json(200, members(config, request, self._node))
        elif self._admits(call):
            admin.look(partial(self._looked, call))

    def _looked(self, call: ApiCall, look: MembersView) -> None:
        self._asked -= 1
        call.json(200, described(look, self._node))

    def post(self, call: ApiCall) -> None:
        call.parameters()
        order = json_record(call.request, orders, "order to add, remove and move members")
        call.target = told(order)
        amendment = Amendment(
            add=tuple(map(newcomer, order.add)),
            remove=tuple(map(checked, order.remove)),
            move=tuple([Member(id=checked(moved.id), url=addresses(moved.url)) for moved in order.move]),
            force=order.force,
        )
        if self._node.members_admin is None:
            call.fail(501, "not_implemented", "this node has no part in changing members")
        elif self._admits(call):
            self._node.members_admin.change(amendment, partial(self._ordered, call))

    def _ordered(self, call: ApiCall, verdict: Verdict) -> None:
        self._asked -= 1
        answer(call, verdict)

    def _admits(self, call: ApiCall) -> bool:
        if self._asked >= MAX_ASKED:
            call.overloaded(f"{MAX_ASKED} questions about members are under way already")
            return False
        self._asked += 1
        return True


def told(order: MembersOrder) -> str:
    """For the audit log."""
    added = [f"add {each.id} {each.url}" for each in order.add]
    removed = [f"remove {each}" for each in order.remove]
    return ", ".join([*added, *removed, *[f"move {each.id} {each.url}" for each in order.move]])


def newcomer(given: Newcomer) -> Member:
    if len(given.datacenter.encode()) > MAX_DATACENTER_BYTES:
        raise BadRequest(400, "bad_request", f"a datacenter's name has at most {MAX_DATACENTER_BYTES} bytes")
    return Member(id=checked(given.id), url=addresses(given.url), datacenter=given.datacenter)


def addresses(given: str) -> str:
    """Of a member: one, or several with commas between them."""
    try:
        return read_urls(given.split(","))
    except BadUrls as bad:
        raise BadRequest(400, "bad_request", str(bad)) from None
    except ValueError:
        words = f"{given!r} is no address of a node, as http://10.0.0.1:7800, nor several with commas between them"
        raise BadRequest(400, "bad_request", words) from None


def checked(replica: int) -> int:
    if not 1 <= replica <= MAX_REPLICA_ID:
        raise BadRequest(
            400, "bad_request", f"the id of a replica is a number from 1 to {MAX_REPLICA_ID}, not {replica}"
        )
    return replica


def answer(call: ApiCall, verdict: Verdict) -> None:
    match verdict:
        case Accepted():
            wanted = tuple(member.id for member in verdict.request.members)
            call.json(202, Ordered(wanted=wanted, epoch=verdict.epoch, queued=verdict.queued))
        case Objection():
            call.fail(STATUSES.get(verdict.code, 409), verdict.code, verdict.words)
        case Refused():
            call.fail(503, "refused", verdict.reason, retry_after_ms=RETRY_AFTER_MS)
        case ConsensusFailed():
            call.fail(503, "consensus_failed", verdict.reason, definite=False)
        case _:
            assert_never(verdict)


def members(config: ClusterConfig, request: ChangeRequest | None, node: Backend) -> Members:
    return Members(
        epoch=config.epoch,
        coordinator_id=config.coordinator_id,
        quorum_policy=config.quorum_policy.value,
        quorums=QuorumSizes(fast=config.quorums.fast, slow=config.quorums.slow),
        joint=config.is_joint,
        previous=config.previous,
        wanted=tuple(member.id for member in request.members) if request is not None else config.active,
        replicas=tuple([row(info, node) for info in config.replicas]),
    )


def row(info: ReplicaInfo, node: Backend, progress: MemberProgress | None = None) -> MemberRow:
    return MemberRow(
        id=info.id,
        status=info.status.value,
        url=info.url,
        identity=info.identity,
        datacenter=node.datacenter_of(info.id),
        version=node.versions.release_of(info.id),
        progress=progress,
    )


def described(look: MembersView, node: Backend) -> Members:
    rows = tuple([row(info, node, progress(look.heard.get(info.id))) for info in look.config.replicas])
    plain = members(look.config, look.request, node)
    return msgspec.structs.replace(plain, replicas=rows, settled=look.settled, waiting=look.waiting)


def progress(status: MemberStatus | None) -> MemberProgress:
    if status is None:
        return MemberProgress(heard=False)
    return MemberProgress(
        heard=True,
        epoch=status.epoch,
        keys=status.keys,
        copied=status.copied,
        sources=status.sources,
        synced=status.synced,
    )
