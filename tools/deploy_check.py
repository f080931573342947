"""What judges the files of deploy/ and cannot be fetched with pip: systemd for the unit, kubectl for the manifests.

`python -m tools.deploy_check`; `make test` has the judges that pip has.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
UNIT = DEPLOY / "systemd" / "epoxy@.service"
RENDERED = ("regions/us-east-1", "regions/eu-west-1", "regions/ap-northeast-1", "zones")

MOST_EXPOSED = 20
"""Tenths, as `systemd-analyze security` counts from 0 to 10.0. It was 1.2 when this was written, of which 0.9 is
listening on a network at all."""

HINTS = {
    "systemd-analyze": "Debian and Ubuntu: apt install systemd",
    "kubectl": "from the packages of Kubernetes; it comes with kustomize",
}


class Fault(Exception):
    """What a judge said, or which judge is missing."""


def told(*words: str | Path) -> str:
    name = str(words[0])
    if shutil.which(name) is None:
        raise Fault(f"no {name} here: {HINTS[name]}")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Fault(f"{' '.join(map(str, words))}: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def check_unit(unit: Path = UNIT) -> None:
    """With a program that is there in the place of the one that is not installed here."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / unit.name
        copy.write_text(unit.read_text("utf-8").replace("/usr/local/lib/epoxy/bin/epoxy", sys.executable), "utf-8")
        instance = copy.with_name(copy.name.replace("@", "@us-east-1"))
        told("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", instance)
        told("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", copy)


def check_manifests(folder: Path = DEPLOY / "kubernetes") -> int:
    """How many there are when all are rendered."""
    count = 0
    for name in RENDERED:
        for document in yaml.safe_load_all(told("kubectl", "kustomize", folder / name)):
            try:
                kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
            except kubernetes_validate.ValidationError as error:
                raise Fault(f"{name}: {document['kind']} {document['metadata']['name']}: {error.message}") from None
            count += 1
    return count


def main() -> int:
    faults = []
    for what, check in (("unit of systemd", check_unit), ("manifests as kubectl renders them", check_manifests)):
        try:
            check()
            print(f"in order: {what}")
        except Fault as fault:
            faults.append(f"{what}: {fault}")
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
