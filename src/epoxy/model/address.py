"""Host and port of a listening socket."""

from msgspec import Struct


class Address(Struct, frozen=True):
    """Port 0, when listening: any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
