from __future__ import annotations

import pytest

from graphviz_dash.features.efficiency.analysis.ceilings_choice import (
    CeilingsChoice,
    CeilingsOrigin,
)
from graphviz_dash.features.efficiency.analysis.limits import (
    LimitTerm,
    UnitLimit,
    estimate_cached_shares,
)
from graphviz_dash.features.efficiency.analysis.rates import Rates
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    GroupKey,
    group_limits,
    measure_items,
)
from graphviz_dash.features.efficiency.analysis.units import WorkMethod
from graphviz_dash.features.efficiency.analysis.work import Bound
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.ceilings import Pipe
from graphviz_dash.model.graph import Operand
from tests.features.efficiency.steps import StepBuilder, make_ceilings, tensor

POINTWISE = "vectorized_elementwise_kernel"
BF16 = "c10::BFloat16"
MIB = 1 << 20


def analyze(step: StepBuilder) -> EfficiencyReport:
    choice = CeilingsChoice(make_ceilings(), CeilingsOrigin.FILE)
    report = measure_items(tuple(step.items), choice)
    assert isinstance(report, EfficiencyReport)
    return report


def limit_of(step: StepBuilder) -> UnitLimit:
    (limit,) = analyze(step).limits
    return limit


def test_a_copy_of_device_memory() -> None:
    step = StepBuilder()
    # 64 MiB read and 64 MiB written at 2,000 bytes per ns, and the time of an empty kernel.
    step.add(POINTWISE, 100_000, "neg", tensor(16 * MIB))
    limit = limit_of(step)
    assert limit.term is LimitTerm.MEMORY
    assert limit.limit_ns == pytest.approx(1_000 + 128 * MIB / 2_000, rel=1e-3)
    assert limit.share == pytest.approx(0.681, abs=1e-3)
    assert limit.above_ns == pytest.approx(100_000 - 68_109, abs=10)
    assert not limit.is_near_limit


def test_a_kernel_that_device_memory_cannot_explain_uses_l2() -> None:
    step = StepBuilder()
    step.add(POINTWISE, 5_500, "neg", tensor(2 * MIB))
    limit = limit_of(step)
    assert limit.term is LimitTerm.L2
    assert limit.limit_ns == pytest.approx(1_000 + 16 * MIB / 4_000, rel=1e-3)
    assert limit.is_near_limit


def test_memory_that_an_earlier_kernel_used_is_in_l2() -> None:
    step = StepBuilder()
    for _ in range(2):
        step.add(POINTWISE, 20_000, "neg", tensor(MIB), operands=[(0, 4 * MIB), (4 * MIB, 4 * MIB)])
    _, second = analyze(step).limits
    assert second.cached_share == 1
    assert second.term is LimitTerm.L2


def test_a_limit_from_sizes_that_allow_too_much_work_is_unknown() -> None:
    step = StepBuilder()
    # 64 MiB of indexed rows in 2 µs: most rows were read again.
    rows = tensor(1 << 16, 256)
    step.add("gather_kernel", 2_000, "index_select", rows, 0, tensor(1 << 16, dtype="long int"))
    limit = limit_of(step)
    assert (limit.limit_ns, limit.share) == (None, None)
    assert limit.unit.missing == "the kernel does less work than its sizes allow"
    report = analyze(step)
    assert report.known_ns == 0


def test_a_product_is_limited_by_its_data_type() -> None:
    step = StepBuilder()
    matrix = tensor(4096, 4096, dtype=BF16)
    step.add("nvjet_tst", 200_000, "mm", matrix, matrix)
    limit = limit_of(step)
    assert (limit.term, limit.pipe) == (LimitTerm.ARITHMETIC, Pipe.BF16)
    assert limit.limit_ns == pytest.approx(2 * 4096**3 / 800e3, rel=1e-3)


@pytest.mark.parametrize(
    ("kernel", "pipe"),
    [
        ("ampere_sgemm_128x64_tn", Pipe.FP32),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize64x64x32", Pipe.TF32),
        ("cutlass_80_tensorop_s1688gemm_128x128", Pipe.TF32),
        ("unheard_of", Pipe.FP32),
    ],
)
def test_kernels_of_float_matrices(kernel: str, pipe: Pipe) -> None:
    step = StepBuilder()
    step.add(kernel, 3_000_000, "mm", tensor(4096, 4096), tensor(4096, 4096))
    assert limit_of(step).pipe is pipe


def test_an_unnamed_product_faster_than_float32_uses_tensor_cores() -> None:
    step = StepBuilder()
    step.add("unheard_of", 500_000, "mm", tensor(4096, 4096), tensor(4096, 4096))
    assert limit_of(step).pipe is Pipe.TF32


def test_a_tiny_kernel_is_limited_by_its_launch() -> None:
    step = StepBuilder()
    step.add(POINTWISE, 1_100, "neg", tensor(16))
    limit = limit_of(step)
    assert (limit.term, limit.is_near_limit) == (LimitTerm.LAUNCH, True)
    assert limit.limit_ns == pytest.approx(1_000, rel=1e-3)


def test_kernels_of_one_call_share_its_limit() -> None:
    step = StepBuilder()
    matrix = tensor(64, 64, dtype=BF16)
    step.add("nvjet_splitK", 3_000, "mm", matrix, matrix)
    step.add("splitKreduce_kernel", 2_000, "mm", matrix, matrix, continues=True)
    limit = limit_of(step)
    assert limit.time_ns == 5_000
    assert limit.unit.items == (0, 1)


def test_a_kernel_without_an_operator_is_measured_by_its_arguments() -> None:
    step = StepBuilder()
    step.add("custom_kernel", 50_000, operands=[(0, 8 * MIB), (8 * MIB, 8 * MIB)])
    unit = limit_of(step).unit
    assert unit.method is WorkMethod.ARGUMENTS
    assert unit.work is not None
    assert (unit.work.total_bytes, unit.work.bound) == (16 * MIB, Bound.UPPER)


def test_unknown_work_and_communication() -> None:
    step = StepBuilder()
    step.add("custom_kernel", 50_000)
    step.add("ncclDevKernel_AllReduce", 50_000, operands=[(0, 8 * MIB)])
    report = analyze(step)
    assert [limit.limit_ns for limit in report.limits] == [None, None]
    assert report.known_ns == report.above_ns == 0
    reasons = [limit.unit.missing or "" for limit in report.limits]
    assert "neither an operator with shapes" in reasons[0]
    assert "communication" in reasons[1]


def test_no_limits_and_no_times() -> None:
    step = StepBuilder()
    step.add(POINTWISE, 1_100, "neg", tensor(16))
    missing = Missing(Fact.CEILINGS, "not measured")
    report = measure_items(tuple(step.items), missing)
    assert isinstance(report, EfficiencyReport)
    assert (report.time_ns, report.known_ns, report.advice) == (1_100, 0, ())
    assert isinstance(measure_items((), missing), Missing)


def test_groups_add_up() -> None:
    step = StepBuilder()
    step.add(POINTWISE, 100_000, "neg", tensor(16 * MIB))
    step.add(POINTWISE, 90_000, "neg", tensor(16 * MIB))
    step.add("custom_kernel", 50_000)
    report = analyze(step)
    for key in GroupKey:
        groups = group_limits(report, key)
        assert sum(group.time_ns for group in groups) == report.time_ns
        assert sum(group.above_ns for group in groups) == pytest.approx(report.above_ns)
    first, second = group_limits(report, GroupKey.OPERATOR)
    assert (first.name, first.calls) == ("aten::neg", 2)
    assert (second.name, second.unknown_ns) == ("unknown", 50_000)


def test_rates_between_and_beyond_measured_sizes() -> None:
    rates = Rates(make_ceilings())
    assert rates.compute_memory_ns(0, 0, l2_hit=False) == 0
    assert rates.compute_memory_ns(1 << 29, 1 << 29, l2_hit=False) == pytest.approx(
        (1_000 + (1 << 28) / 2_000) * 4, rel=1e-4
    )
    # Three quarters read, one quarter written: half a copy, half a read.
    mixed = rates.compute_memory_ns(3 * MIB, MIB, l2_hit=False)
    assert mixed == pytest.approx(1_000 + 4 * MIB / 2_000, rel=1e-3)
    assert rates.get_flop_rate(Pipe.FP8) is None


def test_cached_shares() -> None:
    big, small = Operand(0, 0, 1000), Operand(0, 1000, 10)
    assert estimate_cached_shares([(small,), (small,)], 100) == [1.0, 1.0]
    # 1,000 bytes do not fit half of 1,600.
    assert estimate_cached_shares([(big,), (small,), None], 1_600) == [0.0, 0.0, None]
    assert estimate_cached_shares([(big,), (small,)], 4_000) == [1.0, 1.0]
