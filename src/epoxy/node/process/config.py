"""epoxy.toml: what an operator may say, checked before anything is started.

Each setting has a type, a range and a default in one table. Whatever is unknown or out of range is refused with one
line that names the setting, the line of the file it stands in, and what would be allowed. A command line flag beats an
environment variable (EPOXY_NODE_HTTP for `http` in [node]), which beats the file. A relative path in the file begins
at the file's folder, one from outside at the working directory.
"""

import re
import socket
import stat
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from epoxy.model.address import Address
from epoxy.model.cluster import ClusterConfig, ReplicaInfo
from epoxy.model.errors import ConfigError
from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy
from epoxy.node.process import pool_settings
from epoxy.node.process.toml_file import TomlSource, parse
from epoxy.protocol.placement.config import RANGES, RENAMED, PlacementConfig, Strategy

HOST_NAME = re.compile(r"\*|[A-Za-z0-9_]([A-Za-z0-9._-]{0,252})")

MIN_SECRET_BYTES = 16
"""128 bits: what it takes to make guessing hopeless."""


class MemberSetting(Struct, frozen=True, kw_only=True):
    id: int
    datacenter: str
    url: str


class NodeSettings(Struct, frozen=True, kw_only=True):
    id: int
    datacenter: str
    data_dir: Path
    http: Address
    resp: Address | None
    resp_password_file: Path | None = None
    advertise_url: str
    allowed_hosts: tuple[str, ...] = ()
    """Names in `Host` that are accepted beside its own."""


class ClusterSettings(Struct, frozen=True, kw_only=True):
    members: tuple[MemberSetting, ...]
    quorum_policy: QuorumPolicy
    secret_file: Path
    join: bool = False
    """This node is none of the first members: it waits until it is added."""


class TlsSettings(Struct, frozen=True, kw_only=True):
    cert: Path
    key: Path
    ca: Path | None


class Limits(Struct, frozen=True, kw_only=True):
    """`writes_in_flight` and `reads_in_flight` bound memory; how many a node really takes on follows what it gets done,
    see `pending.py`. Why the changelog keeps so much: `sweeping.py`."""

    connections: int
    pipeline: int
    writes_in_flight: int
    reads_in_flight: int
    request_timeout_ms: int
    peer_queue: int
    changelog_commits: int = 1_000_000
    changelog_minutes: int = 10


class Settings(Struct, frozen=True, kw_only=True):
    node: NodeSettings
    cluster: ClusterSettings
    tls: TlsSettings | None
    limits: Limits
    emulate_wan: bool
    store_driver: str = "embedded"
    placement: PlacementConfig = PlacementConfig()
    backfill: bool = False
    """Whether values of the first layout are moved to the one in use."""

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

    def datacenter_of(self, replica_id: int) -> str:
        known = {member.id: member.datacenter for member in self.cluster.members} | {self.node.id: self.node.datacenter}
        return known.get(replica_id, f"replica-{replica_id}")


class Field(Struct, frozen=True):
    """One setting: how to read it, what is allowed (in words), and what it is when nothing is said."""

    read: Callable[[Any], Any]
    allowed: str
    default: Any = msgspec.UNSET
    from_text: Callable[[str], Any] = str
    """What a variable or a flag says, as the file would say it."""


class Invalid(Exception):
    """A value outside its range; whoever knows where it stands makes the sentence."""


def whole(low: int, high: int, default: Any = msgspec.UNSET) -> Field:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Invalid
        return value

    return Field(read, f"a whole number from {low} to {high}", default, digits)


def digits(value: str) -> int | str:
    """Twenty are more than any range has, and fewer than int() minds."""
    short = value.isascii() and value.isdecimal() and len(value) <= 20
    return int(value) if short else value


def text(default: Any = msgspec.UNSET) -> Field:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise Invalid
        return value

    return Field(read, "a text that is not empty", default)


def file_path(default: Any = msgspec.UNSET) -> Field:
    return Field(lambda value: Path(text().read(value)), "a path", default)


def choice(*words: str, default: Any = msgspec.UNSET) -> Field:
    def read(value: Any) -> str:
        if value not in words:
            raise Invalid
        return str(value)

    return Field(read, " or ".join(f'"{word}"' for word in words), default)


def switch(default: bool) -> Field:
    def read(value: Any) -> bool:
        if not isinstance(value, bool):
            raise Invalid
        return value

    return Field(read, "true or false", default, lambda value: {"true": True, "false": False}.get(value, value))


def address(default: Any = msgspec.UNSET) -> Field:
    return Field(read_address, 'an address to listen on, as "127.0.0.1:7800"', default)


def read_address(value: Any) -> Address:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    number = digits(port)
    if not host.strip("[] ") or not isinstance(number, int) or number > 65535:
        raise Invalid
    return Address(host.strip("[]"), number)


def read_url(value: Any) -> str:
    """Of a peer: where it is and whether it speaks TLS, nothing more."""
    try:
        parts = urlsplit(value.rstrip("/") if isinstance(value, str) else "")
        whole_url = f"{parts.scheme}://{parts.netloc}" == parts.geturl() and parts.username is None
        if parts.scheme not in ("http", "https") or not parts.hostname or not whole_url or parts.port == 0:
            raise Invalid
    except ValueError:  # urlsplit's, about brackets and ports
        raise Invalid from None
    if not parts.netloc.isascii() or not parts.netloc.isprintable() or " " in parts.netloc:
        raise Invalid
    return parts.geturl()


def read_hosts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and HOST_NAME.fullmatch(name) for name in value):
        raise Invalid
    return tuple(value)


def read_toml(value: str) -> Any:
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except ValueError:
        return value


HOSTS = 'a list of host names without ports, as ["epoxy.example.com"], or ["*"]'
EVERYWHERE = {"0.0.0.0", "::"}

URL = 'a url, as "http://10.0.0.1:7800"'

MEMBER = {"id": whole(1, 2**32 - 1), "datacenter": text(), "url": Field(read_url, URL)}

TABLE: dict[str, dict[str, Field]] = {
    "node": {
        "id": whole(1, 2**32 - 1),
        "datacenter": text(default=None),
        "data_dir": file_path(),
        "http": address(Address("127.0.0.1", 7800)),
        "resp": address(None),
        "resp_password_file": file_path(None),
        "advertise_url": Field(read_url, URL, None),
        "allowed_hosts": Field(read_hosts, HOSTS, (), lambda value: [name.strip() for name in value.split(",")]),
    },
    "cluster": {
        "members": Field(lambda value: value, "a list of tables with id, datacenter and url", from_text=read_toml),
        "quorum_policy": choice("optimal", "fast-paxos", default="optimal"),
        "secret_file": file_path(),
        "join": switch(False),
    },
    "tls": {"cert": file_path(), "key": file_path(), "ca": file_path(None)},
    "store": {"driver": choice("embedded", default="embedded"), "backfill": switch(False)},
    "limits": {
        "connections": whole(1, 100_000, 10_000),
        "pipeline": whole(1, 100_000, 1_000),
        "writes_in_flight": whole(1, 1_000_000, 10_000),
        "reads_in_flight": whole(1, 1_000_000, 10_000),
        "request_timeout_ms": whole(10, 600_000, 10_000),
        "peer_queue": whole(16, 1_000_000, 10_000),
        "changelog_commits": whole(0, 1_000_000_000, 1_000_000),
        "changelog_minutes": whole(0, 100_000, 10),
    },
    "wan": {"emulate": switch(False)},
}
REQUIRED = ("node", "cluster")

TABLE["placement"] = {
    "strategy": choice(*(strategy.value for strategy in Strategy), default=PlacementConfig().strategy.value),
    **{name: whole(low, high, getattr(PlacementConfig(), name)) for name, (low, high) in RANGES.items()},
    **{name: switch(getattr(PlacementConfig(), name)) for name in ("use_snapshot_read", "pool_meta", "reserve_slots")},
}
TABLE["placement"]["pools"] = Field(lambda value: value, 'tables under "pool" or "namespace/pool"', {}, read_toml)


def load(path: Path, *, flags: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """`flags` are named as `section.key`."""
    source, document = parse(path)
    for section, values in document.items():
        check_known(source, section, values)
    for name, (where, value) in overrides(environ or {}, flags or {}).items():
        section, key = name.split(".")
        document.setdefault(section, {})[key] = TABLE[section][key].from_text(value)
        source.outside[name] = where
    return assemble(source, {section: read_section(source, section, document) for section in TABLE})


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
            known = f"here it is {RENAMED[key]}" if key in RENAMED else f"known: {', '.join(TABLE[section])}"
            raise ConfigError(f"{source.where(section, key)}: unknown setting {section}.{key}; {known}")


def overrides(environ: Mapping[str, str], flags: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Settings given outside the file, as `section.key`: where, and what. A variable that looks like ours but is not is
    refused."""
    named = {f"EPOXY_{section}_{key}".upper(): f"{section}.{key}" for section in TABLE for key in TABLE[section]}
    found = {}
    for variable, value in environ.items():
        if variable in named:
            found[named[variable]] = (variable, value)
        elif variable.startswith(tuple(f"EPOXY_{section.upper()}_" for section in TABLE)):
            known = ", ".join(each for each in named if each.split("_")[1] == variable.split("_")[1])
            raise ConfigError(f"environment: unknown setting {variable}; known: {known}")
    for name, value in flags.items():
        section, _, key = name.partition(".")
        if key not in TABLE.get(section, {}):
            sections = [section] if section in TABLE else TABLE
            known = ", ".join(f"{section}.{key}" for section in sections for key in TABLE[section])
            raise ConfigError(f"command line: unknown setting {name}; known: {known}")
        found[name] = ("command line", value)
    return found


def read_section(source: TomlSource, section: str, document: Mapping[str, Any]) -> dict[str, Any] | None:
    given = document.get(section)
    if given is None and section in REQUIRED:
        raise ConfigError(f"{source.name}: section [{section}] is missing")
    if given is None and section == "tls":
        return None
    return read_fields(source, section, TABLE[section], given or {})


def read_fields(
    source: TomlSource, section: str, fields: Mapping[str, Field], given: Mapping[str, Any]
) -> dict[str, Any]:
    values = {}
    for key, field in fields.items():
        if key not in given:
            if field.default is msgspec.UNSET:
                raise ConfigError(f"{source.where(section)}: {section}.{key} is missing: {field.allowed}")
            values[key] = field.default
            continue
        try:
            value = field.read(given[key])
            folder = Path.cwd() if f"{section}.{key}" in source.outside else source.folder
            values[key] = folder / value if isinstance(value, Path) else value
        except Invalid:
            where = source.where(section, key)
            raise ConfigError(f"{where}: {section}.{key} is {given[key]!r}; allowed: {field.allowed}") from None
    return values


def assemble(source: TomlSource, sections: Mapping[str, Any]) -> Settings:
    node, cluster = sections["node"], sections["cluster"]
    members = read_members(source, cluster["members"])
    me = read_self(source, node, members, join=cluster["join"], encrypted=sections["tls"] is not None)
    if node["datacenter"] not in (None, me.datacenter):
        where = source.where("node", "datacenter")
        raise ConfigError(
            f"{where}: node.datacenter {node['datacenter']!r}, but member {me.id} is in {me.datacenter!r}"
        )
    node = {**node, "datacenter": me.datacenter, "advertise_url": node["advertise_url"] or me.url}
    policy = QuorumPolicy(cluster["quorum_policy"])
    tls = TlsSettings(**sections["tls"]) if sections["tls"] is not None else None
    check_schemes(source, members, tls)
    check_doors(source, node["http"], node["resp"])
    return Settings(
        node=NodeSettings(**node),
        cluster=ClusterSettings(
            members=members, quorum_policy=policy, secret_file=cluster["secret_file"], join=cluster["join"]
        ),
        tls=tls,
        limits=Limits(**sections["limits"]),
        emulate_wan=sections["wan"]["emulate"],
        store_driver=sections["store"]["driver"],
        placement=pool_settings.read_placement(source, sections["placement"], not_allowed),
        backfill=sections["store"]["backfill"],
    )


def not_allowed(key: str, value: Any) -> str | None:
    """What a setting of [placement] may be, if it is not."""
    field = TABLE["placement"][key]
    try:
        field.read(value)
    except Invalid:
        return field.allowed
    return None


def read_self(
    source: TomlSource, node: Mapping[str, Any], members: tuple[MemberSetting, ...], *, join: bool, encrypted: bool
) -> MemberSetting:
    """A node is one of the first members, or says that it joins later: a mistyped id should be neither."""
    me = next((member for member in members if member.id == node["id"]), None)
    where = source.where("node", "id")
    if me is not None and join:
        raise ConfigError(f"{where}: node.id {me.id} is among cluster.members, so it cannot have cluster.join = true")
    if me is not None:
        return me
    if not join:
        ids = ", ".join(str(member.id) for member in members)
        raise ConfigError(
            f"{where}: node.id {node['id']} is not among cluster.members ({ids}); "
            "a node that is added later has cluster.join = true"
        )
    if node["datacenter"] is None:
        raise ConfigError(f"{where}: node.datacenter is missing: a node that joins says where it is")
    scheme = "https" if encrypted else "http"
    return MemberSetting(
        id=node["id"], datacenter=node["datacenter"], url=node["advertise_url"] or f"{scheme}://{node['http']}"
    )


def check_schemes(source: TomlSource, members: tuple[MemberSetting, ...], tls: TlsSettings | None) -> None:
    """A node has one port for all: either everybody speaks TLS to it or nobody does."""
    scheme, reason = ("http", "there is no [tls]") if tls is None else ("https", "there is [tls]")
    for member in members:
        if urlsplit(member.url).scheme != scheme:
            where = source.where("cluster", "members")
            raise ConfigError(f"{where}: member {member.id} is at {member.url}, but {reason}: allowed: {scheme}://")


def check_doors(source: TomlSource, http: Address, resp: Address | None) -> None:
    """Otherwise the second would find the first one's port taken, and wait for it to be freed, for ever."""
    if resp is None or resp.port != http.port or not resp.port:
        return
    if {resp.host, http.host} & EVERYWHERE or resp.host == http.host or resolved(resp.host) & resolved(http.host):
        raise ConfigError(f"{source.where('node', 'resp')}: node.resp {resp} is where node.http {http} listens")


def resolved(host: str) -> set[str]:
    """The addresses a name stands for; none if it is not found, which is told when the node listens there."""
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()


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
            members.append(MemberSetting(**{key: field.read(entry[key]) for key, field in MEMBER.items()}))
        except Invalid:
            allowed = "; ".join(f"{key}: {field.allowed}" for key, field in MEMBER.items())
            raise ConfigError(f"{where}: {name} is {entry!r}; allowed: {allowed}") from None
    for what in ("id", "url", "datacenter"):
        values = [getattr(member, what) for member in members]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise ConfigError(f"{where}: two members have the {what} {twice!r}")
    return tuple(members)


def read_secret(settings: Settings) -> bytes:
    return secret_in("cluster.secret_file", settings.cluster.secret_file, MIN_SECRET_BYTES)


def secret_in(setting: str, path: Path, least: int) -> bytes:
    """Without the line end that editors leave."""
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{setting} {path}: cannot be read: {error.strerror}") from error
    if len(secret) < least:
        raise ConfigError(f"{setting} {path}: {len(secret)} bytes; at least {least}")
    return secret


def read_resp_password(settings: Settings) -> str | None:
    path = settings.node.resp_password_file
    if path is None:
        return None
    try:
        password = path.read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"node.resp_password_file {path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"node.resp_password_file {path}: is not UTF-8 (byte {error.start})") from error
    if not password:
        raise ConfigError(f"node.resp_password_file {path}: is empty")
    return password


def is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def in_force(settings: Settings) -> dict[str, dict[str, Any]]:
    """Under the names of the file, and as the file would have it; what was not given and has no default is left out."""
    members = [msgspec.structs.asdict(member) for member in settings.cluster.members]
    sections = {
        "node": msgspec.structs.asdict(settings.node),
        "cluster": {**msgspec.structs.asdict(settings.cluster), "members": members},
        "tls": msgspec.structs.asdict(settings.tls) if settings.tls is not None else {},
        "store": {"driver": settings.store_driver, "backfill": settings.backfill},
        "limits": msgspec.structs.asdict(settings.limits),
        "wan": {"emulate": settings.emulate_wan},
        "placement": pool_settings.in_force(settings.placement),
    }
    return {
        section: {key: plain_value(value) for key, value in values.items() if value not in (None, ())}
        for section, values in sections.items()
        if values
    }


def plain_value(value: Any) -> Any:
    match value:
        case QuorumPolicy():
            return value.value
        case Address() | Path():
            return str(value)
        case tuple():
            return list(value)
        case _:
            return value
