"""The files of a demo's tokens: made once, for their owner alone."""

from pathlib import Path
from typing import cast

import pytest

from epoxy.cli.demo import show, tokens
from epoxy.cli.demo.plan import plan
from epoxy.client import Client
from epoxy.client.auth_calls import GrantInfo
from epoxy.model.errors import Unavailable
from epoxy.testing import ClusterNode
from tests.client.fake_auth import FakeAuthNode


class Stand:
    """In the place of a node of the demo."""

    def __init__(self, fake: FakeAuthNode) -> None:
        self._fake = fake
        self.inits = 0

    def init_auth(self, name: str) -> str:
        self.inits += 1
        return f"epx_{name}{self.inits}"

    def client(self, *, token: str) -> Client:
        return Client(self._fake.url, token=token)


def test_four_tokens_are_made_once(tmp_path: Path) -> None:
    with FakeAuthNode() as fake:
        stand = Stand(fake)
        nodes = [cast(ClusterNode, stand)]
        assert tokens.made(tmp_path, nodes) == "epx_admin1"
        roles = {name: [role.value for role in found.roles] for name, found in fake.grants.items()}
        assert roles == {
            "app": ["writer", "caller"],
            "worker": ["worker", "caller"],
            "console": ["operator", "writer", "caller"],
        }
        kept = {file.name: file.read_text() for file in tmp_path.iterdir()}
        assert set(kept) == {"admin.token", "app.token", "worker.token", "console.token"}
        assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
        assert tokens.made(tmp_path, nodes) == "epx_admin1", "those of the run before"
        (tmp_path / "app.token").unlink()
        assert tokens.made(tmp_path, nodes) == "epx_admin2", "all of them anew"
        assert (tmp_path / "worker.token").read_text() != kept["worker.token"]


def test_a_region_that_never_knows_a_token_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_: object) -> list[GrantInfo]:
        raise Unavailable("down")

    with FakeAuthNode() as fake:
        stand = Stand(fake)
        monkeypatch.setattr("epoxy.client.auth.Auth.whoami", lost)
        with pytest.raises(Unavailable, match="down"):
            tokens.await_known(cast(ClusterNode, stand), "epx_x", deadline=0.0)


def test_the_demo_says_how_to_use_them(tmp_path: Path) -> None:
    planned = plan(tmp_path / "demo", regions=None, port_base=None, wan=True, auth=True)
    (node, *_) = planned.lay_out()
    assert '[access]\nauth = "tokens"\n' in node.config.read_text()
    lines = "\n".join(show.token_lines(tokens.files(planned.folder)))
    for name in tokens.ROLES:
        assert f"export EPOXY_TOKEN=$(cat {planned.folder.absolute()}/{name}.token)" in lines
    region = {"http": "http://h:1", "resp": "h:2", "region": "r"}
    tries = show.suggestions(planned, [region] * 3)
    assert tries[0].startswith("export EPOXY_TOKEN=$(cat ")
    assert any('curl -H "Authorization: Bearer $EPOXY_TOKEN" ' in line for line in tries)
    bare = plan(tmp_path / "open", regions=None, port_base=None, wan=True)
    assert not any("TOKEN" in line for line in show.suggestions(bare, [region] * 3))
    assert "auth =" not in bare.lay_out()[0].config.read_text()
