"""Planting a fault: one rule of the production code is replaced during a run.

The production code knows nothing of this. A rule is a function, or a method of a class. A function is replaced in every
module of ours that holds it under some name.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from epoxy import __compiled__

Rule = Callable[..., object]

BROKEN_RULES = ("mutants", "as_described")
"""How the names of modules with broken rules end. Such a module keeps the right rules under names of its own, to call
them: nothing is replaced in it."""


class Patch(Struct, frozen=True):
    """`owner` is the module or class the rule lives in."""

    owner: ModuleType | type
    name: str
    broken: Rule | property


class Mutant(Struct, frozen=True, kw_only=True):
    """A fault with a name. `since`: lower seeds are known not to show it, so that the search for one begins here."""

    name: str
    breaks: str
    patches: tuple[Patch, ...]
    since: int = 0


B = TypeVar("B", bound=Rule)
M = TypeVar("M", bound=Mutant)


class Mutants(dict[str, M]):
    """The planted faults of a protocol, by name."""

    def __init__(self, kind: type[M], known: Mapping[str, M] | None = None) -> None:
        super().__init__(known or {})
        self._kind = kind

    def mutant(
        self, owner: ModuleType | type, rule: str, name: str, breaks: str, *also: Patch, **fields: Any
    ) -> Callable[[B], B]:
        """Says of a broken rule which rule it stands in for, and how that fault is called. `also`: what else must be
        replaced for the fault to show."""

        def note(broken: B) -> B:
            assert name not in self, f"two faults are called {name}"
            patches = (patch_of(owner, rule, broken), *also)
            self[name] = self._kind(name=name, breaks=breaks, patches=patches, **fields)
            return broken

        return note

    def also(self, name: str, owner: ModuleType | type, rule: str) -> Callable[[B], B]:
        """A second broken rule of the same fault."""

        def note(broken: B) -> B:
            self[name] = replace(self[name], patches=(*self[name].patches, patch_of(owner, rule, broken)))
            return broken

        return note


def patch_of(owner: ModuleType | type, name: str, broken: Rule) -> Patch:
    return Patch(owner, name, property(broken) if isinstance(getattr(owner, name), property) else broken)


def constant(value: object) -> Rule:
    """A broken rule that gives the same answer to everything."""
    return lambda *_, **__: value


nothing, never, always = constant(None), constant(False), constant(True)


def planted(mutants: Mapping[str, Mutant], name: str | None) -> AbstractContextManager[None]:
    """Breaks the rule until the context ends. None: breaks nothing."""
    return applied(mutants[name].patches if name is not None else ())


@contextmanager
def applied(patches: tuple[Patch, ...]) -> Iterator[None]:
    assert not (patches and __compiled__), "compiled code does not look its functions up by name"
    undo: list[tuple[object, str, object]] = []
    try:
        for patch in patches:
            rule = getattr(patch.owner, patch.name)
            for holder, name in holders(patch, rule):
                undo.append((holder, name, rule))
                setattr(holder, name, patch.broken)
        yield
    finally:
        for holder, name, rule in reversed(undo):
            setattr(holder, name, rule)


def holders(patch: Patch, rule: object) -> list[tuple[object, str]]:
    """Where the rule is found: its owner, and the modules that imported it by name."""
    if not isinstance(patch.owner, ModuleType):
        return [(patch.owner, patch.name)]
    ours = [
        module
        for name, module in sys.modules.items()
        if name.startswith(("epoxy.", "epoxy_sim.")) and not name.endswith(BROKEN_RULES)
    ]
    return [(module, name) for module in ours for name, value in list(vars(module).items()) if value is rule]
