"""Installs a published file into an empty environment, as a user would, and runs the first commands of README there."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

UP_S = 60.0
"""For one node to serve: it takes a second on a quiet machine."""

CONFIG = """[node]
id = 1
data_dir = "data"
http = "127.0.0.1:{port}"

[cluster]
secret_file = "secret"
members = [{{ id = 1, datacenter = "here", url = "http://127.0.0.1:{port}" }}]
"""


class TrialFailed(Exception):
    """Says what was expected and what came."""


class Environment:
    """A virtual environment in `folder`. Without `compiler`, no program is found that is not in it."""

    def __init__(self, folder: Path, *, compiler: bool = True) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        # pip's own settings stay: they say where packages come from.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("EPOXY_", "PYTHON"))}
        inherited.pop("CC", None)
        self.environ = inherited | {"PATH": f"{self.bin}:{os.environ['PATH']}" if compiler else str(self.bin)}

    @classmethod
    def create(cls, folder: Path, *, compiler: bool = True) -> "Environment":
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        return cls(folder, compiler=compiler)

    def run(self, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / words[0], *words[1:]],
            cwd=self.folder,
            env=self.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def pip(self, what: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("python", "-m", "pip", "install", "--disable-pip-version-check", what, **environment)

    def install(self, what: str, **environment: str) -> None:
        done = self.pip(what, **environment)
        if done.returncode:
            raise TrialFailed(f"pip install {what}: {(done.stdout + done.stderr)[-2000:]}")

    def expect(self, words: str, *, status: int = 0, says: str = "", url: str = "") -> None:
        """A command of `epoxy`, its exit status, and a pattern in what it prints."""
        done = self.run("epoxy", *words.split(), **({"EPOXY_URL": url} if url else {}))
        printed = done.stdout + done.stderr
        if done.returncode != status or not re.search(says, printed):
            raise TrialFailed(
                f"epoxy {words}: expected {status} and {says!r}, got {done.returncode} and {printed[-1000:]!r}"
            )


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def one_node(environment: Environment) -> Iterator[str]:
    """A cluster of one; its URL. It must end with status 0."""
    port = free_port()
    config = environment.folder / "epoxy.toml"
    config.write_text(CONFIG.format(port=port))
    if not (environment.folder / "secret").exists():
        environment.expect("secret new secret")
    log = environment.folder / "log"
    with log.open("w") as written:
        command: list[str | Path] = [environment.bin / "epoxy", "serve", "--config", config]
        node = subprocess.Popen(command, env=environment.environ, stdout=written, stderr=written)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{url}/readyz", node, log)
        yield url
        node.send_signal(signal.SIGTERM)
        if node.wait(timeout=UP_S):
            raise TrialFailed(f"the node ended with {node.returncode}: {log.read_text()[-1000:]}")
    finally:
        if node.poll() is None:
            node.kill()
            node.wait()


def wait_for(url: str, node: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + UP_S
    while time.monotonic() < end and node.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise TrialFailed(f"{url} is not ready: {log.read_text()[-1000:]}")


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as answer:
        content: bytes = answer.read()
        return content


def first_commands(environment: Environment, url: str, key: str = "user/ada") -> None:
    environment.expect(f"reserve {key} eu-west-1", says="^won:", url=url)
    environment.expect(f"reserve {key} us-east-1", status=3, says="eu-west-1", url=url)
    environment.expect(f"get {key}", says="^eu-west-1$", url=url)
    environment.expect("status", url=url)


def try_node(environment: Environment, build: str) -> None:
    """`build`: what `epoxy --version` must say that was installed."""
    environment.expect("--version", says=rf"\({build}\)")
    with one_node(environment) as url:
        first_commands(environment, url)
        for path, expected in PAGES.items():
            if expected not in fetch(f"{url}{path}"):
                raise TrialFailed(f"{path} has no {expected!r}")


PAGES: Mapping[str, bytes] = {"/openapi.json": b'"openapi"', "/ui": b"<html", "/metrics": b"epoxy_"}


def try_compiled_wheel(wheel: Path, folder: Path) -> None:
    environment = Environment.create(folder)
    environment.install(f"{wheel}[server]")
    try_node(environment, "compiled")


def try_interpreted_wheel(wheel: Path, folder: Path) -> None:
    """Without a compiler; then a second environment with the client alone talks to that node."""
    environment = Environment.create(folder, compiler=False)
    environment.install(f"{wheel}[server]")
    try_node(environment, "interpreted")
    client = Environment.create(folder.with_name(f"{folder.name}-client"), compiler=False)
    client.install(str(wheel))
    needs = r"epoxydb\[server\]"
    client.expect("--help", says=needs)
    client.expect("backup file", status=78, says=needs)
    with one_node(environment) as url:
        first_commands(client, url, key="user/bob")
        shutil.copy(environment.folder / "secret", client.folder / "secret")
        config = client.folder / "epoxy.toml"
        config.write_text(CONFIG.format(port=free_port()))
        client.expect(f"serve --config {config}", status=78, says=needs)


def try_sdist_without_compiler(sdist: Path, folder: Path) -> None:
    """It says what is missing, and does as it says."""
    environment = Environment.create(folder, compiler=False)
    refused = environment.pip(f"{sdist}[server]")
    said = refused.stdout + refused.stderr
    if refused.returncode == 0 or "no C compiler" not in said or "EPOXY_PURE=1" not in said:
        raise TrialFailed(f"pip install {sdist} without a compiler: {said[-2000:]}")
    environment.install(f"{sdist}[server]", EPOXY_PURE="1")
    try_node(environment, "interpreted")


def try_sdist_with_compiler(sdist: Path, folder: Path) -> None:
    environment = Environment.create(folder)
    environment.install(f"{sdist}[server]")
    try_node(environment, "compiled")
