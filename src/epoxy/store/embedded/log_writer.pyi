"""Compiled from log_writer.c, and only there in a compiled wheel for Linux."""

class LogWriter:
    """Writes frames in a thread that never waits for the interpreter's lock, one at a time. Belongs to one thread."""

    def __init__(self) -> None:
        """Starts the thread."""

    def fileno(self) -> int:
        """Readable when a write has ended."""

    def write(self, file: int, frame: bytes, offset: int, /) -> None:
        """Hand over a frame, which is held until it is taken back. It is an error if another is under way."""

    def take(self) -> tuple[int, float, float] | None:
        """Of a write that has ended: its errno, or 0, and when it began and ended, in seconds of `time.monotonic`."""

    def close(self) -> None:
        """Returns when the write under way has ended; it is not taken any more."""
