"""epoxy.toml: what is good is read, and everything else is refused with one line that says where and what."""

import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from epoxy.model.address import Address
from epoxy.model.errors import ConfigError
from epoxy.model.quorum import MAX_REPLICAS, QuorumPolicy
from epoxy.node.process.config import (
    TABLE,
    ConsoleSettings,
    Limits,
    MemberSetting,
    Settings,
    TlsSettings,
    in_force,
    load,
)
from epoxy.node.process.secret_files import MIN_SECRET_BYTES, read_secrets
from epoxy.protocol.placement.config import OF_POOLS, Strategy
from epoxy.protocol.placement.records import EnvoyPool

MEMBERS = """members = [
    { id = 1, datacenter = "us-east-1", url = "http://10.0.0.1:7800" },
    { id = 2, datacenter = "eu-west-1", url = "http://10.0.0.2:7800" },
    { id = 3, datacenter = "ap-northeast-1", url = "http://10.0.0.3:7800" },
]
"""
SMALLEST = f"""[node]
id = 1
data_dir = "data"
[cluster]
secret_file = "secret"
{MEMBERS}"""
MANUAL = Path(__file__).parents[3] / "docs" / "operating.md"

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "epoxy.toml"
        path.write_bytes(text.encode())
        return path

    return write


def with_setting(section: str, key: str, value: str) -> str:
    """The smallest file, with one setting put in or replaced."""
    lines = [line for line in SMALLEST.splitlines() if not re.match(rf"{key} *=", line)]
    if f"[{section}]" not in lines:
        lines.append(f"[{section}]")
    lines.insert(lines.index(f"[{section}]") + 1, f"{key} = {value}")
    return "\n".join(lines)


def with_members(*members: str) -> str:
    return SMALLEST.replace(MEMBERS, f"members = [{', '.join(members)}]\n")


def member(number: int, **other: str) -> str:
    words = {"id": str(number), "datacenter": f'"dc-{number}"', "url": f'"http://10.0.0.{number}"', **other}
    return "{ " + ", ".join(f"{key} = {value}" for key, value in words.items() if value) + " }"


def refusal(path: Path, **outside: dict[str, str]) -> str:
    """One line, whatever is wrong."""
    with pytest.raises(ConfigError) as refused:
        load(path, **outside)
    words = str(refused.value)
    assert "\n" not in words
    return words.removeprefix(str(path.parent) + "/")


# What is in force


def test_the_least_one_has_to_say(write: Write, tmp_path: Path) -> None:
    settings = load(write(SMALLEST))
    assert settings.node.datacenter == "us-east-1"
    assert settings.node.advertise_url == "http://10.0.0.1:7800"
    assert settings.node.http == Address("127.0.0.1", 7800)
    assert settings.node.resp is None
    assert settings.node.data_dir == tmp_path / "data"
    assert settings.cluster.secret_file == tmp_path / "secret"
    assert settings.cluster.quorum_policy is QuorumPolicy.OPTIMAL
    assert settings.cluster.members[1] == MemberSetting(id=2, datacenter="eu-west-1", url="http://10.0.0.2:7800")
    assert settings.tls is None
    assert settings.limits == Limits(
        connections=10_000,
        pipeline=1_000,
        writes_in_flight=10_000,
        reads_in_flight=10_000,
        request_timeout_ms=10_000,
        peer_queue=10_000,
    )
    assert not settings.wan.emulate


@pytest.mark.parametrize(
    ("section", "key", "value", "read"),
    [
        ("node", "id", "2", lambda s: s.node.id == 2),
        ("node", "datacenter", '"us-east-1"', lambda s: s.node.datacenter == "us-east-1"),
        ("node", "data_dir", '"/var/lib/epoxy"', lambda s: s.node.data_dir == Path("/var/lib/epoxy")),
        ("node", "http", '"0.0.0.0:80"', lambda s: s.node.http == Address("0.0.0.0", 80)),
        ("node", "http", '"[::1]:0"', lambda s: s.node.http == Address("::1", 0) and str(s.node.http) == "[::1]:0"),
        ("node", "resp", '"localhost:6379"', lambda s: s.node.resp == Address("localhost", 6379)),
        ("node", "peers", '"10.0.0.1:7802"', lambda s: s.node.listeners["node.peers"] == Address("10.0.0.1", 7802)),
        ("node", "admin", '"[::1]:7803"', lambda s: s.node.listeners["node.admin"] == Address("::1", 7803)),
        ("node", "advertise_url", '"https://a.example/"', lambda s: s.node.advertise_url == "https://a.example"),
        ("cluster", "quorum_policy", '"fast-paxos"', lambda s: s.cluster.quorum_policy is QuorumPolicy.FAST_PAXOS),
        ("cluster", "secret_file", '"/etc/x"', lambda s: s.cluster.secret_file == Path("/etc/x")),
        ("store", "driver", '"embedded"', lambda s: s.store.driver == "embedded"),
        ("limits", "connections", "1", lambda s: s.limits.connections == 1),
        ("limits", "connections", "100_000", lambda s: s.limits.connections == 100_000),
        ("limits", "pipeline", "100000", lambda s: s.limits.pipeline == 100_000),
        ("limits", "writes_in_flight", "1000000", lambda s: s.limits.writes_in_flight == 1_000_000),
        ("limits", "reads_in_flight", "1", lambda s: s.limits.reads_in_flight == 1),
        ("limits", "request_timeout_ms", "10", lambda s: s.limits.request_timeout_ms == 10),
        ("limits", "peer_queue", "16", lambda s: s.limits.peer_queue == 16),
        ("limits", "changelog_commits", "0", lambda s: s.limits.changelog_commits == 0),
        ("limits", "changelog_minutes", "60", lambda s: s.limits.changelog_minutes == 60),
        ("limits", "changelog_mib", "64", lambda s: s.limits.changelog_mib == 64),
        ("store", "backfill", "true", lambda s: s.store.backfill),
        ("wan", "emulate", "true", lambda s: s.wan.emulate),
        ("access", "auth", '"tokens"', lambda s: s.access.auth == "tokens"),
        ("access", "auth", '"open"', lambda s: s.access.auth == "open"),
        ("access", "audit_file", '"/var/log/a.jsonl"', lambda s: s.access.audit_file == Path("/var/log/a.jsonl")),
        ("access", "audit_mib", "1", lambda s: s.access.audit_mib == 1),
        ("access", "cors_origins", '["http://a:1"]', lambda s: s.access.cors_origins == ("http://a:1",)),
        ("console", "elect", '["10.0.0.1:26379"]', lambda s: s.console.elect == (Address("10.0.0.1", 26379),)),
        ("resp", "request_timeout_ms", "10", lambda s: s.resp.request_timeout_ms == 10),
        ("resp", "reserve_prefixes", '["user/"]', lambda s: s.resp.reserve_prefixes == ("user/",)),
    ],
)
def test_a_setting_is_read(write: Write, section: str, key: str, value: str, read: Callable[[Settings], bool]) -> None:
    assert read(load(write(with_setting(section, key, value))))


@pytest.mark.parametrize("name", ["a:80", "", "-a", " a", r"a\n", r"*\n", "[::1]", "a" * 254])
def test_an_allowed_host_is_a_name_alone(write: Write, name: str) -> None:
    refused = refusal(write(with_setting("node", "allowed_hosts", f'["{name}"]')))
    assert "node.allowed_hosts is [" in refused
    assert "allowed: a list of host names without ports" in refused


def test_the_panel_of_a_demo_is_an_address_and_a_token(write: Write, tmp_path: Path) -> None:
    text = SMALLEST + '[console]\ndemo_url = "http://127.0.0.1:7891"\n'
    assert "console.demo_url and console.demo_token_file go together" in refusal(write(text))
    console = load(write(text + 'demo_token_file = "panel.token"\n')).console
    assert console == ConsoleSettings(demo_url="http://127.0.0.1:7891", demo_token_file=tmp_path / "panel.token")


def test_tls_is_three_files_of_which_one_may_be_missing(write: Write, tmp_path: Path) -> None:
    text = SMALLEST.replace("http:", "https:") + '[tls]\ncert = "tls/cert.pem"\nkey = "/etc/key.pem"\n'
    files = TlsSettings(cert=tmp_path / "tls/cert.pem", key=Path("/etc/key.pem"), ca=None)
    assert load(write(text)).tls == files
    assert "tls.key is missing: a path" in refusal(write(text.replace("key = ", "ca = ")))


def test_paths_begin_at_the_file_and_those_from_outside_where_one_stands(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(SMALLEST)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    settings = load(Path("../epoxy.toml"), flags={"node.data_dir": "mine"})
    assert settings.node.data_dir == elsewhere / "mine"
    assert settings.cluster.secret_file.resolve() == path.parent / "secret"
    assert settings.cluster.secret_file.is_absolute()


def test_a_flag_beats_a_variable_and_that_beats_the_file(write: Write) -> None:
    path = write(with_setting("node", "http", '"127.0.0.1:1"'))
    environ = {"EPOXY_NODE_HTTP": "127.0.0.1:2", "EPOXY_WAN_EMULATE": "true", "EPOXY_LIMITS_PIPELINE": "7"}
    assert load(path).node.http.port == 1
    assert load(path, environ=environ).node.http.port == 2
    both = load(path, environ=environ, flags={"node.http": "127.0.0.1:3"})
    assert (both.node.http.port, both.wan.emulate, both.limits.pipeline) == (3, True, 7)


def test_everything_can_come_from_outside(write: Write) -> None:
    environ = {
        "EPOXY_NODE_ID": "9",
        "EPOXY_NODE_DATA_DIR": "/data",
        "EPOXY_CLUSTER_SECRET_FILE": "/secret",
        "EPOXY_CLUSTER_MEMBERS": "[" + member(9) + "]",
        "EPOXY_URL": "a client's, and none of ours",
        "PATH": "/bin",
    }
    settings = load(write(""), environ=environ)
    assert settings.cluster.members == (MemberSetting(id=9, datacenter="dc-9", url="http://10.0.0.9"),)


def test_what_is_in_force_is_a_file_that_says_the_same(write: Write) -> None:
    text = SMALLEST.replace("http:", "https:") + '[tls]\ncert = "c"\nkey = "k"\n[wan]\nemulate = true\n'
    settings = load(write(text), flags={"node.resp": "127.0.0.1:9", "node.allowed_hosts": "db.example.com, db"})
    assert in_force(settings)["node"]["allowed_hosts"] == ["db.example.com", "db"]
    assert load(write(as_toml(in_force(settings)))) == settings
    assert "tls" not in in_force(load(write(SMALLEST)))
    assert all(set(values) <= set(TABLE[section]) for section, values in in_force(settings).items())


def as_toml(document: dict[str, dict[str, Any]]) -> str:
    def word(value: Any) -> str:
        match value:
            case bool():
                return str(value).lower()
            case list():
                return "[" + ", ".join(map(word, value)) + "]"
            case dict():
                return "{ " + ", ".join(f"{key} = {word(each)}" for key, each in value.items()) + " }"
            case _:
                return repr(value)

    sections = ([f"[{name}]", *(f"{k} = {word(v)}" for k, v in keys.items())] for name, keys in document.items())
    return "\n".join(line for section in sections for line in section)


POOLS = """[placement]
samples = 3
[placement.pools.chat]
samples = 1
[placement.pools."prod/chat"]
strategy = "random_full_range"
load_bound_percent = 25
"""


def test_a_pool_has_the_settings_of_all_but_for_its_own(write: Write) -> None:
    settings = load(write(SMALLEST + POOLS))
    general, chat = settings.placement, settings.placement.pools["chat"]
    assert (general.samples, chat.samples, chat.max_scan) == (3, 1, general.max_scan)
    own = settings.placement.of(EnvoyPool("prod", "chat"))
    assert (own.samples, own.strategy, own.load_bound_percent) == (3, Strategy.RANDOM_FULL_RANGE, 25)
    shown = in_force(settings)["placement"]["pools"]
    assert shown["prod/chat"]["strategy"] == "random_full_range"
    assert set(shown["chat"]) == set(OF_POOLS)
    assert "pools" not in in_force(load(write(SMALLEST)))["placement"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("samples = 9", "placement.pools.chat.samples is 9; allowed: a whole number from 1 to 8"),
        (
            "sweep_every_s = 9",
            "placement.pools.chat.sweep_every_s is no setting of a pool; known: strategy",
        ),
        ("colour = 9", "placement.pools.chat.colour is no setting of a pool"),
    ],
)
def test_a_pools_settings_are_checked_by_name(write: Write, text: str, words: str) -> None:
    assert words in refusal(write(f"{SMALLEST}[placement.pools.chat]\n{text}\n"))


def test_pools_are_tables(write: Write) -> None:
    assert "placement.pools is 3; allowed" in refusal(write(f"{SMALLEST}[placement]\npools = 3\n"))
    assert "placement.pools.chat is 3; allowed" in refusal(write(f"{SMALLEST}[placement.pools]\nchat = 3\n"))


@pytest.mark.parametrize("wrong", ["3", "{ samples = 9 }", "{ colour = 1 }"])
def test_a_pool_that_is_an_inline_table_is_refused_with_its_line_or_its_variable(write: Write, wrong: str) -> None:
    line = SMALLEST.count("\n") + 2
    inline = write(f"{SMALLEST}[placement]\npools = {{ chat = {wrong} }}\n")
    assert refusal(inline).startswith(f"epoxy.toml, line {line}: placement.pools.chat")
    listed = write(f"{SMALLEST}[placement.pools.chat]\nsamples = 1\n")
    outside = {"EPOXY_PLACEMENT_POOLS": f"{{ chat = {wrong} }}"}
    assert refusal(listed, environ=outside).startswith("EPOXY_PLACEMENT_POOLS: placement.pools.chat")


@pytest.mark.parametrize("text", ["[placement]\n", "[pegboard]\n", "[placement.pools.chat]\n"])
def test_a_setting_under_its_name_of_the_original_design_is_answered_with_ours(write: Write, text: str) -> None:
    told = refusal(write(f"{SMALLEST}{text}envoy_eligible_threshold = 10\n"))
    assert "here it is placement.eligible_threshold_ms, in milliseconds" in told


def test_the_first_configuration_has_the_members_in_order(write: Write) -> None:
    settings = load(write(with_members(member(3), member(1), member(2))))
    config = settings.first_config()
    assert (config.epoch, config.coordinator_id, config.active) == (1, 1, (1, 2, 3))
    assert config.replicas[0].url == "http://10.0.0.1"
    assert (settings.datacenter_of(2), settings.datacenter_of(77)) == ("dc-2", "replica-77")


# What is out of range


@pytest.mark.parametrize(
    ("section", "key", "values"),
    [
        ("node", "id", ["0", "-1", "4294967296", "1.5", '"1"', "true", "[1]"]),
        ("node", "datacenter", ['""', '" "', "7"]),
        ("node", "data_dir", ['""', "7"]),
        ("node", "processes", ["0", "65", '"2"', "1.5"]),
        ("node", "http", ["7800", '"7800"', '":7800"', '"a:65536"', '"a:-1"', '"a:²"', '"a:"', '"[]:1"']),
        ("node", "peers", ['""', "7802"]),
        ("node", "admin", ["false", '"x"']),
        ("console", "elect", ['"a:1"', '["a"]', '["a:0"]', "[" + 65 * '"a:1",' + "]"]),
        ("node", "resp", ["true", '"x"', f'"x:{"9" * 5000}"']),
        ("node", "advertise_url", ['"10.0.0.1:7800"', '"ftp://x"', '"http://"', "1"]),
        ("cluster", "quorum_policy", ['"majority"', "1", "[]"]),
        ("cluster", "secret_file", ["1"]),
        ("store", "driver", ['"sqlite"', '""']),
        ("store", "url", ['"mysql://db/x"', '"postgresql://a b"', '""']),
        ("store", "schema", ['"Epoxy"', '"1a"', '"a-b"', '""']),
        ("store", "lease_ms", ["499", "60001", '"5s"']),
        ("limits", "connections", ["0", "100001"]),
        ("limits", "pipeline", ["0", "100001"]),
        ("limits", "writes_in_flight", ["0", "1000001"]),
        ("limits", "reads_in_flight", ["0", "1000001"]),
        ("limits", "request_timeout_ms", ["9", "600001"]),
        ("limits", "peer_queue", ["15", "1000001"]),
        ("limits", "changelog_commits", ["-1", "1000000001"]),
        ("limits", "changelog_mib", ["0", "100000001"]),
        ("limits", "changelog_minutes", ["-1", "100001"]),
        ("wan", "emulate", ['"true"', "1", '"yes"']),
        ("access", "auth", ['"off"', '""', "true"]),
        ("access", "audit_mib", ["0", "100001"]),
        ("access", "cors_origins", ['["*"]', '["a"]', '["http://a/"]', '["https://A"]', '["ftp://a"]', '["null"]']),
    ],
)
def test_out_of_range_is_refused_with_the_line_and_the_range(
    write: Write, section: str, key: str, values: list[str]
) -> None:
    for value in values:
        text = with_setting(section, key, value)
        line = text.split("\n").index(f"{key} = {value}") + 1
        words = refusal(write(text))
        assert words.startswith(f"epoxy.toml, line {line}: {section}.{key} is "), words
        assert words.endswith(f"; allowed: {TABLE[section][key].allowed}"), words


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://h:99999",
        "http://h:0",
        "http://h/path",
        "http://h?q",
        "http://u@h",
        "http://h\u00e9",
        "http://a b",
    ],
)
def test_a_url_that_no_peer_could_be_reached_at(write: Write, url: str) -> None:
    words = refusal(write(with_members(member(1), member(2, url=f'"{url}"'))))
    assert words.startswith("epoxy.toml, line 6: cluster.members[2] is ")
    assert 'url: a url, as "http://10.0.0.1:7800"' in words


@pytest.mark.parametrize(
    ("name", "value"),
    [("node.id", "x"), ("node.id", "9" * 5000), ("node.id", "²"), ("wan.emulate", "yes"), ("node.id", "")],
)
def test_out_of_range_from_outside_names_where_it_came_from(write: Write, name: str, value: str) -> None:
    section, key = name.split(".")
    variable = f"EPOXY_{section}_{key}".upper()
    asked = f"{name} is {value!r}; allowed: {TABLE[section][key].allowed}"
    assert refusal(write(SMALLEST), environ={variable: value}) == f"{variable}: {asked}"
    assert refusal(write(SMALLEST), flags={name: value}) == f"command line: {asked}"


@pytest.mark.parametrize("key", ["id", "data_dir"])
def test_what_has_no_default_must_be_said(write: Write, key: str) -> None:
    text = "\n".join(line for line in SMALLEST.split("\n") if not line.startswith(key))
    assert refusal(write(text)) == f"epoxy.toml, line 1: node.{key} is missing: {TABLE['node'][key].allowed}"


def test_a_section_that_is_missing(write: Write) -> None:
    assert refusal(write("[node]\nid = 1\ndata_dir = 'd'\n")) == "epoxy.toml: section [cluster] is missing"
    assert refusal(write("")) == "epoxy.toml: section [node] is missing"


# What is unknown


@pytest.mark.parametrize(
    ("wrong", "line", "words"),
    [
        (
            "[nod]\nid = 1",
            1,
            "unknown section [nod]; known sections: node, cluster, tls, store, limits, access, resp, wan",
        ),
        ("\n# [limits]\n[elect] # yes\nx = 1", 3, "unknown section [elect]"),
        ("[[member]]\nid = 1", 1, "unknown section [member]"),
        ("[limits]\n\npipelin = 1", 3, "unknown setting limits.pipelin; known: connections, pipeline, "),
        ("[limits]\r\n# pipelin = 1\r\npipelin = 1\r\n", 3, "unknown setting limits.pipelin"),
        ("[limits] # pipelin = 1\n  \"pipelin\"   = 1 # '#'", 2, "unknown setting limits.pipelin"),
        ("[ 'limits' ]\npipelin=1", 2, "unknown setting limits.pipelin"),
        ("limits.pipelin = 1", 1, "unknown setting limits.pipelin"),
        ("\nlimits = { pipeline = 1, pipelin = 1 }", 2, "unknown setting limits.pipelin"),
        ("[limits]\npipeline = 1\n[limits.deep]\nx = 1", 3, "unknown setting limits.deep"),
        ("[wan]\nemulate = true\n[limits]\nemulate = true", 4, "unknown setting limits.emulate"),
        ("id = 1", 1, "unknown setting id, outside all sections"),
        ("[[limits]]\npipeline = 1", 1, "limits is [{'pipeline': 1}]; it is a section, written [limits]"),
        ("\nlimits = 5", 2, "limits is 5; it is a section, written [limits]"),
        ("[limits]\npipeline.x = 1", 2, "limits.pipeline is {'x': 1}; allowed: a whole number"),
    ],
)
def test_what_is_unknown_is_refused_on_its_line(write: Write, wrong: str, line: int, words: str) -> None:
    assert refusal(write(f"{wrong}\n{SMALLEST}")).startswith(f"epoxy.toml, line {line}: {words}")


def test_unknown_from_outside(write: Write) -> None:
    path = write(SMALLEST)
    assert refusal(path, environ={"EPOXY_NODE_HTPT": "x"}).startswith(
        "environment: unknown setting EPOXY_NODE_HTPT; known: EPOXY_NODE_ID, "
    )
    for name in ("node.htpt", "nod.http", "node", "", "node.http.x"):
        assert refusal(path, flags={name: "x"}).startswith(f"command line: unknown setting {name}; known: node.id, ")


def test_what_is_known_is_told_of_the_section_that_was_meant(write: Write) -> None:
    path = write(SMALLEST)
    told = [refusal(path, environ={"EPOXY_TLS_CRT": "x"}), refusal(path, flags={"tls.crt": "x"})]
    assert [each.partition("known: ")[2] for each in told] == [
        "EPOXY_TLS_CERT, EPOXY_TLS_KEY, EPOXY_TLS_CA, EPOXY_TLS_CLIENT_CA; did you mean EPOXY_TLS_CERT?",
        "tls.cert, tls.key, tls.ca, tls.client_ca; did you mean tls.cert?",
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[node\nid = 1", "is not TOML: Expected ']' at the end of a table declaration (at line 1, column 6)"),
        (b"[node]\nid = 1\nid = 2\n", "is not TOML: Cannot overwrite a value (at line 3, column 7)"),
        (b"[node]\nid = " + b"9" * 5000, "is not TOML: "),
        (b"[node]\nname = '\xff'", "is not UTF-8 (byte 15)"),
    ],
)
def test_not_a_file_of_ours(write: Write, content: bytes, words: str) -> None:
    path = write("")
    path.write_bytes(content)
    assert refusal(path).startswith(f"epoxy.toml: {words}")


def test_no_file_at_all(tmp_path: Path) -> None:
    assert refusal(tmp_path / "epoxy.toml") == "epoxy.toml: cannot be read: No such file or directory"
    assert refusal(tmp_path) == f"{tmp_path.name}: cannot be read: Is a directory"


# The members


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ((), f"cluster.members is a list of 1 to {MAX_REPLICAS} tables"),
        (tuple(member(1) for _ in range(MAX_REPLICAS + 1)), f"cluster.members is a list of 1 to {MAX_REPLICAS} tables"),
        (("1",), "cluster.members[1] is 1; allowed: a table of exactly id, datacenter, url"),
        ((member(1), member(2, url="")), "cluster.members[2] is {'id': 2, 'datacenter': 'dc-2'}; allowed: a table of"),
        ((member(1, name='"x"'),), "cluster.members[1] is {"),
        ((member(1), member(0)), "cluster.members[2] is {'id': 0, "),
        ((member(1), member(1, url='"http://x"')), "two members have the id 1"),
        ((member(1), member(2, url='"http://10.0.0.1/"')), "two members have the url 'http://10.0.0.1'"),
        ((member(1), member(2, datacenter='"dc-1"')), "two members have the datacenter 'dc-1'"),
        (
            (member(1), member(2, url='"https://x"')),
            "member 2 is at https://x, but there is no [tls]: allowed: http://",
        ),
    ],
)
def test_members_that_are_no_cluster(write: Write, members: tuple[str, ...], words: str) -> None:
    assert refusal(write(with_members(*members))).startswith(f"epoxy.toml, line 6: {words}")


def test_members_without_tls_among_those_with(write: Write) -> None:
    text = SMALLEST + "[tls]\ncert = 'c'\nkey = 'k'\n"
    assert "member 1 is at http://10.0.0.1:7800, but there is [tls]: allowed: https://" in refusal(write(text))


@pytest.mark.parametrize("address", ["127.0.0.1:7800", "0.0.0.0:7800", "[::]:7800", "localhost:7800"])
@pytest.mark.parametrize("name", ["resp", "peers", "admin"])
def test_two_listeners_with_one_address(write: Write, name: str, address: str) -> None:
    path = write(with_setting("node", name, f'"{address}"'))
    told = refusal(path)
    assert told == f"epoxy.toml, line 2: node.{name} {address} is where node.http 127.0.0.1:7800 listens"
    assert load(path, flags={"node.http": "10.0.0.1:7801"}).node.listeners
    assert load(write(SMALLEST), flags={"node.http": "127.0.0.1:0", "node.resp": "127.0.0.1:0"}).node.resp is not None


def test_any_two_listeners_are_compared(write: Write) -> None:
    told = refusal(write(SMALLEST), flags={"node.peers": "0.0.0.0:7802", "node.admin": "10.0.0.1:7802"})
    assert told.endswith("node.admin 10.0.0.1:7802 is where node.peers 0.0.0.0:7802 listens")


def test_a_node_that_joins_is_reached_at_its_listener_for_peers(write: Write) -> None:
    joins = {"node.id": "9", "node.datacenter": "dc9", "cluster.join": "true"}
    assert load(write(SMALLEST), flags=joins).node.advertise_url == "http://127.0.0.1:7800"
    joins["node.peers"] = "10.0.0.9:7802"
    assert load(write(SMALLEST), flags=joins).node.advertise_url == "http://10.0.0.9:7802"


def test_members_as_tables_of_their_own_have_a_line_too(write: Write) -> None:
    text = SMALLEST.replace(MEMBERS, "[[cluster.members]]\nid = 1\n")
    assert refusal(write(text)).startswith("epoxy.toml, line 6: cluster.members[1] is {'id': 1}; ")


def test_members_that_are_no_list(write: Write) -> None:
    words = f"cluster.members is a list of 1 to {MAX_REPLICAS} tables"
    assert refusal(write(SMALLEST.replace(MEMBERS, "members = 3\n"))) == f"epoxy.toml, line 6: {words}"
    assert refusal(write(SMALLEST), environ={"EPOXY_CLUSTER_MEMBERS": "[{"}) == f"EPOXY_CLUSTER_MEMBERS: {words}"


def test_a_node_is_one_of_the_members(write: Write) -> None:
    assert refusal(write(with_setting("node", "id", "4"))) == (
        "epoxy.toml, line 2: node.id 4 is not among cluster.members (1, 2, 3); "
        "a node that is added later has cluster.join = true"
    )
    assert refusal(write(SMALLEST), flags={"node.id": "4"}).startswith("command line: node.id 4 is not among")
    assert refusal(write(with_setting("node", "datacenter", '"eu-west-1"'))) == (
        "epoxy.toml, line 2: node.datacenter 'eu-west-1', but member 1 is in 'us-east-1'"
    )


NEWCOMER = with_setting("node", "id", "4").replace("[cluster]", "[cluster]\njoin = true")


def test_a_node_that_joins_later_says_so_and_where_it_is(write: Write) -> None:
    settings = load(write(NEWCOMER.replace("[node]", '[node]\ndatacenter = "sa-east-1"\nhttp = "10.0.0.4:7800"')))
    assert (settings.node.id, settings.node.datacenter, settings.cluster.join) == (4, "sa-east-1", True)
    assert settings.node.advertise_url == "http://10.0.0.4:7800"
    assert settings.first_config().replica_ids == (1, 2, 3), "epoch 1 is that of all others"
    assert settings.datacenter_of(4) == "sa-east-1"


def test_a_node_that_joins_is_none_of_the_first_and_says_where_it_is(write: Write) -> None:
    assert "node.datacenter is missing: a node that joins says where it is" in refusal(write(NEWCOMER))
    member = SMALLEST.replace("[cluster]", "[cluster]\njoin = true")
    assert "node.id 1 is among cluster.members, so it cannot have cluster.join = true" in refusal(write(member))


# The secret


def test_the_secret_is_read_without_the_line_end(write: Write, tmp_path: Path) -> None:
    settings = load(write(SMALLEST))
    (tmp_path / "secret").write_bytes(b"0123456789abcdef\n")
    assert read_secrets(settings) == (b"0123456789abcdef",)


def test_a_secret_that_is_none(write: Write, tmp_path: Path) -> None:
    settings, path = load(write(SMALLEST)), tmp_path / "secret"
    with pytest.raises(
        ConfigError, match=r"^cluster\.secret_file .*secret: cannot be read: No such file or directory$"
    ):
        read_secrets(settings)
    path.write_bytes(b" " * 32 + b"x" * (MIN_SECRET_BYTES - 1))
    with pytest.raises(ConfigError, match=r"^cluster\.secret_file .*secret: 15 bytes; at least 16$"):
        read_secrets(settings)


# The manual


def toml_samples(text: str) -> list[str]:
    return re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_samples_of_the_manual_are_good(write: Write) -> None:
    """One without [node] is a part: it is added to the smallest file."""
    samples = toml_samples(MANUAL.read_text("utf-8"))
    whole = [sample for sample in samples if "[node]" in sample]
    parts = [sample for sample in samples if "[node]" not in sample]
    assert len(whole) > 0
    assert len(parts) > 0
    for sample in whole:
        assert load(write(sample)).node.resp is not None
    for sample in parts:
        smallest = SMALLEST.replace("http:", "https:") if "[tls]" in sample else SMALLEST
        assert load(write(smallest + sample)) != load(write(SMALLEST))


def manual_rows(text: str) -> dict[str, list[str]]:
    """The settings table: setting, variable, allowed, default."""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `"))
    return {cells[0].strip("`"): cells[1:] for cells in rows if "." in cells[0] and " " not in cells[0]}


def misfits(text: str) -> list[str]:
    """Settings the manual does not have, has too many, or has with another range or default."""
    rows = manual_rows(text)
    settings = {f"{section}.{key}": field for section in TABLE for key, field in TABLE[section].items()}
    found = sorted(rows.keys() ^ settings.keys())
    for name in rows.keys() & settings.keys():
        field = settings[name]
        has_default = isinstance(field.default, str | int | Address | Enum) and field.default != ""
        default = f"`{shown(field.default)}`" if has_default else "none"
        if field.allowed not in rows[name][0].replace("`", "") or not rows[name][1].startswith(default):
            found.append(name)
    return found


def shown(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_manual_has_every_setting_with_its_range_and_default() -> None:
    assert misfits(MANUAL.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("| `limits.pipeline` |", "| `limits.pipelines` |", "limits.pipeline"),
        ("from 16 to 1000000", "from 1 to 1000000", "limits.peer_queue"),
        ("| `127.0.0.1:7800`", "| `0.0.0.0:7800`", "node.http"),
    ],
)
def test_a_manual_with_a_fault_is_seen(old: str, new: str, name: str) -> None:
    text = MANUAL.read_text("utf-8")
    assert old in text
    assert name in misfits(text.replace(old, new))


TWO_NODES = '["http://10.0.0.1:7800", "http://10.0.0.2:7800"]'


def test_a_member_of_several_nodes(write: Write) -> None:
    settings = load(
        write(with_members(member(1, url=TWO_NODES), member(2, url='"http://10.0.0.3"'))),
        flags={"node.http": "10.0.0.2:7800"},
    )
    assert settings.cluster.members[0].urls == ("http://10.0.0.1:7800", "http://10.0.0.2:7800")
    assert settings.first_config().replicas[0].url == "http://10.0.0.1:7800,http://10.0.0.2:7800"
    assert settings.node.advertise_url == "http://10.0.0.2:7800"
    shown = in_force(settings)["cluster"]["members"]
    assert [each["url"] for each in shown] == [["http://10.0.0.1:7800", "http://10.0.0.2:7800"], "http://10.0.0.3"]


def test_one_of_several_nodes_says_which_it_is(write: Write) -> None:
    text = with_members(member(1, url=TWO_NODES), member(2, url='"http://10.0.0.3"'))
    words = refusal(write(text))
    assert "node.advertise_url is missing: member 1 has several addresses" in words
    assert "http://10.0.0.1:7800 or http://10.0.0.2:7800" in words
    named = load(write(text), flags={"node.advertise_url": "http://10.0.0.1:7800"})
    assert named.node.advertise_url == "http://10.0.0.1:7800"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ('["http://10.0.0.1", "http://10.0.0.1:80"]', "cluster.members[1].url: http://10.0.0.1:80 is named twice"),
        ("[]", "cluster.members[1].url: a member has 1 to 16 addresses, not 0"),
        (str([f"http://node-{n}" for n in range(17)]), "a member has 1 to 16 addresses, not 17"),
        ('["http://10.0.0.1", "ftp://10.0.0.2"]', "or a list of 1 to 16, one for each node"),
        ('"http://10.0.0.1,http://10.0.0.4"', "or a list of 1 to 16, one for each node"),
        ('["http://10.0.0.1", "http://10.0.0.2."]', "two members have the url 'http://10.0.0.2'"),
        ('["http://10.0.0.1", "https://10.0.0.4"]', "member 1 is at https://10.0.0.4, but there is no [tls]"),
    ],
    ids=["twice", "none", "many", "scheme", "text", "two members", "tls"],
)
def test_addresses_that_a_member_cannot_have(write: Write, url: str, words: str) -> None:
    flags = {"node.advertise_url": "http://10.0.0.1"}
    with pytest.raises(ConfigError) as refused:
        load(write(with_members(member(1, url=url), member(2))), flags=flags)
    assert words in str(refused.value)


def test_a_database_is_named_with_the_driver_that_uses_it_and_only_then(write: Write) -> None:
    url = "postgresql://epoxy:hidden@db1,db2/epoxy?target_session_attrs=read-write"
    assert refusal(write(f"{SMALLEST}[store]\ndriver = 'postgres'\n")).endswith("postgresql://user@host:5432/database")
    assert "is for store.driver" in refusal(write(f"{SMALLEST}[store]\nurl = '{url}'\n"))
    settings = load(write(f"{SMALLEST}[store]\ndriver = 'postgres'\nurl = '{url}'\n"))
    assert (settings.store.url, settings.store.schema, settings.store.lease_ms) == (url, "epoxy", 5_000)
    assert in_force(settings)["store"]["url"] == url.replace("hidden", "***")
