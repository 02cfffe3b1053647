from __future__ import annotations

import pytest

from graphviz_dash.features.efficiency.analysis.advice import Advice
from graphviz_dash.features.efficiency.analysis.ceilings_choice import (
    CeilingsChoice,
    CeilingsOrigin,
)
from graphviz_dash.features.efficiency.analysis.report import EfficiencyReport, measure_items
from graphviz_dash.features.efficiency.analysis.rules.search import GAP_NS, Remedy
from tests.features.efficiency.steps import (
    LAUNCH_NS,
    MULTIPROCESSORS,
    StepBuilder,
    make_ceilings,
    tensor,
)

POINTWISE = "vectorized_elementwise_kernel"
BF16 = "c10::BFloat16"
MIB = 1 << 20


def advise(step: StepBuilder) -> tuple[Advice, ...]:
    choice = CeilingsChoice(make_ceilings(), CeilingsOrigin.FILE)
    report = measure_items(tuple(step.items), choice)
    assert isinstance(report, EfficiencyReport)
    return report.advice


def test_a_chain_is_fused_into_one_kernel() -> None:
    step = StepBuilder()
    # Each kernel copies 64 MiB, 68,100 ns at best.
    for operator in ("mul", "gelu", "neg"):
        step.add(POINTWISE, 75_000, operator, tensor(16 * MIB))
    (advice,) = advise(step)
    assert (advice.remedy, advice.operators) == (Remedy.FUSE, ("mul", "gelu", "neg"))
    assert (advice.kernels, advice.source) == (3, "model.py:7")
    # One copy remains.
    assert advice.time_ns == pytest.approx(225_000 + 2 * GAP_NS)
    assert advice.high_ns == pytest.approx(advice.time_ns - 68_100, abs=20)
    assert advice.saving_ns == pytest.approx(advice.time_ns - 68_100 / 0.85, abs=30)
    assert advice.low_ns == pytest.approx(advice.time_ns - 68_100 / 0.7, abs=30)


def test_a_backward_may_need_intermediate_results() -> None:
    step = StepBuilder()
    for operator in ("mul", "gelu", "neg"):
        step.add(POINTWISE, 75_000, operator, tensor(16 * MIB))
    step.add("nvjet_tst", 10, "mm", tensor(1, 1), tensor(1, 1), phase="backward")
    (advice,) = advise(step)
    # At worst all three results are still written.
    kept = 1_000 + 4 * 64 * MIB / 2_000
    assert advice.low_ns == pytest.approx(advice.time_ns - kept / 0.7, abs=500)
    assert advice.high_ns == pytest.approx(advice.time_ns - 68_100, abs=20)


def test_kernels_without_common_memory_are_no_chain() -> None:
    step = StepBuilder()
    for place, operator in enumerate(("mul", "gelu")):
        step.add(
            POINTWISE,
            75_000,
            operator,
            tensor(16 * MIB),
            operands=[(place * 128 * MIB, 64 * MIB), ((2 * place + 1) * 64 * MIB, 64 * MIB)],
        )
    assert advise(step) == ()


def test_a_product_ends_a_chain() -> None:
    step = StepBuilder()
    matrix = tensor(4096, 4096, dtype=BF16)
    step.add(POINTWISE, 40_000, "gelu", matrix)
    step.add("nvjet_tst", 180_000, "mm", matrix, matrix)
    step.add(POINTWISE, 40_000, "neg", matrix)
    assert advise(step) == ()


def test_equal_calls_become_one_foreach_operator() -> None:
    step = StepBuilder()
    for _ in range(8):
        step.add(POINTWISE, 1_200, "div_", tensor(1024), tensor())
    (advice,) = advise(step)
    assert (advice.remedy, advice.operators, advice.kernels) == (Remedy.FOREACH, ("div_",), 8)
    assert advice.high_ns == pytest.approx(8 * 1_200 + 7 * GAP_NS - 1_000, abs=50)


def test_an_unfused_optimizer() -> None:
    step = StepBuilder()
    parameters = tensor(16 * MIB)
    for operator in ("mul_", "lerp_", "addcmul_", "sqrt", "addcdiv_"):
        step.add(POINTWISE, 150_000, operator, parameters, parameters, phase="optimizer")
    (advice,) = advise(step)
    assert advice.remedy is Remedy.OPTIMIZER
    # Parameters, gradients and two moments are read; all but the gradients are written.
    limit = 1_000 + 7 * 64 * MIB / 2_000
    assert advice.high_ns == pytest.approx(advice.time_ns - limit, rel=0.01)
    assert advice.saving_ns == pytest.approx(advice.time_ns - limit / 0.85, rel=0.01)


@pytest.mark.parametrize(
    ("operators", "passes"),
    [
        (("mul_", "add_", "add_"), 5),
        # Nesterov's momentum is added to the gradient, too.
        (("mul_", "add_", "add_", "add_"), 5),
        (("add_", "mul", "sqrt"), 3),
        # The largest second moment is read and written, too.
        (("lerp_", "mul_", "addcmul_", "maximum", "sqrt", "addcdiv_"), 9),
    ],
)
def test_traffic_of_a_fused_optimizer(operators: tuple[str, ...], passes: int) -> None:
    step = StepBuilder()
    parameters = tensor(16 * MIB)
    for operator in operators:
        step.add(POINTWISE, 150_000, operator, parameters, parameters, phase="optimizer")
    (advice,) = advise(step)
    assert advice.remedy is Remedy.OPTIMIZER
    # Parameters, gradients and the momentum are read; all but the gradients are written.
    limit = 1_000 + passes * 64 * MIB / 2_000
    assert advice.high_ns == pytest.approx(advice.time_ns - limit, rel=0.01)


def test_a_fused_optimizer_is_left_alone() -> None:
    step = StepBuilder()
    step.add("multi_tensor_apply_kernel", 2_000, "_foreach_add_", phase="optimizer")
    step.add("FusedAdamMathFunctor", 150_000, "_fused_adamw_", phase="optimizer")
    assert advise(step) == ()


def test_a_cast_that_is_undone() -> None:
    step = StepBuilder()
    narrow, wide = tensor(MIB, dtype=BF16), tensor(MIB)
    step.add(POINTWISE, 4_000, "copy_", wide, narrow)
    step.add(POINTWISE, 4_000, "copy_", narrow, wide)
    (advice,) = advise(step)
    assert advice.remedy is Remedy.CASTS
    assert advice.saving_ns == 2 * (4_000 + GAP_NS)
    assert advice.low_ns == 4_000 + GAP_NS


def test_a_cast_that_rounds_is_kept() -> None:
    step = StepBuilder()
    narrow, wide = tensor(MIB, dtype=BF16), tensor(MIB)
    step.add(POINTWISE, 4_000, "copy_", narrow, wide)
    step.add(POINTWISE, 4_000, "copy_", wide, narrow)
    assert all(advice.remedy is not Remedy.CASTS for advice in advise(step))


def test_float32_products_use_tf32() -> None:
    step = StepBuilder()
    step.add("ampere_sgemm", 3_000_000, "mm", tensor(4096, 4096), tensor(4096, 4096))
    (advice,) = advise(step)
    assert advice.remedy is Remedy.DTYPE
    arithmetic = 2 * 4096**3 / 50e3 / (1024 / 1100)
    middle = arithmetic * (1 - 50 / (400 * 0.6))
    assert advice.saving_ns == pytest.approx(min(middle, 3_000_000), rel=0.15)


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("blocks", [MULTIPROCESSORS * 4, MULTIPROCESSORS // 4])
def test_a_slow_convolution_is_replaced(channels_last: bool, blocks: int) -> None:
    # 16 images of 256 channels and 56x56, 256 filters of 3x3: 59 GFLOP, 1.2 ms at 50 TFLOP/s.
    strides = (56 * 56 * 256, 1, 56 * 256, 256) if channels_last else None
    source, weight = tensor(16, 256, 56, 56, strides=strides), tensor(256, 256, 3, 3)
    step = StepBuilder()
    name = "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32"
    sides = [1, 1], [1, 1], [1, 1]
    step.add(name, 3_000_000, "cudnn_convolution", source, weight, *sides, blocks=blocks)
    (advice,) = advise(step)
    assert (advice.remedy, advice.operators) == (Remedy.DTYPE, ("cudnn_convolution",))
    flops = 2 * 16 * 256 * 56 * 56 * 256 * 9
    fill = min(1.0, blocks / MULTIPROCESSORS)
    moved = 4 * (2 * 16 * 256 * 56 * 56 + 256 * 256 * 9)
    conversions = 0 if channels_last else LAUNCH_NS + 2 * moved / 2_000
    fast = flops / (400e3 * 0.6 * fill)
    assert advice.saving_ns == pytest.approx(3_000_000 - fast - conversions, rel=0.01)
    assert advice.high_ns == pytest.approx(3_000_000 - flops / (400e3 * 0.9 * fill), rel=0.02)


def test_no_advice_on_a_good_product() -> None:
    step = StepBuilder()
    matrix = tensor(4096, 4096, dtype=BF16)
    limit = 2 * 4096**3 / 800e3
    step.add("nvjet_tst", limit / 0.86, "mm", matrix, matrix, blocks=MULTIPROCESSORS * 3 // 2)
    assert advise(step) == ()


@pytest.mark.parametrize(("share", "kinds"), [(0.86, set()), (0.8, {Remedy.MERGE})])
def test_good_small_products_of_one_matrix_are_not_merged(share: float, kinds: set[Remedy]) -> None:
    # Three products of 1 GFLOP: 64 blocks of 128 x 128, fewer than the GPU has multiprocessors.
    step = StepBuilder()
    left = tensor(1024, 1024, dtype=BF16)
    limit = 2 * 1024**3 / 800e3
    for place in range(1, 4):
        step.add(
            "nvjet_tst",
            limit / share,
            "mm",
            left,
            left,
            operands=[(0, 2 * MIB), (place * 4 * MIB, 2 * MIB)],
        )
    assert {advice.remedy for advice in advise(step)} == kinds


def test_a_last_wave() -> None:
    step = StepBuilder()
    matrix = tensor(4096, 4096, dtype=BF16)
    limit = 2 * 4096**3 / 800e3
    step.add("nvjet_tst", limit / 0.6, "mm", matrix, matrix, blocks=MULTIPROCESSORS * 5 // 4)
    (advice,) = advise(step)
    assert advice.remedy is Remedy.WAVES
    assert advice.high_ns == pytest.approx(limit / 0.6 * 3 / 8, rel=0.01)


def test_small_products_of_one_matrix_are_merged() -> None:
    step = StepBuilder()
    source = (0, 64 * 1024 * 2)
    for place in range(1, 4):
        step.add(
            "nvjet_tst",
            6_000,
            "mm",
            tensor(64, 1024, dtype=BF16),
            tensor(1024, 512, dtype=BF16),
            operands=[source, (place * 4 * MIB, MIB)],
        )
    (advice,) = advise(step)
    assert (advice.remedy, advice.kernels) == (Remedy.MERGE, 3)
    assert advice.saving_ns == pytest.approx(18_000 + 2 * GAP_NS - 6_000 * 1.15)


def add_layers(step: StepBuilder, rows: int = 64, kernel: str = POINTWISE) -> None:
    """Add two layers: three products of one input, and two operators that use their results.

    The second layer writes its first result over the input of the first layer.
    """
    size = rows * 1024 * 2
    state, query, key, value, product = (MIB * place for place in range(64, 69))
    for layer in range(2):
        source = state if layer == 0 else product
        for place, result in enumerate((state if layer else query, key, value)):
            step.add(
                "nvjet_tst",
                6_000,
                "mm",
                tensor(rows, 1024, dtype=BF16),
                tensor(1024, 1024, dtype=BF16),
                operands=[(source, size), ((3 * layer + place) * 2 * MIB, 2 * MIB), (result, size)],
            )
        vector = tensor(rows, 1024, dtype=BF16)
        first = state if layer else query
        memory = [(offset, size) for offset in (first, key, value, product)]
        step.add(kernel, 1_100, "addcmul", vector, vector, operands=memory)


def test_products_of_two_layers_are_not_one_group() -> None:
    step = StepBuilder()
    add_layers(step)
    (advice,) = advise(step)
    assert (advice.remedy, advice.groups) == (Remedy.MERGE, ((0, 1, 2), (4, 5, 6)))


def test_kernels_that_read_parts_of_a_merged_result_are_slower() -> None:
    step, others, single = StepBuilder(), StepBuilder(), StepBuilder()
    add_layers(step)
    add_layers(others, kernel="triton_poi_fused_addcmul_0")
    # The parts of a single row have no gaps.
    add_layers(single, rows=1)
    (slower,), (same,), (row,) = advise(step), advise(others), advise(single)
    merged = 2 * (18_000 + 2 * GAP_NS - 6_000 * 1.15)
    assert same.saving_ns == row.saving_ns == pytest.approx(merged)
    assert slower.saving_ns == pytest.approx(merged - 2 * 1.4 * LAUNCH_NS)
    assert slower.high_ns == pytest.approx(same.high_ns - 2 * 0.9 * LAUNCH_NS)
    assert slower.low_ns == pytest.approx(same.low_ns - 2 * 1.8 * LAUNCH_NS)


def test_products_of_different_matrices_are_not_merged() -> None:
    step = StepBuilder()
    for place in range(3):
        step.add(
            "nvjet_tst",
            6_000,
            "mm",
            tensor(64, 1024, dtype=BF16),
            tensor(1024, 512, dtype=BF16),
            operands=[(place * 4 * MIB, MIB)],
        )
    assert advise(step) == ()


def test_tiny_kernels_between_others() -> None:
    step = StepBuilder()
    matrix = tensor(64, 64, dtype=BF16)
    for _ in range(5):
        step.add("reduce_kernel", 1_500, "sum", tensor(64, 64), [0], True)
        step.add("nvjet_tst", 3_000, "mm", matrix, matrix)
    (advice,) = advise(step)
    assert (advice.remedy, advice.kernels, advice.low_ns) == (Remedy.LAUNCH, 5, 0)
    assert advice.high_ns == 5 * (1_000 + GAP_NS)


def test_each_call_belongs_to_one_recommendation() -> None:
    step = StepBuilder()
    for operator in ("mul_", "sqrt", "addcdiv_", "neg"):
        step.add(POINTWISE, 150_000, operator, tensor(16 * MIB), phase="optimizer")
    for operator in ("mul", "gelu"):
        step.add(POINTWISE, 90_000, operator, tensor(16 * MIB))
    step.add("ampere_sgemm", 3_000_000, "mm", tensor(4096, 4096), tensor(4096, 4096))
    found = advise(step)
    assert len(found) == 3
    indices = [index for advice in found for group in advice.groups for index in group]
    assert len(indices) == len(set(indices))
    assert [advice.saving_ns for advice in found] == sorted(
        (advice.saving_ns for advice in found), reverse=True
    )
