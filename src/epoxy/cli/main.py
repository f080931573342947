"""The command `epoxy`: its groups, and how errors are printed."""

import os
import sys
from collections.abc import Sequence

import click

from epoxy import __compiled__, __version__
from epoxy.cli.groups import INTERRUPTED, SETTINGS, Group, Interrupted
from epoxy.cli.server_packages import ServerPackageMissing, is_missing

BUILD = "compiled" if __compiled__ else "interpreted"
"""Decision 0015: same behaviour, different speed."""


ROOMS = {
    "demo": "demo.command",
    "plan": "planning",
    "serve": "serve",
    "reserve": "writes",
    "put": "writes",
    "add": "writes",
    "renew": "leases",
    "delete": "writes",
    "txn": "transactions",
    "get": "reads",
    "watch": "reads",
    "lock": "locks",
    "session": "leases",
    "status": "health",
    "doctor": "doctor",
    "inspect": "inspection",
    "members": "members",
    "auth": "auth",
    "backup": "backup",
    "scrub": "scrub",
    "actor": "actors",
    "envoy": "actors",
    "worker": "workers",
    "bench": "bench",
    "elect": "elect",
    "secret": "secret",
    "restore": "restore",
    "rescue": "rescue",
    "store": "store",
    "versions": "versions",
    "legacy": "legacy",
    "sim": "sim.command",
}
"""Each command and its module, in the order of the help text."""


@click.group(cls=Group, rooms=ROOMS, context_settings=SETTINGS)
@click.version_option(f"{__version__} ({BUILD})", "--version", prog_name="epoxy", message="%(prog)s %(version)s")
def cli() -> None:
    """Epoxy: a strongly consistent key-value store across datacenters, without a leader.

    \b
    Try:
      epoxy demo                          run a whole cluster on this machine
      epoxy reserve user/ada eu-west-1    take a name for ever, if it is free
      epoxy get user/ada                  read its value
      epoxy status                        see how many more datacenters may fail
      epoxy plan                          choose regions by what writes would cost
      epoxy sim per-key --seeds 0..200    simulate races, crashes and partitions
      epoxy sim as-described              watch the checkers catch a broken protocol
    """


def main(arguments: Sequence[str] | None = None) -> None:
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status. An error is one line on stderr."""
    try:
        status = cli.main(args=arguments, prog_name="epoxy", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as bare:
        bare.show()
        return bare.exit_code
    except Interrupted as interrupted:
        click.echo(f"\nepoxy: {interrupted.format_message()}", err=True)  # not on the line of the terminal's ^C
        return INTERRUPTED
    except click.ClickException as mistake:
        click.echo(f"epoxy: {mistake.format_message()}", err=True)
        return mistake.exit_code
    except ModuleNotFoundError as error:
        if not is_missing(error):
            raise
        lacking = ServerPackageMissing(str(error.name))
        click.echo(f"epoxy: {lacking.format_message()}", err=True)
        return lacking.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("epoxy: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        return reader_left()
    except UnicodeEncodeError as error:
        if not is_surrogate(error.object[error.start]):
            raise
        click.echo(f"epoxy: {error.object!r} is not UTF-8, which this has to be", err=True)
        return click.UsageError.exit_code
    return status if isinstance(status, int) else 0


def is_surrogate(character: str) -> bool:
    """Python puts one in the place of a byte of an argument that is not UTF-8. Keys may have such bytes; what goes into
    a query or into JSON may not."""
    return "\ud800" <= character <= "\udfff"


def reader_left() -> int:
    """The reader of stdout is gone, as with `| head`: the flush at exit must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
