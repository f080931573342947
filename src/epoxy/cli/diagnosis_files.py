"""Findings about the files of a node on this machine."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from epoxy.cli.diagnosis_disks import LEAST_FREE_BYTES, LOW_FREE_BYTES, in_mib
from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Finding, broken, warning


class NodeFiles(Struct, frozen=True, kw_only=True):
    """`url`: of the node, by its file. `readable`: by its setting, files that others can read and should not. `wrong`:
    what cannot be used, in words. `weak`: what is wrong with the secret. `flaw`: with the certificate. `free`: bytes
    on the disk of the data directory; None: it is not there yet, or rows are in a database."""

    path: Path
    url: str
    readable: dict[str, Path] = {}
    wrong: tuple[str, ...] = ()
    weak: str = ""
    secret_file: Path = Path()
    flaw: str = ""
    data_dir: Path = Path()
    free: int | None = None


def files_findings(files: NodeFiles | None) -> Iterator[Finding]:
    if files is None:
        return
    for words in files.wrong:
        yield broken(FindingKind.FILE_WRONG, words, f"{files.path} names it.")
    for setting, file in files.readable.items():
        yield warning(
            FindingKind.SECRET_READABLE,
            f"other users of this machine can read {setting} {file}",
            "If others may have read it, replace it.",
            f"chmod 600 {shlex.quote(str(file))}",
        )
    if files.weak:
        yield broken(
            FindingKind.SECRET_DEFAULT,
            f"the secret in {files.secret_file} can be guessed: {files.weak}",
            "Make one, and replace it at all nodes without a stop (`epoxy secret --help` has the steps).",
            "epoxy secret new new-secret",
            f"epoxy secret add {shlex.quote(str(files.secret_file))} new-secret",
            f"epoxy secret switch {shlex.quote(str(files.secret_file))}",
            f"epoxy secret drop {shlex.quote(str(files.secret_file))}",
        )
    if files.flaw:
        yield broken(
            FindingKind.CERTIFICATE_FLAW,
            f"peers refuse the certificate that {files.path} names: {files.flaw}",
            "Issue one for the host in node.advertise_url, signed by the authority in tls.ca.",
        )
    if files.free is not None and files.free < LOW_FREE_BYTES:
        finding = broken if files.free < LEAST_FREE_BYTES else warning
        words = f"the disk of {files.data_dir} has {in_mib(files.free)} left"
        yield finding(FindingKind.DISK_SPACE, words, "Make room, or move the directory while the node is stopped.")
