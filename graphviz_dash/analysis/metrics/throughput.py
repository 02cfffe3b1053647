"""GPU arithmetic throughput of a training step: model FLOP/s and utilisation.

The workload states the operations per step, the time is the back-to-back interval of the clean
pass, and the peak is the vendor's dense peak for the stated precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from graphviz_dash.analysis.metrics.run_metrics import MetricValue, make_missing_value, make_value
from graphviz_dash.model.absence import Fact, Missing

if TYPE_CHECKING:
    from graphviz_dash.model.run import Run

THROUGHPUT: Final = ("tokens_rate", "model_flops_rate", "mfu")


_UNSTATED: Final = Missing(Fact.WORKLOAD_FLOPS, "the workload does not state the FLOPs of a step")


class Peak(Struct, frozen=True):
    """The dense peak of a GPU for one precision."""

    gpu: str
    """Name reported by torch."""
    precision: str
    """Type of the matrix multiplications, such as ``bf16``."""
    flops: float
    """FLOP/s, without sparsity."""
    source: str


PEAKS: Final = (
    Peak("NVIDIA H200", "bf16", 989e12, "NVIDIA H200 data sheet: 1,979 TFLOPS with sparsity"),
    Peak(
        "NVIDIA H100 80GB HBM3", "bf16", 989e12, "NVIDIA H100 SXM data sheet: 1,979 with sparsity"
    ),
    Peak("NVIDIA H100 PCIe", "bf16", 756e12, "NVIDIA H100 PCIe data sheet: 1,513 with sparsity"),
    Peak("NVIDIA A100-SXM4-80GB", "bf16", 312e12, "NVIDIA A100 data sheet: 312 TFLOPS"),
    Peak("NVIDIA A100-SXM4-40GB", "bf16", 312e12, "NVIDIA A100 data sheet: 312 TFLOPS"),
    Peak("NVIDIA A100 80GB PCIe", "bf16", 312e12, "NVIDIA A100 data sheet: 312 TFLOPS"),
)
"""Full names reported by torch: an H200 NVL has a different peak than an H200."""


def get_peak(gpu: str, precision: str) -> Peak | None:
    """Return the peak of ``gpu``; None if unknown."""
    for peak in PEAKS:
        if (peak.gpu, peak.precision) == (gpu, precision):
            return peak
    return None


def compute_throughput(run: Run, interval: MetricValue) -> Iterator[MetricValue]:
    """Compute the THROUGHPUT metrics from the workload and the back-to-back ``interval``."""
    work = run.manifest.workload.work
    if work is None:
        for metric in THROUGHPUT:
            yield make_missing_value(metric, _UNSTATED)
        return
    if not interval.value:
        for metric in THROUGHPUT:
            yield make_missing_value(
                metric,
                interval.missing or Missing(Fact.STEP_TIMES, "its back-to-back interval is 0"),
            )
        return
    if work.tokens is None:
        yield make_missing_value(
            "tokens_rate",
            Missing(Fact.WORKLOAD_FLOPS, "the workload does not state its tokens per step"),
        )
    else:
        yield _compute_rate("tokens_rate", work.tokens * 1e9, interval)
    yield _compute_rate("model_flops_rate", work.model_flops * 1e9, interval)
    gpu = run.manifest.environment.gpu_name
    peak = get_peak(gpu, work.precision)
    if peak is None:
        yield make_missing_value(
            "mfu", Missing(Fact.PEAK_FLOPS, f"the {work.precision} peak of {gpu} is unknown")
        )
    else:
        yield _compute_rate("mfu", work.model_flops * 1e9 / peak.flops, interval)


def _compute_rate(metric: str, per_step: float, interval: MetricValue) -> MetricValue:
    spread = interval.spread
    inverse_spread = None
    if spread is not None and spread.high is not None and spread.low > 0:
        inverse_spread = replace(spread, low=per_step / spread.high, high=per_step / spread.low)
    return make_value(metric, per_step / (interval.value or 1.0), inverse_spread)
