"""Registers while commands run on them: each command sees what the ones before it left, also of times to live."""

from collections.abc import Mapping
from copy import copy

from epoxy.model.records import MAX_TTL_MS
from epoxy.model.strings import KEEP, PERSIST, Evaluated, Register, Reply


class RegisterView:
    """One register: what it was, what it is, and whether anything was written to it."""

    __slots__ = ("expiry", "remaining_ms", "value", "was_absent", "written")

    def __init__(self, register: Register) -> None:
        self.value = register.value
        self.remaining_ms = register.remaining_ms if register.value is not None else None
        self.was_absent = register.value is None
        self.expiry = KEEP
        self.written = False

    def evaluated(self, replies: tuple[Reply, ...] = ()) -> Evaluated:
        """A key that was absent and is absent again has not changed."""
        changed = self.written and not (self.was_absent and self.value is None)
        return Evaluated(value=self.value, expiry=self.expiry, changed=changed, replies=replies)


class Registers:
    """The registers of some keys. `now_ms`, the wall clock, is the same for all that runs on them."""

    def __init__(self, registers: Mapping[bytes, Register], now_ms: int) -> None:
        self.now_ms = now_ms
        self.views = {key: RegisterView(register) for key, register in registers.items()}

    def copied_views(self) -> dict[bytes, RegisterView]:
        return {key: copy(view) for key, view in self.views.items()}

    def value(self, key: bytes) -> bytes | None:
        return self.views[key].value

    def remaining_ms(self, key: bytes) -> int | None:
        return self.views[key].remaining_ms

    def put(self, key: bytes, value: bytes, *, keep_expiry: bool = False) -> None:
        """A new key never inherits an expiry, and a value that replaces another does only if it is to."""
        view = self.views[key]
        if view.value is None or not keep_expiry:
            view.expiry, view.remaining_ms = PERSIST, None
        view.value, view.written = value, True

    def expire(self, key: bytes, ttl_ms: int) -> None:
        """A time that is over deletes at once."""
        if ttl_ms <= 0:
            self.delete(key)
            return
        view = self.views[key]
        view.expiry = view.remaining_ms = min(ttl_ms, MAX_TTL_MS)
        view.written = True

    def persist(self, key: bytes) -> bool:
        """False: it had no expiry."""
        view = self.views[key]
        if view.remaining_ms is None:
            return False
        view.expiry, view.remaining_ms, view.written = PERSIST, None, True
        return True

    def delete(self, key: bytes) -> bool:
        """False: there was nothing."""
        view = self.views[key]
        if view.value is None:
            return False
        view.value, view.remaining_ms = None, None
        view.expiry, view.written = PERSIST, True
        return True
