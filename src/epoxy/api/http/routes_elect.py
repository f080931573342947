"""What the agents of elect say that this node is told to ask: which server takes writes, who votes, who is fenced."""

import asyncio
from collections.abc import Awaitable, Callable

from epoxy.api.http.calls import ApiCall
from epoxy.api.http.routes import JSON, Route, RouteAnswer, overloaded
from epoxy.model.access import Access
from epoxy.model.elect_status import ElectView

MAX_LOOKS = 64
"""Requests that wait for the agents at a time: pages of people, who share one look at the agents."""

Look = Callable[[], Awaitable[ElectView]]


class ElectRoutes:
    def __init__(self, look: Look) -> None:
        self._look = look
        self._looking: set[asyncio.Task[None]] = set()

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/elect",
                handler=self.get,
                kind="http_get_elect",
                access=Access.ANY,
                operation="getElect",
                summary="What the agents of elect say that this node's file names",
                answers={200: RouteAnswer("The agents.", {JSON: ElectView}), 429: overloaded()},
                needs_ready=False,
            )
        ]

    def get(self, call: ApiCall) -> None:
        call.parameters()
        if len(self._looking) >= MAX_LOOKS:
            call.overloaded(f"{MAX_LOOKS} requests wait for the agents already")
            return
        task = asyncio.ensure_future(self._answer(call))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _answer(self, call: ApiCall) -> None:
        call.json(200, await self._look())
