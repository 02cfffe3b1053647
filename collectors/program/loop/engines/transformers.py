"""Read continuous batching of transformers: its model runner computes one batch per step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from collectors.program.loop.engines.steps import (
    EngineReports,
    EngineStep,
    FindScope,
    ReadStep,
    follow_steps,
)
from collectors.program.loop.labels import label_facts
from graphviz_dash.model.loop import Phase


def _follow_runner(module: ModuleType, reports: EngineReports) -> tuple[Callable[[], None], ...]:
    engine = f"transformers {sys.modules['transformers'].__version__}"
    runner = module.ModelRunner
    return (follow_steps(runner, "compute_batch", engine, _build_reader, reports),)


def _build_reader(find_scope: FindScope) -> ReadStep:
    def read_step(runner: Any, *_args: Any, **_kwargs: Any) -> EngineStep:
        return _read_batch(runner, find_scope)

    return read_step


def _read_batch(runner: Any, find_scope: FindScope) -> EngineStep:
    """Read facts of the next batch. Asynchronous batches alternate between two sets of graphs."""
    batch = requests = runner.inputs_and_outputs
    if hasattr(batch, "io_pairs"):
        pair = batch.io_pairs[batch.current_pair]
        batch, requests = pair.device_io, pair.host_io
    key = batch._get_graph_key()
    count = batch.num_request_in_batch
    if batch.total_seqlen_q == count:
        phase = Phase.DECODE
    else:
        has_decode = any(future.query_length == 1 for future in requests.requests_in_batch)
        phase = Phase.MIXED if has_decode else Phase.PREFILL
    name = "decode" if batch.use_block_table else "varlen"
    kinds = [f"longest {kind}" for kind in batch.max_seqlen_k]
    axes = ("tokens",) if batch.use_block_table else ("tokens", "cache", *kinds)
    numbers = dict(zip(axes, key, strict=True))
    scope = label_facts(name, None, phase, numbers, label=False)
    return find_scope(scope), batch.total_seqlen_q, count


RUNNERS: Final = {"transformers.generation.continuous_batching.model_runner": _follow_runner}
