"""`epoxy sim mutants`: the planted faults, and proof that each is caught."""

import sys

import click

from epoxy.cli import output
from epoxy.cli import parameters as options
from epoxy.cli.groups import SETTINGS, refuse
from epoxy.cli.progress import Watch
from epoxy.sim.hunt import LIMIT_SEEDS, Catch, chase
from epoxy.sim.mutants import MUTANTS

LISTED = ("mutant", "what it breaks", "workload")
CAUGHT = (*LISTED, "caught by", "where", "after runs")


@click.command(context_settings=SETTINGS, short_help="The planted faults; --check proves that each is caught.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--check", is_flag=True, help="Run each until a checker catches it; exit 1 if one survives.")
@click.option("--markdown", is_flag=True, help="Print the table as it stands in docs/testing.md.")
@options.jobs_option
@options.json_option
def mutants(names: tuple[str, ...], check: bool, markdown: bool, jobs: int, as_json: bool) -> None:
    """The planted faults: each breaks one rule by name, and every one must be caught.

    \b
    Examples:
      epoxy sim mutants
      epoxy sim mutants --check
      epoxy sim mutants --check no-behind cache-miss
    """
    for name in names:
        if name not in MUTANTS:
            refuse(name, "mutant", list(MUTANTS))
    if check:
        options.check_plantable()
    chosen = list(names or MUTANTS)
    catches = chase_all(chosen, jobs) if check else []
    if as_json:
        output.emit_json(catches if check else [listed(name) for name in chosen])
    else:
        rows = [caught_row(catch) for catch in catches] if check else [listed_row(name) for name in chosen]
        print_table(CAUGHT if check else LISTED, rows, markdown=markdown)
    survivors = [catch.mutant for catch in catches if catch.rule is None]
    if survivors:
        raise click.exceptions.Exit(lament(survivors))
    sys.exit(0)


def chase_all(names: list[str], jobs: int) -> list[Catch]:
    catches: list[Catch] = []
    with Watch("mutants", len(names)) as watch:
        for name in names:
            catch = chase(name, jobs=jobs)
            catches.append(catch)
            watch.tell(len(catches), f"{catch.mutant}: {catch.rule or 'SURVIVED'}")
    return catches


def lament(survivors: list[str]) -> int:
    click.echo(
        f"epoxy: survived {LIMIT_SEEDS:,} seeds and every state of the small worlds: {', '.join(survivors)}", err=True
    )
    return 1


def listed(name: str) -> dict[str, str]:
    mutant = MUTANTS[name]
    return {"mutant": mutant.name, "breaks": mutant.breaks, "workload": mutant.workload}


def listed_row(name: str) -> tuple[str, ...]:
    return tuple(listed(name).values())


def caught_row(catch: Catch) -> tuple[str, ...]:
    where = f"seed {catch.seed}" if catch.seed is not None else "every state" if catch.rule else "nowhere"
    return catch.mutant, catch.breaks, catch.workload, catch.rule or "SURVIVED", where, f"{catch.tried:,}"


def print_table(heads: tuple[str, ...], rows: list[tuple[str, ...]], *, markdown: bool) -> None:
    if markdown:
        for cells in (heads, ("---",) * len(heads), *rows):
            click.echo(f"| {' | '.join(cells)} |")
        return
    output.table(heads, rows)
