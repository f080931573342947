"""epoxy.toml: what an operator may set, checked before anything is started.

Each section is a Struct: types, ranges and defaults of its settings are those of its fields. An unknown setting, and a
value out of range, is refused with one line that names the setting, the line of the file, and what is allowed. A
command line flag beats an environment variable (EPOXY_NODE_HTTP for `http` in [node]), which beats the file.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from epoxy.model.address import Address
from epoxy.model.cluster import ClusterConfig, ReplicaInfo
from epoxy.model.errors import ConfigError
from epoxy.model.node_urls import BadUrls, first_twice, is_one_of, split_urls
from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy
from epoxy.node.process.address_checks import check_listeners, check_schemes
from epoxy.node.process.sections import (
    FilePath,
    ListenAddress,
    NodeUrls,
    Setting,
    Text,
    Url,
    known,
    read_address,
    read_section,
    settings_of,
)
from epoxy.node.process.toml_file import TomlSource, parse
from epoxy.protocol.placement.config import OF_POOLS, RANGES, RENAMED, PlacementConfig

ReplicaId = Annotated[int, Meta(ge=1, le=2**32 - 1)]
ClusterId = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z", description="16 hexadecimal digits")]
HostName = Annotated[str, Meta(pattern=r"^(\*|[A-Za-z0-9_][A-Za-z0-9._-]{0,252})\Z")]
HostNames = Annotated[
    tuple[HostName, ...],
    Meta(
        description='a list of host names without ports, as ["epoxy.example.com"], or ["*"]',
        extra={"from_text": lambda value: [name.strip() for name in value.split(",")]},
    ),
]
Origin = Annotated[str, Meta(pattern=r"^https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?\Z")]
Origins = Annotated[
    tuple[Origin, ...],
    Meta(
        description='a list of origins in lower case without a path, as ["https://app.example.com"]',
        extra={"from_text": lambda value: [origin.strip() for origin in value.split(",")]},
    ),
]
Prefixes = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...],
    Meta(
        description='a list of beginnings of keys, as ["user/"]',
        extra={"from_text": lambda value: [prefix.strip() for prefix in value.split(",")]},
    ),
]
MAX_AGENTS = 64
"""Of elect, that a node's pages show: four of the largest clusters."""


def read_agents(value: Any) -> tuple[Address, ...]:
    agents = tuple([read_address(each) for each in msgspec.convert(value, list[str])])
    if len(agents) > MAX_AGENTS or not all(agent.port for agent in agents):
        raise ValueError
    return agents


AgentAddresses = Annotated[
    tuple[Address, ...],
    Meta(
        description=f'a list of at most {MAX_AGENTS} addresses, as ["10.0.0.1:26379"]',
        extra={"read": read_agents, "from_text": lambda value: [agent.strip() for agent in value.split(",")]},
    ),
]
DatabaseUrl = Annotated[
    str, Meta(pattern=r"^postgres(ql)?://\S+\Z", description="a URL, as postgresql://user@host:5432/database")
]


class MemberSetting(Struct, frozen=True, kw_only=True):
    """`url`: as `ReplicaInfo` has it; in the file several are a list."""

    id: ReplicaId
    datacenter: Text
    url: NodeUrls

    @property
    def urls(self) -> tuple[str, ...]:
        return split_urls(self.url)


class NodeSettings(Struct, frozen=True, kw_only=True):
    """`peers`, `admin`: addresses of their own for other nodes and for operators; without one, `http` serves them, too.
    `allowed_hosts`: names in `Host` that are accepted besides the node's own. `load` fills in `datacenter` and
    `advertise_url` where the file has none. `processes`: that share the data directory, to use as many cores."""

    id: ReplicaId
    datacenter: Text = ""
    data_dir: FilePath
    processes: Annotated[int, Meta(ge=1, le=64)] = 1
    http: ListenAddress = Address("127.0.0.1", 7800)
    resp: ListenAddress | None = None
    peers: ListenAddress | None = None
    admin: ListenAddress | None = None
    advertise_url: Url = ""
    allowed_hosts: HostNames = ()

    @property
    def listeners(self) -> dict[str, Address]:
        """All addresses it listens on, by their setting."""
        addresses = {"http": self.http, "resp": self.resp, "peers": self.peers, "admin": self.admin}
        return {f"node.{name}": address for name, address in addresses.items() if address is not None}


class ClusterSettings(Struct, frozen=True, kw_only=True):
    """`join`: this node is none of the first members; it waits until it is added. `id`: of a cluster that was made from
    a backup. A data directory that exists has it, too. `strict_start`: wait for n - slow + 1 others at each start, and
    not for a slow quorum (`protocol.members.incarnation`)."""

    members: Annotated[
        tuple[MemberSetting, ...],
        Meta(description="a list of tables with id, datacenter and url", extra={"read": lambda value: value}),
    ]
    quorum_policy: QuorumPolicy = QuorumPolicy.OPTIMAL
    secret_file: FilePath
    join: bool = False
    id: ClusterId = ""
    strict_start: bool = False


class TlsSettings(Struct, frozen=True, kw_only=True):
    """`ca`: the authority of peers, whose certificates are demanded then. `client_ca`: of clients alone."""

    cert: FilePath
    key: FilePath
    ca: FilePath | None = None
    client_ca: FilePath | None = None


class StoreSettings(Struct, frozen=True, kw_only=True):
    """`driver` "postgres": the nodes of a datacenter share the database at `url`, in `schema`; a node that has been
    silent for `lease_ms` loses its shards to the others. `backfill`: move values of the first layout to the one in use.
    `scrub_days`: between two rounds in which all rows are read and checked, `scrub_mib_s`: how fast at most."""

    driver: Literal["embedded", "postgres"] = "embedded"
    url: DatabaseUrl = ""
    schema: Annotated[str, Meta(pattern=r"^[a-z_][a-z0-9_]{0,62}\Z", description="a name in lower case")] = "epoxy"
    lease_ms: Annotated[int, Meta(ge=500, le=60_000)] = 5_000
    backfill: bool = False
    scrub_days: Annotated[int, Meta(ge=0, le=3_650)] = 7
    scrub_mib_s: Annotated[int, Meta(ge=1, le=100_000)] = 8


class Limits(Struct, frozen=True, kw_only=True):
    """`writes_in_flight` and `reads_in_flight` bound memory; how many a node admits at a time follows its throughput
    (runtime/admission.py). Why the changelog keeps so much: node/keys/changelog_gc.py."""

    connections: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
    pipeline: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    writes_in_flight: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    reads_in_flight: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    request_timeout_ms: Annotated[int, Meta(ge=10, le=600_000)] = 10_000
    held_mib: Annotated[int, Meta(ge=2, le=1_000_000)] = 32
    peer_queue: Annotated[int, Meta(ge=16, le=1_000_000)] = 10_000
    changelog_commits: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 1_000_000
    changelog_minutes: Annotated[int, Meta(ge=0, le=100_000)] = 10
    changelog_mib: Annotated[int, Meta(ge=1, le=100_000_000)] | None = None


class AccessSettings(Struct, frozen=True, kw_only=True):
    """`auth` "tokens": clients show a token or a certificate; "open": every client may do everything. None: open, if
    all listeners are on loopback addresses; otherwise the node does not start (`auth_of`). `audit_file` None: in the
    data directory. `cors_origins`: whose pages a browser may use this node for."""

    auth: Literal["tokens", "open"] | None = None
    audit_file: FilePath | None = None
    audit_mib: Annotated[int, Meta(ge=1, le=100_000)] = 64
    cors_origins: Origins = ()


class RespSettings(Struct, frozen=True, kw_only=True):
    """Of the Redis port. `request_timeout_ms`: below the five seconds after which most Redis clients close their
    connection. `reserve_prefixes`: where NX takes a name for ever, for clients that cannot send RESERVE."""

    request_timeout_ms: Annotated[int, Meta(ge=10, le=600_000)] = 4_000
    reserve_prefixes: Prefixes = ()


class WanSettings(Struct, frozen=True, kw_only=True):
    emulate: bool = False


class ConsoleSettings(Struct, frozen=True, kw_only=True):
    """Of the pages that this node serves. `demo_url`: where the panel of the demo is that this node is part of, and
    `demo_token_file`: what the panel asks for. The demo writes both. `elect`: agents of elect whose status is shown."""

    demo_url: Url = ""
    demo_token_file: FilePath | None = None
    elect: AgentAddresses = ()


class Settings(Struct, frozen=True, kw_only=True):
    node: NodeSettings
    cluster: ClusterSettings
    tls: TlsSettings | None = None
    store: StoreSettings = StoreSettings()
    limits: Limits = Limits()
    access: AccessSettings = AccessSettings()
    resp: RespSettings = RespSettings()
    wan: WanSettings = WanSettings()
    console: ConsoleSettings = ConsoleSettings()
    placement: PlacementConfig = PlacementConfig()

    def first_config(self) -> ClusterConfig:
        """Epoch 1 as the operator's file has it; a store that knows a later one keeps that."""
        members = sorted(self.cluster.members, key=lambda member: member.id)
        return ClusterConfig(
            epoch=1,
            coordinator_id=members[0].id,
            replicas=tuple(
                ReplicaInfo(id=member.id, url=member.url, datacenter=member.datacenter) for member in members
            ),
            quorum_policy=self.cluster.quorum_policy,
        )

    def of_cluster(self, cluster_id: str) -> "Settings":
        """With the id that the data directory has."""
        return msgspec.structs.replace(self, cluster=msgspec.structs.replace(self.cluster, id=cluster_id))

    def datacenter_of(self, replica_id: int) -> str:
        known = {member.id: member.datacenter for member in self.cluster.members} | {self.node.id: self.node.datacenter}
        return known.get(replica_id, f"replica-{replica_id}")


REMOVED = {
    "resp_password_file": 'clients of both ports show tokens now: access.auth = "tokens", then epoxy auth init',
}
"""Settings of earlier versions, and what to do instead."""

MEMBER = settings_of(MemberSetting)
TABLE: dict[str, dict[str, Setting]] = {
    "node": settings_of(NodeSettings),
    "cluster": settings_of(ClusterSettings),
    "tls": settings_of(TlsSettings),
    "store": settings_of(StoreSettings),
    "limits": settings_of(Limits),
    "access": settings_of(AccessSettings),
    "resp": settings_of(RespSettings),
    "wan": settings_of(WanSettings),
    "console": settings_of(ConsoleSettings),
    "placement": settings_of(
        PlacementConfig,
        {name: Annotated[int, Meta(ge=low, le=high)] for name, (low, high) in RANGES.items()}
        | {"pools": Annotated[dict[str, Any], Meta(description='tables under "pool" or "namespace/pool"')]},
    ),
}
POOL = {key: TABLE["placement"][key] for key in OF_POOLS}


def load(path: Path, *, flags: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """`flags` are named as `section.key`."""
    source, document = parse(path)
    for section, values in document.items():
        check_known(source, section, values)
    for name, (where, value) in overrides(environ or {}, flags or {}).items():
        section, key = name.split(".")
        document.setdefault(section, {})[key] = TABLE[section][key].from_text(value)
        source.outside[name] = where
    for section in ("node", "cluster"):
        if section not in document:
            raise ConfigError(f"{source.name}: section [{section}] is missing")
    read = {
        section: read_section(source, section, TABLE[section], document.get(section, {}))
        for section in TABLE
        if section in document or section != "tls"
    }
    tls = TlsSettings(**read["tls"]) if "tls" in read else None
    members = read_members(source, read["cluster"].pop("members"))
    cluster = ClusterSettings(members=members, **read["cluster"])
    node = read_self(source, NodeSettings(**read["node"]), cluster, "http" if tls is None else "https")
    check_schemes(source, [(each.id, url) for each in members for url in each.urls], tls=tls is not None)
    store = read_store(source, read["store"])
    check_processes(source, node, store)
    check_listeners(source, node.listeners)
    return Settings(
        node=node,
        cluster=cluster,
        tls=tls,
        store=store,
        limits=Limits(**read["limits"]),
        access=AccessSettings(**read["access"]),
        resp=RespSettings(**read["resp"]),
        console=read_console(source, read["console"]),
        wan=WanSettings(**read["wan"]),
        placement=read_placement(source, read["placement"]),
    )


def check_known(source: TomlSource, section: str, values: Any) -> None:
    if section not in TABLE:
        for key in (section, *(values if isinstance(values, dict) else ())):
            if key in RENAMED:
                raise ConfigError(f"{source.where(section)}: unknown setting {key}; here it is {RENAMED[key]}")
        what = f"section [{section}]" if isinstance(values, dict | list) else f"setting {section}, outside all sections"
        raise ConfigError(f"{source.where(section)}: unknown {what}; known sections: {', '.join(TABLE)}")
    if not isinstance(values, dict):
        raise ConfigError(f"{source.where(section)}: {section} is {values!r}; it is a section, written [{section}]")
    for key in values:
        if key not in TABLE[section]:
            raise ConfigError(
                f"{source.where(section, key)}: unknown setting {section}.{key}; {hint(key, TABLE[section])}"
            )


def hint(key: str, settings: Collection[str]) -> str:
    """What to write instead of a setting that is not known, by its name in the file or in the environment."""
    name = key.lower()
    removed = next((words for each, words in REMOVED.items() if name.endswith(each)), None)
    return removed or (f"here it is {RENAMED[key]}" if key in RENAMED else known(key, settings))


def overrides(environ: Mapping[str, str], flags: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Settings from outside the file, as `section.key`: where they were given, and what. A variable that begins with
    EPOXY_ and a section's name, but names no setting, is refused."""
    names = [f"{section}.{key}" for section in TABLE for key in TABLE[section]]
    variables = {f"EPOXY_{name}".replace(".", "_").upper(): name for name in names}
    found = {}
    for variable, value in environ.items():
        section = next((each for each in TABLE if variable.startswith(f"EPOXY_{each.upper()}_")), None)
        if variable in variables:
            found[variables[variable]] = (variable, value)
        elif section is not None:
            meant = [each for each, name in variables.items() if name.startswith(f"{section}.")]
            raise ConfigError(f"environment: unknown setting {variable}; {hint(variable, meant)}")
    for name, value in flags.items():
        if name not in names:
            meant = [each for each in names if each.split(".")[0] == name.split(".")[0]] or names
            raise ConfigError(f"command line: unknown setting {name}; {hint(name, meant)}")
        found[name] = ("command line", value)
    return found


def read_store(source: TomlSource, values: Mapping[str, Any]) -> StoreSettings:
    store = StoreSettings(**values)
    if store.driver == "postgres" and not store.url:
        where = source.where("store", "driver")
        raise ConfigError(f'{where}: store.driver "postgres" needs store.url, as postgresql://user@host:5432/database')
    if store.driver != "postgres" and store.url:
        where = source.where("store", "url")
        raise ConfigError(f'{where}: store.url is for store.driver = "postgres"; here it is "{store.driver}"')
    return store


def check_processes(source: TomlSource, node: NodeSettings, store: StoreSettings) -> None:
    where = source.where("node", "processes")
    if node.processes > 1 and store.driver == "postgres":
        raise ConfigError(
            f'{where}: node.processes is for store.driver = "embedded"; with "postgres", start more nodes instead'
        )
    if node.processes > 1 and store.backfill:
        raise ConfigError(f"{where}: store.backfill writes rows of all keys, and needs node.processes = 1")
    if node.processes > 1 and node.resp is not None and not node.resp.port:
        raise ConfigError(f"{where}: node.processes share the port of node.resp, so it must be given, and not 0")


def read_console(source: TomlSource, values: Mapping[str, Any]) -> ConsoleSettings:
    console = ConsoleSettings(**values)
    if bool(console.demo_url) is not bool(console.demo_token_file):
        where = source.where("console")
        raise ConfigError(f"{where}: console.demo_url and console.demo_token_file go together; give both, or none")
    return console


def read_placement(source: TomlSource, values: Mapping[str, Any]) -> PlacementConfig:
    """[placement], and the tables of single pools, which have only what differs:

    [placement.pools.chat]
    samples = 1

    [placement.pools."prod/chat"]       # the pool of one namespace
    load_bound_percent = 25
    """
    general = PlacementConfig(**{**values, "pools": {}})
    pools = {}
    for pool, given in values["pools"].items():
        section = f"placement.pools.{pool}"
        if not isinstance(given, dict):
            raise ConfigError(f"{source.where(section)}: {section} is {given!r}; allowed: a table of settings")
        for key in given:
            if key not in POOL:
                where = source.where(section, key)
                raise ConfigError(f"{where}: {section}.{key} is no setting of a pool; {hint(key, POOL)}")
        own = read_section(source, section, {key: POOL[key] for key in given}, given)
        pools[pool] = msgspec.structs.replace(general, **own)
    return msgspec.structs.replace(general, pools=pools)


def read_self(source: TomlSource, node: NodeSettings, cluster: ClusterSettings, scheme: str) -> NodeSettings:
    """The node with the datacenter and URL that the members' list has for it. One that is not listed must say that it
    joins later, so that a mistyped id is refused."""
    listed = {member.id: member for member in cluster.members}
    me, where = listed.get(node.id), source.where("node", "id")
    if me is not None and cluster.join:
        raise ConfigError(f"{where}: node.id {me.id} is among cluster.members, so it cannot have cluster.join = true")
    if me is None and not cluster.join:
        raise ConfigError(
            f"{where}: node.id {node.id} is not among cluster.members ({', '.join(map(str, listed))}); "
            "a node that is added later has cluster.join = true"
        )
    if me is None and not node.datacenter:
        raise ConfigError(f"{where}: node.datacenter is missing: a node that joins says where it is")
    if me is None:
        me = MemberSetting(id=node.id, datacenter=node.datacenter, url=f"{scheme}://{node.peers or node.http}")
    if node.datacenter not in ("", me.datacenter):
        where = source.where("node", "datacenter")
        raise ConfigError(f"{where}: node.datacenter {node.datacenter!r}, but member {me.id} is in {me.datacenter!r}")
    own = node.advertise_url or own_url(source, node, me, scheme)
    return msgspec.structs.replace(node, datacenter=me.datacenter, advertise_url=own)


def own_url(source: TomlSource, node: NodeSettings, me: MemberSetting, scheme: str) -> str:
    """Which of the addresses of its datacenter is this node's: the only one, or the one that it listens on."""
    listens = f"{scheme}://{node.peers or node.http}"
    if len(me.urls) == 1:
        return me.url
    if is_one_of(listens, me.url):
        return listens
    where = source.where("node", "advertise_url")
    raise ConfigError(
        f"{where}: node.advertise_url is missing: member {me.id} has several addresses, and it is the one of this "
        f"node: {' or '.join(me.urls)}"
    )


def read_members(source: TomlSource, given: Any) -> tuple[MemberSetting, ...]:
    where = source.where("cluster", "members")
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_REPLICAS:
        raise ConfigError(f"{where}: cluster.members is a list of 1 to {MAX_REPLICAS} tables")
    members = []
    for number, entry in enumerate(given, start=1):
        name = f"cluster.members[{number}]"
        if not isinstance(entry, dict) or set(entry) != set(MEMBER):
            raise ConfigError(f"{where}: {name} is {entry!r}; allowed: a table of exactly {', '.join(MEMBER)}")
        try:
            members.append(MemberSetting(**{key: setting.read(entry[key]) for key, setting in MEMBER.items()}))
        except BadUrls as bad:
            raise ConfigError(f"{where}: {name}.url: {bad}") from None
        except ValueError:
            allowed = "; ".join(f"{key}: {setting.allowed}" for key, setting in MEMBER.items())
            raise ConfigError(f"{where}: {name} is {entry!r}; allowed: {allowed}") from None
    url_twice = first_twice(url for member in members for url in member.urls)
    if url_twice is not None:
        raise ConfigError(f"{where}: two members have the url {url_twice!r}")
    for what in ("id", "datacenter"):
        values = [getattr(member, what) for member in members]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise ConfigError(f"{where}: two members have the {what} {twice!r}")
    return tuple(members)


def without_password(url: str) -> str:
    """As it may be shown in logs."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, _, hosts = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}:***@{hosts}").geturl()


def in_force(settings: Settings) -> dict[str, dict[str, Any]]:
    """As the file would have it; settings without a value are left out."""
    document = msgspec.json.decode(msgspec.json.encode(settings, enc_hook=str))
    if settings.store.url:
        document["store"]["url"] = without_password(settings.store.url)
    placement = document["placement"]
    document["node"] |= {name.removeprefix("node."): str(address) for name, address in settings.node.listeners.items()}
    for member, setting in zip(document["cluster"]["members"], settings.cluster.members, strict=True):
        member["url"] = setting.url if len(setting.urls) == 1 else list(setting.urls)
    document["console"]["elect"] = [str(agent) for agent in settings.console.elect]
    placement["pools"] = {pool: {key: own[key] for key in OF_POOLS} for pool, own in sorted(placement["pools"].items())}
    return {
        section: {key: value for key, value in values.items() if value not in (None, "", [], {})}
        for section, values in document.items()
        if values
    }
