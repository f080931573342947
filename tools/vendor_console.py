"""Third-party files of the console, copied from npm packages of fixed versions into the package we ship.

`python -m tools.vendor_console` renews them and their list, vendor.json, with a hash for each; a test compares the two.
Browsers load them as they are: the one change is that a bare import becomes the address of the file it means. Long
files are shipped compressed.
"""

import argparse
import gzip
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

VENDOR = Path(__file__).resolve().parents[1] / "src" / "epoxy" / "api" / "console" / "static" / "vendor"
LIST = "vendor.json"

TEXT = frozenset((".js", ".mjs", ".css"))
SOURCE_MAP = re.compile(rb"\n?//# sourceMappingURL=.*\n?$")
"""Maps are not shipped, and a browser's tools would ask for them."""


PACKED = ".gz"

PYODIDE = "314.0.7"
OF_PYODIDE = f"pyodide/{PYODIDE}"
"""The version is part of the address: browsers keep these files, and never ask again."""


class NpmPackage(Struct, frozen=True):
    """`files`: where each of its files goes, below `vendor`; one that ends with .gz is compressed. `imports`: what its
    bare imports mean. `licence`: its own words, for a package that has no file of them."""

    name: str
    version: str
    files: Mapping[str, str]
    imports: Mapping[str, str] = {}
    licence: str = ""


PACKAGES = (
    NpmPackage("preact", "10.29.8", {"dist/preact.module.js": "preact.js"}),
    NpmPackage("preact", "10.29.8", {"hooks/dist/hooks.module.js": "hooks.js"}, {"preact": "./preact.js"}),
    NpmPackage("htm", "3.1.1", {"dist/htm.module.js": "htm.js"}),
    NpmPackage("uplot", "1.6.32", {"dist/uPlot.esm.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"}),
    NpmPackage("d3-array", "3.2.5", {"dist/d3-array.min.mjs": "d3-array.js"}),
    NpmPackage("d3-geo", "3.1.2", {"dist/d3-geo.min.mjs": "d3-geo.js"}, {"d3-array": "./d3-array.js"}),
    NpmPackage(
        "topojson-client",
        "3.1.0",
        {f"src/{name}.js": f"topojson/{name}.js" for name in ("feature", "reverse", "transform", "identity")},
    ),
    NpmPackage("world-atlas", "2.0.2", {"land-110m.json": "land-110m.json"}),
    NpmPackage(
        "pyodide",
        PYODIDE,
        {
            "pyodide.mjs": f"{OF_PYODIDE}/pyodide.mjs",
            "pyodide.asm.mjs": f"{OF_PYODIDE}/pyodide.asm.mjs.gz",
            "pyodide.asm.wasm": f"{OF_PYODIDE}/pyodide.asm.wasm.gz",
            "python_stdlib.zip": f"{OF_PYODIDE}/python_stdlib.zip",
        },
        licence="Mozilla Public License 2.0 (https://mozilla.org/MPL/2.0/). Source: https://github.com/pyodide/pyodide\n"
        "It contains CPython and its standard library: Python Software Foundation License 2.",
    ),
)


class VendoredFile(Struct, frozen=True, kw_only=True):
    package: str
    version: str
    file: str
    sha256: str


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def rewritten(data: bytes, suffix: str, imports: Mapping[str, str]) -> bytes:
    if suffix not in TEXT:
        return data
    for bare, address in imports.items():
        data, count = re.subn(rb"""(from\s*)(["'])%b\2""" % bare.encode(), rb'\1"%b"' % address.encode(), data)
        assert count, f"nothing imports {bare}"
    return SOURCE_MAP.sub(b"\n", data)


def renew(folder: Path) -> list[VendoredFile]:
    """Copies everything out of `folder`/node_modules."""
    found: list[VendoredFile] = []
    licences: dict[str, str] = {}
    for package in PACKAGES:
        home = folder / "node_modules" / package.name
        for source, target in package.files.items():
            data = rewritten((home / source).read_bytes(), Path(source).suffix, package.imports)
            if target.endswith(PACKED):
                data = gzip.compress(data, mtime=0)
            place = VENDOR / target
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            found.append(VendoredFile(package=package.name, version=package.version, file=target, sha256=digest(data)))
        licences[f"{package.name} {package.version}"] = package.licence or licence_of(home)
    text = "\n".join(f"== {name}\n\n{licence.strip()}\n" for name, licence in licences.items())
    (VENDOR / "licences.txt").write_text(text, "utf-8")
    return found


def licence_of(home: Path) -> str:
    found = next(path for path in sorted(home.iterdir()) if path.name.upper().startswith("LICEN"))
    return found.read_text("utf-8")


def main() -> int:
    argparse.ArgumentParser(prog="tools.vendor_console", description=__doc__).parse_args()
    if shutil.which("npm") is None:
        print("tools.vendor_console: no npm here", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        wanted = sorted({f"{package.name}@{package.version}" for package in PACKAGES})
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", scratch]
        subprocess.run([*npm, *wanted], check=True)
        found = renew(Path(scratch))
    listed = sorted(found, key=lambda each: each.file)
    (VENDOR / LIST).write_bytes(msgspec.json.format(msgspec.json.encode(listed), indent=2) + b"\n")
    print(f"{len(found)} files of {len(wanted)} packages in {VENDOR.name}/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
