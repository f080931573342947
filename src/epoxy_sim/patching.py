"""Planting a fault: one rule of the production code is replaced while a run lasts.

The production code knows nothing of this. A rule is a function, or a method of a class; wherever one of our modules
holds that very function under some name, it now holds the broken one.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType

from msgspec import Struct

from epoxy import __compiled__

Rule = Callable[..., object]

PLANTERS = (
    "epoxy_sim.keys.mutations",
    "epoxy_sim.members.mutations",
    "epoxy_sim.keys.as_described",
    "epoxy_sim.elect.mutations",
    "epoxy_sim.placement.mutations",
    "epoxy_sim.txn.mutations",
    "epoxy_sim.txn.term_mutations",
)
"""Broken rules may call the right ones, which they hold under names of their own."""


class Patch(Struct, frozen=True):
    """`owner` is the module or class the rule lives in."""

    owner: ModuleType | type
    name: str
    broken: Rule | property


class Mutant(Struct, frozen=True, kw_only=True):
    """A fault under its name. `since`: seeds below it are known to let it pass, and a hunt begins here to save time."""

    name: str
    breaks: str
    patches: tuple[Patch, ...]
    since: int = 0


def mutant(name: str, breaks: str, *patches: Patch, since: int = 0) -> Mutant:
    return Mutant(name=name, breaks=breaks, patches=patches, since=since)


def planted(mutants: Mapping[str, Mutant], name: str | None) -> AbstractContextManager[None]:
    """While this lasts, the rule is broken. None: nothing is."""
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
    """Everywhere the rule is known: its owner, and the modules that imported it by name."""
    if not isinstance(patch.owner, ModuleType):
        return [(patch.owner, patch.name)]
    ours = [
        module
        for name, module in sys.modules.items()
        if name.startswith(("epoxy.", "epoxy_sim.")) and name not in PLANTERS
    ]
    return [(module, name) for module in ours for name, value in list(vars(module).items()) if value is rule]
