"""Where somebody listens."""

from msgspec import Struct


class Address(Struct, frozen=True):
    """Port 0, where one is opened: any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
