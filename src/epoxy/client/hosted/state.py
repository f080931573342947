"""`actor.state`: fields that are saved with the turn that changed them, and undone with a turn that failed."""

from collections.abc import Iterator, MutableMapping
from typing import Any

import msgspec

from epoxy.model.errors import DocumentTooLarge, StateError
from epoxy.model.homes import MAX_DOCUMENT_BYTES

FIELD_BYTES = 10
"""Of a field in the document, beside its name and value: their lengths."""

MAX_DEPTH = 64
"""Of lists and dicts in each other. Far below what the interpreter's stack allows a decoder."""

SIMPLE = frozenset((type(None), bool, int, float, str, bytes))

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class State(MutableMapping[str, Any]):
    """A dict of the actor's: names to None, bool, int, float, str, bytes, and lists and dicts (with str keys) of them.

    It is loaded when the actor starts, and saved at the end of each turn that changed it. A list or dict that was got
    from it may be changed in place, in the turn that got it: fields that a turn has touched are looked at again at its
    end. One that was kept from an earlier turn is looked at only if this turn gets it again.
    """

    def __init__(self, fields: dict[str, bytes]) -> None:
        self._saved = fields
        """Encoded, as of the last point (see `point`)."""
        self._live: dict[str, Any] = {}
        """Decoded, and set since."""
        self._touched: set[str] = set()
        self._removed: set[str] = set()
        self._bytes = sum(map(_size, fields.items()))

    def __repr__(self) -> str:
        return f"State({dict(self)!r})"

    def __getitem__(self, name: str) -> Any:
        if name in self._live:
            value = self._live[name]
        elif name in self._removed or name not in self._saved:
            raise KeyError(name)
        else:
            value = self._live[name] = _decode(self._saved[name])
        if isinstance(value, list | dict):
            self._touched.add(name)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        """Raises StateError for what cannot be saved."""
        if type(name) is not str:
            raise StateError(f"a field is named by a str, not by {type(name).__name__}")
        raw = encode_field(name, value)
        if _size((name, raw)) > MAX_DOCUMENT_BYTES:
            raise DocumentTooLarge(
                f"state[{name!r}] has {len(raw):,} bytes; all fields may have {MAX_DOCUMENT_BYTES:,}"
            )
        self._live[name] = value
        self._touched.add(name)
        self._removed.discard(name)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._live.pop(name, None)
        self._touched.discard(name)
        if name in self._saved:
            self._removed.add(name)

    def __contains__(self, name: object) -> bool:
        return name in self._live or (name in self._saved and name not in self._removed)

    def __iter__(self) -> Iterator[str]:
        """Over a copy: fields may be set and deleted meanwhile."""
        names = [name for name in self._saved if name not in self._removed]
        return iter(names + [name for name in self._live if name not in self._saved])

    def __len__(self) -> int:
        return len(self._saved) - len(self._removed) + sum(name not in self._saved for name in self._live)

    # The worker calls these.

    @property
    def is_touched(self) -> bool:
        """It may differ from what was saved or handed to a save."""
        return bool(self._touched or self._removed)

    @property
    def encoded(self) -> dict[str, bytes]:
        return self._saved

    def point(self, others: int = 0) -> bool:
        """What the state is now is what will be saved; a later `undo` comes back to here. Returns whether it changed.
        `others`: bytes of the document that are not the state's. Raises StateError and changes nothing."""
        changed = {}
        for name in self._touched:
            value = self._live[name]
            raw = _encoded(name, value)
            if raw != self._saved.get(name):
                _check_field(name, value)
                changed[name] = raw
        size = self._bytes + others
        for name in changed.keys() | self._removed:
            size -= _size((name, self._saved[name])) if name in self._saved else 0
            size += _size((name, changed[name])) if name in changed else 0
        if size > MAX_DOCUMENT_BYTES:
            kept = f", {others:,} of them kept answers" if others else ""
            raise DocumentTooLarge(f"the state would have {size:,} bytes{kept}; the limit is {MAX_DOCUMENT_BYTES:,}")
        was_changed = bool(changed or self._removed)
        for name in self._removed:
            del self._saved[name]
        self._saved.update(changed)
        self._bytes = size - others
        self._touched.clear()
        self._removed.clear()
        return was_changed

    def undo(self) -> None:
        """Back to the last point."""
        for name in self._touched:
            self._live.pop(name, None)
        self._touched.clear()
        self._removed.clear()


def _size(field: tuple[str, bytes]) -> int:
    return len(field[0].encode()) + len(field[1]) + FIELD_BYTES


def encode_field(name: str, value: Any) -> bytes:
    """Raises StateError."""
    _check_field(name, value)
    return _encoded(name, value)


def _encoded(name: str, value: Any) -> bytes:
    try:
        name.encode()
        return _encode(value)
    except UnicodeEncodeError:
        raise StateError(f"state[{name!r}] has text that is not Unicode (half of a surrogate pair)") from None
    except OverflowError:
        raise StateError(f"state[{name!r}] cannot be saved: an int of more than 64 bits") from None
    except (TypeError, ValueError, RecursionError) as error:
        _check_field(name, value)
        raise StateError(f"state[{name!r}] cannot be saved: {error}") from error


def _check_field(name: str, value: Any) -> None:
    """That it comes back as it is: the encoder would take more. Slower than encoding, so only for what has changed."""
    try:
        _check(value, MAX_DEPTH)
    except _CannotBeSaved as why:
        raise StateError(f"state[{name!r}] cannot be saved: {why}") from None


class _CannotBeSaved(Exception):
    """What is wrong with a value."""


def _check(value: Any, depth: int) -> None:
    """Exact types: of any other a different one would come back after the next start."""
    kind = type(value)
    if kind in SIMPLE:
        return
    if depth == 0:
        raise _CannotBeSaved(f"lists and dicts more than {MAX_DEPTH} deep, or in themselves")
    if kind is list:
        parts = value
    elif kind is dict:
        parts = value.values()
        for name in value:
            if type(name) is not str:
                raise _CannotBeSaved(f"a dict with a key that is {kind_of(name)}; keys are str")
    else:
        hint = "; use a list" if kind in (tuple, set, frozenset) else ""
        raise _CannotBeSaved(
            f"{kind_of(value)} in it; the state keeps None, bool, int, float, str, bytes, list and dict{hint}"
        )
    for each in parts:
        if type(each) not in SIMPLE:
            _check(each, depth - 1)


def kind_of(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
