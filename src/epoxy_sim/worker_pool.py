"""A few processes that share a queue of tasks.

One pipe for each, and no threads: so forking is safe, an interrupt reaches a program that is doing one thing, and no
worker outlives its parent.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")


class WorkerDied(Exception):
    """A worker ended without a result: killed from outside, most likely for want of memory."""


def cores() -> int:
    """The cores this process may use: in a container fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work(play: Callable[[TaskT], ResultT], tasks: Iterator[TaskT], jobs: int) -> Iterator[ResultT]:
    """Results as they come, in any order. A task is drawn only when a worker is free, so `tasks` may stop early because
    of the results so far. One job runs in this process."""
    if jobs == 1:
        yield from map(play, tasks)
        return
    workers = [start_worker(play) for _ in range(jobs)]
    try:
        yield from share([pipe for _, pipe in workers], tasks)
    finally:
        for process, pipe in workers:
            process.terminate()
            process.join()
            pipe.close()


def share(idle: "list[Connection[TaskT, ResultT]]", tasks: Iterator[TaskT]) -> Iterator[ResultT]:
    busy: list[Connection[TaskT, ResultT]] = []
    while True:
        while idle and (task := next(tasks, None)) is not None:
            busy.append(idle.pop())
            busy[-1].send(task)
        if not busy:
            return
        for pipe in [pipe for pipe in wait(busy) if isinstance(pipe, Connection)]:
            busy.remove(pipe)
            idle.append(pipe)
            yield receive(pipe)


def receive(pipe: "Connection[TaskT, ResultT]") -> ResultT:
    try:
        return pipe.recv()
    except (EOFError, ConnectionResetError) as gone:
        raise WorkerDied("a worker process died without an answer; was it killed for want of memory?") from gone


def start_worker(play: Callable[[TaskT], ResultT]) -> "tuple[BaseProcess, Connection[TaskT, ResultT]]":
    """Forking is cheap, but only a process with one thread may fork."""
    can_fork = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if can_fork else "spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(play, theirs), daemon=True)  # type: ignore[attr-defined]
    process.start()
    theirs.close()
    return process, ours


def serve(play: Callable[[TaskT], ResultT], pipe: "Connection[ResultT, TaskT]") -> None:
    """The loop of a worker. An interrupt from the keyboard reaches every process: only the parent acts on it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None
    while pipe in wait([pipe, parent.sentinel]):
        pipe.send(play(pipe.recv()))
