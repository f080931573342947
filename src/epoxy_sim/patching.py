"""Planting a fault: one rule of the production code is replaced during a run.

The production code knows nothing of this. A rule is a function, or a method of a class. A function is replaced in every
module of ours that holds it under some name.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import TypeVar

from msgspec import Struct

from epoxy import __compiled__

Rule = Callable[..., object]

BROKEN_RULES = ("mutations", "as_described")
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
_replaced: dict[Rule, Patch] = {}


def replaces(owner: ModuleType | type, name: str) -> Callable[[B], B]:
    """Says of a broken rule which rule it stands in for."""

    def note(broken: B) -> B:
        is_property = isinstance(getattr(owner, name), property)
        _replaced[broken] = Patch(owner, name, property(broken) if is_property else broken)
        return broken

    return note


def patches_of(*planted: Patch | Rule) -> tuple[Patch, ...]:
    """Patches, and broken rules that know what they replace."""
    return tuple(each if isinstance(each, Patch) else _replaced[each] for each in planted)


def mutant(name: str, breaks: str, *planted: Patch | Rule, since: int = 0) -> Mutant:
    return Mutant(name=name, breaks=breaks, patches=patches_of(*planted), since=since)


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
