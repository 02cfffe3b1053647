"""Record the activity of torch.compile."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from collectors.collection.paths import shorten_path
from collectors.compiled.taps import CompileListener
from collectors.compiled.trees import MUTATED, TREES, Trees, read_trees
from collectors.guard import Guard
from collectors.process.results import write_result
from graphviz_dash.bundle import parts
from graphviz_dash.bundle.compile_log import RECORD_ERRORS, STRUCTURED_SOURCE, CompileLog
from graphviz_dash.bundle.cudagraph_log import LOG_SOURCE, CudagraphLog
from graphviz_dash.model.compilation import (
    Compilation,
    CompilationFact,
    CompileWarning,
    FactSource,
    GraphSkip,
)

SLOW_PATH: Final = "outputs of an earlier step still wait for their backward"
"""Short form of the trees' warning about an unreplayable function."""

_COUNTERS: Final = "torch._dynamo.utils"
_GROUPS: Final = ("stats", "frames", "inductor", "aot_autograd")
"""Groups of torch._dynamo.utils.counters that count graphs rather than reasons."""

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
"""First torch version that logs these facts."""
_FROM_TREES: Final = (CompilationFact.FUNCTIONS, CompilationFact.NODES)

_LIMITS: Final = ("torch._dynamo hit config.recompile_limit", "torch._dynamo hit config.cache_size")


GraphId: TypeAlias = Callable[[object], "str | None"]


@contextmanager
def record_compilation() -> Iterator[CompileRecorder]:
    """Record all compilations within the context."""
    account = CompileRecorder(Guard())
    account.start()
    try:
        yield account
    finally:
        account.stop()


class CompileRecorder:
    """Records torch.compile from :meth:`start` on; internal errors go to ``guard``."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._log = CompileLog(shorten_path, _get_interned_names)
        self._cudagraphs = CudagraphLog(shorten_path)
        self._taps = CompileListener(self._log.record, self._handle_message, guard)
        self._trees: Trees | None = None
        self._trees_missing: str | None = None
        self._recordings_read = 0
        self.is_finished = False

    def start(self) -> None:
        """Start listening."""
        with self._guard:
            self._taps.start()

    def stop(self) -> None:
        """Restore torch's loggers; the result is final."""
        with self._guard:
            self._taps.stop()
        self.is_finished = True

    def has_new_recordings(self) -> bool:
        """Return whether a graph was recorded since the last call."""
        recordings = self._cudagraphs.recordings
        is_new = recordings != self._recordings_read
        self._recordings_read = recordings
        return is_new

    @property
    def record_count(self) -> int:
        """Number of records and recordings so far."""
        cudagraphs = self._cudagraphs
        return self._log.records + cudagraphs.recordings + len(cudagraphs.skips)

    def read_trees(self, graph_id: GraphId) -> None:
        """Read the trees if they still exist; ``graph_id`` maps CUDAGraph objects to bundle ids."""
        with self._guard:
            try:
                trees = read_trees(graph_id)
            except (AttributeError, TypeError, KeyError, IndexError, RuntimeError) as error:
                self._trees_missing = f"{TREES} is not as expected ({type(error).__name__})"
                return
            self._trees = trees or self._trees

    def get_result(self) -> Compilation | None:
        """Return the compilation, or None if nothing was compiled."""
        log, cudagraphs = self._log, self._cudagraphs
        if not (log.records or cudagraphs.skips or cudagraphs.has_partitionings or self._trees):
            return None
        return Compilation(
            torch=_get_torch_version(),
            sources=tuple(self._iter_sources()),
            frames=tuple(log.frames.values()),
            breaks=tuple(log.breaks),
            recompiles=tuple(log.recompiles),
            graphs=tuple(log.graphs.values()),
            partitionings=cudagraphs.get_partitionings(),
            skips=tuple(self._iter_skips()),
            functions=self._trees.functions if self._trees else (),
            nodes=self._trees.nodes if self._trees else (),
            rerecordings=tuple(cudagraphs.rerecordings),
            warnings=(*cudagraphs.get_warnings(), *self._iter_slow_warnings()),
            counters=_read_counters(),
        )

    def _iter_skips(self) -> Iterator[GraphSkip]:
        """Yield skips of the log, or the trees' if those know function and line."""
        skips = list(self._trees.skips) if self._trees else []
        from_trees = bool(skips)
        for skip in self._cudagraphs.skips:
            if not (from_trees and skip.frame is None and skip.reason.startswith(MUTATED)):
                skips.append(skip)
        frames = {skip.frame for skip in skips}
        yield from skips
        yield from (skip for skip in self._log.skips if skip.frame not in frames)

    def _iter_slow_warnings(self) -> Iterator[CompileWarning]:
        for frame in self._trees.slow if self._trees else ():
            compiled = self._log.frames.get(frame or "")
            yield CompileWarning(SLOW_PATH, () if compiled is None else compiled.callers)

    def _handle_message(self, text: str, frame: str | None) -> None:
        if text.startswith(_LIMITS):
            self._handle_limit(text, frame)
        else:
            self._cudagraphs.process_message(text, frame)

    def _handle_limit(self, text: str, frame: str | None) -> None:
        last = text.partition("last reason:")[2].partition("To log all recompilation")[0].strip()
        with suppress(*RECORD_ERRORS):
            self._log.record_limit(frame, last or None)

    def _iter_sources(self) -> Iterator[FactSource]:
        traced = None if self._log.records else "torch wrote no structured trace"
        for fact in _FROM_TRACE:
            yield FactSource(fact, None if traced else STRUCTURED_SOURCE, traced)
        for fact in _FROM_LOG:
            silent = _explain_missing_log(fact)
            yield FactSource(fact, None if silent else LOG_SOURCE, silent)
        missing = self._trees_missing
        if missing is None and self._trees is None:
            missing = "torch.compile recorded no CUDA graph"
        for fact in _FROM_TREES:
            yield FactSource(fact, None if missing else TREES, missing)
        yield FactSource(CompilationFact.COUNTERS, f"{_COUNTERS}.counters")


def _get_interned_names() -> Mapping[str, int]:
    structured = sys.modules.get("torch._logging.structured")
    table: Mapping[str, int] = getattr(structured, "INTERN_TABLE", {})
    return table


def _explain_missing_log(fact: CompilationFact) -> str | None:
    since = _LOGGED_SINCE.get(fact)
    version = re.match(r"(\d+)\.(\d+)", _get_torch_version() or "")
    if since is None or version is None:
        return None
    installed = (int(version[1]), int(version[2]))
    if installed >= since:
        return None
    return f"torch {installed[0]}.{installed[1]} does not log it, torch {since[0]}.{since[1]} does"


def _get_torch_version() -> str | None:
    torch = sys.modules.get("torch")
    return None if torch is None else str(torch.__version__)


def _read_counters() -> dict[str, int]:
    counters: Mapping[str, Mapping[str, Any]] = getattr(sys.modules.get(_COUNTERS), "counters", {})
    return {
        f"{group}.{name}": int(value)
        for group in _GROUPS
        for name, value in dict(counters.get(group, {})).items()
        if isinstance(value, int) and value >= 0
    }


@contextmanager
def save_compilation(out: Path) -> Iterator[CompileRecorder]:
    """Record compilations and write them to ``out`` on exit, even after an error."""
    try:
        with record_compilation() as account, ExitStack() as failed:
            # If the step fails, the bundle contains none of its graphs.
            failed.callback(account.read_trees, lambda _: None)
            yield account
            failed.pop_all()
    finally:
        compilation = account.get_result()
        if compilation is not None:
            write_result(parts.COMPILATION, compilation, out)
