"""`epoxy sim mutants` and its like: the planted faults of a protocol, and proof that each is caught."""

import sys
from collections.abc import Callable, Mapping

import click

from epoxy.cli import output
from epoxy.cli.groups import SETTINGS
from epoxy.cli.progress import ProgressBar
from epoxy.cli.sim import parameters as options
from epoxy_sim.members import mutation_testing
from epoxy_sim.members.campaign import Setup
from epoxy_sim.members.mutants import MUTANTS
from epoxy_sim.mutation_testing import FaultCatch
from epoxy_sim.patching import Mutant

LISTED = ("mutant", "what it breaks")
CAUGHT = ("caught by", "where", "after runs")

Chase = Callable[..., FaultCatch]
"""Takes a name, and `jobs`."""


def mutants_command(
    name: str,
    known: Mapping[str, Mutant],
    chase: Chase,
    *,
    survived: str,
    short: str,
    text: str,
    also: tuple[str, ...] = (),
) -> click.Command:
    """`survived`: what an uncaught fault has survived. `also`: further fields of a mutant to list."""

    def command(names: tuple[str, ...], check: bool, markdown: bool, jobs: int, as_json: bool) -> None:
        for each in names:
            options.check_known(each, known)
        if check:
            options.check_plantable()
        listed = [listing(known[each], also) for each in names or known]
        catches = chase_all(chase, list(names or known), jobs) if check else []
        if as_json:
            output.emit_json(catches if check else listed)
        else:
            rows = [tuple(each.values()) for each in listed]
            if check:
                rows = [(*row, *caught(catch)) for row, catch in zip(rows, catches, strict=True)]
            print_table((*LISTED, *also, *(CAUGHT if check else ())), rows, markdown=markdown)
        sys.exit(report_survivors([catch.mutant for catch in catches if catch.rule is None], survived))

    return options.command(
        command,
        click.command(name, context_settings=SETTINGS, short_help=short, help=text),
        click.argument("names", nargs=-1, metavar="[NAME]..."),
        click.option("--check", is_flag=True, help="Run each until a checker catches it; exit 1 if one survives."),
        click.option("--markdown", is_flag=True, help="Print the table as it stands in docs/testing.md."),
        options.jobs_option,
        options.json_option,
    )


def listing(mutant: Mutant, also: tuple[str, ...]) -> dict[str, str]:
    return {"mutant": mutant.name, "breaks": mutant.breaks, **{word: getattr(mutant, word) for word in also}}


def chase_all(chase: Chase, names: list[str], jobs: int) -> list[FaultCatch]:
    catches: list[FaultCatch] = []
    with ProgressBar("mutants", len(names)) as watch:
        for name in names:
            catches.append(chase(name, jobs=jobs))
            watch.tell(len(catches), f"{name}: {catches[-1].rule or 'SURVIVED'}")
    return catches


def caught(catch: FaultCatch) -> tuple[str, ...]:
    where = f"seed {catch.seed}" if catch.seed is not None else "every state" if catch.rule else "nowhere"
    return catch.rule or "SURVIVED", where, f"{catch.tried:,}"


def print_table(heads: tuple[str, ...], rows: list[tuple[str, ...]], *, markdown: bool) -> None:
    if not markdown:
        output.table(heads, rows)
        return
    for cells in (heads, ("---",) * len(heads), *rows):
        click.echo(f"| {' | '.join(cells)} |")


def report_survivors(survivors: list[str], survived: str) -> int:
    if survivors:
        click.echo(f"epoxy: survived {survived}: {', '.join(survivors)}", err=True)
    return int(bool(survivors))


mutants = mutants_command(
    "mutants",
    MUTANTS,
    mutation_testing.chase,
    survived=f"{Setup.limit_seeds:,} seeds and every state of the small worlds",
    short="The planted faults; --check proves that each is caught.",
    text="""The planted faults: each breaks one rule by name, and every one must be caught.

    \b
    Examples:
      epoxy sim mutants
      epoxy sim mutants --check
      epoxy sim mutants --check no-behind cache-miss
    """,
    also=("workload",),
)
