"""The console's files: which are served, and how."""

import gzip
from pathlib import Path

import pytest

from epoxy.api.console.assets import STATIC, Assets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pages").mkdir()
    (tmp_path / "index.html").write_text("<p>" + 200 * "hello ")
    (tmp_path / "pages" / "a.js").write_text("export {};")
    (tmp_path / "notes.md").write_text("not for browsers")
    (tmp_path / "big.wasm.gz").write_bytes(gzip.compress(b"\0asm"))
    return tmp_path


def test_only_listed_files_of_known_types_are_served(folder: Path) -> None:
    assets = Assets(folder)
    assert sorted(assets.names) == ["big.wasm", "index.html", "pages/a.js"]
    for other in ("notes.md", "../secret.js", "pages", "", "pages/../index.html", "/etc/passwd", "big.wasm.gz"):
        assert assets.get(other) is None


def test_a_file_is_packed_where_that_is_shorter_and_read_once(folder: Path) -> None:
    assets = Assets(folder)
    page, script, big = (assets.get(name) for name in ("index.html", "pages/a.js", "big.wasm"))
    assert page is not None
    assert script is not None
    assert big is not None
    assert gzip.decompress(page.packed) == page.plain
    assert len(page.packed) < len(page.plain)
    assert (script.packed, script.plain) == (b"", b"export {};")
    assert (gzip.decompress(big.packed), big.plain, big.content_type) == (b"\0asm", b"", b"application/wasm")
    (folder / "index.html").unlink()
    assert assets.get("index.html") is page


def test_other_content_has_another_tag(folder: Path) -> None:
    before = Assets(folder).get("index.html")
    (folder / "index.html").write_text("<p>other")
    after = Assets(folder).get("index.html")
    assert before is not None
    assert after is not None
    assert before.etag != after.etag


def test_every_shipped_file_is_of_a_type_that_is_served() -> None:
    shipped = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    assert {name.removesuffix(".gz") for name in shipped} == set(Assets().names)
