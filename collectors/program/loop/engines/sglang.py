"""Read SGLang: the forward batch of each step, and the size of each capture.

A decode graph serves a number of requests, a piecewise graph of a prefill a number of tokens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any, Final

from collectors.program.loop.engines.frames import read_variables
from collectors.program.loop.engines.steps import (
    EngineReports,
    EngineStep,
    FindScope,
    ReadStep,
    follow_capture,
    follow_steps,
)
from collectors.program.loop.events import CaptureFacts, ScopeFacts
from graphviz_dash.model.loop import Phase

_DECODE: Final = "decode"
_PREFILL: Final = "prefill"

_PHASES: Final = {
    "DECODE": Phase.DECODE,
    "TARGET_VERIFY": Phase.DECODE,
    "EXTEND": Phase.PREFILL,
    "SPLIT_PREFILL": Phase.PREFILL,
    "MIXED": Phase.MIXED,
}
"""Phases of forward modes. Other modes run no requests of the target model."""


def _follow_runner(module: ModuleType, reports: EngineReports) -> tuple[Callable[[], None], ...]:
    version = getattr(sys.modules["sglang"], "__version__", "")
    engine = f"SGLang {version}".rstrip()
    runner = module.ModelRunner
    return (
        follow_steps(runner, "forward", engine, _build_reader, reports),
        follow_capture(runner, "init_device_graphs", _read_bytes, reports),
    )


def _read_bytes(runner: Any, _result: Any) -> float | None:
    """Read the memory of the decode graphs, None for a drafting model."""
    if getattr(runner, "is_draft_worker", False):
        return None
    usage: float | None = getattr(runner, "graph_mem_usage", None)
    return None if usage is None else usage * 2**30


def _build_reader(find_scope: FindScope) -> ReadStep:
    numbers: dict[Phase, int] = {}

    def read_step(runner: Any, batch: Any, *_args: Any, **_kwargs: Any) -> EngineStep | None:
        """Read the forward batch. None for a drafting model and for a step without requests."""
        phase = _PHASES.get(batch.forward_mode.name)
        requests = batch.batch_size
        if phase is None or not requests or getattr(runner, "is_draft_worker", False):
            return None
        is_decode = phase is Phase.DECODE
        number = numbers.get(phase)
        if number is None:
            family = _DECODE if is_decode else _PREFILL
            number = numbers[phase] = find_scope(ScopeFacts.build_for_graphs(phase, (family,)))
        return number, requests if is_decode else len(batch.input_ids), requests

    return read_step


def read_capture(frame: FrameType) -> CaptureFacts | None:
    """Read the key of the graph that ``frame`` captures. None if the frame is not SGLang's.

    Raises:
        KeyError: Unknown version.
    """
    if frame.f_code.co_name != "capture_one_batch_size":
        return None
    folder, _, file = frame.f_code.co_filename.rpartition("/")
    if not folder.endswith("sglang/srt/model_executor"):
        return None
    if file in ("piecewise_cuda_graph_runner.py", "breakable_cuda_graph_runner.py"):
        return _build_facts(
            _PREFILL, "tokens", read_variables(frame)["num_tokens"], is_segment=True
        )
    if file == "cuda_graph_runner.py":
        return _build_facts(_DECODE, "requests", read_variables(frame)["bs"], is_segment=False)
    return None


def _build_facts(family: str, axis: str, size: int, *, is_segment: bool) -> CaptureFacts:
    scope = ScopeFacts(label=False, name=family, axes=(axis,), key=(size,), real=None, phase=None)
    return CaptureFacts(scope, is_segment)


RUNNERS: Final = {"sglang.srt.model_executor.model_runner": _follow_runner}
