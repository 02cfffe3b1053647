"""Process-wide store of opened experiments, shared by pages and routes.

Keys are unguessable: routes never accept a path, and an experiment is inaccessible without its key.
A key identifies one version of the folder. A change on disk creates a new key and drops the old
data. Derived results are built once per version.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple, Unpack, cast

from msgspec.structs import replace

from graphviz_dash.ingest.identity import compute_identity
from graphviz_dash.ingest.load import load_experiment, load_outlines, load_pair
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.process_memory import get_own_memory, release_free_memory
from graphviz_dash.server_settings import get_memory_limit
from graphviz_dash.ui.state.scratch import SCRATCH

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

COMPARISON: Final = "comparison"
"""Slot of the comparison, which needs the traces."""


_KEY_BYTES: Final = 16
_FULL_COLLECTION_S: Final = 60.0


class Extent(StrEnum):
    """Part of an experiment that is loaded."""

    FULL = "full"
    NO_TRACES = "no traces"
    OUTLINE = "outline"
    """Only recording, loop and memory ledger of each run. For a pair like NO_TRACES."""


class UnknownKeyError(KeyError):
    """No experiment or run is open under this key."""


class ClosedError(UnknownKeyError):
    """The experiment of this key is closed: its folder changed or was removed."""

    def __init__(self) -> None:
        super().__init__("This experiment changed on disk or was deleted. Reload the page.")


class _DeferredCollection:
    """Garbage collection, deferred while something is built.

    Built values are kept, have no cycles and contain hundreds of thousands of objects. Scanning
    them while they grow costs more than building them, and Streamlit collects everything after each
    run of a page (0.3 s for 50,000 nodes). So they are scanned once when complete, which also frees
    cycles created meanwhile, and then frozen. Reference counting still frees them.

    Other live objects, such as open pages, are frozen as well, and their cycles would never be
    freed. So a full collection runs from time to time.

    Args:
        clock: current time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._builders = 0
        self._clock = clock
        self._last_full_collection = clock()

    @contextmanager
    def defer(self) -> Iterator[None]:
        """Disable collection in all threads while the block runs."""
        with self._lock:
            self._builders += 1
            gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._builders -= 1
                if not self._builders:
                    if self._clock() - self._last_full_collection >= _FULL_COLLECTION_S:
                        self._last_full_collection = self._clock()
                        gc.unfreeze()
                    gc.collect()
                    gc.freeze()
                    release_free_memory()
                    gc.enable()


COLLECTION: Final = _DeferredCollection()


class Store:
    """Opened experiments by key, and results derived from them. Thread-safe.

    Above the memory limit, the least recently used experiments are dropped, and loaded again on the
    next use.

    Args:
        most_bytes: memory limit of the process.
        taken: current memory use; None if unknown, then nothing is dropped.
    """

    def __init__(
        self,
        max_bytes: int | None = None,
        get_used_bytes: Callable[[], int | None] = get_own_memory,
    ) -> None:
        self._max_bytes = get_memory_limit() if max_bytes is None else max_bytes
        self._get_used_bytes = get_used_bytes
        self._last_used: dict[Hashable, int] = {}
        self._clock = itertools.count()
        self._lock = threading.Lock()
        self._building: dict[tuple[Hashable, ...], threading.Lock] = {}
        self._secret = secrets.token_bytes(_KEY_BYTES)
        self._paths: dict[str, Path] = {}
        self._keys: dict[Path, str] = {}
        self._pairs: dict[str, tuple[Path, Path]] = {}
        self._values: dict[tuple[Hashable, ...], object] = {}

    def register(self, path: Path) -> str:
        """Return the key of the current version of the experiment at ``path``.

        Drops data of earlier versions.
        """
        resolved = path.resolve()
        version = compute_identity(resolved)
        identity = repr((str(resolved), version)).encode()
        key = hashlib.blake2b(identity, key=self._secret, digest_size=_KEY_BYTES).hexdigest()
        with self._lock:
            previous = self._keys.get(resolved)
            self._keys[resolved] = key
            self._paths[key] = resolved
        if previous not in (None, key):
            self._close(previous)
        return key

    def register_pair(self, pair: tuple[Path, Path]) -> str:
        """Return the key of two run bundles as a separate experiment."""
        first, second = (path.resolve() for path in pair)
        # Not a real folder; it represents both runs.
        name = Path(f"{first} vs {second}")
        versions = [compute_identity(path.parent) for path in (first, second)]
        identity = repr((str(first), str(second), versions)).encode()
        key = hashlib.blake2b(identity, key=self._secret, digest_size=_KEY_BYTES).hexdigest()
        with self._lock:
            previous = self._keys.get(name)
            self._keys[name] = key
            self._paths[key] = name
            self._pairs[key] = (first, second)
        if previous not in (None, key):
            self._close(previous)
        return key

    def close(self, path: Path) -> None:
        """Drop data and keys of an experiment and of pairs with its runs."""
        folder = path.resolve()
        with self._lock:
            key = self._keys.pop(folder, None)
            pairs = [
                pair_key
                for pair_key, runs in self._pairs.items()
                if folder in (run.parent for run in runs)
            ]
        for closed in (key, *pairs):
            if closed is not None:
                self._close(closed)

    def _close(self, key: str) -> None:
        with self._lock:
            self._paths.pop(key, None)
            self._pairs.pop(key, None)
        self._drop((key,))
        SCRATCH.remove_subfolder(key)

    def load_experiment_of_key(self, key: str, extent: Extent = Extent.FULL) -> Experiment:
        """Return the experiment of ``key``; a smaller extent loads much faster.

        Raises:
            ClosedError: the key is not or no longer registered.
            InputError: its folder has no readable bundles.
        """
        path, pair = self._get_path(key), self._get_pair(key)
        if pair is not None and extent is Extent.OUTLINE:
            extent = Extent.NO_TRACES
        if extent is Extent.NO_TRACES and self.is_loaded(key):
            full_experiment = self.load_experiment_of_key(key)
            runs = [
                replace(run, capture_trace=None, additional_capture_traces=(), replay_trace=None)
                for run in full_experiment.runs
            ]
            return replace(full_experiment, runs=tuple(runs))

        def load() -> Experiment:
            if extent is Extent.OUTLINE:
                return Experiment(path, load_outlines(path))
            traces = extent is Extent.FULL
            if pair is None:
                experiment = load_experiment(path, traces=traces)
            else:
                experiment = load_pair(pair, traces=traces)
            if traces:
                # The version without traces has a second copy of the graphs.
                self._drop((key, Extent.NO_TRACES))
            return experiment

        return self._build_once((key, extent), load)

    def _get_pair(self, key: str) -> tuple[Path, Path] | None:
        with self._lock:
            return self._pairs.get(key)

    def _get_path(self, key: str) -> Path:
        with self._lock:
            path = self._paths.get(key)
        if path is None:
            raise ClosedError
        return path

    def get_run(self, key: str, name: str) -> Run:
        """Return the run ``name`` of the experiment.

        Raises:
            UnknownKeyError: no such run.
        """
        for run in self.load_experiment_of_key(key).runs:
            if run.name == name:
                return run
        raise UnknownKeyError(name)

    def derive(
        self,
        key: str,
        slot: Hashable,
        build: Callable[[Experiment], T],
        extent: Extent = Extent.FULL,
    ) -> T:
        """Return ``build(experiment)``, computed once per ``slot`` and extent, and cached."""
        experiment = self.load_experiment_of_key(key, extent)
        return self._build_once((key, extent, slot), lambda: build(experiment))

    def has(self, key: str, slot: Hashable, extent: Extent = Extent.FULL) -> bool:
        """Return True if the result of :meth:`derive` is cached."""
        with self._lock:
            return (key, extent, slot) in self._values

    def is_loaded(self, key: str) -> bool:
        """Return True if the experiment of ``key`` is in memory."""
        with self._lock:
            return (key, Extent.FULL) in self._values

    def _drop(self, prefix: tuple[str, ...]) -> None:
        with self._lock:
            if len(prefix) == 1:
                self._last_used.pop(prefix[0], None)
            for slots in (self._values, self._building):
                for slot in [k for k in slots if k[: len(prefix)] == prefix]:
                    del slots[slot]

    def _build_once(self, slot: tuple[str, *tuple[Hashable, ...]], build: Callable[[], T]) -> T:
        # One lock per slot, so that two pages do not parse the same trace concurrently.
        with self._lock:
            self._last_used[slot[0]] = next(self._clock)
            if slot in self._values:
                return cast(T, self._values[slot])
            gate = self._building.setdefault(slot, threading.Lock())
        with gate:
            with self._lock:
                if slot in self._values:
                    return cast(T, self._values[slot])
            with COLLECTION.defer():
                value = build()
            with self._lock:
                # If closed meanwhile, it would never be dropped.
                if slot[0] in self._paths:
                    self._values[slot] = value
        self._free_memory(slot[0])
        return value

    def _free_memory(self, current: str) -> None:
        """Drop least recently used experiments, except ``current``, until memory is below the
        limit."""
        with self._lock:
            candidates = {slot[0] for slot in self._values} - {current}
            oldest = sorted(candidates, key=lambda key: self._last_used.get(key, -1))
        for key in oldest:
            used = self._get_used_bytes()
            if used is None or used <= self._max_bytes:
                return
            self._drop((cast(str, key),))
            release_free_memory()


STORE = Store()


def cache_result(
    name: str, extent: Extent = Extent.FULL
) -> Callable[[Callable[[str, Unpack[Ts]], T]], Callable[[str, Unpack[Ts]], T]]:
    """Cache the results of a function of an experiment's key in slots of ``name`` and arguments."""

    def decorate(build: Callable[[str, Unpack[Ts]], T]) -> Callable[[str, Unpack[Ts]], T]:
        @functools.wraps(build)
        def get(key: str, *arguments: *Ts) -> T:
            return STORE.derive(key, (name, *arguments), lambda _: build(key, *arguments), extent)

        return get

    return decorate
