"""A backup over HTTP: begun, followed, read and ended, and what is refused."""

from typing import Any

import pytest

from epoxy.api.http.router import Api
from epoxy.api.http.routes_backups import BackupRoutes
from epoxy.api.metrics import Metrics
from epoxy.backup.backups import Backups
from epoxy.backup.format import decode_block
from epoxy.model.writes import Outcome, Write
from tests.api.http.http_bench import Answer, FakeNode, ask
from tests.node.members.town import Town

PATH = "/v2/admin/backups"


class Desk:
    def __init__(self) -> None:
        self.town = Town((1, 2, 3))
        node = self.town.lives[1].node
        assert node.member is not None
        outcomes: list[Outcome] = []
        node.write(Write(key=b"k", value=b"v"), outcomes.append)
        self.town.until(lambda: bool(outcomes), "written")
        self.backups = Backups(node.member, self.town.stores[1], self.town.lives[1], "", node.datacenter_of)
        self.api = Api(FakeNode(), Metrics(), more=BackupRoutes(self.backups).table())

    def ask(self, method: str, target: str) -> Answer:
        return ask(self.api, method, PATH + target)

    def ready(self) -> str:
        begun = self.ask("POST", "").json()
        self.town.until(lambda: self.ask("GET", f"?id={begun['id']}").json()["phase"] == "ready", "ready")
        name: str = begun["id"]
        return name


@pytest.fixture
def desk() -> Desk:
    return Desk()


def code(answer: Answer) -> Any:
    return answer.json()["error"]["code"]


def test_from_the_beginning_to_the_end(desk: Desk) -> None:
    name = desk.ready()
    block = desk.ask("GET", f"/blocks?id={name}&from=0")
    assert (block.status, [key for key, _ in decode_block(block.body).records]) == (200, [b"k"])
    desk.town.run(10)
    assert desk.ask("GET", f"/blocks?id={name}&from=1").status == 204
    state = desk.ask("GET", f"?id={name}").json()
    assert (state["phase"], state["written"], state["asked"]) == ("done", 1, [1, 2, 3])
    assert desk.ask("DELETE", f"?id={name}").status == 204
    assert desk.ask("DELETE", f"?id={name}").status == 404


def test_a_second_one_is_refused_definitely(desk: Desk) -> None:
    name = desk.ask("POST", "").json()["id"]
    refused = desk.ask("POST", "")
    assert (refused.status, code(refused), refused.json()["error"]["definite"]) == (409, "backup_running", True)
    assert name in refused.json()["error"]["message"]


def test_what_is_asked_wrongly(desk: Desk) -> None:
    name = desk.ready()
    assert code(desk.ask("GET", "?id=00")) == "no_such_backup"
    assert code(desk.ask("GET", "")) == "bad_parameter"
    assert code(desk.ask("GET", f"/blocks?id={name}")) == "bad_parameter"
    assert code(desk.ask("GET", f"/blocks?id={name}&from=-1")) == "bad_parameter"
    skipped = desk.ask("GET", f"/blocks?id={name}&from=7")
    assert (skipped.status, code(skipped)) == (409, "no_such_block")
