"""`python -m tools.packages`: builds what is published into dist/, judges it, and installs it as users would."""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tools.packages import trial
from tools.packages.building import ROOT, BuildFailed, build_sdist, build_wheel, time_of_last_commit
from tools.packages.contents import faults_of_sdist, faults_of_wheel
from tools.packages.trial import TrialFailed


def parsed(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.packages", description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the files go [dist]")
    parser.add_argument("--pure", action="store_true", help="no compiled wheel: half a minute instead of many")
    parser.add_argument("--twice", action="store_true", help="build all a second time, elsewhere, and compare")
    parser.add_argument("--no-trial", action="store_true", help="do not install what was built")
    return parser.parse_args(words)


def build(dist: Path, *, pure: bool) -> list[Path]:
    """The sdist, the interpreted wheel and the compiled one, in this order."""
    dist.mkdir(parents=True, exist_ok=True)
    for old in dist.glob("epoxydb-*"):
        old.unlink()
    epoch = time_of_last_commit()
    sdist = build_sdist(dist, epoch)
    wheels = [build_wheel(sdist, dist, epoch, compiled=compiled) for compiled in ([False] if pure else [False, True])]
    return [sdist, *wheels]


def digests(files: list[Path]) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def judge(files: list[Path]) -> list[str]:
    sdist, *wheels = files
    faults = [f"{sdist.name} {fault}" for fault in faults_of_sdist(sdist)]
    faults += [f"{wheel.name} {fault}" for wheel in wheels for fault in faults_of_wheel(wheel)]
    judges: tuple[tuple[str, list[str], list[Path]], ...] = (
        ("twine", ["check", "--strict"], files),
        ("check_wheel_contents", [], wheels),
    )
    for module, words, judged in judges:
        command: list[str | Path] = [sys.executable, "-m", module, *words, *judged]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if told.returncode:
            faults.append(f"{module}: {told.stdout}{told.stderr}")
    return faults


Trial = tuple[str, Callable[[Path, Path], None], Path]


def trials(files: list[Path]) -> list[Trial]:
    sdist, interpreted, *compiled = files
    found: list[Trial] = [
        ("a wheel, interpreted, and the client alone; no compiler", trial.try_interpreted_wheel, interpreted),
        ("the sdist, without a compiler", trial.try_sdist_without_compiler, sdist),
    ]
    for wheel in compiled:
        found.append(("a wheel, compiled", trial.try_compiled_wheel, wheel))
        found.append(("the sdist, with a compiler", trial.try_sdist_with_compiler, sdist))
    return found


def main(words: list[str] | None = None) -> int:
    given = parsed(words)
    try:
        files = build(given.dist, pure=given.pure)
        for name, digest in digests(files).items():
            print(f"{digest}  {name}", flush=True)
        if faults := judge(files):
            print("\n".join(faults), file=sys.stderr)
            return 1
        print("judged: contents, twine check, check-wheel-contents", flush=True)
        if given.twice:
            with tempfile.TemporaryDirectory() as elsewhere:
                again = digests(build(Path(elsewhere), pure=given.pure))
            if again != digests(files):
                print(f"built again, the files differ: {again}", file=sys.stderr)
                return 1
            print("built again: the same bytes", flush=True)
        if not given.no_trial:
            for what, install, file in trials(files):
                begun = time.monotonic()
                with tempfile.TemporaryDirectory() as scratch:
                    install(file, Path(scratch) / "venv")
                print(f"installed and tried in {time.monotonic() - begun:.0f} s: {what}", flush=True)
    except (BuildFailed, TrialFailed) as failed:
        print(f"tools.packages: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
