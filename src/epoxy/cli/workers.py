"""`epoxy worker`: runs the worker of a Python module."""

import asyncio
import importlib
import logging
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from epoxy.cli import credentials, output, target
from epoxy.cli.groups import SETTINGS, Group
from epoxy.client.routing import fleet_of
from epoxy.client.worker import Worker
from epoxy.model.errors import InvalidRequest
from epoxy.protocol.placement.records import MAX_CAPACITY, MAX_VERSION, MAX_WEIGHT

ATTRIBUTE = "worker"
"""Of a module that is named alone."""


class Broken(click.ClickException):
    """The module is there and fails: its traceback was printed."""


@click.group(cls=Group, context_settings=SETTINGS, short_help="Run workers, which host actors.")
def worker() -> None:
    """Run workers, which host actors.

    \b
    Example:
      epoxy worker run rooms:worker --reload
    """


@worker.command(context_settings=SETTINGS, short_help="Run the worker of a Python module.")
@click.argument("app", metavar="MODULE[:ATTRIBUTE]")
@click.option("--reload", "reloads", is_flag=True, help="Start it anew when a source file changes; for development.")
@click.option(
    "--watch",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder whose files --reload watches; may be repeated.  [default: --app-dir]",
)
@click.option(
    "--app-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    show_default=True,
    help="Where MODULE is imported from, before all else.",
)
@click.option("--url", envvar="EPOXY_URL", show_envvar=True, metavar="URL", help="A node of the datacenter to work in.")
@click.option("--pool", help="The pool it serves.")
@click.option("--namespace", help="The namespace of the pool.")
@click.option("--slots", type=click.IntRange(0, MAX_CAPACITY), help="How many actors it takes; 0: any number.")
@click.option("--weight", type=click.IntRange(1, MAX_WEIGHT), help="Its size beside others.")
@click.option("--code-version", "version", type=click.IntRange(0, MAX_VERSION), help="The version of its code.")
@click.option("--worker-key", "key", help="What it is called; a name of its own for each process.")
@credentials.credential_options
@click.option("--supervised", type=int, hidden=True, help="The socket to the process that watches files.")
def run(
    *, app: str, reloads: bool, folders: tuple[Path, ...], app_dir: Path, supervised: int | None, **given: Any
) -> None:
    """Run a worker until SIGTERM or Ctrl-C, and then until its actors have moved to others.

    ATTRIBUTE of MODULE is a Worker, or a function that makes one; "worker" if it is left out. Options take the place of
    what the code says. A second signal cancels the actors that are left.

    --reload watches the Python files below a folder. A change starts a new process, and when that is connected the old
    one drains: actors go on in the new code with the state they saved. Code that does not start leaves the old one
    running.

    \b
    Exit status: 0 drained, 1 failed, 2 wrong usage or refused by the node, 77 no rights, or
      70   the event loop stood still beyond the worker's lease, or an actor's code did not end when it was cancelled
    \b
    Examples:
      epoxy worker run rooms:worker
      epoxy worker run rooms:make_worker --url https://node:7800 --token-file chat.token --pool chat
      epoxy worker run rooms --reload
    """
    if reloads:
        from epoxy.cli.worker_reloading import supervise

        raise click.exceptions.Exit(supervise(folders or (app_dir,), command_again()))
    made = configured(load(app, app_dir), given, fresh_key=supervised is not None)
    call = target.NodeCall(urls=[])
    with call.reporting():
        asyncio.run(serve(made, supervised))


def command_again() -> list[str]:
    """This very command without --reload."""
    arguments = [word for word in sys.argv[1:] if word not in ("--reload",)]
    return [sys.executable, "-m", "epoxy", *arguments]


def load(app: str, folder: Path) -> Worker:
    """Raises UsageError, or Broken."""
    name, _, attribute = app.partition(":")
    attribute = attribute or ATTRIBUTE
    if name.endswith(".py") or "/" in name:
        suggested = Path(name).with_suffix("").as_posix().replace("/", ".")
        raise click.UsageError(f"{name!r} is a file; a module is named as in an import: {suggested}:{attribute}")
    if not all(name.split(".")):
        raise click.UsageError(f"{app!r} names no module; an example: rooms:worker")
    sys.path.insert(0, str(folder.absolute()))
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise broken(name, error) from None
        raise click.UsageError(
            f"there is no module {name!r} in {folder.absolute()}; --app-dir names its folder"
        ) from None
    except Exception as error:
        raise broken(name, error) from None
    return made(found(module, name, attribute), f"{name}:{attribute}")


def broken(name: str, error: Exception) -> Broken:
    """Prints the traceback from the first line of the application's own code on."""
    told = traceback.TracebackException.from_exception(error)
    while told.stack and (told.stack[0].filename == __file__ or "importlib" in told.stack[0].filename):
        del told.stack[0]
    click.echo("".join(told.format()), err=True, nl=False)
    return Broken(f"{name} fails: {type(error).__name__}{f': {error}' if str(error) else ''}")


def found(module: object, name: str, attribute: str) -> object:
    at: object = module
    for part in attribute.split("."):
        if not hasattr(at, part):
            others = [each for each, value in vars(module).items() if isinstance(value, Worker)]
            there = f" It has: {', '.join(f'{name}:{each}' for each in others)}" if others else " It has no Worker"
            raise click.UsageError(f"{name} has no {attribute!r}.{there}")
        at = getattr(at, part)
    return at


def made(value: object, where: str) -> Worker:
    if callable(value) and not isinstance(value, Worker | type):
        try:
            value = value()
        except Exception as error:
            raise broken(where, error) from None
    if not isinstance(value, Worker):
        raise click.UsageError(f"{where} is no Worker, and makes none: it is {type(value).__name__}")
    return value


def configured(worker: Worker, given: dict[str, Any], *, fresh_key: bool) -> Worker:
    """With the options in place of what the code says. One that is started anew is another process under another key:
    both run for a while."""
    changes = {name: value for name, value in given.items() if value is not None}
    if (token := credentials.token()) is not None:
        changes["token"] = token
    try:
        if "url" in changes:
            changes["url"] = fleet_of([changes["url"]]).nodes[0].url
        if (context := credentials.tls()) is not None:
            changes["tls"] = context
        if fresh_key:
            changes["key"] = f"{changes.get('key', worker.key)}-{os.getpid()}"
        return worker.like(**changes) if changes else worker
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error


async def serve(worker: Worker, supervisor: int | None) -> None:
    """`supervisor`: told when this worker is connected. It drains when that is gone."""
    logging.basicConfig(level=logging.WARNING, format="epoxy worker: %(message)s", stream=sys.stderr)
    loop = asyncio.get_running_loop()
    signals = 0

    def drain() -> None:
        nonlocal signals
        signals += 1
        actors = output.plural(len(worker.actors), "actor")
        then = "moving; another signal cancels them" if signals == 1 else "cancelled"
        click.echo(f"epoxy worker: {actors} {then}", err=True)
        worker.drain()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, drain)
    if supervisor is not None:
        loop.add_reader(supervisor, supervisor_gone, supervisor, worker, loop)
    telling = asyncio.create_task(tell(worker, supervisor))
    try:
        await worker.serve()
    finally:
        telling.cancel()


def supervisor_gone(supervisor: int, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
    loop.remove_reader(supervisor)
    worker.drain()


async def tell(worker: Worker, supervisor: int | None) -> None:
    await worker.connected.wait()
    click.echo(f"epoxy worker: {worker.key} is connected to {worker.datacenter}", err=True)
    if supervisor is not None:
        os.write(supervisor, b"\n")
