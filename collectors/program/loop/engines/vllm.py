"""Read vLLM: the scheduler's output of each step, and the batch descriptor of each capture.

vLLM has two model runners, in ``vllm.v1.worker.gpu_model_runner`` and, since 0.19, in
``vllm.v1.worker.gpu.model_runner``. A step's mode and padded size are those of the replayed graphs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
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

_FULL_DECODE: Final = "full decode"
_FULL: Final = "full"
_PIECEWISE: Final = "piecewise"
_DECODE_FAMILIES: Final = (_FULL_DECODE, _FULL, _PIECEWISE)
_MIXED_FAMILIES: Final = (_FULL, _PIECEWISE)

_DECODE: Final = Phase.DECODE

_MAIN_MANAGER: Final = "ModelCudaGraphManager"


def _follow_runner(module: ModuleType, reports: EngineReports) -> tuple[Callable[[], None], ...]:
    version = getattr(sys.modules["vllm"], "__version__", "")
    engine = f"vLLM {version}".rstrip()
    runner = module.GPUModelRunner
    return (
        follow_steps(runner, "execute_model", engine, _build_reader, reports),
        follow_capture(runner, "capture_model", _read_bytes, reports),
    )


def _read_bytes(_runner: Any, result: Any) -> int | None:
    return result if type(result) is int else None


def _build_reader(find_scope: FindScope) -> ReadStep:
    numbers: dict[Phase, int] = {}

    def read_step(
        runner: Any, output: Any, _tensors: Any = None, dummy_run: bool = False, **_kwargs: Any
    ) -> EngineStep | None:
        """Read the scheduler's output. None for a dummy run or a step without tokens."""
        tokens = output.total_num_scheduled_tokens
        if dummy_run or not tokens:
            return None
        counts = output.num_scheduled_tokens
        requests = len(counts)
        # Each request has at least one token.
        phase = _DECODE if tokens == requests else _find_phase(runner, counts.values())
        number = numbers.get(phase)
        if number is None:
            families = _DECODE_FAMILIES if phase is _DECODE else _MIXED_FAMILIES
            number = numbers[phase] = find_scope(ScopeFacts.build_for_graphs(phase, families))
        return number, tokens, requests

    return read_step


def _find_phase(runner: Any, counts: Collection[int]) -> Phase:
    decode = _read_decode_length(runner)
    if max(counts) <= decode:
        return Phase.DECODE
    return Phase.MIXED if min(counts) <= decode else Phase.PREFILL


def _read_decode_length(runner: Any) -> int:
    """Read the tokens of a request per decode step: more than one if a drafter proposes tokens."""
    for name in ("decode_query_len", "uniform_decode_query_len"):
        value = getattr(runner, name, None)
        if type(value) is int:
            return value
    return 1


def read_capture(frame: FrameType) -> CaptureFacts | None:
    """Read the key of the graph that ``frame`` captures. None if the frame is not vLLM's.

    Raises:
        AttributeError, KeyError: Unknown version.
    """
    name, file = frame.f_code.co_name, frame.f_code.co_filename
    if name == "__call__" and file.endswith("vllm/compilation/cuda_graph.py"):
        values = read_variables(frame)
        mode, batch = values["self"].runtime_mode.name, values["batch_descriptor"]
        is_decode = mode == "FULL" and batch.uniform
        family = _FULL_DECODE if is_decode else mode.lower()
        return _build_facts(family, batch.num_tokens, getattr(batch, "num_active_loras", 0))
    if name == "capture" and file.endswith("vllm/v1/worker/gpu/cudagraph_utils.py"):
        values = read_variables(frame)
        batch = values["desc"]
        manager = type(values["self"]).__name__
        family = _FULL if batch.uniform_token_count is None else _FULL_DECODE
        if manager != _MAIN_MANAGER:
            family = f"{family} of {manager}"
        return _build_facts(family, batch.num_tokens, 0)
    return None


def _build_facts(family: str, tokens: int, adapters: int) -> CaptureFacts:
    axes = ("tokens", "adapters") if adapters else ("tokens",)
    key = (tokens, adapters) if adapters else (tokens,)
    scope = ScopeFacts(label=False, name=family, axes=axes, key=key, real=None, phase=None)
    return CaptureFacts(scope, is_segment=family == _PIECEWISE)


RUNNERS: Final = {
    "vllm.v1.worker.gpu_model_runner": _follow_runner,
    "vllm.v1.worker.gpu.model_runner": _follow_runner,
}
