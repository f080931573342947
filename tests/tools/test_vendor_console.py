"""Third-party files of the console are what their list says, and nothing else."""

from pathlib import Path

import msgspec
import pytest

from tools.vendor_console import LIST, PACKAGES, VENDOR, VendoredFile, digest, rewritten

LISTED = msgspec.json.decode((VENDOR / LIST).read_bytes(), type=list[VendoredFile])


def changed(folder: Path, listed: list[VendoredFile]) -> set[str]:
    """Files that are not as listed, or not listed."""
    there = {
        path.relative_to(folder).as_posix(): digest(path.read_bytes()) for path in folder.rglob("*") if path.is_file()
    }
    ours = {LIST, "licences.txt"}
    return {name for name, _ in set(there.items()) ^ {(each.file, each.sha256) for each in listed}} - ours


def test_every_file_is_as_listed() -> None:
    assert changed(VENDOR, LISTED) == set()


def test_a_changed_file_and_one_too_many_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_bytes(b"1")
    listed = [VendoredFile(package="a", version="1", file="a.js", sha256=digest(b"1"))]
    assert changed(tmp_path, listed) == set()
    (tmp_path / "a.js").write_bytes(b"2")
    (tmp_path / "b.js").write_bytes(b"")
    assert changed(tmp_path, listed) == {"a.js", "b.js"}


def test_the_list_is_of_the_versions_that_the_tool_copies() -> None:
    wanted = {(package.name, package.version, file) for package in PACKAGES for file in package.files.values()}
    assert {(each.package, each.version, each.file) for each in LISTED} == wanted


def test_every_licence_is_shipped() -> None:
    text = (VENDOR / "licences.txt").read_text("utf-8")
    assert all(f"== {package.name} {package.version}\n" in text for package in PACKAGES)


def test_bare_imports_become_addresses_and_maps_are_not_asked_for() -> None:
    text = b'import{h}from"preact";x();\n//# sourceMappingURL=x.js.map\n'
    assert rewritten(text, ".js", {"preact": "./preact.js"}) == b'import{h}from"./preact.js";x();\n'
    assert rewritten(text, ".json", {}) == text
    with pytest.raises(AssertionError, match="nothing imports other"):
        rewritten(text, ".js", {"other": "./other.js"})
