"""What a published file must have in it, and what it must not."""

import tarfile
from collections.abc import Collection
from pathlib import Path
from zipfile import ZipFile

from tools.packages.building import tracked_files

STATIC = "epoxy/api/console/static/"
NEEDED = ("epoxy/py.typed", f"{STATIC}index.html", f"{STATIC}vendor/licences.txt", "epoxy/api/http/openapi.py")
LICENCES = ("LICENSE", f"src/{STATIC}vendor/licences.txt")
COMPILED = (".so", ".pyd")
UNWANTED = ("tests/", "docs/", "tools/", "benchmarks/", "examples/", "spec/", "deploy/", ".git", ".ci")
NATIVE = "epoxy/store/embedded/log_writer"
"""Written in C: an sdist has its source, a compiled wheel what was made of it, an interpreted one neither."""

LEFTOVERS = (".c", ".h", ".o", ".pyc", ".orig")


def sources() -> set[str]:
    """Tracked files of both packages, below `src`."""
    return {str(name.relative_to("src")) for name in tracked_files() if name.parts[0] == "src"}


def faults_of_sdist(path: Path) -> list[str]:
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {f"src/{name}" for name in sources()} | {"pyproject.toml", "setup.py", "README.md", "LICENSE", "PKG-INFO"}
    wanted |= {"requirements/client.in", "requirements/server.in"}
    return missing(wanted, names) + strangers(names - {f"src/{NATIVE}.c"})


def faults_of_wheel(path: Path) -> list[str]:
    with ZipFile(path) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = archive.read(metadata).decode()
    folder = metadata.removesuffix("METADATA")
    wanted = (sources() - {f"{NATIVE}.c"}) | set(NEEDED) | {f"{folder}licenses/{name}" for name in LICENCES}
    faults = missing(wanted | {f"{folder}entry_points.txt"}, names) + strangers(names)
    compiled = [name for name in names if name.endswith(COMPILED)]
    if bool(compiled) == path.name.endswith("-none-any.whl"):
        faults.append(f"{len(compiled)} compiled modules in {path.name}")
    if "linux" in path.name and not any(name.startswith(NATIVE) for name in compiled):
        faults.append(f"lacks what is made of {NATIVE}.c")
    faults += [
        f"METADATA does not say {line!r}" for line in ("Name: epoxydb", "Provides-Extra: server") if line not in told
    ]
    return faults


def missing(wanted: Collection[str], names: Collection[str]) -> list[str]:
    return [f"lacks {name}" for name in sorted(set(wanted) - set(names))]


def strangers(names: Collection[str]) -> list[str]:
    return [f"has {name}" for name in sorted(names) if name.startswith(UNWANTED) or name.endswith(LEFTOVERS)]
