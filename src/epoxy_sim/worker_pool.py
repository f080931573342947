"""A few processes that share a line of tasks.

One pipe for each, and no thread anywhere: so forking is safe, an interrupt meets a program that is doing one thing, and
nothing outlives the process that asked.
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
    """A process is gone without an answer: killed from outside, most likely for want of memory."""


def cores() -> int:
    """Those this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work(play: Callable[[TaskT], ResultT], tasks: Iterator[TaskT], jobs: int) -> Iterator[ResultT]:
    """Results as they come, in no order. A task is drawn only when somebody is free to do it, so `tasks` may stop early
    because of what came out so far. One job needs no process but this one."""
    if jobs == 1:
        yield from map(play, tasks)
        return
    members = [hire(play) for _ in range(jobs)]
    try:
        yield from share([pipe for _, pipe in members], tasks)
    finally:
        for process, pipe in members:
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


def hire(play: Callable[[TaskT], ResultT]) -> "tuple[BaseProcess, Connection[TaskT, ResultT]]":
    """Forking costs nothing, but only a process of one thread may."""
    can_fork = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if can_fork else "spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(play, theirs), daemon=True)  # type: ignore[attr-defined]
    process.start()
    theirs.close()
    return process, ours


def serve(play: Callable[[TaskT], ResultT], pipe: "Connection[ResultT, TaskT]") -> None:
    """The life of a worker. An interrupt from the keyboard reaches all of us: the parent decides what it means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None
    while pipe in wait([pipe, parent.sentinel]):
        pipe.send(play(pipe.recv()))
