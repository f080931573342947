"""`epoxy serve --check`: whether a node would start with these settings, without touching what it runs with.

For a file that is about to be deployed, while the node that it is for still runs with the one before: no port is
opened, the data directory is not locked, and nothing is written.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from epoxy.model.errors import StoreRefused
from epoxy.node.process.config import Settings
from epoxy.node.process.secret_files import is_open_to_others
from epoxy.server.certificates import Certificates
from epoxy.server.node_process import check
from epoxy.store.embedded.datadir import (
    FORMAT,
    Description,
    check_description,
    empty_words,
    make_folder,
    read_description,
)
from epoxy.store.embedded.files import FORMAT_FILE, SYSTEM_FILES
from epoxy.store.embedded.space import not_opened


class ValidatedSettings(Struct, frozen=True, kw_only=True):
    """`format`: of the data directory; None: there is none yet, or the rows are in a database. `warnings`: what the
    node would start with all the same."""

    replica: int
    datacenter: str
    data_dir: str
    format: int | None
    warnings: list[str]


def validate(settings: Settings) -> ValidatedSettings:
    """ConfigError or StoreRefused: it would not start. What only a start can find out is not looked at: whether
    addresses are free, what the log and the tree hold, and what the other members say."""
    check(settings)
    certificates = Certificates(settings)
    found = describe(settings) if settings.store.driver == "embedded" else None
    node = settings.node
    return ValidatedSettings(
        replica=node.id,
        datacenter=node.datacenter,
        data_dir=str(node.data_dir),
        format=found.format if found is not None else None,
        warnings=list(warnings(settings, certificates.flaw(), found)),
    )


def describe(settings: Settings) -> Description | None:
    node, path, cluster = settings.node, settings.node.data_dir, settings.cluster
    try:
        found = read(path)
    except OSError as error:
        raise not_opened(error, f"data directory {path}", path) from error
    if found is not None:
        check_description(path, found, Description(format=FORMAT, replica=node.id, cluster=cluster.id))
    elif cluster.id and not cluster.join:
        raise StoreRefused(empty_words(path, cluster.id))
    return found


def read(path: Path) -> Description | None:
    if not SYSTEM_FILES.exists(path):
        return None
    make_folder(path, SYSTEM_FILES)  # it is there: what else it holds is looked at
    file = path / FORMAT_FILE
    return read_description(file, SYSTEM_FILES) if SYSTEM_FILES.exists(file) else None


def warnings(settings: Settings, flaw: str | None, found: Description | None) -> Iterator[str]:
    if flaw is not None:
        yield f"peers would refuse the certificate in {settings.tls.cert if settings.tls else ''}: {flaw}"
    if is_open_to_others(settings.cluster.secret_file):
        yield f"others can read the secret: chmod 600 {settings.cluster.secret_file}"
    if settings.store.driver != "embedded":
        return
    if found is None:
        yield (
            f"{settings.node.data_dir} is empty: right for a new node. A member that had a disk must not start "
            "without it"
        )
    elif found.format < FORMAT:
        yield (
            f"{settings.node.data_dir} is of format {found.format}, and is migrated to {FORMAT} at the start: "
            "`epoxy store migrate --dry-run` says how long that takes"
        )
