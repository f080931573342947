"""The cluster as this node sees it, for people who look at it."""

from collections.abc import Callable

from epoxy.api.http.calls import ApiCall
from epoxy.api.http.routes import JSON, Route
from epoxy.api.http.routes_status import plain_route
from epoxy.model.access import Access
from epoxy.model.api_world import World


class WorldRoutes:
    def __init__(self, look: Callable[[], World]) -> None:
        self._look = look

    def table(self) -> list[Route]:
        return [
            plain_route(
                "/v2/world",
                self.get,
                "getWorld",
                "All members, their round trips and their last commits, as this node sees them",
                {JSON: World},
                Access.ANY,
            )
        ]

    def get(self, call: ApiCall) -> None:
        call.parameters()
        call.json(200, self._look())
