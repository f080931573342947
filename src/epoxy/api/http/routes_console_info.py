"""What the pages of the console ask first: which node serves them, whether it asks for a token, and whether it is part
of a demo.

The first record is public, because a page that has no token yet needs it to ask for one. It names the node as its own
certificate and its region's address do. The token of a demo's panel is for operators alone: with it regions are killed.
"""

from epoxy.api.http.backend import Backend
from epoxy.api.http.calls import ApiCall
from epoxy.api.http.routes import JSON, Route, RouteAnswer, refusal
from epoxy.api.http.routes_status import plain_route
from epoxy.model.access import Access
from epoxy.model.api_console import ConsoleInfo, DemoPanel, PanelKey
from epoxy.node.process.config import Settings


class ConsoleInfoRoutes:
    def __init__(self, node: Backend, settings: Settings) -> None:
        self._node = node
        self._settings = settings

    def table(self) -> list[Route]:
        return [
            plain_route(
                "/v2/console",
                self.info,
                "getConsole",
                "Which node serves these pages, and what they may show",
                {JSON: ConsoleInfo},
                Access.PUBLIC,
            ),
            Route(
                method="GET",
                path="/v2/console/demo",
                handler=self.demo,
                kind="http_get_console_demo",
                access=Access.OPERATE,
                operation="getDemoPanel",
                summary="Where the panel of the demo is, and the token that it asks for",
                answers={
                    200: RouteAnswer("The panel.", {JSON: PanelKey}),
                    404: refusal("This node is part of no demo.", "no_demo"),
                },
                needs_ready=False,
            ),
        ]

    def info(self, call: ApiCall) -> None:
        call.parameters()
        node, url = self._settings.node, self._settings.console.demo_url
        info = ConsoleInfo(
            datacenter=node.datacenter,
            id=node.id,
            auth="open" if self._node.access.is_open else "tokens",
            demo=DemoPanel(url=url) if url else None,
        )
        call.json(200, info)

    def demo(self, call: ApiCall) -> None:
        """Reads the file each time: a demo that is started again has another token."""
        call.parameters()
        console = self._settings.console
        if console.demo_token_file is None:
            call.fail(404, "no_demo", "this node is part of no demo: `epoxy demo` starts one")
            return
        try:
            token = console.demo_token_file.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            call.fail(404, "no_demo", f"the token of the demo's panel cannot be read: {error}")
            return
        call.json(200, PanelKey(url=console.demo_url, token=token))
