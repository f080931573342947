"""A cut of a store: a view that is read in pieces, each in the store's thread, until it is closed."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from epoxy.model.errors import StoreError
from epoxy.ports import Snapshot

T = TypeVar("T")


class RunsJobs(Protocol):
    def __call__(
        self, job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None: ...


def at_once(job: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
    """For a store without a thread."""
    try:
        result = job()
    except Exception as error:
        failed(error)
    else:
        done(result)


class ViewCut:
    """`run` takes jobs as `IoExecutor.submit` does."""

    def __init__(self, view: Snapshot, run: RunsJobs) -> None:
        self._view: Snapshot | None = view
        self._run = run

    def read(
        self, job: Callable[[Snapshot], T], done: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        view = self._view
        if view is None:
            failed(StoreError("the cut is closed"))
        else:
            self._run(lambda: job(view), done, failed)

    def close(self) -> None:
        """A job under way still has the view, and the store drops it after that."""
        self._view = None
