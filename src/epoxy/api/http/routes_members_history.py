"""The past of the members, and what a change of them would do: for people, before they order one."""

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import ApiCall
from epoxy.api.http.inputs import BadRequest, Parameters, number, shown
from epoxy.api.http.routes import JSON, Parameter, Route, RouteAnswer, refusal
from epoxy.api.http.routes_members import addresses
from epoxy.api.http.routes_status import plain_route
from epoxy.model.access import Access
from epoxy.model.api import MAX_DATACENTER_BYTES, MAX_REPLICA_ID, ReplicaId
from epoxy.model.api_members import MembersOutlook, MembersPast, MembersPreview, PreviewObjection
from epoxy.model.api_world import World
from epoxy.model.members import ChangeRequest, Member
from epoxy.node.members.members_admin import MembersAdmin
from epoxy.protocol.members.change_request import Amendment, Objection, requested_before
from epoxy.protocol.members.preview import KnownTrip, TripOf, outlook
from epoxy.transport.wan import aws

FORCED = "would_lose_quorum"
"""The one objection that an operator may overrule."""

MeasuredTrips = Mapping[tuple[int, int], float]
"""Round trips in milliseconds, by the ids of two members, the lower one first."""

NOT_POSSIBLE = "What would be refused is told in `objection`."


class MembersHistoryRoutes:
    def __init__(self, node: Backend, past: Callable[[], MembersPast], world: Callable[[], World]) -> None:
        """`world`: the cluster with the round trips that members have measured."""
        self._node = node
        self._past = past
        self._world = world

    def table(self) -> list[Route]:
        return [
            plain_route(
                "/v2/members/history",
                self.history,
                "getMembersHistory",
                "The epochs that this node knows of, and which members were away",
                {JSON: MembersPast},
                Access.ANY,
            ),
            Route(
                method="GET",
                path="/v2/members/preview",
                handler=self.preview,
                kind="http_get_preview",
                access=Access.ANY,
                operation="previewMembers",
                summary="What a change of members would do to the floors, and to the failures that are survived",
                parameters=(
                    Parameter("add", str, "The datacenter of a node to be added, or its address."),
                    Parameter("id", ReplicaId, "Of the node to be added; the next free one, if it is left out."),
                    Parameter("remove", ReplicaId, "The member to be removed; with `add`, the one to be replaced."),
                ),
                answers={
                    200: RouteAnswer(f"Before and after. {NOT_POSSIBLE}", {JSON: MembersPreview}),
                    501: refusal("The members of this node never change.", "not_implemented"),
                },
                needs_ready=False,
            ),
        ]

    def history(self, call: ApiCall) -> None:
        call.parameters()
        call.json(200, self._past())

    def preview(self, call: ApiCall) -> None:
        given = call.parameters()
        admin, config = self._node.members_admin, self._node.replica.config
        if admin is None:
            call.fail(501, "not_implemented", "this node has no part in changing members")
            return
        next_id = 1 + max(*config.replica_ids, *requested_before(config, admin.change_request()))
        call.json(200, self._compare(admin, amendment_of(given, next_id), next_id))

    def _compare(self, admin: MembersAdmin, amendment: Amendment, next_id: int) -> MembersPreview:
        verdict = admin.preview(amendment)
        objection = verdict if isinstance(verdict, Objection) else None
        if objection is not None and objection.code == FORCED:
            verdict = admin.preview(replace(amendment, force=True))
        trip_of = partial(known_trip, measured_trips(self._world()))
        before = tuple(requested_before(self._node.replica.config, None).values())
        return MembersPreview(
            before=self._outlook(before, admin, trip_of),
            after=self._outlook(verdict.members, admin, trip_of) if isinstance(verdict, ChangeRequest) else None,
            objection=PreviewObjection(code=objection.code, message=objection.words) if objection is not None else None,
            next_id=next_id,
        )

    def _outlook(self, members: tuple[Member, ...], admin: MembersAdmin, trip_of: TripOf) -> MembersOutlook:
        """Newcomers count as there: they are not added before they have copied everything."""
        config = self._node.replica.config
        named = [replace(each, datacenter=each.datacenter or self._node.datacenter_of(each.id)) for each in members]
        there = admin.reached() | {each.id for each in members if each.id not in config.active}
        return outlook(named, config.quorum_policy, trip_of, there)


def measured_trips(world: World) -> MeasuredTrips:
    return {(min(link.a, link.b), max(link.a, link.b)): link.rtt_ms for link in world.links if link.rtt_ms is not None}


def known_trip(measured: MeasuredTrips, one: Member, other: Member) -> KnownTrip | None:
    measured_ms = measured.get((min(one.id, other.id), max(one.id, other.id)))
    if measured_ms is not None:
        return KnownTrip(measured_ms, True)
    if one.datacenter in aws.REGIONS and other.datacenter in aws.REGIONS:
        return KnownTrip(aws.rtt_ms(one.datacenter, other.datacenter), False)
    return None


def amendment_of(given: Parameters, next_id: int) -> Amendment:
    gone = number(given, b"remove", low=1, high=MAX_REPLICA_ID)
    newcomer = number(given, b"id", low=1, high=MAX_REPLICA_ID)
    if newcomer is not None and b"add" not in given:
        raise BadRequest(400, "bad_parameter", "id is of the node that `add` names")
    added = (newcomer_of(given[b"add"], newcomer or next_id),) if b"add" in given else ()
    return Amendment(add=added, remove=(gone,) if gone is not None else ())


def newcomer_of(place: bytes, replica: int) -> Member:
    """By its address, or by the name of its datacenter: then its address is not looked at."""
    text = place.decode("utf-8", "replace")
    if text.startswith(("http://", "https://")):
        return Member(id=replica, url=addresses(text))
    if not 1 <= len(place) <= MAX_DATACENTER_BYTES:
        words = (
            f"add is the name of a datacenter, 1 to {MAX_DATACENTER_BYTES} bytes, or an address, not '{shown(place)}'"
        )
        raise BadRequest(400, "bad_parameter", words)
    return Member(id=replica, url=f"of {text}", datacenter=text)
