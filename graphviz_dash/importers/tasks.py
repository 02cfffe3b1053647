"""Work on many files: local processes, or a Dask cluster by its address, with nothing lost.

There is no engine here: tasks run on any ``concurrent.futures.Executor``. A worker that is killed
takes its tasks with it, and they are run again; tasks must therefore leave nothing behind by halves
and come to the same result twice, as those here do.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from threading import Lock
from types import ModuleType
from typing import Any, Final, TypeVar

from graphviz_dash.errors import GraphvizDashError, MissingRequirementError
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE

T = TypeVar("T")
R = TypeVar("R")

RETRIES: Final = 3
"""How often Dask begins a task anew after its worker died."""

_STARTING: Final = Lock()

DIED: Final = "the process that read it died each time (out of memory?)"
_NO_MEMORY: Final = "it takes more memory than there is"


@contextmanager
def executor_for(scheduler: str | None, workers: int | None = None) -> Iterator[Executor]:
    """Processes of this machine, ``workers`` of them (default: one for each CPU), or the workers of
    the Dask cluster whose scheduler is at the address ``scheduler``.

    Raises:
        MissingRequirementError: dask.distributed is not installed, or nobody answers there.
    """
    if scheduler is None:
        count = workers or os.cpu_count() or 1
        # Forked copies of a process with Polars' threads may wait for ever.
        with ProcessPoolExecutor(
            count, mp_context=_Context(), initializer=_alone_on_a_core
        ) as pool:
            yield pool
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingRequirementError(
            "--scheduler needs dask.distributed: pip install 'graphviz-dash[fleet]'"
        ) from error
    try:
        client = Client(scheduler, timeout=15)
    except (OSError, ValueError) as error:
        raise MissingRequirementError(f"No Dask scheduler at {scheduler}: {error}") from error
    with client:
        # Each task is of its own: the same arguments twice are two tasks.
        yield client.get_executor(pure=False, retries=RETRIES)


class _Process(SpawnProcess):
    """A process that does not run the main module's file again."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802  # as multiprocessing calls it
        with without_main():
            return SpawnProcess._Popen(process_obj)


class _Context(SpawnContext):
    Process = _Process


@contextmanager
def without_main() -> Iterator[None]:
    """Processes that are started meanwhile do not run the main module's file again: no task is
    defined there, and in the dashboard it is the script of a page, of which each visitor's thread
    sets its own."""
    stand_in = ModuleType("__main__")
    with _STARTING:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = stand_in
        try:
            yield
        finally:
            if sys.modules["__main__"] is stand_in:
                sys.modules["__main__"] = main


def _alone_on_a_core() -> None:
    """One thread of Polars and no processes of its own for each worker: there are as many workers
    as cores. Polars looks when it is imported, which a new process has not done yet."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.environ.setdefault(PROCESSES_VARIABLE, "1")


def _task(function: Callable[[T], R], item: T) -> R:
    """``function`` of ``item``, on a worker: those of Dask may not have children."""
    os.environ.setdefault(PROCESSES_VARIABLE, "1")
    return function(item)


def run_all(
    function: Callable[[T], R],
    items: Sequence[T],
    make: Callable[[], Any],
    failed: Callable[[T, str], R],
) -> Iterator[R]:
    """``function`` of each item, in the order in which they are done, on the executors that
    ``make`` gives (each a context manager; a new one after one broke).

    An item whose task raises one of our errors or finds no memory, or whose worker dies each time,
    is given to ``failed`` with the reason instead; so there is exactly one result for each item.
    """
    waiting = dict(enumerate(items))
    suspects: list[T] = []
    while waiting:
        try:
            with make() as executor:
                futures = {
                    executor.submit(_task, function, item): key for key, item in waiting.items()
                }
                for future in as_completed(futures):
                    key = futures[future]
                    result = _result(future, waiting[key], failed)
                    del waiting[key]
                    yield result
        except BrokenExecutor:
            # Begun in their order, so the one whose worker died is among the first.
            first = list(waiting)[: 1 + (os.cpu_count() or 1)]
            suspects += [waiting.pop(key) for key in first]
    yield from _one_by_one(function, suspects, make, failed)


def _one_by_one(
    function: Callable[[T], R],
    items: Sequence[T],
    make: Callable[[], Any],
    failed: Callable[[T, str], R],
) -> Iterator[R]:
    """One task at a time, twice if it must be, so that only its own death counts against it."""
    waiting = deque(items)
    deaths = 0
    while waiting:
        try:
            with make() as executor:
                while waiting:
                    item = waiting[0]
                    result = _result(executor.submit(_task, function, item), item, failed)
                    waiting.popleft()
                    deaths = 0
                    yield result
        except BrokenExecutor:
            deaths += 1
            if deaths == 2:
                yield failed(waiting.popleft(), DIED)
                deaths = 0


def _result(future: Any, item: T, failed: Callable[[T, str], R]) -> R:
    try:
        result: R = future.result()
    except GraphvizDashError as error:
        return failed(item, str(error))
    except MemoryError:
        return failed(item, _NO_MEMORY)
    except _deaths():
        return failed(item, DIED)
    return result


def _deaths() -> tuple[type[BaseException], ...]:
    """What Dask raises for a task whose workers died; nothing where it was never imported."""
    if "distributed" not in sys.modules:
        return ()
    from distributed import KilledWorker

    return (KilledWorker,)
