"""The messages of the demo."""

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from epoxy.cli import output
from epoxy.cli.demo import tokens
from epoxy.cli.demo.plan import PORT_BASE, REGIONS, DemoPlan

NO_REDIS_CLI = (
    "No redis-cli was found here; any Redis client will do. Debian and Ubuntu: apt install redis-tools; "
    "Fedora: dnf install valkey; macOS: brew install redis."
)


def welcome(plan: DemoPlan, demo: dict[str, Any], seconds: float, *, kept: bool) -> list[str]:
    regions = demo["regions"]
    distance = "with the round trips between their AWS regions" if plan.wan else "without a WAN between them"
    first = regions[0]["http"]
    quorum = f"{plan.sizes.fast} of {plan.sizes.n}, itself included"
    return [
        f"Console: {demo['console']}" + (f"   (its token: {demo['tokens'][tokens.CONSOLE]})" if plan.auth else ""),
        "",
        f"{len(regions)} regions {with_nodes(plan)}are up after {seconds:.1f} s, {distance}.",
        "",
        *node_table(
            regions,
            {
                "HTTP": of_node("http"),
                "RESP (Redis)": of_node("resp"),
                "commit floor": of_region(lambda region: floor_words(region["floor_ms"])),
                "pid": of_node("pid"),
            },
        ),
        "",
        *([f"  floor    the round trip to the nearest {quorum}: no fresh key commits sooner"] if plan.wan else []),
        f"  status   {first}/v2/status    metrics  {first}/metrics    API  {first}/openapi.json",
        f"  data     {plan.folder.absolute()} ({'kept' if kept else 'removed at the end'})",
        *database_lines(plan, regions),
        *(token_lines(demo["tokens"]) if plan.auth else []),
    ]


def with_nodes(plan: DemoPlan) -> str:
    if plan.store == "embedded":
        return ""
    return f"of {output.plural(plan.nodes, 'node')}, each on a PostgreSQL of its own, "


def database_lines(plan: DemoPlan, regions: Sequence[dict[str, Any]]) -> list[str]:
    """The gateway is named where there is a choice."""
    if plan.store == "embedded":
        return []
    many = ["  gateway  the node of a region that speaks with the other regions"] if plan.nodes > 1 else []
    addresses = ", ".join(region["database"]["address"] for region in regions)
    return [*many, f"  rows     in PostgreSQL at {addresses}; store.url in {regions[0]['config']}"]


Cell = Callable[[dict[str, Any], dict[str, Any]], str]
"""Of a region and one of its nodes."""


def of_region(words: Callable[[dict[str, Any]], str]) -> Cell:
    """In the row of its first node alone."""
    return lambda region, node: words(region) if node is region["nodes"][0] else ""


def of_node(name: str) -> Cell:
    return lambda _, node: "-" if node[name] is None else str(node[name])


def node_number(_: dict[str, Any], node: dict[str, Any]) -> str:
    return f"{node['node']}, gateway" if node["gateway"] else str(node["node"])


def node_table(regions: Sequence[dict[str, Any]], cells: dict[str, Cell]) -> list[str]:
    """A row for each node. Which node it is, and what it owns, is said where regions have several."""
    several = any(len(region["nodes"]) > 1 for region in regions)
    table = {
        "region": of_region(lambda region: str(region["region"])),
        **({"node": node_number, "shards": of_node("shards")} if several else {}),
        **cells,
    }
    rows = [[cell(region, node) for cell in table.values()] for region in regions for node in region["nodes"]]
    return columns(list(table), rows)


def token_lines(files: dict[str, str]) -> list[str]:
    """How to show each token; what it may do."""
    words = {
        tokens.CONSOLE: "for the console: all that app and admin may",
        tokens.APP: "reads and writes keys, creates and asks actors",
        tokens.WORKER: "hosts actors: in a worker's terminal",
        tokens.ADMIN: "members, backups, tokens; not the data",
    }
    rows = [(f"export EPOXY_TOKEN=$(cat {files[name]})", f"{name}: {may}") for name, may in words.items()]
    return ["", "Clients are asked for a token. There are four:", *columns(rows[0], rows[1:])]


def invitation(plan: DemoPlan, demo: dict[str, Any]) -> list[str]:
    tries = (f"  {line}" for line in suggestions(plan, demo["regions"]))
    lacking = [] if redis_cli() else ["", NO_REDIS_CLI]
    return ["", "Try, in a second terminal:", *tries, *lacking, "", "Ctrl-C ends it."]


def redis_cli() -> str | None:
    """On the path, or beside this program, where `make demo` puts one."""
    beside = Path(sys.argv[0]).with_name("redis-cli")
    return shutil.which("redis-cli") or (str(beside) if beside.exists() else None) or shutil.which("valkey-cli")


def suggestions(plan: DemoPlan, regions: Sequence[dict[str, Any]]) -> list[str]:
    """Commands to try, only with programs that are installed."""
    epoxy, second, last = our_name(), regions[1], regions[-1]
    here = "" if plan.port_base == PORT_BASE else f" --url {regions[0]['http']}"
    cli = redis_cli()
    asked = 'REDISCLI_AUTH="$EPOXY_TOKEN" ' if plan.auth else ""
    redis = [f"{asked}{cli} -p {last['resp'].rpartition(':')[2]} RESERVE user/ada mine"] if cli else []
    header = '-H "Authorization: Bearer $EPOXY_TOKEN" ' if plan.auth else ""
    return [
        *([f"export EPOXY_TOKEN=$(cat {tokens.files(plan.folder)[tokens.APP]})"] if plan.auth else []),
        f"{epoxy} reserve user/ada {regions[0]['region']}{here}",
        f"{epoxy} reserve user/ada {second['region']} --url {second['http']}",
        *redis,
        f"curl {header}{last['http']}/v2/kv/user%2Fada",
        f"{epoxy} demo kill {second['region']}",
        f"{epoxy} reserve user/bob {last['region']} --url {last['http']}",
        f"{epoxy} demo revive {second['region']}",
        *([f"{epoxy} demo kill {last['region']} gateway"] if plan.nodes > 1 else []),
        *(
            [f"{epoxy} demo add {newcomers[0]}"]
            if (newcomers := [r for r in REGIONS[9] if r not in plan.names])
            else []
        ),
        f"{epoxy} demo ps",
    ]


def our_name() -> str:
    """How this program was called, so that the commands can be copied."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{Path(sys.executable).name} -m epoxy"
    found = shutil.which("epoxy")
    return "epoxy" if found is not None and Path(found).resolve() == called.resolve() else str(called)


def listing(demo: dict[str, Any]) -> list[str]:
    changed = [link_words(link) for link in demo["links"] if link["cut"] or link["added_ms"]]
    cells = {
        "state": node_state,
        "pid": of_node("pid"),
        "HTTP": of_node("http"),
        "RESP (Redis)": of_node("resp"),
        "a client of it": of_region(lambda region: str(region["can"])),
    }
    table = node_table(demo["regions"], cells)
    return [*table, *(["", *changed] if changed else []), "", f"  console  {demo['console']}"]


def node_state(region: dict[str, Any], node: dict[str, Any]) -> str:
    """A node that runs is as much in touch with others as its region is."""
    return str(region["condition"] if node["condition"] == "up" else node["condition"])


def link_words(link: dict[str, Any]) -> str:
    state = "cut" if link["cut"] else f"slowed by {link['added_ms']:g} ms"
    return f"  {' - '.join(link['between'])}: {state}"


def columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    table = [heads, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(heads))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    ]


def floor_words(floor_ms: float | None) -> str:
    return "none" if floor_ms is None else f"{floor_ms:.0f} ms"
