"""A real Chromium for the tests of what web pages can do.

`python -m tools.browser` finds one, or has it installed: Debian's package where apt-get may be used, otherwise the one
that npm's @sparticuz/chromium carries, beside python. EPOXY_TEST_BROWSER names another.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CARRIED = Path(sys.executable).parent.parent / "browser"
NPM_PACKAGE = "@sparticuz/chromium@153.0.0"
HINT = "Debian and Ubuntu: apt install chromium; or name one in EPOXY_TEST_BROWSER"

UNPACK = """
import { createReadStream, createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";
const [from, to] = process.argv.slice(2);
await pipeline(createReadStream(from), createBrotliDecompress(), createWriteStream(to));
"""
"""Python's library has no Brotli; Node's has."""


class NoBrowser(Exception):
    """Says what to install."""


def chromium() -> Path:
    named = os.environ.get("EPOXY_TEST_BROWSER")
    if named:
        return Path(named)
    installed = [Path(path) for name in NAMES if (path := shutil.which(name))]
    found = next((each for each in (CARRIED / "chromium", *installed) if each.exists()), None)
    if found is None:
        raise NoBrowser(f"no Chromium here ({HINT})")
    return found


def environment() -> dict[str, str]:
    """Libraries that the carried one brings along."""
    libraries = CARRIED / "lib"
    return {"LD_LIBRARY_PATH": str(libraries)} if libraries.exists() else {}


def runs(program: Path) -> bool:
    asked = subprocess.run(
        [program, "--version"], capture_output=True, check=False, timeout=60, env=os.environ | environment()
    )
    return asked.returncode == 0


def install() -> None:
    if not (os.geteuid() == 0 and shutil.which("apt-get") and from_debian()):
        from_npm()


def from_debian() -> bool:
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    get = ("apt-get", "-q", "-y", "--no-install-recommends")
    asked = ([*get, "update"], [*get, "install", "chromium"])
    return all(subprocess.run(each, check=False, env=environ, stdout=sys.stderr).returncode == 0 for each in asked)


def from_npm() -> None:
    """The package keeps the program, and libraries that small machines lack, as Brotli files."""
    if shutil.which("npm") is None:
        raise NoBrowser(f"neither apt-get nor npm has one for us ({HINT})")
    npm = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run([*npm, folder, NPM_PACKAGE], check=True)
        packed = folder / "node_modules" / "@sparticuz" / "chromium" / "bin"
        script, libraries = folder / "unpack.mjs", folder / "libraries.tar"
        script.write_text(UNPACK)
        CARRIED.mkdir(exist_ok=True)
        subprocess.run(["node", script, packed / "al2023.tar.br", libraries], check=True)
        subprocess.run(["tar", "-xf", libraries, "-C", CARRIED], check=True)
        program = CARRIED / "chromium"
        subprocess.run(["node", script, packed / "chromium.br", program], check=True)
        program.chmod(0o755)


def main() -> int:
    try:
        found = chromium()
    except NoBrowser:
        print("tools.browser: installing Chromium", flush=True)
        try:
            install()
            found = chromium()
        except (NoBrowser, subprocess.CalledProcessError) as error:
            print(f"tools.browser: {error}", file=sys.stderr)
            return 1
    if not runs(found):
        print(f"tools.browser: {found} does not run here ({HINT})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
