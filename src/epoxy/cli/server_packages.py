"""Commands whose packages only the extra `server` installs: without them they are listed, and say what to install."""

import click

SERVER_PACKAGES = frozenset(
    {"asyncpg", "hiredis", "lmdb", "lupa", "prometheus_client", "sortedcontainers", "uvloop", "xxhash"}
)
"""What requirements/server.in adds to client.in, as it is imported."""

INSTALL = "pip install 'epoxydb[server]'"


class ServerPackageMissing(click.ClickException):
    exit_code = 78
    """EXIT_CONFIG of `epoxy serve`: starting it again fails in the same way. Every command imports this module, so the
    room of that constant is not loaded for it."""

    def __init__(self, package: str) -> None:
        super().__init__(f"this needs what a node needs, and {package} is not installed: {INSTALL}")


def is_missing(error: ModuleNotFoundError) -> bool:
    """False if it is a module that every installation has: a bug, or a broken installation."""
    return (error.name or "").partition(".")[0] in SERVER_PACKAGES


def stand_in(name: str, package: str) -> click.Command:
    """In the place of a command whose module cannot be imported. It takes any words, so that the reason is what a
    caller reads."""

    def refuse(**_: object) -> None:
        raise ServerPackageMissing(package)

    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(
        name,
        callback=refuse,
        params=[words],
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
        short_help=f"Not installed: {INSTALL}",
    )
