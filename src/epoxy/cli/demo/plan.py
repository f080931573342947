"""The regions of a demo, their addresses, and the files that are written before they start."""

import os
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from epoxy.cli.credentials import write_private
from epoxy.cli.demo.postgres_region import MAX_NODES, PostgresRegion, RegionDatabase
from epoxy.cli.demo.region import FIRST, RegionNode
from epoxy.model.errors import ConfigError, InvalidRequest
from epoxy.model.floors import quorum_ms
from epoxy.model.quorum import QuorumPolicy, Quorums, quorums
from epoxy.testing import configuration
from epoxy.transport.wan import aws

REGIONS = aws.CHOICES
PORT_BASE = 7800
PORTS_APART = 10
"""From one region to the next: HTTP, RESP one above, the same for up to three more nodes, PostgreSQL and a spare."""

NODE_PORTS = 2
"""From one node of a region to the next."""

DATABASE_PORT = NODE_PORTS * MAX_NODES
"""Above the first port of a region."""

PAGE_PORT = PORTS_APART * max(REGIONS)
"""Above the first port, behind those of all regions: pages that are served there, on this machine, may use the nodes
from a browser. A program that can serve them there can reach the nodes without a browser as well."""

PANEL_PORT = PAGE_PORT + 1
"""Where the demo itself takes orders from the console's page (`panel.py`)."""

HIGHEST_PORT_BASE = 65535 - PANEL_PORT
MANIFEST, SECRET, PANEL_TOKEN = "demo.json", "secret", "panel.token"
LOOPBACK = ("127.0.0.1", "localhost")

StoreDriver = Literal["embedded", "postgres"]

Link = frozenset[str]
"""A pair of regions."""

NOTHING: Mapping[Link, float] = MappingProxyType({})


class Place(Struct, frozen=True, kw_only=True):
    """A region and its id, which never changes."""

    id: int
    name: str


class Manifest(Struct, frozen=True, kw_only=True):
    """What the folder of a demo was made for, and the regions added and removed since. The data in it names members by
    id and address, so neither may change."""

    regions: int
    port_base: int
    auth: bool = False
    """Whether its nodes ask for tokens. Once they do they go on: a demo is not opened by a start without --auth."""
    store: StoreDriver = "embedded"
    nodes: int = 1
    """Of each region."""
    added: tuple[Place, ...] = ()
    gone: tuple[int, ...] = ()


class DemoPlan(Manifest, frozen=True, kw_only=True):
    """`regions`: the number at first. `added`: regions that were added later; `gone`: ids that were removed. `panel`:
    whether the nodes tell their console's page where this demo takes orders."""

    folder: Path
    wan: bool
    panel: bool = False

    @property
    def founders(self) -> tuple[Place, ...]:
        return tuple(Place(id=i, name=name) for i, name in enumerate(REGIONS[self.regions], start=1))

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(place for place in (*self.founders, *self.added) if place.id not in self.gone)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(place.name for place in self.places)

    @property
    def sizes(self) -> Quorums:
        return quorums(len(self.places))

    @property
    def page_port(self) -> int:
        return self.port_base + PAGE_PORT

    @property
    def console(self) -> str:
        """The page of the first region's node; every other node serves the same."""
        first = self.places[0]
        return f"{self._node(first, FIRST).url}/ui"

    @property
    def panel_port(self) -> int:
        return self.port_base + PANEL_PORT

    @property
    def panel_url(self) -> str:
        return f"http://127.0.0.1:{self.panel_port}"

    def origins(self) -> frozenset[str]:
        """Of the pages that the nodes serve, those of regions that may be added included: ports differ by region."""
        regions = range(self.port_base, self.port_base + PAGE_PORT, PORTS_APART)
        ports = [http + NODE_PORTS * i for http in regions for i in range(self.nodes)]
        return frozenset(f"http://{host}:{port}" for host in LOOPBACK for port in ports)

    def place_of(self, name: str) -> Place:
        """A region that was removed comes back under its old id, which is in its data."""
        before = {place.name: place for place in (*self.founders, *self.added)}
        return before.get(name) or Place(id=len(before) + 1, name=name)

    def grown(self, place: Place) -> "DemoPlan":
        added = self.added if place in (*self.founders, *self.added) else (*self.added, place)
        return replace(self, added=added, gone=tuple(i for i in self.gone if i != place.id))

    def shrunk(self, replica: int) -> "DemoPlan":
        return replace(self, gone=(*self.gone, replica))

    def rtt_ms(self, here: str, there: str, added_ms: Mapping[Link, float] = NOTHING) -> float:
        """What a round trip takes, but for what this machine needs: by the table, and `added_ms` for its link."""
        return (aws.rtt_ms(here, there) if self.wan else 0.0) + added_ms.get(frozenset((here, there)), 0.0)

    def floor_ms(
        self, here: str, within_reach: Collection[str], added_ms: Mapping[Link, float] = NOTHING
    ) -> float | None:
        """The round trip to the nearest fast quorum within reach, `here` included. None: there is none, or it takes no
        time but this machine's."""
        trips = [self.rtt_ms(here, there, added_ms) for there in within_reach if there != here]
        return quorum_ms(trips, self.sizes.fast) or None

    def lay_out(self) -> list[RegionNode]:
        """Writes the secret once; the manifest, the token of the panel and the configuration each time."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.keep()
        if self.panel:
            write_private(self.folder / PANEL_TOKEN, secrets.token_hex(32), replace=True)
        return [self.furnish(place) for place in self.places]

    def furnish(self, place: Place) -> RegionNode:
        """A region, and the configuration of its nodes."""
        nodes = self._nodes_of(place)
        if self.store == "embedded":
            self._configure(place, nodes[0], "")
            return nodes[0]
        database = self._database(place)
        for node in nodes:
            self._configure(place, node, f'\n[store]\ndriver = "postgres"\nurl = "{database.dsn}"\n')
        return PostgresRegion(nodes, self.folder, database)

    def _configure(self, place: Place, node: RegionNode, store: str) -> None:
        """Every configuration names the first regions, even if they are gone: they identify the cluster."""
        founders, secret = [self._node(each, FIRST) for each in self.founders], kept_secret(self.folder)
        settings = configuration(node, founders, secret, QuorumPolicy.OPTIMAL)
        join = "" if place in self.founders else "join = true\n"
        wan = f"\n[wan]\nemulate = {str(self.wan).lower()}\n"
        written = f"{settings}{join}{wan}{self._access()}{self._console()}{store}"
        write_private(node.config, written, replace=True)

    def _database(self, place: Place) -> RegionDatabase:
        """PostgreSQL that root starts is another user's, who has to pass through this folder."""
        if os.geteuid() == 0:
            self.folder.chmod(0o711)
        folder = self.folder.absolute() / f"{place.name}.postgres"
        return RegionDatabase(folder=folder, port=self._first_port(place) + DATABASE_PORT)

    def _access(self) -> str:
        """Without tokens a node is open, because it listens on the loopback alone."""
        auth = 'auth = "tokens"\n' if self.auth else ""
        pages = ", ".join(f'"http://{host}:{self.page_port}"' for host in LOOPBACK)
        return f"\n[access]\n{auth}cors_origins = [{pages}]\n"

    def _console(self) -> str:
        if not self.panel:
            return ""
        return f'\n[console]\ndemo_url = "{self.panel_url}"\ndemo_token_file = "{PANEL_TOKEN}"\n'

    def _first_port(self, place: Place) -> int:
        return self.port_base + PORTS_APART * (place.id - 1)

    def _nodes_of(self, place: Place) -> list[RegionNode]:
        return [self._node(place, number) for number in range(FIRST, FIRST + self.nodes)]

    def _node(self, place: Place, number: int) -> RegionNode:
        ports = [self._first_port(place) + NODE_PORTS * i for i in range(self.nodes)]
        http = ports[number - FIRST]
        node = RegionNode(
            node_id=place.id, datacenter=place.name, folder=self.folder, http=http, resp=http + 1, number=number
        )
        node.addresses = tuple(f"http://127.0.0.1:{port}" for port in ports)
        return node

    def keep(self) -> None:
        manifest = Manifest(**{name: getattr(self, name) for name in Manifest.__struct_fields__})
        (self.folder / MANIFEST).write_bytes(msgspec.json.encode(manifest) + b"\n")


def kept_secret(folder: Path) -> Path:
    secret = folder / SECRET
    if not secret.exists():
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(32))
    return secret


def plan(
    folder: Path,
    *,
    regions: int | None,
    port_base: int | None,
    wan: bool,
    auth: bool = False,
    store: StoreDriver | None = None,
    nodes: int | None = None,
) -> DemoPlan:
    """As asked for, else as in the folder, else three regions at the default ports, with the embedded store."""
    made = read_manifest(folder)
    if made is None:
        driver = store or "embedded"
        check_nodes(driver, nodes or 1)
        return DemoPlan(
            folder=folder,
            regions=regions or 3,
            port_base=port_base or PORT_BASE,
            wan=wan,
            auth=auth,
            store=driver,
            nodes=nodes or 1,
        )
    if regions not in (None, made.regions):
        raise ConfigError(f"{folder} holds a demo of {made.regions} regions, not {regions}; choose another --dir")
    if store not in (None, made.store):
        raise ConfigError(f"{folder} holds a demo with --store {made.store}, not {store}; choose another --dir")
    if nodes not in (None, made.nodes):
        raise ConfigError(
            f"{folder} holds a demo with --nodes {made.nodes}, and its members know each other by their addresses; "
            "use that, or another --dir"
        )
    if port_base not in (None, made.port_base):
        raise ConfigError(
            f"{folder} was made with --port-base {made.port_base}, and its members know each other by their addresses;"
            f" use that, or another --dir"
        )
    kept = replace(made, auth=auth or made.auth)
    return DemoPlan(folder=folder, wan=wan, **msgspec.structs.asdict(kept))


def check_nodes(store: StoreDriver, nodes: int) -> None:
    if not 1 <= nodes <= MAX_NODES:
        raise InvalidRequest(f"a region of the demo has 1 to {MAX_NODES} nodes, not {nodes}")
    if store == "embedded" and nodes > 1:
        raise InvalidRequest(
            f"--nodes {nodes} needs --store postgres: a node with the embedded store has its disk for itself alone"
        )


def read_manifest(folder: Path) -> Manifest | None:
    file = folder / MANIFEST
    try:
        made = msgspec.json.decode(file.read_bytes(), type=Manifest)
    except FileNotFoundError:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty, and no demo was made there; choose another --dir") from None
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from error
    if made.regions not in REGIONS:
        raise ConfigError(f"{file}: a demo of {made.regions} regions; there are {', '.join(map(str, REGIONS))}")
    if not 1 <= made.nodes <= MAX_NODES:
        raise ConfigError(f"{file}: regions of {made.nodes} nodes; a demo has 1 to {MAX_NODES}")
    return made
