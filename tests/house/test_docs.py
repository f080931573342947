"""What the pages name exists, and what operators and readers must find stands in the pages. Every judge below is shown
a planted fault as well."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from prometheus_client.registry import Collector

from epoxy.agent import metrics as agent_metrics
from epoxy.agent.settings import NODE, TABLE
from epoxy.api.connection_metrics import ConnectionMetrics
from epoxy.api.home_metrics import ActorCallMetrics, HomeMetrics
from epoxy.api.metrics import Metrics
from epoxy.api.placement_metrics import PlacementMetrics
from epoxy.cli.main import cli
from epoxy.model.elect_status import AgentStatus
from tests.actors.bench import Datacenter
from tests.house.test_house import ROOT, THIRD_PARTY, tracked_files

SOURCES = ROOT / "src" / "epoxy"
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
ON_PAGES = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))

ROOMS = tuple(
    str(folder.relative_to(SOURCES))
    for room in ("protocol", "runtime", "store", "transport", "node", "actors", "api")
    for folder in [SOURCES / room, *sorted((SOURCES / room).rglob("*/"))]
    if any(folder.glob("[a-z]*.py"))
)
"""Those whose row in docs/architecture.md names every module that has rules of its own."""

ONLY_WORDS = {"limits.py", "messages.py", "operations.py", "orders.py", "records.py"}
"""Modules that hold names and figures, no rules."""


def code_in(text: str) -> list[str]:
    """What is set as code: spans, fenced blocks and indented ones, each line of a block by itself."""
    fenced = re.findall(r"^ *```\w*\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^ *```\w*\n.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^ {4,}(.+)$", rest, re.MULTILINE)
    return [*re.findall(r"`([^`\n]+)`", rest), *indented, *(line for block in fenced for line in block.splitlines())]


@cache
def files() -> frozenset[str]:
    return frozenset(str(path.relative_to(ROOT)) for path in tracked_files())


@cache
def file_names() -> frozenset[str]:
    return frozenset(Path(name).name for name in files())


@cache
def sources() -> str:
    """Not the files of others: some are compressed, and none has a name of ours."""
    ours = [path for path in tracked_files() if path.is_relative_to(ROOT / "src") and THIRD_PARTY not in path.parents]
    return "\n".join(path.read_text("utf-8") for path in ours)


def missing_files(text: str) -> list[str]:
    """Modules, scenarios and specifications that are named and not there. A page may leave out the package's path, and
    the folder of a file whose name says enough."""
    named = [match for span in code_in(text) for match in re.findall(r"(?<![\w./*-])[\w/]+\.(?:py|tla|bare)\b", span)]
    return [
        name
        for name in named
        if not {name, f"src/{name}", f"src/epoxy/{name}"} & files() and not ("/" not in name and name in file_names())
    ]


@ON_PAGES
def test_files_that_are_named_exist(page: Path) -> None:
    assert missing_files(page.read_text("utf-8")) == []


def test_a_file_that_is_gone_is_seen() -> None:
    text = (
        "`node/keys/driver.py`, `driver.py`, `tests/house/test_house.py`, `node/drivers.py` and\n\n    gone.py reads\n"
    )
    assert missing_files(text) == ["node/drivers.py", "gone.py"]


def anchors(text: str) -> set[str]:
    """Of the headings of a page, as they are made out of it when it is shown."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def broken_links(text: str, page: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not re.match(r"\w+:", link) and not (
            target.exists() and (not anchor or anchor in anchors(target.read_text("utf-8")))
        ):
            broken.append(link)
    return broken


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "spec" / "README.md"], ids=lambda page: page.stem
)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page.read_text("utf-8"), page) == []


def test_a_broken_link_is_seen() -> None:
    text = "[a](docs/testing.md) [b](docs/gone.md) [c](docs/testing.md#gone) [d](#reading-on) [e](#gone) [f](mailto:x)"
    page = ROOT / "README.md"
    assert broken_links(text, page) == [
        "docs/gone.md",
        "docs/testing.md#gone",
        "#gone",
    ]


@cache
def commands() -> frozenset[tuple[str, ...]]:
    """Every command, as the words one types."""

    def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from walk(inner, (*words, name))

    return frozenset(walk(cli, ()))


def unknown_commands(text: str) -> list[str]:
    """`epoxy a|b c`: a word that is no command where one is expected. Groups may be named alone, and files are no
    words."""
    wrong = []
    for span in code_in(text):
        found = re.match(r"(?:\$ |EPOXY_URL=\S+ |SSL_CERT_FILE=\S+ )*epoxy((?: [a-z][a-z|-]*(?![\w./]))+)", span)
        words = found[1].split() if found else []
        reached: set[tuple[str, ...]] = {()}
        for word in words:
            inner = {(*path, name) for path in reached for name in word.split("|")}
            if not any(known and known[:-1] in reached for known in commands()):
                break  # No group: what follows are arguments.
            if not inner <= commands():
                wrong.append(f"epoxy {' '.join(words)}")
                break
            reached = inner
    return wrong


@ON_PAGES
def test_commands_that_are_named_exist(page: Path) -> None:
    assert unknown_commands(page.read_text("utf-8")) == []


def test_an_unknown_command_is_seen() -> None:
    good = "`epoxy get user/ada`, `epoxy demo kill us-east-1`, `epoxy members add|remove`, `epoxy sim`, `epoxy put a b`"
    assert unknown_commands(good) == []
    assert unknown_commands("`epoxy got x`, `epoxy demo slay x`, `epoxy members add|ad`\n\n    $ epoxy simulate\n") == [
        "epoxy got x",
        "epoxy demo slay x",
        "epoxy members add|ad",
        "epoxy simulate",
    ]


def names(collector: Collector) -> set[str]:
    return {metric.name + ("_total" if metric.type == "counter" else "") for metric in collector.collect()}


def of_an_agent() -> set[str]:
    fields = {"primary": None, "primary_address": None, "guard": True, "nodes": ()}
    numbers = ("epoch", "leader_epoch", "lease_ms", "quorum", "min_replicas_to_write", "switches")
    words = ("cluster", "node", "leader", "role", "state")
    status = AgentStatus(**fields, **dict.fromkeys(numbers, 0), **dict.fromkeys(words, ""))  # type: ignore[arg-type]
    return names(agent_metrics.AgentMetrics(lambda: status))


def named_metrics(text: str) -> set[str]:
    """Spans that are a metric and nothing else, with its labels perhaps."""
    shape = re.compile(r"((?:epoxy_(?!sim\b)|envoy_lb_)[a-z_]*[a-z])(?:\{[a-z_,]+\})?")
    return {found[1] for span in code_in(text) if (found := shape.fullmatch(span))}


HOME = Datacenter()
HOMES = names(HomeMetrics(HOME.changes)) | names(ActorCallMetrics(HOME.hosting.calls, lambda: 0))
NODES = names(Metrics()) | names(PlacementMetrics()) | names(ConnectionMetrics()) | HOMES


def test_every_metric_is_in_the_manual() -> None:
    assert NODES - named_metrics((ROOT / "docs" / "operating.md").read_text("utf-8")) == set()
    assert of_an_agent() - named_metrics((ROOT / "docs" / "operating-elect.md").read_text("utf-8")) == set()


@ON_PAGES
def test_metrics_that_are_named_exist(page: Path) -> None:
    assert named_metrics(page.read_text("utf-8")) - NODES - of_an_agent() == set()


def test_a_metric_of_another_name_is_seen() -> None:
    seen = named_metrics(
        "`epoxy_txn_kept`, `epoxy_refused_total{limit}`, `epoxy_txn_sept`, `envoy_lb_*`, `envoy_lb_wraps`"
    )
    assert seen - NODES == {"epoxy_txn_sept", "envoy_lb_wraps"}


def unlisted(text: str, rooms: Iterable[str] = ROOMS) -> list[str]:
    """Modules that a reader of the table of rooms would not learn of."""
    rows = {room: "".join(re.findall(rf"^\| `{room}/` \|.*", text, re.MULTILINE)) for room in rooms}
    modules = [path for room in rooms for path in sorted((SOURCES / room).glob("[a-z]*.py"))]
    return [
        str(path.relative_to(SOURCES))
        for path in modules
        if path.name not in ONLY_WORDS and f"`{path.name}`" not in rows[str(path.parent.relative_to(SOURCES))]
    ]


def test_every_module_has_its_place_in_the_table_of_rooms() -> None:
    assert unlisted((ROOT / "docs" / "architecture.md").read_text("utf-8")) == []
    assert "actors/calls.py" in unlisted("| `actors/` | `directory.py` |\n", ["actors"])


def unknown_targets(text: str) -> list[str]:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = [found[1] for span in code_in(text) if (found := re.match(r"make ([a-z-]+)", span))]
    return [name for name in named if name not in targets]


def unknown_modules(text: str) -> list[str]:
    """`python -m x.y`."""
    named = re.findall(r"python -m ([a-z_.]+[a-z_])", text)
    places = {name: name.replace(".", "/").replace("epoxy/", "src/epoxy/", 1) for name in named}
    return [name for name in named if not {f"{places[name]}.py", f"{places[name]}/__main__.py"} & files()]


@ON_PAGES
def test_targets_and_programs_that_are_named_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    assert unknown_targets(text) == []
    assert unknown_modules(text) == []


def test_an_unknown_target_and_an_unknown_program_are_seen() -> None:
    assert unknown_targets("`make test`, `make tests`\n\n    make demo\n") == ["tests"]
    assert unknown_modules("`python -m benchmarks.links`, `python -m benchmarks.knots`") == ["benchmarks.knots"]


def unknown_codes(text: str) -> list[str]:
    """503 `stopping`: words that a program may compare."""
    return [code for code in re.findall(r"\b[45]\d\d `([a-z_]+)`", text) if f'"{code}"' not in sources()]


@ON_PAGES
def test_codes_of_errors_that_are_named_exist(page: Path) -> None:
    assert unknown_codes(page.read_text("utf-8")) == []


def test_an_unknown_code_is_seen() -> None:
    assert unknown_codes("503 `stopping` and 503 `stopped_for_good`") == ["stopped_for_good"]


def test_every_setting_of_an_agent_is_in_its_manual() -> None:
    text = (ROOT / "docs" / "operating-elect.md").read_text("utf-8")
    settings = {f"{section}.{name}" for section, fields in {**TABLE, "nodes": NODE}.items() for name in fields}
    assert "cluster.secret_file" in settings
    assert {name for name in settings if f"`{name}`" not in text} == set()
