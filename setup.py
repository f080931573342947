"""Builds wheels whose modules listed in pyproject.toml under [tool.epoxy] are compiled. All else is in pyproject.toml.

Decision 0015 has the reasons. An editable install stays as it is written, so that tests and planted faults reach every
function. Compiling may be declined, with EPOXY_PURE=1, but it never falls away by itself: a node that is half as fast
as the one that was measured should be a choice.
"""

import os
import shlex
import shutil
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

INSTEAD = "set EPOXY_PURE=1 to build the interpreted package, which does the same with about twice the CPU time"


def extensions() -> list[Extension]:
    if "bdist_wheel" not in sys.argv or os.environ.get("EPOXY_PURE") == "1":
        return []
    # Setuptools knows where to look for the one on Windows; elsewhere a build that cannot end should not begin.
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "")
    if compiler and shutil.which(compiler[0]) is None:
        sys.exit(f"epoxy: no C compiler ({compiler[0]}): install one, or {INSTEAD}")
    return [*compiled(), *native()]


def native() -> list[Extension]:
    """What is written in C: for Linux, whose eventfd it uses. The interpreted store is the same without it."""
    if sys.platform != "linux":
        return []
    return [Extension("epoxy.store.embedded.log_writer", ["src/epoxy/store/embedded/log_writer.c"])]


def compiled() -> list[Extension]:
    try:
        from mypyc.build import mypycify
    except ImportError as missing:
        sys.exit(f"epoxy: no mypyc to compile with ({missing}): install mypy, or {INSTEAD}")
    settings = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))
    modules = [f"src/{name.replace('.', '/')}.py" for name in settings["tool"]["epoxy"]["compiled"]]
    # A cache apart: mypyc's options are not those of `make lint`, and each would throw the other's away.
    # Errors in what they import are for `make lint`, which has every package whose types those modules use.
    options = ["--cache-dir", "build/mypy", "--warn-unreachable", "--follow-imports=silent"]
    made = mypycify([*options, *modules], group_name="epoxy", multi_file=True)
    for extension in made:
        # What a newer compiler thinks of generated code is no reason to refuse it.
        extension.extra_compile_args = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
        if sys.platform != "win32":
            # Calls from one file to another stay inside the library: they need no look-up of symbols.
            extension.extra_compile_args.append("-fvisibility=hidden")
    return made


class ParallelBuild(build_ext):
    """Compiles the files of an extension side by side. mypyc makes one of each module, a hundred in one library, and
    setuptools runs extensions side by side, but not the files of one."""

    def build_extension(self, ext: Extension) -> None:
        compile_all = self.compiler.compile

        def compile_each(sources: list[str], **options: object) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return [made for each in pool.map(lambda one: compile_all([one], **options), sources) for made in each]

        self.compiler.compile = compile_each
        try:
            super().build_extension(ext)
        finally:
            self.compiler.compile = compile_all


setup(ext_modules=extensions(), cmdclass={"build_ext": ParallelBuild})
