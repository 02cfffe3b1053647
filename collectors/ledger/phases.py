"""Time functions of engines, torch and Python that take part in start-up."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from itertools import dropwhile
from time import perf_counter_ns
from types import ModuleType
from typing import Any, Final

from collectors.after_import import AfterImport
from collectors.guard import HIDDEN_FRAME, Guard
from graphviz_dash.model.ledger import SpanKind

AddSpan = Callable[[SpanKind, str, int, int], None]
"""Receives kind, name, begin and end of a call."""

MIN_WAIT_NS: Final = 10_000_000
"""Shortest recorded wait for a child process."""

_PHASES: Final[dict[str, tuple[tuple[str, SpanKind], ...]]] = {
    "subprocess": (
        ("Popen.communicate", SpanKind.CHILD),
        ("Popen.wait", SpanKind.CHILD),
    ),
    "torch.distributed.distributed_c10d": (
        ("init_process_group", SpanKind.NCCL),
        ("new_group", SpanKind.NCCL),
    ),
    "triton.compiler": (("compile", SpanKind.TRITON),),
    "transformers.modeling_utils": (("PreTrainedModel.from_pretrained", SpanKind.WEIGHTS),),
    "transformers.generation.continuous_batching.cache": (
        ("PagedAttentionCache.__init__", SpanKind.CACHE),
    ),
    "vllm.v1.worker.gpu_worker": (
        ("Worker.load_model", SpanKind.WEIGHTS),
        ("Worker.determine_available_memory", SpanKind.WARM_UP),
        ("Worker.initialize_from_config", SpanKind.CACHE),
        ("Worker.compile_or_warm_up_model", SpanKind.CAPTURES),
    ),
    "sglang.srt.model_executor.model_runner": (
        ("ModelRunner.load_model", SpanKind.WEIGHTS),
        ("ModelRunner.init_memory_pool", SpanKind.CACHE),
        ("ModelRunner.init_device_graphs", SpanKind.CAPTURES),
        ("ModelRunner.init_piecewise_cuda_graphs", SpanKind.CAPTURES),
    ),
}
"""Functions by module. Missing functions of other versions are skipped."""

_COMPILER: Final = "torch._dynamo.utils"


class PhaseWatch:
    """Times phases of the program and of torch.compile, from :meth:`start` to :meth:`stop`.

    ``add`` receives each span, ``count`` each event of the compiler's caches by name, ``hold`` the
    objects whose methods load the model or allocate caches.
    """

    def __init__(
        self,
        add: AddSpan,
        count: Callable[[str], None],
        hold: Callable[[object], None],
        guard: Guard,
    ) -> None:
        self._add = add
        self._count = count
        self._hold = hold
        self._guard = guard
        self._restore: list[Callable[[], None]] = []
        self._finder: AfterImport | None = None

    def start(self) -> None:
        """Follow modules that are imported now or later."""
        names = (*_PHASES, _COMPILER)
        names_to_come = frozenset(name for name in names if name not in sys.modules)
        self._finder = AfterImport(names_to_come, self._follow)
        sys.meta_path.insert(0, self._finder)
        for name in names:
            if (module := sys.modules.get(name)) is not None:
                self._follow(module)

    def stop(self) -> None:
        """Restore all functions."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self._finder = None
        while self._restore:
            self._restore.pop()()

    def _follow(self, module: ModuleType) -> None:
        with self._guard:
            if module.__name__ == _COMPILER:
                self._follow_compiler(module)
            for path, kind in _PHASES.get(module.__name__, ()):
                self._follow_function(module, path, kind)

    def _follow_function(self, module: ModuleType, path: str, kind: SpanKind) -> None:
        owner_name, _, name = path.rpartition(".")
        owner: Any = getattr(module, owner_name, None) if owner_name else module
        original = vars(owner).get(name) if owner is not None else None
        if original is None:
            return
        is_class_method = isinstance(original, classmethod)
        function = original.__func__ if is_class_method else original
        add, hold = self._add, self._hold
        holds_tensors = kind in (SpanKind.WEIGHTS, SpanKind.CACHE)

        @wraps(function)
        def call_and_time(*args: Any, **kwargs: Any) -> Any:
            # Triton's kernels keep their compiler.
            if self._finder is None:
                return function(*args, **kwargs)
            if holds_tensors and args:
                hold(args[0])
            begin = perf_counter_ns()
            try:
                with HIDDEN_FRAME:
                    return function(*args, **kwargs)
            finally:
                end = perf_counter_ns()
                if kind is not SpanKind.CHILD:
                    add(kind, path, begin, end)
                elif end - begin >= MIN_WAIT_NS:
                    add(kind, name_command(args[0].args), begin, end)

        replacement: Any = classmethod(call_and_time) if is_class_method else call_and_time
        self._replace(owner, name, replacement, original)

    def _replace(self, owner: Any, name: str, replacement: Any, original: Any) -> None:
        setattr(owner, name, replacement)

        def restore() -> None:
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)

        self._restore.append(restore)

    def _follow_compiler(self, module: ModuleType) -> None:
        logger: Any = getattr(module, "ChromiumEventLogger", None)
        names = ("log_event_start", "log_event_end", "log_instant_event")
        if logger is None or not all(callable(vars(logger).get(name)) for name in names):
            return
        starts, ends, instant = (vars(logger)[name] for name in names)
        add, count = self._add, self._count
        begins: dict[str, list[int]] = {}

        @wraps(starts)
        def log_event_start(self: Any, event_name: str, *args: Any, **kwargs: Any) -> Any:
            begins.setdefault(event_name, []).append(perf_counter_ns())
            return starts(self, event_name, *args, **kwargs)

        @wraps(ends)
        def log_event_end(self: Any, event_name: str, *args: Any, **kwargs: Any) -> Any:
            if beginnings := begins.get(event_name):
                add(classify_event(event_name), event_name, beginnings.pop(), perf_counter_ns())
            return ends(self, event_name, *args, **kwargs)

        @wraps(instant)
        def log_instant_event(self: Any, event_name: str, *args: Any, **kwargs: Any) -> Any:
            count(event_name)
            return instant(self, event_name, *args, **kwargs)

        for name, replacement, original in (
            ("log_event_start", log_event_start, starts),
            ("log_event_end", log_event_end, ends),
            ("log_instant_event", log_instant_event, instant),
        ):
            self._replace(logger, name, replacement, original)


def name_command(command: Any) -> str:
    """Return the program of a command of ``subprocess``, with the module that Python runs.

    Arguments and variables set before it are omitted, because they may contain secrets.
    """
    if isinstance(command, str | bytes | os.PathLike):
        words = os.fsdecode(command).split()
    else:
        words = [os.fsdecode(word) for word in command]
        if len(words) == 1:  # may be a line for a shell
            words = words[0].split()
    words = list(dropwhile(lambda word: "=" in word, words))
    name = os.path.basename(words[0]) if words else ""
    if name.startswith("python") and words[1:2] == ["-m"]:
        name = " ".join([name, *words[1:3]])
    return name


_AUTOTUNING: Final = ("autotun", "benchmark")
_TRITON: Final = ("async_compile", "triton", "Triton", "reload_kernel")
_INDUCTOR: Final = (
    "inductor",
    "GraphLowering",
    "Scheduler",
    "compile_fx",
    "fx_codegen",
    "fx_graph",
    "code_gen",
    "codegen",
    "PyCodeCache",
    "grad_passes",
    "graph_passes",
    "cudagraphify",
)


def classify_event(name: str) -> SpanKind:
    """Return the kind of an event of torch.compile's timeline."""
    for kind, parts in (
        (SpanKind.AUTOTUNE, _AUTOTUNING),
        (SpanKind.TRITON, _TRITON),
        (SpanKind.INDUCTOR, _INDUCTOR),
    ):
        if any(part in name for part in parts):
            return kind
    return SpanKind.DYNAMO
