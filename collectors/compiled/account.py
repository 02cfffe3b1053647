"""One account of what torch.compile does in this process: :class:`CompileAccount`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from collectors.collection.paths import short_path
from collectors.compiled.taps import Taps
from collectors.compiled.trees import MUTATED, TREES, Trees, read_trees
from collectors.guard import Guard
from graphviz_dash.bundle.compile_log import STRUCTURED, CompileLog
from graphviz_dash.bundle.cudagraph_log import LOGGED, CudagraphLog
from graphviz_dash.model.compilation import (
    Compilation,
    CompilationFact,
    CompileWarning,
    FactSource,
    GraphSkip,
)

SLOW_PATH: Final = "outputs of an earlier step still wait for their backward"
"""The trees' warning that they cannot replay a function, in short."""

_COUNTERS: Final = "torch._dynamo.utils"
_GROUPS: Final = ("stats", "frames", "inductor", "aot_autograd")
"""The groups of torch._dynamo.utils.counters that count graphs, and not their reasons."""

_FROM_TRACE: Final = (
    CompilationFact.FRAMES,
    CompilationFact.BREAKS,
    CompilationFact.RECOMPILES,
    CompilationFact.GRAPHS,
)
_FROM_LOG: Final = (
    CompilationFact.PARTITIONS,
    CompilationFact.SKIPS,
    CompilationFact.RERECORDINGS,
    CompilationFact.WARNINGS,
)
_LOGGED_SINCE: Final = {
    CompilationFact.PARTITIONS: (2, 11),
    CompilationFact.RERECORDINGS: (2, 11),
}
"""The first version of torch that logs these facts."""
_FROM_TREES: Final = (CompilationFact.FUNCTIONS, CompilationFact.NODES)

_LIMITS: Final = ("torch._dynamo hit config.recompile_limit", "torch._dynamo hit config.cache_size")


GraphId: TypeAlias = Callable[[object], "str | None"]


@contextmanager
def compile_account() -> Iterator[CompileAccount]:
    """An account of what is compiled within it."""
    account = CompileAccount(Guard())
    account.start()
    try:
        yield account
    finally:
        account.stop()


class CompileAccount:
    """What torch.compile does from :meth:`start` on; errors of ours go to ``guard``."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._log = CompileLog(short_path, _interned)
        self._cudagraphs = CudagraphLog(short_path)
        self._taps = Taps(self._log.record, self._message, guard)
        self._trees: Trees | None = None
        self._trees_missing: str | None = None
        self._recordings_read = 0
        self.settled = False
        """Whether it has ended, so that what it tells is whole."""

    def start(self) -> None:
        """Begins to listen."""
        with self._guard:
            self._taps.start()

    def stop(self) -> None:
        """Leaves torch's logs as they were; what was seen is whole."""
        with self._guard:
            self._taps.stop()
        self.settled = True

    def step_ended(self, graph_id: GraphId) -> None:
        """Reads the trees if a graph was recorded since, while the program holds them."""
        if self._cudagraphs.recordings != self._recordings_read:
            self._recordings_read = self._cudagraphs.recordings
            self.read(graph_id)

    @property
    def told(self) -> int:
        """How much was seen so far: it grows with each record and recording."""
        cudagraphs = self._cudagraphs
        return self._log.records + cudagraphs.recordings + len(cudagraphs.skips)

    def read(self, graph_id: GraphId) -> None:
        """Reads the trees, where they are still there; ``graph_id`` gives the id that the bundle
        has for a ``torch.cuda.CUDAGraph``, None for none."""
        with self._guard:
            try:
                trees = read_trees(graph_id)
            except (AttributeError, TypeError, KeyError, IndexError, RuntimeError) as error:
                self._trees_missing = f"{TREES} is not as expected ({type(error).__name__})"
                return
            self._trees = trees or self._trees

    def result(self) -> Compilation | None:
        """What was seen; None where nothing was compiled."""
        log, cudagraphs = self._log, self._cudagraphs
        if not (log.records or cudagraphs.skips or cudagraphs.partitionings or self._trees):
            return None
        return Compilation(
            torch=_version(),
            sources=tuple(self._sources()),
            frames=tuple(log.frames.values()),
            breaks=tuple(log.breaks),
            recompiles=tuple(log.recompiles),
            graphs=tuple(log.graphs.values()),
            partitionings=cudagraphs.splits(),
            skips=tuple(self._skips()),
            functions=self._trees.functions if self._trees else (),
            nodes=self._trees.nodes if self._trees else (),
            rerecordings=tuple(cudagraphs.rerecordings),
            warnings=(*cudagraphs.warned(), *self._slow()),
            counters=_counters(),
        )

    def _skips(self) -> Iterator[GraphSkip]:
        """Those that the log told; where the trees tell the function and the line, theirs."""
        skips = list(self._trees.skips) if self._trees else []
        from_trees = bool(skips)
        for skip in self._cudagraphs.skips:
            if not (from_trees and skip.frame is None and skip.reason.startswith(MUTATED)):
                skips.append(skip)
        frames = {skip.frame for skip in skips}
        yield from skips
        yield from (skip for skip in self._log.skips if skip.frame not in frames)

    def _slow(self) -> Iterator[CompileWarning]:
        """The functions that the trees cannot replay, at the lines that call them."""
        for frame in self._trees.slow if self._trees else ():
            compiled = self._log.frames.get(frame or "")
            yield CompileWarning(SLOW_PATH, () if compiled is None else compiled.callers)

    def _message(self, text: str, frame: str | None) -> None:
        if text.startswith(_LIMITS):
            self._limit(text, frame)
        else:
            self._cudagraphs.message(text, frame)

    def _limit(self, text: str, frame: str | None) -> None:
        last = text.partition("last reason:")[2].partition("To log all recompilation")[0].strip()
        self._log.limit(frame, last or None)

    def _sources(self) -> Iterator[FactSource]:
        traced = None if self._log.records else "torch wrote no structured trace of it"
        for fact in _FROM_TRACE:
            yield FactSource(fact, None if traced else STRUCTURED, traced)
        for fact in _FROM_LOG:
            silent = _does_not_log(fact)
            yield FactSource(fact, None if silent else LOGGED, silent)
        missing = self._trees_missing
        if missing is None and self._trees is None:
            missing = "no CUDA graph was recorded"
        for fact in _FROM_TREES:
            yield FactSource(fact, None if missing else TREES, missing)
        yield FactSource(CompilationFact.COUNTERS, f"{_COUNTERS}.counters")


def _interned() -> dict[int, str]:
    """torch's numbers for names of files."""
    structured = sys.modules.get("torch._logging.structured")
    table: Mapping[str, int] = getattr(structured, "INTERN_TABLE", {})
    return {number: name for name, number in table.items()}


def _does_not_log(fact: CompilationFact) -> str | None:
    """Why the torch of this process does not log a kind of facts; None where it does, or where its
    version is not known."""
    since = _LOGGED_SINCE.get(fact)
    version = re.match(r"(\d+)\.(\d+)", _version() or "")
    if since is None or version is None:
        return None
    own = (int(version[1]), int(version[2]))
    if own >= since:
        return None
    return f"torch {own[0]}.{own[1]} does not log it, torch {since[0]}.{since[1]} does"


def _version() -> str | None:
    torch = sys.modules.get("torch")
    return None if torch is None else str(torch.__version__)


def _counters() -> dict[str, int]:
    """Those counters of Dynamo and Inductor that have to do with graphs."""
    counters: Mapping[str, Mapping[str, Any]] = getattr(sys.modules.get(_COUNTERS), "counters", {})
    return {
        f"{group}.{name}": int(value)
        for group in _GROUPS
        for name, value in dict(counters.get(group, {})).items()
        if isinstance(value, int) and value >= 0
    }
