"""A stand-in for msgspec where its compiled module is not available: Python in WebAssembly.

Records behave as msgspec's do: construction, defaults, equality, order, hash, repr, `replace`. Encoders and decoders
can be made, because modules make theirs when they are imported, and refuse to work. tests/sim/playground compares the
records with msgspec's own.
"""

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar, dataclass_transform

StructT = TypeVar("StructT")

MUTABLE_DEFAULTS = (dict, list, set, bytearray)
"""Kinds of empty defaults that every record gets a copy of."""

ORDERS = ("__lt__", "__le__", "__gt__", "__ge__")


class UnsetType:
    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


class NoDefaultType:
    def __repr__(self) -> str:
        return "NODEFAULT"


UNSET = UnsetType()
NODEFAULT = NoDefaultType()


class MsgspecError(Exception):
    pass


class ValidationError(MsgspecError):
    pass


class DecodeError(MsgspecError):
    pass


class Meta:
    """Ranges and descriptions of fields. They are checked by decoders alone."""

    def __init__(self, **constraints: object) -> None:
        self.constraints = constraints


class Field:
    def __init__(self, default_factory: Callable[[], object]) -> None:
        self.default_factory = default_factory


def field(*, default_factory: Callable[[], object]) -> Any:
    return Field(default_factory)


def annotated_names(namespace: Mapping[str, Any]) -> list[str]:
    """The fields that a class body declares, in order. Since Python 3.14 annotations are evaluated on demand."""
    if "__annotations__" in namespace:
        annotations = namespace["__annotations__"]
    elif sys.version_info >= (3, 14):
        import annotationlib

        annotate = annotationlib.get_annotate_from_class_namespace(namespace)
        if annotate is None:
            return []
        annotations = annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF)
    else:
        return []
    return [name for name, kind in annotations.items() if "ClassVar" not in str(kind)]


@dataclass_transform(field_specifiers=(field,))
class StructMeta(type):
    """Makes a class with slots for its fields, and functions that are written for them: a simulation makes hundreds of
    thousands of records."""

    __struct_fields__: tuple[str, ...]

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        frozen: bool | None = None,
        order: bool | None = None,
        kw_only: bool = False,
        **others: object,
    ) -> "StructMeta":
        """Of the other options `dict` counts; the rest is about memory, or says how a record is encoded."""
        defaults: dict[str, Any] = {}
        words: set[str] = set()
        options = {"frozen": False, "order": False}
        for base in (base for base in reversed(bases) if isinstance(base, StructMeta)):
            defaults |= vars(base)["__struct_all_defaults__"]
            words |= vars(base)["__struct_keyword_only__"]
            options |= vars(base)["__struct_options__"]
        options |= {option: asked for option, asked in (("frozen", frozen), ("order", order)) if asked is not None}
        own = annotated_names(namespace)
        slots = [field for field in own if field not in defaults]
        defaults |= {field: namespace.pop(field, NODEFAULT) for field in own}
        words = words | set(own) if kw_only else words - set(own)
        positional = tuple(field for field in defaults if field not in words)
        fields = (*positional, *(field for field in defaults if field in words))
        namespace |= {
            "__slots__": (*slots, "__dict__") if others.get("dict") else tuple(slots),
            "__struct_all_defaults__": defaults,
            "__struct_keyword_only__": words,
            "__struct_options__": options,
            "__struct_fields__": fields,
            "__match_args__": positional,
            "__struct_values__": values_of(fields),
            "__hash__": hash_record if options["frozen"] else None,
        }
        if options["order"]:
            namespace |= {comparison: comparing(comparison) for comparison in ORDERS}
        if options["frozen"]:
            namespace |= {"__setattr__": refuse_change, "__delattr__": refuse_change}
        made = super().__new__(cls, name, bases, namespace)
        made.__init__ = initializer(made, positional, fields, defaults)  # type: ignore[misc]
        return made


def initializer(
    made: type, positional: tuple[str, ...], fields: tuple[str, ...], defaults: Mapping[str, Any]
) -> Callable[..., None]:
    """Sets the slots directly, so that it works for frozen records, too."""
    room: dict[str, Any] = {"NODEFAULT": NODEFAULT}
    parameters, body = ["self"], ["pass"]
    for at, name in enumerate(fields):
        if at == len(positional):
            parameters.append("*")
        room[f"set_{name}"] = getattr(made, name).__set__
        default, value = defaults[name], name
        if default is NODEFAULT:
            parameters.append(name)
        elif (factory := factory_of(default)) is not None:
            room[f"new_{name}"] = factory
            parameters.append(f"{name}=NODEFAULT")
            value = f"new_{name}() if {name} is NODEFAULT else {name}"
        else:
            room[f"default_{name}"] = default
            parameters.append(f"{name}=default_{name}")
        body.append(f"set_{name}(self, {value})")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    return written(f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(body), "__init__", room)


def written(source: str, name: str, room: dict[str, Any]) -> Callable[..., Any]:
    """A function written for one class, as the standard library's dataclasses have them."""
    exec(source, room)
    function: Callable[..., Any] = room[name]
    return function


def factory_of(default: object) -> Callable[[], object] | None:
    if isinstance(default, Field):
        return default.default_factory
    if isinstance(default, MUTABLE_DEFAULTS):
        assert not default, "a default that can change is empty"
        return type(default)
    return None


def values_of(fields: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    return written(f"def values(self): return ({' '.join(f'self.{name},' for name in fields)})", "values", {})


def comparing(comparison: str) -> Callable[[Any, object], Any]:
    def compare(one: Any, other: Any) -> Any:
        if type(one) is not type(other):
            return NotImplemented
        return getattr(one.__struct_values__(), comparison)(other.__struct_values__())

    return compare


def hash_record(record: Any) -> int:
    return hash((type(record), record.__struct_values__()))


def refuse_change(record: object, *_: object) -> None:
    raise AttributeError(f"immutable type: '{type(record).__name__}'")


class Struct(metaclass=StructMeta):  # noqa: PLW1641 (its metaclass gives frozen ones a hash)
    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self is other or astuple(self) == astuple(other)

    def __repr__(self) -> str:
        told = (f"{name}={getattr(self, name)!r}" for name in type(self).__struct_fields__)
        return f"{type(self).__name__}({', '.join(told)})"


def replace(record: StructT, /, **changes: Any) -> StructT:
    kind: Any = type(record)
    unknown = changes.keys() - set(kind.__struct_fields__)
    if unknown:
        raise TypeError(f"`{kind.__name__}` has no field {sorted(unknown)[0]!r}")
    made: StructT = kind(**(asdict(record) | changes))
    return made


def astuple(record: Any) -> tuple[Any, ...]:
    values: tuple[Any, ...] = record.__struct_values__()
    return values


def asdict(record: Any) -> dict[str, Any]:
    return dict(zip(record.__struct_fields__, record.__struct_values__(), strict=True))


def force_setattr(record: Struct, name: str, value: object) -> None:
    getattr(type(record), name).__set__(record, value)


class Coder:
    """An encoder or decoder that nothing in the playground uses."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __class_getitem__(cls, _: object) -> type["Coder"]:
        return cls

    def encode(self, _: object) -> bytes:
        raise NotImplementedError("records are not encoded in the playground")

    def decode(self, _: object) -> object:
        raise NotImplementedError("records are not decoded in the playground")


def install() -> None:
    """Under the names by which our modules import it."""
    coding = {"Encoder": Coder, "Decoder": Coder, "encode": Coder().encode, "decode": Coder().decode}
    parts: dict[str, dict[str, Any]] = {
        "msgspec": {name: value for name, value in globals().items() if not name.startswith("__")},
        "msgspec.structs": {
            "replace": replace,
            "astuple": astuple,
            "asdict": asdict,
            "force_setattr": force_setattr,
        },
        "msgspec.json": coding,
        "msgspec.msgpack": coding,
    }
    for name, contents in parts.items():
        module = ModuleType(name)
        vars(module).update(contents)
        sys.modules[name] = module
        if "." in name:
            setattr(sys.modules["msgspec"], name.partition(".")[2], module)
