"""What stands in for compiled modules in a browser, where there are none. Call `install` before any other module of
ours is imported.

Runs in the playground have rows in memory and one process, so the embedded store is imported and never opened, and
campaigns start no workers: LMDB, xxHash and `_multiprocessing` need no more than names.
"""

import sys
from types import ModuleType

from epoxy_sim.playground import msgspec_standin

NEVER_CALLED = ("lmdb", "xxhash", "_multiprocessing")


class AbsentModule(ModuleType):
    """Has any name, as an exception: it may stand in an annotation or in an `except`, and cannot be used."""

    def __getattr__(self, name: str) -> type[Exception]:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_: object, **__: object) -> None:
            raise NotImplementedError(f"{self.__name__}.{name} is not part of the playground")

        return type(name, (Exception,), {"__init__": refuse})


def install() -> None:
    msgspec_standin.install()
    for name in NEVER_CALLED:
        sys.modules[name] = AbsentModule(name)
