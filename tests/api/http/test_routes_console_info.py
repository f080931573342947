"""What the console's pages ask first, and who is told the token of a demo's panel."""

from pathlib import Path

from msgspec.structs import replace

from epoxy.model.access import AccessRole
from epoxy.node.process.config import ConsoleSettings
from tests.api.http.access_bench import GuardedNode, bearer
from tests.api.http.http_bench import Answer, FakeNode, ask, whole_api

PANEL = "http://127.0.0.1:7891"


def node_of_a_demo(node: FakeNode, folder: Path) -> Path:
    token = folder / "panel.token"
    token.write_text("secret\n")
    console = ConsoleSettings(demo_url=PANEL, demo_token_file=token)
    node.settings = replace(node.settings, console=console)
    return token


def seen(node: FakeNode, path: str, token: int = 0) -> Answer:
    return ask(whole_api(node), "GET", path, None, **({"authorization": bearer(token)} if token else {}))


def test_an_open_node_without_a_demo() -> None:
    node = FakeNode()
    told = {"datacenter": "region-1", "id": 1, "auth": "open", "demo": None}
    assert seen(node, "/v2/console").json() == told
    node.ready = False
    assert seen(node, "/v2/console").json() == told, "also before it serves keys"
    assert seen(node, "/v2/console/demo").error()["code"] == "no_demo"


def test_a_node_of_a_demo_tells_where_its_panel_is(tmp_path: Path) -> None:
    node = FakeNode()
    token = node_of_a_demo(node, tmp_path)
    assert seen(node, "/v2/console").json()["demo"] == {"url": PANEL}
    assert seen(node, "/v2/console/demo").json() == {"url": PANEL, "token": "secret"}
    token.write_text("another\n")
    assert seen(node, "/v2/console/demo").json()["token"] == "another"
    token.unlink()
    answer = seen(node, "/v2/console/demo")
    assert answer.status == 404
    assert "cannot be read" in answer.error()["message"]


def test_only_an_operator_is_told_the_token_of_the_panel(tmp_path: Path) -> None:
    node = GuardedNode()
    node_of_a_demo(node, tmp_path)
    for number, role in enumerate(AccessRole, start=1):
        node.give(number, role)
        expected = 200 if role is AccessRole.OPERATOR else 403
        assert seen(node, "/v2/console/demo", number).status == expected, role
    assert seen(node, "/v2/console/demo").status == 401
    public = seen(node, "/v2/console")
    assert public.json() == {"datacenter": "region-1", "id": 1, "auth": "tokens", "demo": {"url": PANEL}}
    assert b"secret" not in public.body
