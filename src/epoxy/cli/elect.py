"""`epoxy elect`: run the agent beside a server, and query agents."""

import sys
from pathlib import Path

import click
import msgspec

from epoxy.agent.settings import AgentSettings, load
from epoxy.cli import elect_query, output
from epoxy.cli.groups import SETTINGS, Group
from epoxy.cli.serve import log_level_option, refused, run_process
from epoxy.model.elect_status import AgentStatus, NodeStatus
from epoxy.model.errors import ConfigError, EpoxyError
from epoxy.protocol.elect.lists import at_start
from epoxy.protocol.elect.operator_orders import FAILOVER

NO_PRIMARY = 1
HEADS = ("node", "server", "role", "state", "epoch", "history", "offset", "seen")

config_option = click.option(
    "--config", "path", type=click.Path(path_type=Path), envvar="EPOXY_ELECT_CONFIG", help="The agent's elect.toml."
)
agents_option = click.option(
    "--agent",
    "agents",
    multiple=True,
    envvar="EPOXY_ELECT_AGENTS",
    metavar="HOST:PORT",
    help="An agent's address for clients; several are tried in turn. Default: node.clients of --config.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="For programs.")


@click.group(cls=Group, context_settings=SETTINGS, short_help="Failover for Redis and Valkey servers.")
def elect() -> None:
    """Failover for Redis and Valkey: a majority of agents decides which server takes writes.

    \b
    Examples:
      epoxy elect run --config elect.toml      the agent beside a server
      epoxy elect status --agent 10.0.0.1:26379
      epoxy elect primary --agent 10.0.0.1:26379
      epoxy elect failover b --config elect.toml
    """


@elect.command("run", context_settings=SETTINGS, short_help="Run the agent beside a server.")
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The agent's elect.toml.")
@click.option("--check", is_flag=True, help="Check the settings, print what is wrong with them, and end.")
@log_level_option
def run(path: Path, check: bool, log_level: str) -> None:
    """The agent beside a server, until SIGTERM or Ctrl-C.

    \b
    Exit status:
      0   ended by a signal
      74  the agent's record could not be saved
      75  an address is taken; it may be free again soon
      78  a setting or the data directory is wrong; one line says how
    """
    try:
        settings = load(path)
        if check:
            for warning in (*settings.findings, *certificate_flaw(settings)):
                click.echo(f"warning: {warning}")
            click.echo(f"{path}: {settings.me} of {settings.config.cluster}, {len(settings.config.nodes)} nodes")
            if change := change_of_nodes(settings):
                click.echo(f"change of nodes: {change}; it begins when this agent is started with this file")
            return
        status = serve(settings, log_level)
    except EpoxyError as error:
        status = refused(error)
    sys.exit(status)


def certificate_flaw(settings: AgentSettings) -> list[str]:
    """Why other agents would refuse this one's certificate. Raises ConfigError where a start would."""
    from epoxy.agent.credentials import LinkCertificates

    flaw = LinkCertificates(settings).flaw()
    return [f"tls.cert: other agents would refuse it: {flaw}"] if flaw else []


def change_of_nodes(settings: AgentSettings) -> str:
    """How the file's list of nodes differs from the record's; empty if it does not. Raises ConfigError where a start
    would."""
    from epoxy.agent.disk import Disk

    record = Disk(settings.data_dir, settings.config.cluster, settings.me).load()
    if record is None:
        return ""
    counted = at_start(record.lists, record.floor, settings.config)
    return " ".join([f"+{name}" for name in counted.joining] + [f"-{name}" for name in counted.leaving])


def serve(settings: AgentSettings, log_level: str) -> int:
    from epoxy.agent import process

    return run_process(lambda: process.serve(settings), log_level)


@elect.command(context_settings=SETTINGS, short_help="Every node, as an agent sees it.")
@config_option
@agents_option
@json_option
def status(path: Path | None, agents: tuple[str, ...], as_json: bool) -> None:
    """Every node, as the first agent that answers sees it. Exit status 1: no server takes writes."""
    report = ask_status(targets(path, agents))
    if as_json:
        output.emit_json(report)
    else:
        show(report)
    sys.exit(0 if report.primary is not None else NO_PRIMARY)


@elect.command(context_settings=SETTINGS, short_help="The address of the primary.")
@config_option
@agents_option
@json_option
def primary(path: Path | None, agents: tuple[str, ...], as_json: bool) -> None:
    """HOST:PORT of the server that takes writes. Exit status 1: there is none."""
    report = ask_status(targets(path, agents))
    if as_json:
        output.emit_json({"primary": report.primary, "address": report.primary_address, "epoch": report.leader_epoch})
    elif report.primary_address is not None:
        click.echo(report.primary_address)
    else:
        click.echo("epoxy: no server takes writes", err=True)
    sys.exit(0 if report.primary is not None else NO_PRIMARY)


@elect.command(context_settings=SETTINGS, short_help="Hand over to a node, losing nothing.")
@click.argument("node")
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="Any agent's elect.toml.")
@agents_option
@click.option("--wait", "wait_s", type=click.FloatRange(min=0), default=10.0, show_default=True, help="Seconds.")
@json_option
def failover(node: str, path: Path, agents: tuple[str, ...], wait_s: float, as_json: bool) -> None:
    """A planned failover: writes are held back, NODE catches up, and takes over. Nothing acknowledged is lost. If NODE
    falls silent or takes too long, the primary goes on.

    Ask the primary's agent; --agent may name several, and the one that is primary does it.

    Exit status: 0 NODE takes writes; 1 refused, given up, or not seen within --wait.
    """
    settings = settings_in(path)
    asked = targets(path, agents)
    taker, _ = elect_query.answered(
        asked, lambda agent: elect_query.order(agent, settings.secrets[0], settings.config.cluster, FAILOVER, node)
    )
    nearest = [taker, *(agent for agent in asked if agent != taker)]
    report = elect_query.wait_for(lambda: ask_status(nearest), lambda status: is_over(status, node), wait_s)
    if as_json:
        output.emit_json({"primary": report.primary, "address": report.primary_address, "epoch": report.leader_epoch})
    else:
        done = f"{report.primary} takes writes, epoch {report.leader_epoch}"
        click.echo(done if report.primary else "no server takes writes")
    if report.primary != node:
        why = f"given up: {node} fell silent or did not catch up" if is_over(report, node) else "not done in time"
        click.echo(f"epoxy: {why}", err=True)
    sys.exit(0 if report.primary == node else NO_PRIMARY)


def is_over(report: AgentStatus, heir: str) -> bool:
    """The handover is done, or the primary has cancelled it. Only the primary's own report counts: others learn of it
    later."""
    return report.primary == heir or (report.primary == report.node and report.handing is None)


def targets(path: Path | None, agents: tuple[str, ...]) -> list[str]:
    if agents:
        return list(agents)
    if path is None:
        raise click.UsageError("say --agent HOST:PORT, or --config elect.toml")
    return [str(settings_in(path).clients)]


def settings_in(path: Path) -> AgentSettings:
    try:
        return load(path)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error


def ask_status(agents: list[str]) -> AgentStatus:
    return msgspec.json.decode(elect_query.ask(agents, ["ELECT", "STATUS"]), type=AgentStatus)


def show(report: AgentStatus) -> None:
    words = f"{report.primary} at {report.primary_address}" if report.primary else "no server"
    click.secho(f"{report.cluster}: {words} takes writes", fg="green" if report.primary else "red", bold=True)
    output.row("epoch", f"{report.epoch}, led by {report.leader} since {report.leader_epoch}")
    output.row("majority", f"{report.quorum} of {len(report.nodes) - len(report.leaving)}")
    changing = [f"+{name}" for name in report.joining] + [f"-{name}" for name in report.leaving]
    if changing:
        output.row("change of nodes", f"{' '.join(changing)}, not finished; a majority is one of both lists")
    output.row("replicas to write", str(report.min_replicas_to_write))
    output.row("asked", f"{report.node}, guard {'there' if report.guard else 'MISSING'}")
    if report.handing is not None:
        output.row("handing over", f"to {report.handing}; writes wait")
    if report.implausible:
        words = f"{report.implausible} messages with an impossible epoch ignored: see this agent's log for the node"
        output.row("ALARM", words)
    missing = [node.id for node in report.nodes if node.state in ("fresh", "unknown")]
    if report.leader_epoch <= 1 and report.primary is None and missing:
        output.row("new cluster", f"it begins when every agent has met every other; not yet: {', '.join(missing)}")
    output.table(HEADS, [[str(cell) for cell in cells(node)] for node in report.nodes])


def cells(node: NodeStatus) -> tuple[object, ...]:
    seen = "never" if node.seen_ms is None else f"{node.seen_ms} ms ago"
    return node.id, node.server, node.role, node.state, node.epoch, node.history, node.offset, seen
