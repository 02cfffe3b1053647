"""Read step facts from engines: only public state is read, and only the method that runs a step is
wrapped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from types import FrameType, ModuleType
from typing import Any, Final

from collectors.after_import import AfterImport
from collectors.guard import HIDDEN_FRAME, Guard
from collectors.program.loop.events import ScopeFacts
from collectors.program.loop.labels import label_facts
from graphviz_dash.model.loop import Phase

StepEnded = Callable[[str, ScopeFacts, int], None]
"""Receives the engine with its version, its facts about a step, and the start of the step."""


class EngineWatch:
    """Follows engines that the program imports, until it is stopped."""

    def __init__(self, ended: StepEnded, guard: Guard) -> None:
        self._ended = ended
        self._guard = guard
        self._restore: list[Callable[[], None]] = []
        self._finder: AfterImport | None = None

    def start(self) -> None:
        """Follow engines that are imported now or later."""
        later = {}
        for name, follow in _ENGINES.items():
            if (module := sys.modules.get(name)) is not None:
                self._watch_module(follow, module)
            else:
                later[name] = follow
        self._finder = AfterImport(
            frozenset(later), lambda m: self._watch_module(later[m.__name__], m)
        )
        sys.meta_path.insert(0, self._finder)

    def stop(self) -> None:
        """Restore the engines."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        while self._restore:
            self._restore.pop()()

    def _watch_module(self, follow: _Follow, module: ModuleType) -> None:
        with self._guard:
            self._restore.append(follow(module, self._ended, self._guard))


def _watch_transformers(module: ModuleType, ended: StepEnded, guard: Guard) -> Callable[[], None]:
    """Follow continuous batching of transformers: its model runner computes one batch per step."""
    runner = module.ModelRunner
    original = runner.compute_batch
    engine = f"transformers {sys.modules['transformers'].__version__}"

    @wraps(original)
    def compute_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        facts = None
        with guard:
            facts = _read_transformers_batch(self.inputs_and_outputs)
        begin = time.perf_counter_ns()
        try:
            with HIDDEN_FRAME:
                return original(self, *args, **kwargs)
        finally:
            if facts is not None:
                ended(engine, facts, begin)

    runner.compute_batch = compute_batch

    def restore() -> None:
        if runner.compute_batch is compute_batch:
            runner.compute_batch = original

    return restore


def _read_transformers_batch(batch: Any) -> ScopeFacts:
    """Read facts of the next batch. Asynchronous batches alternate between two sets of graphs."""
    requests = batch
    if hasattr(batch, "io_pairs"):
        pair = batch.io_pairs[batch.current_pair]
        batch, requests = pair.device_io, pair.host_io
    key = batch._get_graph_key()
    if batch.total_seqlen_q == batch.num_request_in_batch:
        phase = Phase.DECODE
    else:
        alone = any(future.query_length == 1 for future in requests.requests_in_batch)
        phase = Phase.MIXED if alone else Phase.PREFILL
    name = "decode" if batch.use_block_table else "varlen"
    kinds = [f"longest {kind}" for kind in batch.max_seqlen_k]
    axes = ("tokens",) if batch.use_block_table else ("tokens", "cache", *kinds)
    numbers = dict(zip(axes, key, strict=True))
    return label_facts(name, batch.total_seqlen_q, phase, numbers, label=False)


def find_graph_name(frame: FrameType | None) -> str | None:
    """Return an engine's name for the graph that is captured in ``frame``. None for other captures.

    megatron-core captures forward and backward of each layer: ``layer 3 forward``.

    Raises:
        AttributeError: Unknown version of the engine.
        KeyError: Unknown version of the engine.
    """
    while frame is not None:
        code = frame.f_code
        pass_name = _MEGATRON_PASSES.get(code.co_name)
        if pass_name is not None and code.co_filename.endswith(
            "megatron/core/transformer/cuda_graphs.py"
        ):
            return f"layer {frame.f_locals['self'].base_module.layer_number} {pass_name}"
        frame = frame.f_back
    return None


_MEGATRON_PASSES: Final = {"create_fwd_graph": "forward", "create_bwd_graph": "backward"}

_Follow = Callable[[ModuleType, StepEnded, Guard], Callable[[], None]]

_ENGINES: Final[dict[str, _Follow]] = {
    "transformers.generation.continuous_batching.model_runner": _watch_transformers,
}
"""Modules whose classes run steps, and the functions that follow them."""
