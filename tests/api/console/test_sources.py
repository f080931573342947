"""The archive of sources: the files of this installation, unchanged."""

import hashlib
import importlib.util
import io
import zipfile
from pathlib import Path

import pytest

from epoxy.api.console import sources


def digests_of(archive: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: hashlib.sha256(opened.read(name)).hexdigest() for name in opened.namelist()}


def changed(digests: dict[str, str]) -> list[str]:
    """Files that are not as they are installed."""

    def installed(name: str) -> Path:
        package, _, rest = name.partition("/")
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        return Path(found.origin).parent / rest

    return [
        name for name, digest in digests.items() if hashlib.sha256(installed(name).read_bytes()).hexdigest() != digest
    ]


def test_every_file_is_the_installed_one() -> None:
    digests = digests_of(sources.archive())
    assert len(digests) > 200
    assert {"epoxy/protocol/keys/acceptor.py", "epoxy/node/keys/driver.py", "epoxy_sim/keys/judge.py"} <= digests.keys()
    assert changed(digests) == []


def test_a_file_that_differs_is_noticed() -> None:
    digests = digests_of(sources.archive())
    digests["epoxy/ports.py"] = digests["epoxy/__init__.py"]
    assert changed(digests) == ["epoxy/ports.py"]


def test_the_same_sources_are_the_same_archive() -> None:
    assert sources.archive() == sources.archive()


def test_no_file_of_a_nodes_own_is_in_it() -> None:
    names = digests_of(sources.archive())
    assert all(name.endswith(".py") for name in names)
    assert not [
        name for name in names if name.startswith(("epoxy/api", "epoxy/server", "epoxy/cli", "epoxy/node/process"))
    ]


def test_a_package_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PATTERNS", {"epoxy_none": ("*.py",)})
    with pytest.raises(sources.NoArchive, match="without the sources of epoxy_none"):
        sources.archive()


def test_the_archive_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_ARCHIVE_BYTES", 1000)
    with pytest.raises(sources.NoArchive, match="outgrown"):
        sources.archive()
