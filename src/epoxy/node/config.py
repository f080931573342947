"""epoxy.toml: what an operator may say, checked before anything is started.

Each setting has a type, a range and a default in one table. Whatever is unknown or out of range is refused with one
line that names the setting, the line of the file it stands in, and what would be allowed. A command line flag beats an
environment variable (EPOXY_NODE_HTTP for `http` in [node]), which beats the file.
"""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from epoxy.model.cluster import ClusterConfig, ReplicaInfo
from epoxy.model.errors import ConfigError
from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy

MIN_SECRET_BYTES = 16
"""128 bits: what it takes to make guessing hopeless."""


class Address(Struct, frozen=True):
    """Where to listen. Port 0: any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Member(Struct, frozen=True, kw_only=True):
    id: int
    datacenter: str
    url: str


class NodeSettings(Struct, frozen=True, kw_only=True):
    id: int
    datacenter: str
    data_dir: Path
    http: Address
    resp: Address | None
    advertise_url: str


class ClusterSettings(Struct, frozen=True, kw_only=True):
    members: tuple[Member, ...]
    quorum_policy: QuorumPolicy
    secret_file: Path


class TlsSettings(Struct, frozen=True, kw_only=True):
    cert: Path
    key: Path
    ca: Path | None


class Limits(Struct, frozen=True, kw_only=True):
    """`writes_in_flight`: what one event loop decides in about a second; more would only wait."""

    connections: int
    pipeline: int
    writes_in_flight: int
    request_timeout_ms: int
    peer_queue: int


class Settings(Struct, frozen=True, kw_only=True):
    node: NodeSettings
    cluster: ClusterSettings
    tls: TlsSettings | None
    limits: Limits
    emulate_wan: bool

    def first_config(self) -> ClusterConfig:
        """Epoch 1 as the operator's file has it; a store that knows a later one keeps that."""
        members = sorted(self.cluster.members, key=lambda member: member.id)
        return ClusterConfig(
            epoch=1,
            coordinator_id=members[0].id,
            replicas=tuple(ReplicaInfo(id=member.id, url=member.url) for member in members),
            quorum_policy=self.cluster.quorum_policy,
        )

    def datacenter_of(self, replica_id: int) -> str:
        return next((m.datacenter for m in self.cluster.members if m.id == replica_id), f"replica-{replica_id}")


class Field(Struct, frozen=True):
    """One setting: how to read it, what is allowed (in words), and what it is when nothing is said."""

    read: Callable[[Any], Any]
    allowed: str
    default: Any = msgspec.UNSET


class Invalid(Exception):
    """A value outside its range; whoever knows where it stands makes the sentence."""


def whole(low: int, high: int, default: Any = msgspec.UNSET) -> Field:
    def read(value: Any) -> int:
        number = int(value) if isinstance(value, str) and value.strip().isdigit() else value
        if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
            raise Invalid
        return number

    return Field(read, f"a whole number from {low} to {high}", default)


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
    words = {"true": True, "false": False, True: True, False: False}

    def read(value: Any) -> bool:
        if not isinstance(value, str | bool) or value not in words:
            raise Invalid
        return words[value]

    return Field(read, "true or false", default)


def address(default: Any = msgspec.UNSET) -> Field:
    return Field(read_address, 'an address to listen on, as "127.0.0.1:7800"', default)


def read_address(value: Any) -> Address:
    host, colon, port = str(value).rpartition(":")
    if not isinstance(value, str) or not colon or not host or not port.isdigit() or int(port) > 65535:
        raise Invalid
    return Address(host.strip("[]"), int(port))


def read_url(value: Any) -> str:
    parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid
    return str(value).rstrip("/")


URL = 'a url, as "http://10.0.0.1:7800"'

MEMBER = {"id": whole(1, 2**32 - 1), "datacenter": text(), "url": Field(read_url, URL)}

TABLE: dict[str, dict[str, Field]] = {
    "node": {
        "id": whole(1, 2**32 - 1),
        "datacenter": text(default=None),
        "data_dir": file_path(),
        "http": address(Address("127.0.0.1", 7800)),
        "resp": address(None),
        "advertise_url": Field(read_url, URL, None),
    },
    "cluster": {
        "members": Field(lambda value: value, "a list of tables with id, datacenter and url"),
        "quorum_policy": choice("optimal", "fast-paxos", default="optimal"),
        "secret_file": file_path(),
    },
    "tls": {"cert": file_path(), "key": file_path(), "ca": file_path(None)},
    "store": {"driver": choice("embedded", default="embedded")},
    "limits": {
        "connections": whole(1, 100_000, 10_000),
        "pipeline": whole(1, 100_000, 1_000),
        "writes_in_flight": whole(1, 1_000_000, 10_000),
        "request_timeout_ms": whole(10, 600_000, 10_000),
        "peer_queue": whole(16, 1_000_000, 10_000),
    },
    "wan": {"emulate": switch(False)},
}
REQUIRED = ("node", "cluster")


class Source:
    """The file's text, to say where a setting stands."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.outside: dict[str, str] = {}
        self._lines = text.splitlines()

    def where(self, section: str, key: str | None) -> str:
        """`outside` has the settings that were given elsewhere."""
        if f"{section}.{key}" in self.outside:
            return self.outside[f"{section}.{key}"]
        inside = False
        for number, line in enumerate(self._lines, start=1):
            words = line.split("#")[0].strip()
            if words.startswith("["):
                inside = words.strip("[] ") == section
                if inside and key is None:
                    return f"{self.name}, line {number}"
            elif inside and key is not None and words.split("=")[0].strip() == key:
                return f"{self.name}, line {number}"
        return self.name


def load(path: Path, *, flags: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """`flags` are named as `section.key`."""
    source, document = parse(path)
    for section, values in document.items():
        check_known(source, section, values)
    for name, (where, value) in overrides(environ or {}, flags or {}).items():
        section, key = name.split(".")
        document.setdefault(section, {})[key] = value
        source.outside[name] = where
    return assemble(source, {section: read_section(source, section, document) for section in TABLE})


def parse(path: Path) -> tuple[Source, dict[str, Any]]:
    try:
        text = path.read_text("utf-8")
        return Source(str(path), text), tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from error


def check_known(source: Source, section: str, values: Any) -> None:
    if section not in TABLE or not isinstance(values, dict):
        raise ConfigError(f"{source.where(section, None)}: unknown section [{section}]; known: {', '.join(TABLE)}")
    for key in values:
        if key not in TABLE[section]:
            known = ", ".join(TABLE[section])
            raise ConfigError(f"{source.where(section, key)}: unknown setting {section}.{key}; known: {known}")


def overrides(environ: Mapping[str, str], flags: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Settings given outside the file, as `section.key`: where, and what. A variable that looks like ours but is not is
    refused."""
    named = {f"EPOXY_{section}_{key}".upper(): f"{section}.{key}" for section in TABLE for key in TABLE[section]}
    found = {}
    for variable, value in environ.items():
        if variable in named:
            found[named[variable]] = (variable, value)
        elif variable.startswith(tuple(f"EPOXY_{section.upper()}_" for section in TABLE)):
            raise ConfigError(f"environment: unknown setting {variable}; known: {', '.join(named)}")
    for name, value in flags.items():
        section, _, key = name.partition(".")
        if key not in TABLE.get(section, {}):
            raise ConfigError(f"command line: unknown setting {name}")
        found[name] = ("command line", value)
    return found


def read_section(source: Source, section: str, document: Mapping[str, Any]) -> dict[str, Any] | None:
    given = document.get(section)
    if given is None and section in REQUIRED:
        raise ConfigError(f"{source.name}: section [{section}] is missing")
    if given is None and section == "tls":
        return None
    return read_fields(source, section, TABLE[section], given or {})


def read_fields(source: Source, section: str, fields: Mapping[str, Field], given: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for key, field in fields.items():
        if key not in given:
            if field.default is msgspec.UNSET:
                raise ConfigError(f"{source.where(section, None)}: {section}.{key} is missing: {field.allowed}")
            values[key] = field.default
            continue
        try:
            values[key] = field.read(given[key])
        except Invalid:
            where = source.where(section, key)
            raise ConfigError(f"{where}: {section}.{key} is {given[key]!r}; allowed: {field.allowed}") from None
    return values


def assemble(source: Source, sections: Mapping[str, Any]) -> Settings:
    node, cluster = sections["node"], sections["cluster"]
    members = read_members(source, cluster["members"])
    me = next((member for member in members if member.id == node["id"]), None)
    if me is None:
        ids = ", ".join(str(member.id) for member in members)
        raise ConfigError(f"{source.where('node', 'id')}: node.id {node['id']} is not among cluster.members ({ids})")
    if node["datacenter"] not in (None, me.datacenter):
        where = source.where("node", "datacenter")
        raise ConfigError(
            f"{where}: node.datacenter {node['datacenter']!r}, but member {me.id} is in {me.datacenter!r}"
        )
    node = {**node, "datacenter": me.datacenter, "advertise_url": node["advertise_url"] or me.url}
    policy = QuorumPolicy(cluster["quorum_policy"])
    tls = TlsSettings(**sections["tls"]) if sections["tls"] is not None else None
    return Settings(
        node=NodeSettings(**node),
        cluster=ClusterSettings(members=members, quorum_policy=policy, secret_file=cluster["secret_file"]),
        tls=tls,
        limits=Limits(**sections["limits"]),
        emulate_wan=sections["wan"]["emulate"],
    )


def read_members(source: Source, given: Any) -> tuple[Member, ...]:
    where = source.where("cluster", "members")
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_REPLICAS:
        raise ConfigError(f"{where}: cluster.members is a list of 1 to {MAX_REPLICAS} tables")
    members = []
    for number, entry in enumerate(given, start=1):
        name = f"cluster.members[{number}]"
        if not isinstance(entry, dict) or set(entry) != set(MEMBER):
            raise ConfigError(f"{where}: {name} needs exactly {', '.join(MEMBER)}")
        try:
            members.append(Member(**{key: field.read(entry[key]) for key, field in MEMBER.items()}))
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
    path = settings.cluster.secret_file
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"cluster.secret_file {path}: cannot be read: {error.strerror}") from error
    if len(secret) < MIN_SECRET_BYTES:
        raise ConfigError(f"cluster.secret_file {path}: {len(secret)} bytes; at least {MIN_SECRET_BYTES}")
    return secret
