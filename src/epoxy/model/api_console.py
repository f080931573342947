"""The JSON records of the console's own routes."""

from typing import Annotated, Literal

from msgspec import Struct

from epoxy.model.api import Count, documented


class DemoPanel(Struct, frozen=True, kw_only=True):
    """`url`: where the demo takes orders from pages of its own nodes."""

    url: str


class ConsoleInfo(Struct, frozen=True, kw_only=True):
    """The node that serves the pages. `auth` "tokens": they need one. `demo`: of the demo that this node is part of."""

    datacenter: str
    id: Count
    auth: Literal["open", "tokens"]
    demo: DemoPanel | None = None


class PanelKey(Struct, frozen=True, kw_only=True):
    url: str
    token: Annotated[str, documented("For `Authorization: Bearer` at the panel.")]
