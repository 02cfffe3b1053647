"""Parallel work on many files, with local processes or a Dask cluster.

Tasks run on any ``concurrent.futures.Executor``. Tasks of a killed worker run again, so they must
be atomic and idempotent.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.process import BaseProcess
from queue import Empty, SimpleQueue
from threading import Lock
from types import ModuleType
from typing import Any, Final, TypeVar

from graphviz_dash.bundle.staging import remove_abandoned_scratch
from graphviz_dash.errors import GraphvizDashError, MissingRequirementError
from graphviz_dash.garbage import raise_scan_threshold
from graphviz_dash.ingest.processes import PROCESSES_VARIABLE, end_with_parent

T = TypeVar("T")
R = TypeVar("R")

MAX_RETRIES: Final = 3
"""Dask's retries of a task after the death of its worker."""

_POLL_S: Final = 0.5
_SAFE_PATH: Final = "PYTHONSAFEPATH"
_STARTING: Final = Lock()

PROCESS_DIED: Final = "the reading process died each time (out of memory?)"
_OUT_OF_MEMORY: Final = "not enough memory"


def _kill_workers() -> None:
    for process in multiprocessing.active_children():
        process.kill()
        process.join()
    remove_abandoned_scratch()


@contextmanager
def create_executor(scheduler: str | None, workers: int | None = None) -> Iterator[Executor]:
    """Provide ``workers`` local processes (default: one per CPU), or the Dask cluster at address
    ``scheduler``.

    Raises:
        MissingRequirementError: dask.distributed is not installed, or no scheduler responds.
    """
    if scheduler is None:
        count = workers or os.cpu_count() or 1
        # A fork of a process with Polars' threads can deadlock.
        with (
            _set_safe_path(),
            ProcessPoolExecutor(
                count, mp_context=_Context(), initializer=_start_worker, initargs=(os.getpid(),)
            ) as pool,
            ExitStack() as cleanup,
        ):
            # Otherwise the pool waits for all tasks.
            cleanup.callback(_kill_workers)
            yield pool
            cleanup.pop_all()
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
        # pure=False: equal arguments are separate tasks.
        yield client.get_executor(pure=False, retries=MAX_RETRIES)


class _Process(SpawnProcess):
    """A process that does not import the main module again."""

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802  # name used by multiprocessing
        with hide_main_module():
            return SpawnProcess._Popen(process_obj)


class _Context(SpawnContext):
    Process = _Process


@contextmanager
def hide_main_module() -> Iterator[None]:
    """Prevent child processes from importing the main module, which in the dashboard is the script
    of a page."""
    placeholder = ModuleType("__main__")
    with _STARTING:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = placeholder
        try:
            yield
        finally:
            if sys.modules["__main__"] is placeholder:
                sys.modules["__main__"] = main


@contextmanager
def _set_safe_path() -> Iterator[None]:
    """Prevent worker processes from importing modules of the working folder.

    multiprocessing starts them, and their resource tracker, with ``python -c``.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SAFE_PATH, None)
        else:
            os.environ[_SAFE_PATH] = before


def _start_worker(parent: int) -> None:
    """End the worker with ``parent``, and limit it to one thread of Polars (set before its import)
    and no child processes, as there is one worker per core.

    Its first task imports modules, whose objects are not garbage.
    """
    end_with_parent(parent)
    raise_scan_threshold()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.environ.setdefault(PROCESSES_VARIABLE, "1")


def _run_task(function: Callable[[T], R], item: T) -> R:
    """Call ``function`` with ``item`` on a worker. Dask's workers may not have child processes."""
    os.environ.setdefault(PROCESSES_VARIABLE, "1")
    return function(item)


def run_all(
    function: Callable[[T], R],
    items: Sequence[T],
    create_executor: Callable[[], Any],
    build_failure: Callable[[T, str], R],
) -> Iterator[R]:
    """Call ``function`` with each item, yielding results as completed.

    ``create_executor`` returns context managers; a broken executor is replaced. If a task raises
    one of our errors, runs out of memory, or its worker dies each time, ``build_failure`` receives
    the item with the reason. Each item has one result.
    """
    pending = dict(enumerate(items))
    suspects: list[T] = []
    while pending:
        try:
            with create_executor() as executor:
                futures = {
                    executor.submit(_run_task, function, item): key for key, item in pending.items()
                }
                for future in _iter_completed(futures):
                    key = futures[future]
                    result = _get_result(future, pending[key], build_failure)
                    del pending[key]
                    yield result
        except BrokenExecutor:
            # Items start in order, so the one whose worker died is among the first.
            started = list(pending)[: 1 + (os.cpu_count() or 1)]
            suspects += [pending.pop(key) for key in started]
    yield from _run_sequentially(function, suspects, create_executor, build_failure)


def _run_sequentially(
    function: Callable[[T], R],
    items: Sequence[T],
    create_executor: Callable[[], Any],
    build_failure: Callable[[T, str], R],
) -> Iterator[R]:
    """Run one task at a time, at most twice, so that only its own crashes count."""
    pending = deque(items)
    deaths = 0
    while pending:
        try:
            with create_executor() as executor:
                while pending:
                    item = pending[0]
                    (future,) = _iter_completed([executor.submit(_run_task, function, item)])
                    result = _get_result(future, item, build_failure)
                    pending.popleft()
                    deaths = 0
                    yield result
        except BrokenExecutor:
            deaths += 1
            if deaths == 2:
                yield build_failure(pending.popleft(), PROCESS_DIED)
                deaths = 0


def _iter_completed(futures: Collection[Any]) -> Iterator[Any]:
    """Yield futures as they complete. Wakes up regularly, because a signal that another thread
    receives does not end a wait."""
    queue: SimpleQueue[Any] = SimpleQueue()
    for future in futures:
        future.add_done_callback(queue.put)
    for _ in range(len(futures)):
        future = None
        while future is None:
            with suppress(Empty):
                future = queue.get(timeout=_POLL_S)
        yield future


def _get_result(future: Any, item: T, build_failure: Callable[[T, str], R]) -> R:
    try:
        result: R = future.result()
    except GraphvizDashError as error:
        return build_failure(item, str(error))
    except MemoryError:
        return build_failure(item, _OUT_OF_MEMORY)
    except _get_worker_death_errors():
        return build_failure(item, PROCESS_DIED)
    return result


def _get_worker_death_errors() -> tuple[type[BaseException], ...]:
    """Return Dask's exceptions for dead workers; empty if it is not imported."""
    if "distributed" not in sys.modules:
        return ()
    from distributed import KilledWorker

    return (KilledWorker,)
