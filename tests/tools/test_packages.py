"""What `make packages` builds and how it judges it, as far as no compiler is needed. Every judge is shown a planted
fault."""

import gzip
import io
import shutil
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.packages.__main__ import build, digests, judge, parsed, trials
from tools.packages.building import BuildFailed, ask_backend, build_sdist, normalised, time_of_last_commit
from tools.packages.contents import NATIVE, faults_of_sdist, faults_of_wheel
from tools.packages.trial import CONFIG, Environment, TrialFailed

STUB = f"{NATIVE}.pyi"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build(tmp_path_factory.mktemp("dist"), pure=True)


def test_what_is_built_passes_its_judges(made: list[Path]) -> None:
    assert [file.name.partition("-")[0] for file in made] == ["epoxydb", "epoxydb"]
    assert judge(made) == []


def test_the_same_sources_make_the_same_sdist(made: list[Path], tmp_path: Path) -> None:
    again = build_sdist(tmp_path, time_of_last_commit())
    assert digests([again]).items() <= digests(made).items()


def archive(path: Path, members: list[tuple[str, int]]) -> Path:
    with tarfile.open(path, "w:gz") as packed:
        for name, moment in members:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uid, member.uname = len(name), moment, moment, "ada"
            packed.addfile(member, io.BytesIO(name.encode()))
    return path


def test_order_times_and_owners_leave_no_trace(tmp_path: Path) -> None:
    one = archive(tmp_path / "one.tar.gz", [("p/a", 1), ("p/b", 2)])
    other = archive(tmp_path / "other.tar.gz", [("p/b", 3), ("p/a", 4)])
    assert gzip.decompress(one.read_bytes()) != gzip.decompress(other.read_bytes())
    assert normalised(one, 7) == normalised(other, 7) != normalised(one, 8)
    with tarfile.open(fileobj=io.BytesIO(normalised(one, 7))) as packed:
        assert [(each.name, each.mtime, each.uid, each.mode) for each in packed] == [
            ("p/a", 7, 0, 0o644),
            ("p/b", 7, 0, 0o644),
        ]


def changed_wheel(wheel: Path, folder: Path, *, without: str = "", added: str = "") -> Path:
    copy = folder / wheel.name
    with ZipFile(wheel) as taken, ZipFile(copy, "w") as put:
        for name in taken.namelist():
            if name != without:
                put.writestr(name, taken.read(name))
        if added:
            put.writestr(added, "")
    return copy


@pytest.mark.parametrize(
    "name", ["epoxy/py.typed", "epoxy/api/console/static/index.html", "epoxy/scripting/api.lua", STUB]
)
def test_a_wheel_that_lacks_something_is_seen(name: str, made: list[Path], tmp_path: Path) -> None:
    assert faults_of_wheel(changed_wheel(made[1], tmp_path, without=name)) == [f"lacks {name}"]


@pytest.mark.parametrize("name", ["tests/test_a.py", "deploy/Dockerfile", "epoxy/__native.c", f"{NATIVE}.c"])
def test_a_wheel_that_has_too_much_is_seen(name: str, made: list[Path], tmp_path: Path) -> None:
    assert faults_of_wheel(changed_wheel(made[1], tmp_path, added=name)) == [f"has {name}"]


def test_a_wheel_whose_name_says_otherwise_is_seen(made: list[Path], tmp_path: Path) -> None:
    (fault,) = faults_of_wheel(changed_wheel(made[1], tmp_path, added="epoxy/codec/bare.so"))
    assert fault.startswith("1 compiled modules in epoxydb-")


def test_a_compiled_wheel_without_what_is_written_in_c_is_seen(made: list[Path], tmp_path: Path) -> None:
    compiled = Path(shutil.copy(made[1], tmp_path / "epoxydb-1-cp311-cp311-manylinux_2_17_x86_64.whl"))
    (tmp_path / "changed").mkdir()
    for added, faults in (("epoxy/a.so", [f"lacks what is made of {NATIVE}.c"]), (f"{NATIVE}.cpython-311.so", [])):
        assert faults_of_wheel(changed_wheel(compiled, tmp_path / "changed", added=added)) == faults


def test_an_sdist_that_lacks_something_and_has_tests_is_seen(tmp_path: Path) -> None:
    faults = faults_of_sdist(
        archive(tmp_path / "a.tar.gz", [("epoxydb-1/pyproject.toml", 0), ("epoxydb-1/tests/a", 0)])
    )
    assert {"lacks setup.py", f"lacks src/{NATIVE}.c"} <= set(faults)
    assert "lacks requirements/server.in" in faults
    assert faults[-1] == "has tests/a"
    assert "lacks pyproject.toml" not in faults


def test_metadata_that_an_index_refuses_is_seen(made: list[Path], tmp_path: Path) -> None:
    """twine's own judgement reaches ours: METADATA without a version of its format."""
    with ZipFile(made[1]) as taken:
        (name,) = (each for each in taken.namelist() if each.endswith("METADATA"))
    broken = changed_wheel(made[1], tmp_path, without=name, added=name)
    assert any("twine" in fault for fault in judge([made[0], broken]))


def test_a_build_that_fails_says_which_and_why(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("raise SystemExit('a reason')")
    with pytest.raises(BuildFailed, match=r"build_wheel ended with 1:\n[^$]*a reason"):
        ask_backend(tmp_path, "build_wheel", 0)


def test_every_file_is_tried_with_and_without_a_compiler() -> None:
    sdist, pure, compiled = Path("s"), Path("p"), Path("c")
    assert [(what, file) for what, _, file in trials([sdist, pure])] == [
        ("a wheel, interpreted, and the client alone; no compiler", pure),
        ("the sdist, without a compiler", sdist),
    ]
    assert [(what, file) for what, _, file in trials([sdist, pure, compiled])][2:] == [
        ("a wheel, compiled", compiled),
        ("the sdist, with a compiler", sdist),
    ]
    assert parsed(["--pure"]).pure


def test_a_trial_sees_another_status_and_other_words(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", compiler=False)
    environment.bin.mkdir(parents=True)
    assert environment.environ["PATH"] == str(tmp_path / "venv" / "bin")
    command = environment.bin / "epoxy"
    command.write_text("#!/bin/sh\necho interpreted\nexit 3\n")
    command.chmod(0o755)
    environment.expect("--version", status=3, says="interpreted")
    with pytest.raises(TrialFailed, match="expected 0"):
        environment.expect("--version", says="interpreted")
    with pytest.raises(TrialFailed, match="compiled"):
        environment.expect("--version", status=3, says="^compiled")
    assert "127.0.0.1:7800" in CONFIG.format(port=7800)
