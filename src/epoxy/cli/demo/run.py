"""A demo in the foreground, from the start of its first process to the end of the last."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from epoxy.cli import output
from epoxy.cli.demo import show, tokens
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.control import ControlSocket, DemoOrder, DemoReply, ask, socket_of
from epoxy.cli.demo.panel import Panel, Rules, measured
from epoxy.cli.demo.plan import LOOPBACK, PANEL_TOKEN, DemoPlan, StoreDriver, plan
from epoxy.cli.demo.race import printable
from epoxy.cli.demo.region import RegionNode
from epoxy.client.token import read_token
from epoxy.model.errors import Unavailable

LOOK_S = 0.1
"""Between two checks for regions that ended by themselves."""

GRACE_S = 5.0
"""For the command of --exec to end after SIGTERM."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoOptions(Struct, frozen=True, kw_only=True):
    regions: int | None
    port_base: int | None
    wan: bool
    auth: bool
    folder: Path | None
    command: str | None
    as_json: bool
    open_console: bool = False
    store: StoreDriver | None = None
    nodes: int | None = None


class Terminated(BaseException):
    """By a signal. A BaseException, so that only cleanup code catches it."""

    def __init__(self, number: int) -> None:
        self.number = number


def open_page(url: str) -> bool:
    """False: there is no browser. One that runs in the terminal would take it from the demo."""
    try:
        found = webbrowser.get()
        return type(found) is not webbrowser.GenericBrowser and found.open(url)
    except (webbrowser.Error, OSError):
        return False


def run_demo(options: DemoOptions, browser: Callable[[str], bool] = open_page) -> int:
    """Returns the exit status: that of the command, or 0 when a running demo was ended by a signal. `browser` opens an
    address; False: it could not."""
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        folder = options.folder or Path(tempfile.mkdtemp(prefix="epoxy-demo-"))
        if options.folder is None:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        planned = plan(
            folder,
            regions=options.regions,
            port_base=options.port_base,
            wan=options.wan,
            auth=options.auth,
            store=options.store,
            nodes=options.nodes,
        )
        cluster = DemoCluster(replace(planned, panel=True))
        panel = open_panel(cluster.plan)
        stack.callback(panel.close)
        stack.callback(end, cluster)
        demo = Demo(cluster, options, browser)
        demo.start(stack)
        panel.start()
        try:
            return demo.run_command(options.command) if options.command is not None else demo.run_for_ever()
        except Terminated as ended:
            demo.say("")
            return 0 if options.command is None else 128 + ended.number


def open_panel(planned: DemoPlan) -> Panel:
    """Its port is taken before a region starts, and it answers when all are up."""
    port, folder = planned.panel_port, planned.folder
    rules = Rules(
        hosts=frozenset(f"{host}:{port}" for host in LOOPBACK),
        origins=planned.origins(),
        token=read_token(folder / PANEL_TOKEN),
    )
    admin = Path(tokens.files(folder)[tokens.ADMIN]) if planned.auth else None

    def measure(demo: Mapping[str, Any]) -> list[dict[str, Any]]:
        return measured(demo, read_token(admin) if admin is not None else "")

    try:
        return Panel(port, rules, partial(ask, socket_of(planned.port_base)), measure)
    except OSError as error:
        raise Unavailable(
            f"port {port}, for the orders of the console's page, cannot be used: {os.strerror(error.errno or 0)}."
            " If another demo is running, `epoxy demo ps` shows it; --port-base chooses other ports"
        ) from error


class Demo:
    def __init__(self, cluster: DemoCluster, options: DemoOptions, browser: Callable[[str], bool]) -> None:
        self.cluster = cluster
        self._options = options
        self._browser = browser
        self._to_stderr = options.command is not None or options.as_json

    def say(self, line: str) -> None:
        """On stdout, unless that carries the output of --exec or JSON."""
        click.echo(line, err=self._to_stderr)

    def start(self, stack: ExitStack) -> None:
        began = time.monotonic()
        with progress(self.cluster.plan) as (tell, tell_database):
            self.cluster.start(tell, tell_database)
        self._control = ControlSocket(self.cluster.plan.port_base)
        stack.callback(self._control.close)
        document = self.cluster.document()
        if self._options.as_json:
            output.emit_json(document)
        else:
            self._welcome(document, time.monotonic() - began)
        if self._options.open_console:
            self._open(document["console"])

    def _welcome(self, document: dict[str, Any], seconds: float) -> None:
        kept = self._options.folder is not None
        lines = show.welcome(self.cluster.plan, document, seconds, kept=kept)
        if self._options.command is None:
            lines += show.invitation(self.cluster.plan, document)
        self.say("\n".join(lines))

    def _open(self, url: str) -> None:
        """A demo without a browser is a demo all the same."""
        if not self._browser(url):
            click.echo(f"No browser was found here; open {url} in one.", err=True)

    def run_for_ever(self) -> int:
        while True:
            self._serve()

    def run_command(self, command: str) -> int:
        urls = [url for node in self.cluster.nodes for url in node.addresses]
        shown = tokens.files(self.cluster.plan.folder) if self.cluster.plan.auth else {}
        running = subprocess.Popen(command, shell=True, env=command_environment(self.cluster.plan, urls, shown))
        try:
            while running.poll() is None:
                self._serve()
        finally:
            end_command(running)
        return running.returncode if running.returncode >= 0 else 128 - running.returncode

    def _serve(self) -> None:
        self._control.serve(self._perform, LOOK_S)
        for node in self.cluster.fallen():
            self._report_end(node)
        self.cluster.tend()

    def _perform(self, order: DemoOrder) -> DemoReply:
        told = self.cluster.perform(order)
        if order.verb != "ps":
            what = printable(f"{order.verb} {order.place}: {told.lines[0]}")
            click.echo(f"{time.strftime('%H:%M:%S')}  {what}", err=True)
        return told

    def _report_end(self, node: RegionNode) -> None:
        code = node.exit_code
        how = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended by itself (status {code})"
        lines = [f"{time.strftime('%H:%M:%S')}  {node.place} {how}."]
        if code is not None and code > 0:
            lines += ["The end of its log:", node.last_words()]
        lines += [*self.cluster.consequences(), f"{show.our_name()} demo revive {node.order_words}   starts it again"]
        click.echo("\n".join(lines), err=True)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    def end_it(number: int, _: FrameType | None) -> None:
        raise Terminated(number)

    before = {number: signal.signal(number, end_it) for number in SIGNALS}
    try:
        yield
    except Terminated as ended:
        raise click.exceptions.Exit(128 + ended.number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end(cluster: DemoCluster) -> None:
    """Stops the regions in order. A second signal kills them at once."""

    def at_once(_number: int, _: FrameType | None) -> None:
        cluster.kill()

    for number in SIGNALS:
        signal.signal(number, at_once)
    cluster.stop()


def command_environment(planned: DemoPlan, urls: list[str], shown: dict[str, str]) -> dict[str, str]:
    """With the folder of this Python on the path, so that `epoxy` is found. `shown`: the files of the demo's tokens, of
    which an application gets its own."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    given = {f"EPOXY_{name.upper()}_TOKEN_FILE": file for name, file in shown.items()}
    if shown:
        given |= {"EPOXY_TOKEN": "", "EPOXY_TOKEN_FILE": shown[tokens.APP]}
    given |= {"EPOXY_URL": urls[0], "EPOXY_URLS": ",".join(urls), "EPOXY_PAGE_PORT": str(planned.page_port)}
    return {**os.environ, **given, "PATH": path}


def end_command(running: subprocess.Popen[bytes]) -> None:
    if running.poll() is None:
        running.terminate()
        try:
            running.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


@contextmanager
def progress(planned: DemoPlan) -> Iterator[tuple[Callable[[RegionNode], None], Callable[[RegionNode], None]]]:
    """What tells of a region that is ready, and of one whose database is: a status line on a terminal, a line for each
    elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    began, databases, ready = time.monotonic(), 0, 0

    with console.status(f"starting {len(planned.places)} regions") as status:

        def say(words: str, counted: str) -> None:
            status.update(counted)
            if not console.is_terminal:
                click.echo(f"{words}, {time.monotonic() - began:.1f} s ({counted})", err=True)

        def tell(node: RegionNode) -> None:
            nonlocal ready
            ready += 1
            say(f"{node.datacenter} is ready", f"{ready} of {len(planned.places)} regions ready")

        def tell_database(node: RegionNode) -> None:
            nonlocal databases
            databases += 1
            said = f"PostgreSQL of {node.datacenter} takes connections"
            say(said, f"{databases} of {len(planned.places)} databases ready")

        yield tell, tell_database
