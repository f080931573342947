"""`epoxy doctor`: asks every node, and says what is broken or dangerous, why it matters, and what mends it."""

import time
from pathlib import Path

import click

from epoxy import __version__
from epoxy.cli import credentials, output, target
from epoxy.cli.diagnosis import diagnose, strangers
from epoxy.cli.diagnosis_files import NodeFiles
from epoxy.cli.findings import Finding, NodeVisit, Severity
from epoxy.cli.groups import SETTINGS
from epoxy.cli.node_visits import ask_cluster, visit_all
from epoxy.model.errors import ConfigError
from epoxy.node.process.secret_files import is_open_to_others

COLOURS = {Severity.FINE: "green", Severity.UNKNOWN: "cyan", Severity.WARNING: "yellow", Severity.BROKEN: "red"}

MAX_SHOWN = 2000
"""Characters of a line: the words of a finding may be those of a server that is no node."""


@click.command(context_settings=SETTINGS, short_help="Ask every node, and report what is broken or dangerous.")
@target.url_option
@click.option(
    "--config",
    "config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Look at the files of this node, too, on its own machine: its epoxy.toml.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too, and for what could not be looked at.")
@target.json_option
@click.pass_context
def doctor(ctx: click.Context, urls: list[str], config: Path | None, strict: bool, as_json: bool) -> None:
    """Ask the nodes of --url and all their peers for their status, compare the answers, and report what is broken, what
    is configured dangerously, and what to do. It takes 5 seconds at the most, and changes nothing.

    A line begins with "ok", "warning", "BROKEN", or with "unknown": that could not be looked at.

    \b
    Exit status:
      0  nothing is broken (there may be warnings); with --strict: no warnings, and all was looked at
      1  something is broken, or a node does not answer
      2  wrong usage
    \b
    Examples:
      epoxy doctor
      epoxy doctor --url https://10.0.0.1:7800 --ca ca.pem --json
      epoxy doctor --config /etc/epoxy/epoxy.toml
    """
    began = time.monotonic()
    files = files_of(config) if config is not None else None
    if files is not None and ctx.get_parameter_source("urls") is click.core.ParameterSource.DEFAULT:
        urls = [files.url]
    with output.spinner("asking every node"):
        visits = visit_all(urls, began)
        strange = strangers(visits)
        answers = ask_cluster([visit for visit in visits if visit not in strange], began)
        findings = diagnose(visits, answers, exposed_token_files(), files)
    if as_json:
        output.emit_json(document(visits, findings, time.monotonic() - began))
    else:
        for finding in findings:
            tell_finding(finding)
    bad = {Severity.BROKEN, *((Severity.WARNING, Severity.UNKNOWN) if strict else ())}
    raise click.exceptions.Exit(1 if any(finding.severity in bad for finding in findings) else 0)


def files_of(config: Path) -> NodeFiles:
    from epoxy.cli.node_files import look_at_files  # Only here: it loads what reads a node's settings.

    try:
        return look_at_files(config)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def exposed_token_files() -> list[str]:
    file = credentials.token_file()
    return [str(file)] if file is not None and is_open_to_others(file) else []


def document(visits: list[NodeVisit], findings: list[Finding], took_s: float) -> dict[str, object]:
    """`healthy`: nothing is broken; `complete`: all nodes answered, and all was looked at."""
    severities = {finding.severity for finding in findings}
    return {
        "healthy": Severity.BROKEN not in severities,
        "complete": Severity.UNKNOWN not in severities and all(visit.status is not None for visit in visits),
        "version": __version__,
        "took_s": round(took_s, 3),
        "nodes": [node_json(visit) for visit in visits],
        "findings": findings,
    }


def node_json(visit: NodeVisit) -> dict[str, object]:
    status = visit.status
    return {
        "url": visit.url,
        "answered": status is not None,
        "reason": visit.reason,
        "id": status.id if status is not None else visit.expected,
        "datacenter": (status.datacenter if status is not None else "") or visit.datacenter,
        "ready": status.ready if status is not None else None,
        "clock_ahead_s": round(visit.clock.ahead_s, 4) if visit.clock is not None else None,
        "clock_within_s": round(visit.clock.within_s, 4) if visit.clock is not None else None,
    }


def tell_finding(finding: Finding) -> None:
    click.secho(f"{finding.severity.value:<8}", fg=COLOURS[finding.severity], bold=True, nl=False)
    click.echo(shown(finding.words))
    for line in (finding.why, finding.advice, *(f"$ {command}" for command in finding.commands)):
        if line:
            click.echo(f"{'':<8}{shown(line)}")


def shown(text: str) -> str:
    """On one line, without what a terminal would take for a command."""
    line = "".join([letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[:MAX_SHOWN]])
    return line if len(text) <= MAX_SHOWN else f"{line}..."
