"""The planner over HTTP: floors of a choice of regions. It needs nothing of the node, so any client may ask, at a node
that is not ready, too."""

from typing import Any

import msgspec

from epoxy.api.http.calls import ApiCall
from epoxy.api.http.inputs import BadRequest, Parameters, choice, json_record, number
from epoxy.api.http.routes import JSON, NOT_JSON, Parameter, Route, RouteAnswer, refusal
from epoxy.codec import round_trips
from epoxy.codec.round_trips import MAX_ROUND_TRIPS_BYTES
from epoxy.model.access import Access
from epoxy.model.api_plan import Added, PlanReport, PlanRequest, PolicyName
from epoxy.model.errors import InvalidRequest, InvalidValue
from epoxy.model.planning import plan
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.round_trips import MAX_NAME, MAX_REGIONS, RoundTrips
from epoxy.transport.wan import aws

PATH = "/v2/plan"

MAX_COMPARED = 1_500
"""Floors that one request has computed to find the best regions to add: two milliseconds of the event loop, and more
than any choice from the product's own table needs."""

MAX_LIST_BYTES = MAX_REGIONS * (4 * MAX_NAME + 1)
"""Of a list of regions in the query: so many names, of the longest characters, with commas between them."""

POLICIES = tuple(policy.value.encode() for policy in QuorumPolicy)
CHOICES = [aws.CHOICES[number] for number in (3, 5, 7)]
BAD = refusal("The request is outside the contract.", "bad_plan")
REQUEST = msgspec.json.Decoder(PlanRequest)


class PlanRoutes:
    def table(self) -> list[Route]:
        common: dict[str, Any] = {"path": PATH, "access": Access.PUBLIC, "needs_ready": False}
        report = RouteAnswer("Floors, a leader's cost, what failures do, regions to add.", {JSON: PlanReport})
        return [
            Route(
                method="GET",
                handler=self.get,
                kind="http_get_plan",
                operation="getPlan",
                summary="What writes and reads would cost in a choice of AWS regions",
                parameters=(
                    Parameter(
                        "regions", str, "Names, with commas between them. Default: the best of `add`, else three."
                    ),
                    Parameter("policy", PolicyName, "Quorum sizes.", "optimal"),
                    Parameter("down", str, "Those of them that have failed, with commas between them.", ""),
                    Parameter("add", Added, "How many regions to add. Default: to the next odd number."),
                ),
                answers={200: report, 400: BAD},
                **common,
            ),
            Route(
                method="POST",
                handler=self.post,
                kind="http_post_plan",
                operation="makePlan",
                summary="The same, with your own round trips; nothing is stored",
                body={JSON: PlanRequest},
                answers={
                    200: report,
                    400: BAD,
                    413: refusal(f"The body has more than {MAX_ROUND_TRIPS_BYTES >> 10} KiB.", "body_too_large"),
                    415: NOT_JSON,
                },
                **common,
            ),
        ]

    def get(self, call: ApiCall) -> None:
        given = call.parameters()
        policy = choice("policy", given.get(b"policy", b"optimal"), POLICIES).decode()
        add = number(given, b"add", low=0, high=MAX_REGIONS)
        regions, down = names(given, b"regions"), names(given, b"down")
        if not regions and not add:
            regions = list(CHOICES[0])
        answer(call, aws.TABLE, regions, policy, down, add, CHOICES)

    def post(self, call: ApiCall) -> None:
        if len(call.request.body) > MAX_ROUND_TRIPS_BYTES:
            raise BadRequest(413, "body_too_large", f"a plan has at most {MAX_ROUND_TRIPS_BYTES >> 10} KiB")
        call.parameters()
        asked = json_record(call.request, REQUEST, "plan")
        try:
            trips = table_of(asked)
        except (InvalidRequest, InvalidValue) as error:
            raise BadRequest(400, "bad_plan", f"round_trips: {error}") from error
        regions = asked.regions or ([] if asked.add else list(trips.regions))
        answer(call, trips, regions, asked.policy, asked.down, asked.add, [])


def table_of(asked: PlanRequest) -> RoundTrips:
    given = asked.round_trips
    if isinstance(given, str):
        return round_trips.decode(given.encode())
    regions = list(dict.fromkeys([*given, *(there for row in given.values() for there in row)]))
    return RoundTrips(regions, {(here, there): trip for here, row in given.items() for there, trip in row.items()})


def answer(
    call: ApiCall,
    trips: RoundTrips,
    regions: list[str],
    policy: str,
    down: list[str],
    add: int | None,
    choices: list[tuple[str, ...]],
) -> None:
    try:
        report = plan(
            trips,
            regions,
            policy=QuorumPolicy(policy),
            down=down,
            add=add,
            choices=choices,
            most_compared=MAX_COMPARED,
        )
    except InvalidRequest as error:
        raise BadRequest(400, "bad_plan", str(error)) from error
    call.json(200, report)


def names(given: Parameters, name: bytes) -> list[str]:
    """Between commas. Empty: none."""
    text = given.get(name, b"")
    if len(text) > MAX_LIST_BYTES:
        raise BadRequest(400, "bad_parameter", f"{name.decode()} names at most {MAX_REGIONS} regions")
    found = text.decode("utf-8", "replace").split(",") if text else []
    if len(found) > MAX_REGIONS:
        raise BadRequest(400, "bad_parameter", f"{name.decode()} names at most {MAX_REGIONS} regions, not {len(found)}")
    return found
