"""The scrub of this node's rows: how far it is, and an order to begin one."""

from epoxy.api.http.calls import ApiCall
from epoxy.api.http.routes import JSON, Route, RouteAnswer, refusal
from epoxy.model.access import Access
from epoxy.model.api_scrub import ScrubReport
from epoxy.node.scrub.scrubber import Scrubber

PATH = "/v2/scrub"


class ScrubRoutes:
    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path=PATH,
                handler=self.get,
                kind="http_get_scrub",
                access=Access.OPERATE,
                operation="getScrub",
                summary="How far the scrub of this node's rows is, and what it found",
                answers={200: RouteAnswer("The round under way, or the last one.", {JSON: ScrubReport})},
                needs_ready=False,
            ),
            Route(
                method="POST",
                path=PATH,
                handler=self.post,
                kind="http_post_scrub",
                access=Access.OPERATE,
                operation="beginScrub",
                summary="Read and check all rows of this node now",
                answers={
                    202: RouteAnswer("A round has begun.", {JSON: ScrubReport}),
                    409: refusal("A round is under way already.", "scrub_running"),
                },
                needs_ready=False,
            ),
        ]

    def get(self, call: ApiCall) -> None:
        call.parameters()
        call.json(200, self._scrubber.described())

    def post(self, call: ApiCall) -> None:
        call.parameters()
        if self._scrubber.begin():
            call.json(202, self._scrubber.described())
        else:
            call.fail(409, "scrub_running", "a round is under way already; GET /v2/scrub says how far it is")
