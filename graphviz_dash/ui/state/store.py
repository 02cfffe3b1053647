"""The process-wide store of opened experiments, shared by the pages and the routes.

Keys are opaque and cannot be guessed: a route never takes a path, and who was not given the key of
an experiment, such as one that another visitor uploaded, does not reach it. A key is that of one
version of the experiment's folder: what changes on disk gets another, and what was known of it is
dropped. What analysis derives is built once per version.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar, cast

from msgspec.structs import replace

from graphviz_dash.ingest.load import load_experiment, load_outlines, load_pair
from graphviz_dash.model.run import Experiment, Run
from graphviz_dash.process_memory import give_back, own_memory
from graphviz_dash.server_settings import memory_bound
from graphviz_dash.ui.state.identity import identity_of
from graphviz_dash.ui.state.scratch import SCRATCH

T = TypeVar("T")

COMPARISON: Final = "comparison"
"""What is derived of an experiment first: its runs compared, for which its traces are read."""


_KEY_BYTES: Final = 16
_LOOK_THROUGH_S: Final = 60.0


class UnknownKeyError(KeyError):
    """No experiment or run is open under this key."""


class ClosedError(UnknownKeyError):
    """The experiment of this key is open no more: its folder changed, or it was removed."""

    def __init__(self) -> None:
        super().__init__("This experiment changed on disk, or is gone: reload the page.")


class _Collection:
    """The collection of cycles, put off while something is built. What is built is kept, has no
    cycles, and is of hundreds of thousands of objects: to look through them again and again as they
    grow takes longer than to make them, and Streamlit collects everything after each run of a page
    (0.3 s for the graph of 50,000 nodes). So they are looked through once, when they are all made,
    and left out of collections from then on; they are still freed when nothing holds them. That one
    collection also frees the cycles that became garbage meanwhile: frozen, they would stay for
    good. It sees only what was made since the one before.

    What else lives at that moment is left out with it, pages that are open among them, and these
    are cycles that nothing frees once they are closed. So from time to time all is looked through.

    Args:
        clock: the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._builders = 0
        self._clock = clock
        self._looked_through = clock()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """No collection inside, in any thread."""
        with self._lock:
            self._builders += 1
            gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._builders -= 1
                if not self._builders:
                    if self._clock() - self._looked_through >= _LOOK_THROUGH_S:
                        self._looked_through = self._clock()
                        gc.unfreeze()
                    gc.collect()
                    gc.freeze()
                    give_back()
                    gc.enable()


COLLECTION: Final = _Collection()


class Store:
    """Opened experiments by key, and results derived from them; safe to use from threads.

    What was opened stays in memory while there is room: once the server takes more than
    ``most_bytes``, what nobody has asked for the longest is dropped, experiment by experiment, and
    read again when it is asked for.

    Args:
        most_bytes: of memory that the process may take.
        taken: how much it takes now; None where the system does not say, and nothing is dropped.
    """

    def __init__(
        self,
        most_bytes: int | None = None,
        taken: Callable[[], int | None] = own_memory,
    ) -> None:
        self._most_bytes = memory_bound() if most_bytes is None else most_bytes
        self._taken = taken
        self._asked: dict[Hashable, int] = {}
        self._clock = itertools.count()
        self._lock = threading.Lock()
        self._building: dict[tuple[Hashable, ...], threading.Lock] = {}
        self._secret = secrets.token_bytes(_KEY_BYTES)
        self._paths: dict[str, Path] = {}
        self._keys: dict[Path, str] = {}
        self._pairs: dict[str, tuple[Path, Path]] = {}
        self._values: dict[tuple[Hashable, ...], object] = {}

    def register(self, path: Path) -> str:
        """The key of the experiment at ``path`` as it is now; it is loaded when first asked for.
        What an earlier version of it had in memory is dropped."""
        resolved = path.resolve()
        version = identity_of(resolved)
        named = repr((str(resolved), version)).encode()
        key = hashlib.blake2b(named, key=self._secret, digest_size=_KEY_BYTES).hexdigest()
        with self._lock:
            former = self._keys.get(resolved)
            self._keys[resolved] = key
            self._paths[key] = resolved
        if former not in (None, key):
            self._close(former)
        return key

    def register_pair(self, pair: tuple[Path, Path]) -> str:
        """The key of two run bundles of any experiments as one of their own."""
        first, second = (path.resolve() for path in pair)
        # No folder is called so: it stands for both.
        name = Path(f"{first} vs {second}")
        versions = [identity_of(path.parent) for path in (first, second)]
        named = repr((str(first), str(second), versions)).encode()
        key = hashlib.blake2b(named, key=self._secret, digest_size=_KEY_BYTES).hexdigest()
        with self._lock:
            former = self._keys.get(name)
            self._keys[name] = key
            self._paths[key] = name
            self._pairs[key] = (first, second)
        if former not in (None, key):
            self._close(former)
        return key

    def close(self, path: Path) -> None:
        """Drops all that is in memory of the experiment at ``path`` and of pairs of its runs, and
        their keys."""
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

    def experiment(self, key: str) -> Experiment:
        """The experiment of ``key``.

        Raises:
            ClosedError: nothing is registered under it, or no more.
            InputError: its folder does not hold readable bundles.
        """
        path = self._path(key)
        return self._once((key, "experiment"), lambda: self._whole(key, path))

    def bare(self, key: str) -> Experiment:
        """The experiment of ``key`` without its traces, which is read in a fraction of the time;
        raises as :meth:`experiment`."""
        if self.is_loaded(key):
            whole = self.experiment(key)
            runs = [
                replace(run, capture_trace=None, further_captures=(), replay_trace=None)
                for run in whole.runs
            ]
            return replace(whole, runs=tuple(runs))
        path = self._path(key)
        return self._once((key, "bare"), lambda: self._without_traces(key, path))

    def outlines(self, key: str) -> tuple[Run, ...]:
        """The runs of ``key`` with what was recorded of a program and its loop, and no more than
        that: they are read in a fraction of the time that thousands of graphs take. Raises as
        :meth:`experiment`."""
        path = self._path(key)
        if self._pair(key) is not None:
            return self.bare(key).runs
        return self._once((key, "outlines"), lambda: load_outlines(path))

    def loops(self, key: str) -> tuple[Run, ...]:
        """Those of :meth:`outlines` that hold the loop of a program."""
        return tuple(run for run in self.outlines(key) if run.loop and run.recording)

    def _without_traces(self, key: str, path: Path) -> Experiment:
        pair = self._pair(key)
        if pair is not None:
            return load_pair(pair, traces=False)
        return load_experiment(path, traces=False)

    def _whole(self, key: str, path: Path) -> Experiment:
        pair = self._pair(key)
        whole = load_experiment(path) if pair is None else load_pair(pair)
        # What was read without the traces holds the graphs a second time.
        self._drop((key, "bare"))
        return whole

    def _pair(self, key: str) -> tuple[Path, Path] | None:
        with self._lock:
            return self._pairs.get(key)

    def _path(self, key: str) -> Path:
        with self._lock:
            path = self._paths.get(key)
        if path is None:
            raise ClosedError
        return path

    def run(self, key: str, name: str) -> Run:
        """The run called ``name`` in the experiment of ``key`` (UnknownKeyError if none)."""
        for run in self.experiment(key).runs:
            if run.name == name:
                return run
        raise UnknownKeyError(name)

    def derived(self, key: str, what: Hashable, build: Callable[[Experiment], T]) -> T:
        """``build(experiment)``, computed once for each ``what`` and kept."""
        experiment = self.experiment(key)
        return self._once((key, "derived", what), lambda: build(experiment))

    def derived_bare(self, key: str, what: Hashable, build: Callable[[Experiment], T]) -> T:
        """As :meth:`derived`, from the experiment without its traces, and kept until these are
        read."""
        experiment = self.bare(key)
        return self._once((key, "bare", what), lambda: build(experiment))

    def derived_loops(self, key: str, what: Hashable, build: Callable[[], T]) -> T:
        """``build()``, made of :meth:`loops` alone, computed once for each ``what`` and kept."""
        self._path(key)
        return self._once((key, "of loops", what), build)

    def has(self, key: str, what: Hashable) -> bool:
        """Whether ``derived(key, what, ...)`` would answer at once."""
        with self._lock:
            return (key, "derived", what) in self._values

    def has_of_loops(self, key: str, what: Hashable) -> bool:
        """Whether ``derived_loops(key, what, ...)`` would answer at once."""
        with self._lock:
            return (key, "of loops", what) in self._values

    def is_loaded(self, key: str) -> bool:
        """Whether the experiment of ``key`` is in memory."""
        with self._lock:
            return (key, "experiment") in self._values

    def _drop(self, begin: tuple[str, ...]) -> None:
        with self._lock:
            if len(begin) == 1:
                self._asked.pop(begin[0], None)
            for slots in (self._values, self._building):
                for slot in [k for k in slots if k[: len(begin)] == begin]:
                    del slots[slot]

    def _once(self, slot: tuple[str, *tuple[Hashable, ...]], build: Callable[[], T]) -> T:
        # One lock a slot: two pages that ask at once must not both parse the same trace.
        with self._lock:
            self._asked[slot[0]] = next(self._clock)
            if slot in self._values:
                return cast(T, self._values[slot])
            gate = self._building.setdefault(slot, threading.Lock())
        with gate:
            with self._lock:
                if slot in self._values:
                    return cast(T, self._values[slot])
            with COLLECTION.put_off():
                value = build()
            with self._lock:
                # Closed meanwhile: nobody would ever drop it.
                if slot[0] in self._paths:
                    self._values[slot] = value
        self._make_room(slot[0])
        return value

    def _make_room(self, asked: str) -> None:
        """Drops what was not asked for the longest, but for the experiment that is ``asked`` for
        now, until the process takes no more than it may."""
        with self._lock:
            held = {slot[0] for slot in self._values} - {asked}
            oldest = sorted(held, key=lambda key: self._asked.get(key, -1))
        for key in oldest:
            taken = self._taken()
            if taken is None or taken <= self._most_bytes:
                return
            self._drop((cast(str, key),))
            give_back()


STORE = Store()
