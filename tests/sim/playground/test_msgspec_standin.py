"""The stand-in for msgspec's records against msgspec itself, over the record classes that the playground loads."""

import enum
import importlib
import sys
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import epoxy_sim.playground.commands
from epoxy_sim.playground import msgspec_standin, standins

REPLACED = ("epoxy", "epoxy_sim", "msgspec", *standins.NEVER_CALLED)

FEWEST_CLASSES = 100
"""Of records with fields that a test can draw; most of the rest hold functions."""


def is_replaced(name: str) -> bool:
    return name.partition(".")[0] in REPLACED


@contextmanager
def with_standins() -> Iterator[None]:
    """What is imported inside gets the stand-ins, and is forgotten afterwards."""
    before = {name: module for name, module in sys.modules.items() if is_replaced(name)}
    for name in before:
        del sys.modules[name]
    standins.install()
    try:
        yield
    finally:
        for name in [name for name in sys.modules if is_replaced(name)]:
            del sys.modules[name]
        sys.modules.update(before)


with with_standins():
    importlib.import_module("epoxy_sim.playground.commands")
    ROOMS = {name: module for name, module in sys.modules.items() if is_replaced(name)}


def record_classes() -> dict[str, Any]:
    """Of the modules that the playground needs, by their full names."""
    assert epoxy_sim.playground.commands.__name__ in ROOMS
    modules = [sys.modules[name] for name in ROOMS if name.startswith(("epoxy.", "epoxy_sim."))]
    return {
        f"{kind.__module__}.{kind.__qualname__}": kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
    }


def twin_kind(kind: type) -> Any:
    """The class of this name that was made with the stand-in."""
    return getattr(ROOMS[kind.__module__], kind.__qualname__)


REAL = record_classes()
TWINS = {name: twin_kind(kind) for name, kind in REAL.items()}


def strategy_of(hint: Any) -> st.SearchStrategy[Any] | None:
    """Small values, so that equal ones come up. None: not drawn here."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(0, 3),
        float: st.sampled_from((0.0, 1.5)),
        bool: st.booleans(),
        bytes: st.sampled_from((b"", b"a", b"ada")),
        str: st.sampled_from(("", "a", "B")),
        types.NoneType: st.none(),
    }
    if hint in plain:
        return plain[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return records(hint)
    if origin in (typing.Union, types.UnionType):
        parts = [strategy_of(part) for part in arguments]
        known = [part for part in parts if part is not None]
        return st.one_of(known) if len(known) == len(parts) else None
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        inner = strategy_of(arguments[0])
        return st.lists(inner, max_size=2).map(tuple) if inner is not None else None
    return None


def fields_of(kind: Any) -> st.SearchStrategy[dict[str, Any]] | None:
    hints = typing.get_type_hints(kind)
    drawn = {name: strategy_of(hints[name]) for name in kind.__struct_fields__}
    if any(strategy is None for strategy in drawn.values()):
        return None
    return st.fixed_dictionaries({name: strategy for name, strategy in drawn.items() if strategy is not None})


def records(kind: Any) -> st.SearchStrategy[Any] | None:
    fields = fields_of(kind)
    if fields is None:
        return None
    return fields.map(lambda values: made(kind, values)).filter(lambda each: each is not None)


def made(kind: Any, fields: dict[str, Any]) -> Any:
    """None: its own checks refuse these values."""
    try:
        return kind(**fields)
    except TypeError:
        raise
    except Exception:
        return None


def twin_of(value: Any) -> Any:
    """The same, of the stand-in's classes."""
    kind = type(value)
    if isinstance(value, msgspec.Struct):
        return twin_kind(kind)(**{field: twin_of(getattr(value, field)) for field in kind.__struct_fields__})
    if isinstance(value, enum.Enum):
        return twin_kind(kind)[value.name]
    return tuple(map(twin_of, value)) if isinstance(value, tuple) else value


DRAWN = {name: fields for name, kind in sorted(REAL.items()) if (fields := fields_of(kind)) is not None}


def test_nearly_all_classes_are_compared() -> None:
    assert TWINS.keys() == REAL.keys()
    assert len(DRAWN) >= FEWEST_CLASSES, len(DRAWN)
    for name in ("model.records.KeyState", "model.messages.Accept", "model.ballot.Ballot", "model.writes.Write"):
        assert f"epoxy.{name}" in DRAWN


def test_fields_and_patterns_are_the_same() -> None:
    for name, kind in REAL.items():
        twin = TWINS[name]
        assert twin.__struct_fields__ == kind.__struct_fields__, name
        assert twin.__match_args__ == kind.__match_args__, name


@settings(max_examples=400)
@given(st.data())
def test_records_behave_alike(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(DRAWN)))
    kind, twin = REAL[name], TWINS[name]
    values = data.draw(DRAWN[name])
    one = made(kind, values)
    assert (made(twin, {field: twin_of(value) for field, value in values.items()}) is None) is (one is None)
    if one is None:
        return
    stand = twin_of(one)
    assert repr(stand) == repr(one)
    other = made(kind, data.draw(DRAWN[name]))
    if other is not None:
        assert (stand == twin_of(other)) is (one == other)
        assert (stand != twin_of(other)) is (one != other)
    again = twin_of(one)
    assert stand == again
    assert hashed(stand) == hashed(again)
    assert (hashed(stand) is None) is (hashed(one) is None)
    assert stand != object()
    changed = data.draw(st.sampled_from(kind.__struct_fields__)) if kind.__struct_fields__ else None
    if changed is not None and other is not None:
        new = {changed: getattr(other, changed)}
        replaced = same_or_refused(msgspec.structs.replace, one, new)
        twins = {field: twin_of(value) for field, value in new.items()}
        stood = same_or_refused(msgspec_standin.replace, stand, twins)
        assert repr(stood) == repr(replaced)


def hashed(record: Any) -> int | None:
    """None: it has no hash."""
    try:
        return hash(record)
    except TypeError:
        return None


def same_or_refused(replace: Any, record: Any, changes: dict[str, Any]) -> Any:
    try:
        return replace(record, **changes)
    except TypeError:
        raise
    except Exception:
        return None


@settings(max_examples=100)
@given(st.data())
def test_order(data: st.DataObject) -> None:
    for name in ("epoxy.model.ballot.Ballot", "epoxy.model.records.ProposalId"):
        one, other = (REAL[name](**data.draw(DRAWN[name])) for _ in range(2))
        first, second = twin_of(one), twin_of(other)
        assert (first < second, first <= second, first > second, first >= second) == (
            one < other,
            one <= other,
            one > other,
            one >= other,
        )
        assert max(first, second) == twin_of(max(one, other))
        with pytest.raises(TypeError):
            first < one  # noqa: B015


BASES = {"msgspec": msgspec.Struct, "the stand-in": msgspec_standin.Struct}
REPLACE = {"msgspec": msgspec.structs.replace, "the stand-in": msgspec_standin.replace}


@pytest.mark.parametrize("maker", BASES)
def test_what_classes_may_do(maker: str) -> None:
    base: Any = BASES[maker]

    class Frozen(base, frozen=True, gc=False):  # type: ignore[misc, call-arg]
        LIMIT: ClassVar[int] = 3
        a: int
        b: tuple[int, ...] = ()

    class More(Frozen, frozen=True, kw_only=True, tag="more"):  # type: ignore[call-arg]
        c: int
        d: int = 7

    class Loose(base):  # type: ignore[misc]
        words: dict[str, int] = {}  # noqa: RUF012
        more: list[int] = []  # noqa: RUF012

    record: Any = Frozen(1)
    assert (record.a, record.b, Frozen.LIMIT) == (1, (), 3)
    with pytest.raises(AttributeError):
        record.a = 2
    with pytest.raises(TypeError):
        Frozen()
    with pytest.raises(TypeError):
        Frozen(1, (), 3)
    with pytest.raises(TypeError):
        More(1, (), 3)
    more: Any = More(1, c=2)
    assert repr(more).endswith("More(a=1, b=(), c=2, d=7)")
    assert (More.__struct_fields__, More.__match_args__) == (("a", "b", "c", "d"), ("a", "b"))
    assert more != record
    with pytest.raises(TypeError):
        REPLACE[maker](more, e=1)
    loose, other = Loose(), Loose()
    loose.words["x"] = 1
    loose.more.append(1)
    assert (other.words, other.more) == ({}, [])
    loose.more = [2]
    assert loose == REPLACE[maker](loose)
    with pytest.raises(TypeError):
        hash(loose)


def test_coders_can_be_made_and_not_used() -> None:
    with pytest.raises(NotImplementedError):
        msgspec_standin.Coder(int).encode(1)
    with pytest.raises(NotImplementedError):
        msgspec_standin.Coder(int).decode(b"1")


def test_a_field_can_be_set_in_spite_of_frozen() -> None:
    class Sum(msgspec_standin.Struct, frozen=True):
        amount: int

    record = Sum(amount=-1)
    msgspec_standin.force_setattr(record, "amount", 1)
    assert msgspec_standin.astuple(record) == (1,)
