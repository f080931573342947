"""A cluster and workers on it, for tests of actors.

    with epoxy.testing.actors(app.worker) as world:
        answer = world.client().actors.request(Which(name="room", key="lobby"), b"hello", pool="chat")

Nodes are processes; workers are threads of the test's own process, so that a debugger stops in an actor's code, and so
that a test can look at what it does. Their watchdog is off: it would end the process of the tests.
"""

import asyncio
import threading
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from epoxy.client import AsyncClient, Client
from epoxy.model.errors import InvalidRequest, Unavailable
from epoxy.testing.process_cluster import START_S, Cluster, cluster

if TYPE_CHECKING:
    from epoxy.client.worker import Worker

STOP_S = 15.0
"""For a worker to end, its actors cancelled."""


class WorkerThread:
    """One worker in a thread with an event loop of its own, from when it is connected until `drain` or `stop`."""

    def __init__(self, worker: "Worker") -> None:
        worker.watched = False
        self.worker = worker
        self._connected = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=worker.key, daemon=True)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        """Raises what keeps it from being connected."""
        self._thread.start()
        if not self._connected.wait(START_S):
            raise Unavailable(f"{self.worker.key} was not connected in {START_S:.0f} s")
        self.check()

    def check(self) -> None:
        """Raises what has ended it."""
        if self._failure is not None:
            raise self._failure

    def drain(self, timeout: float = START_S) -> None:
        """As SIGTERM does it: its actors move to other workers, or wait for one. Returns when it has ended."""
        self._tell(self.worker.drain)
        self._join(timeout)

    def stop(self) -> None:
        """Without waiting for its actors to move."""
        self._tell(self.worker.drain)
        self._tell(self.worker.drain)
        self._join(STOP_S)

    def _tell(self, what: Any) -> None:
        if self._loop is not None and self.running:
            try:
                self._loop.call_soon_threadsafe(what)
            except RuntimeError:
                return  # it has ended meanwhile

    def _join(self, timeout: float) -> None:
        self._thread.join(timeout)
        if self.running:
            raise Unavailable(f"{self.worker.key} did not end in {timeout:.0f} s")

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._connected.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        telling = asyncio.create_task(self._tell_when_connected())
        try:
            await self.worker.serve()
        finally:
            telling.cancel()

    async def _tell_when_connected(self) -> None:
        await self.worker.connected.wait()
        self._connected.set()


class ActorWorld:
    """Opened with `with` or with `async with`. `cluster`: its nodes; `workers`: those that were started, in order."""

    def __init__(self, worker: "Worker", *, nodes: int, workers: int, settings: str) -> None:
        self.workers: list[WorkerThread] = []
        self._worker = worker
        self._nodes = nodes
        self._count = workers
        self._settings = settings
        self._cluster: Cluster | None = None
        self._open = ExitStack()

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            raise InvalidRequest("the world of actors is not open: with epoxy.testing.actors(worker) as world")
        return self._cluster

    def client(self, first: int = 0, *, timeout: float = START_S) -> Client:
        """Closed with the world. Asks the node with this number first."""
        return self._open.enter_context(self.cluster.client(first, timeout=timeout))

    def async_client(self, first: int = 0, *, timeout: float = START_S) -> AsyncClient:
        """To be used with `async with`."""
        return self.cluster.async_client(first, timeout=timeout)

    def add_worker(self, worker: "Worker | None" = None, *, node: int = 0, **settings: Any) -> WorkerThread:
        """Another one, connected to this node when it returns. `worker`: other code; `settings`: as a `Worker` takes
        them, as `version=2`."""
        url, token = self.cluster[node].url, self.cluster[node].token or None
        made = (worker or self._worker).like(url, **{"key": f"test-{uuid.uuid4().hex[:8]}", "token": token} | settings)
        started = WorkerThread(made)
        self.workers.append(started)
        started.start()
        return started

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._cluster = undo.enter_context(cluster(self._nodes, settings=self._settings))
            undo.callback(self._stop_workers)
            for _ in range(self._count):
                self.add_worker()
            self._open = undo.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._open.close()
        self._cluster = None

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.to_thread(self.__exit__)

    def _stop_workers(self) -> None:
        for each in self.workers:
            each.stop()
        self.workers.clear()


def actors(worker: "Worker", *, nodes: int = 1, workers: int = 1, settings: str = "") -> ActorWorld:
    """`nodes` nodes, each a datacenter of its own, and `workers` workers with the code and settings of `worker` at the
    first of them; `worker` itself is not started. `settings`: more lines for the files of nodes, as `cluster` takes
    them."""
    return ActorWorld(worker, nodes=nodes, workers=workers, settings=settings)
