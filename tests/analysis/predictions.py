"""A calibration with known terms, and eager traces with replays computed by hand."""

from __future__ import annotations

from pathlib import Path

import msgspec

from graphviz_dash.analysis.prediction.predict import Prediction, predict
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm
from graphviz_dash.analysis.prediction.uncertainty import MIN_SCALE
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.calibration import (
    CALIBRATION_FORMAT,
    CALIBRATION_VERSION,
    Calibration,
    ErrorScale,
)
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.marks import MODULE, STEP
from graphviz_dash.model.timings import CleanTimings
from graphviz_dash.model.trace import Trace
from tests.analysis.frames import ENVIRONMENT
from tests.trace_builder import TraceBuilder

GPU = Gpu("NVIDIA H200", (9, 0), 150_109_880_320, 132)

TERMS = {
    ReplayTerm.FIXED: 5_000.0,
    ReplayTerm.RANDOM: 9_000.0,
    ReplayTerm.KERNEL: 300.0,
    ReplayTerm.WIDE: 100.0,
    ReplayTerm.SET: 2_000.0,
    ReplayTerm.COPY: 1_500.0,
    ReplayTerm.HOST_COPY: 4_000.0,
    ReplayTerm.JOIN: 1_000.0,
    ReplayTerm.HEAT: 0.0,
    ReplayTerm.WARPS: 4.0,
}

CALIBRATION = Calibration(
    format=CALIBRATION_FORMAT,
    version=CALIBRATION_VERSION,
    tool_version="0",
    created="2026-11-21T00:00:00+00:00",
    recorded_at="2026-11-21T00:00:00+00:00",
    gpu=GPU,
    environment=ENVIRONMENT,
    terms={term.value: value for term, value in TERMS.items()},
    interval_fixed_ns=1_000.0,
    errors=ErrorScale({}, 0.1 / MIN_SCALE, 0.1 / MIN_SCALE),
    replay_cpu_ns=(4_000.0, 5.0),
    capture=(500_000.0, 1.0),
    instantiate_ns=(50_000.0, 3_000.0),
    first_launch_ns=(20_000.0, 100.0),
    samples=(),
    holdout_samples=(),
)


def with_terms(**terms: float) -> Calibration:
    return msgspec.structs.replace(CALIBRATION, terms=CALIBRATION.terms | terms)


def line_trace(
    folder: Path,
    kernels: int = 10,
    duration: int = 2_000,
    steps: int = 4,
    gap: int = 10_000,
    modules: int = 0,
    name: str = "gemm",
    device: str = "NVIDIA H200",
    marked: bool = True,
) -> Trace:
    """``steps`` marked steps of equal kernels on one stream, one every ``gap`` ns, divided over
    ``modules``. Without ``marked``, no step is marked."""
    trace = TraceBuilder(device_names=(device,))
    at = 0
    for step in range(steps):
        if modules:
            each = kernels // modules
            for place in range(modules):
                begin = at + 900 + place * each * gap
                trace.annotation(f"{MODULE}net.{place}", begin, each * gap - 200)
        for place in range(kernels):
            begin = at + 1_000 + place * gap
            correlation = trace.runtime("cudaLaunchKernel", begin, 4_000)
            trace.kernel(name, begin + 6_000, duration, correlation=correlation)
        end = at + 1_000 + kernels * gap + duration
        trace.runtime("cudaDeviceSynchronize", end, 2_000)
        if marked:
            trace.annotation(f"{STEP}{step}", at, end + 3_000 - at)
        at = end + 10_000
    return read_trace(trace.write(folder / "trace.json"))


def predicted(
    trace: Trace, calibration: Calibration = CALIBRATION, clean: CleanTimings | None = None
) -> Prediction:
    found = predict(trace, calibration, clean)
    assert isinstance(found, Prediction), found
    return found
