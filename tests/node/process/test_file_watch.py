"""Files that change under a process."""

from pathlib import Path

from epoxy.node.process.file_watch import FileWatch


def test_a_change_is_told_once_when_it_is_over(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a")
    watch = FileWatch((one, other))
    assert not watch.has_changed()
    one.write_text("ab")
    assert not watch.has_changed(), "it may still be written"
    one.write_text("abc")
    assert not watch.has_changed(), "it was"
    assert watch.has_changed()
    assert not watch.has_changed()
    other.write_text("new")
    assert [watch.has_changed() for _ in range(3)] == [False, True, False]
    one.unlink()
    assert [watch.has_changed() for _ in range(3)] == [False, True, False]


def test_a_file_that_takes_its_place_is_another(tmp_path: Path) -> None:
    """As tools that renew certificates do it, and mounts of secrets, which exchange a link."""
    link, versions = tmp_path / "link", [tmp_path / "1", tmp_path / "2"]
    for version in versions:
        version.write_text("same")
    link.symlink_to(versions[0])
    watch = FileWatch((link,))
    fresh = tmp_path / "fresh"
    fresh.symlink_to(versions[1])
    fresh.rename(link)
    assert [watch.has_changed() for _ in range(3)] == [False, True, False]


def test_a_change_that_is_taken_back_is_none(tmp_path: Path) -> None:
    path, aside = tmp_path / "file", tmp_path / "aside"
    path.write_text("a")
    watch = FileWatch((path,))
    path.rename(aside)
    assert not watch.has_changed()
    path.hardlink_to(aside)
    aside.unlink()
    watch.has_changed()
    assert path.read_text() == "a"
