"""A cut without a thread: what a job returns and raises; a closed one refuses."""

from epoxy.model.errors import StoreError
from epoxy.ports import Snapshot
from epoxy.store.cut import ViewCut, at_once
from epoxy.store.memory import MemoryStore


def test_a_job_reads_the_view_and_its_exception_is_passed_on() -> None:
    store = MemoryStore()
    store.put({b"a": b"1"}, None)
    cut = ViewCut(store.view(), at_once)
    found: list[bytes | None] = []
    errors: list[Exception] = []

    def broken(_: Snapshot) -> bytes | None:
        raise ValueError("no")

    cut.read(lambda view: view.get(b"a"), found.append, errors.append)
    cut.read(broken, found.append, errors.append)
    assert (found, [str(error) for error in errors]) == ([b"1"], ["no"])


def test_a_closed_cut_refuses() -> None:
    cut = ViewCut(MemoryStore().view(), at_once)
    cut.close()
    errors: list[Exception] = []
    cut.read(lambda view: view.get(b"a"), lambda _: None, errors.append)
    assert [type(error) for error in errors] == [StoreError]
