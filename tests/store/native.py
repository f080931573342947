"""`log_writer.c`, built for a test: what runs from its sources has none. Planted faults are changes of its text, and
`fake_pwrite.c` is a disk that does as it is told."""

import ctypes
import os
import select
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from epoxy.store.embedded import files
from epoxy.store.embedded.files import FrameWriter

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/epoxy/store/embedded/log_writer.c"
FAKE = Path(__file__).parent / "embedded" / "fake_pwrite.c"
CALL, DECLARED = "pwrite(file, ", "long fake_pwrite(int, const void *, unsigned long, long);\n"
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-missing-field-initializers")


NEVER_MS = 30_000
ALL = 1 << 40
"""More than any frame has."""


def built(folder: Path, *options: str, planted: tuple[str, str] | None = None, fake: bool = False) -> ModuleType:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("log_writer.c needs a C compiler (cc or gcc), and there is none here")
    text = SOURCE.read_text("utf-8")
    if planted is not None:
        assert text.count(planted[0]) == 1, planted
        text = text.replace(*planted)
    if fake:
        assert text.count(CALL) == 1
        text = DECLARED + text.replace(CALL, f"fake_{CALL}")
    source, library = folder / "log_writer.c", folder / "log_writer.so"
    source.write_text(text)
    words = [*WARNINGS, *options, "-I", sysconfig.get_path("include")]
    sources = [source, FAKE] if fake else [source]
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-g", *words, "-o", library, *sources, "-lpthread"], check=True
    )
    spec = spec_from_file_location("log_writer", library)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def install(folder: Path) -> None:
    """For the rest of this process, as a compiled wheel has it."""
    setattr(files, "LogWriter", built(folder).LogWriter)  # noqa: B010 (a name that it imports)


class GatedDisk:
    """A file, a writer of it, and the disk below, which goes on when it is told to."""

    def __init__(self, module: ModuleType, path: Path) -> None:
        self.path = path
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DSYNC)
        gate, self._told = os.pipe()
        self._ends = (gate, self._told, self.file)
        self._gate = ctypes.c_int.in_dll(ctypes.CDLL(module.__file__), "gate")
        self._gate.value = gate
        self.writer: FrameWriter = module.LogWriter()

    def tell(self, *calls: int) -> None:
        """What the next calls do: write at most so much, or fail with this error, if it is negative."""
        for call in calls:
            os.write(self._told, ctypes.c_long(call))

    def write(self, frame: bytes, offset: int = 0) -> None:
        self.writer.write(self.file, frame, offset)

    def ended(self) -> int:
        """Wait for the write under way; its error."""
        ended = taken(self.writer, NEVER_MS)
        assert ended is not None
        return ended[0]

    def close(self) -> None:
        self.writer.close()
        self._gate.value = -1
        for end in self._ends:
            os.close(end)


def taken(writer: FrameWriter, wait_ms: int) -> tuple[int, float, float] | None:
    poll = select.poll()
    poll.register(writer.fileno(), select.POLLIN)
    return writer.take() if poll.poll(wait_ms) else None
