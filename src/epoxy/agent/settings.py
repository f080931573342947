"""elect.toml: the settings of one agent and of its cluster."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import asdict

from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.node.process.secret_files import secret_in, secrets_in
from epoxy.node.process.sections import FilePath, Text, known, read_address, read_section, settings_of
from epoxy.node.process.toml_file import TomlSource, parse
from epoxy.protocol.elect.config import ElectConfig, ElectNode, ElectTiming
from epoxy.protocol.elect.lint import LintFinding, lint
from epoxy.transport.tls import TlsFiles

SECRET_SETTING = "cluster.secret_file"
BACKOFF = re.compile(r"(\d+)-(\d+)")
HOUR_MS = 3_600_000


class AgentSettings(Struct, frozen=True, kw_only=True):
    """`listen`: where this agent accepts other agents. `clients`: the port for clients. `metrics`: the port for
    Prometheus. `server`: where this agent reaches its server, whose address may be another for clients and other
    servers. `kill_hung`: kill a server of this machine that does not answer when its lease is over."""

    me: str
    data_dir: Path
    listen: Address
    clients: Address
    metrics: Address | None
    server: Address
    user: str
    password: str
    kill_hung: bool
    secret_file: Path
    secrets: tuple[bytes, ...]
    """The first is spoken, both are accepted."""
    tls: TlsFiles | None
    """Of the links between agents. None: they are sealed, and not encrypted."""
    config: ElectConfig
    findings: tuple[LintFinding, ...]


def read_agent_address(value: Any) -> Address:
    address = read_address(value)
    if not address.port:
        raise ValueError
    return address


def read_backoff(value: Any) -> tuple[int, int]:
    found = BACKOFF.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError
    return int(found[1]), int(found[2])


AgentAddress = Annotated[
    Address, Meta(description='an address, as "10.0.0.1:7900"', extra={"read": read_agent_address})
]
Backoff = Annotated[tuple[int, int], Meta(description='two numbers, as "1000-5000"', extra={"read": read_backoff})]
Milliseconds = Annotated[int, Meta(ge=1, le=HOUR_MS)]
TIMES = ElectTiming()


class NodeSection(Struct, frozen=True, kw_only=True):
    id: Text
    data_dir: FilePath
    listen: AgentAddress | None = None
    clients: AgentAddress
    metrics: AgentAddress | None = None


class ServerSection(Struct, frozen=True, kw_only=True):
    address: AgentAddress | None = None
    user: Text = ""
    password_file: FilePath | None = None
    kill_hung: bool = False


class ClusterSection(Struct, frozen=True, kw_only=True):
    name: Text
    secret_file: FilePath
    initial_primary: Text
    min_replicas_to_write: Annotated[int, Meta(ge=0, le=100)] = 0


class TimingSection(Struct, frozen=True, kw_only=True):
    hb_interval_ms: Milliseconds = TIMES.hb_interval_ms
    down_after_ms: Milliseconds = TIMES.down_after_ms
    lease_ms: Milliseconds | None = None
    election_timeout_ms: Milliseconds | None = None
    election_backoff_ms: Backoff | None = None


class TlsSection(Struct, frozen=True, kw_only=True):
    cert: FilePath
    key: FilePath
    ca: FilePath


class NodesEntry(Struct, frozen=True, kw_only=True):
    id: Text
    control: AgentAddress
    server: AgentAddress
    priority: Annotated[int, Meta(ge=0, le=1_000)] = 100


TABLE = {
    "node": settings_of(NodeSection),
    "server": settings_of(ServerSection),
    "cluster": settings_of(ClusterSection),
    "timing": settings_of(TimingSection),
    "tls": settings_of(TlsSection),
}
OPTIONAL = ("tls",)
"""Sections with settings that are required, if the section is there."""

NODE = settings_of(NodesEntry)
HINTS = {
    "elect_port_base": 'there are no shards: each node has one port for agents, control = "host:port" in [[nodes]]',
    "election_backoff_min_ms": 'written as one setting, election_backoff_ms = "1000-5000"',
    "election_backoff_max_ms": 'written as one setting, election_backoff_ms = "1000-5000"',
}
"""For names of the original text and of messages that are not settings."""


def load(path: Path) -> AgentSettings:
    source, document = parse(path)
    for section in document:
        if section not in (*TABLE, "nodes"):
            raise ConfigError(f"{source.where(section)}: unknown section [{section}]; known: {', '.join(TABLE)}, nodes")
    given = [section for section in TABLE if section in document or section not in OPTIONAL]
    sections = {section: checked_section(source, section, document) for section in given}
    config = read_config(sections, read_nodes(source, document.get("nodes")))
    findings = lint(config)
    for finding in findings:
        if finding.fatal:
            raise ConfigError(f"{source.name}: {finding}")
    me = sections["node"]["id"]
    if me not in {node.id for node in config.nodes}:
        known = ", ".join(node.id for node in config.nodes)
        raise ConfigError(f"{source.where('node', 'id')}: node.id {me!r} is not one of the nodes ({known})")
    node, server, cluster = sections["node"], sections["server"], sections["cluster"]
    password_file = server["password_file"]
    return AgentSettings(
        me=me,
        data_dir=node["data_dir"],
        listen=node["listen"] or config.node(me).control,
        clients=node["clients"],
        metrics=node["metrics"],
        server=server["address"] or config.node(me).server,
        user=server["user"],
        password=secret_in("server.password_file", password_file, 1).decode() if password_file is not None else "",
        kill_hung=server["kill_hung"],
        secret_file=cluster["secret_file"],
        secrets=secrets_in(SECRET_SETTING, cluster["secret_file"]),
        tls=TlsFiles(**sections["tls"]) if "tls" in document else None,
        config=config,
        findings=tuple(findings),
    )


def checked_section(source: TomlSource, section: str, document: Mapping[str, Any]) -> dict[str, Any]:
    given = document.get(section, {})
    if not isinstance(given, dict):
        raise ConfigError(f"{source.where(section)}: {section} is a section, written [{section}]")
    for key in given:
        if key not in TABLE[section]:
            hint = HINTS.get(key) or known(key, TABLE[section])
            raise ConfigError(f"{source.where(section, key)}: unknown setting {section}.{key}; {hint}")
    return read_section(source, section, TABLE[section], given)


def read_nodes(source: TomlSource, given: Any) -> tuple[ElectNode, ...]:
    if not isinstance(given, list) or not given:
        raise ConfigError(f"{source.where('nodes')}: nodes: one [[nodes]] with {', '.join(NODE)} for each node")
    nodes = []
    for entry in given:
        if not isinstance(entry, dict) or not set(entry) <= set(NODE):
            raise ConfigError(f"{source.where('nodes')}: nodes: {entry!r}; allowed: {', '.join(NODE)}")
        nodes.append(ElectNode(**read_section(source, "nodes", NODE, entry)))
    return tuple(nodes)


def read_config(sections: Mapping[str, Any], nodes: tuple[ElectNode, ...]) -> ElectConfig:
    """Timeouts that were not given keep the proportions of the defaults."""
    cluster = sections["cluster"]
    given = {name: value for name, value in sections["timing"].items() if value is not None}
    if backoff_ms := given.pop("election_backoff_ms", None):
        given["election_backoff_min_ms"], given["election_backoff_max_ms"] = backoff_ms
    down_ms = given["down_after_ms"]
    shares = {name: max(1, ms * down_ms // TIMES.down_after_ms) for name, ms in asdict(TIMES).items()}
    return ElectConfig(
        cluster=cluster["name"],
        nodes=nodes,
        initial_primary=cluster["initial_primary"],
        timing=ElectTiming(**(shares | given)),
        min_replicas_to_write=cluster["min_replicas_to_write"],
    )
