from __future__ import annotations

import json
from typing import Any

import pytest

from graphviz_dash.features.efficiency.analysis.operator_call import OperatorCall, parse_call
from graphviz_dash.features.efficiency.analysis.units import compute_call_work
from graphviz_dash.features.efficiency.analysis.work import Bound, Work
from tests.features.efficiency.steps import call, encode_inputs, tensor, tensors

POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>"
BF16, HALF, LONG = "c10::BFloat16", "c10::Half", "long int"
ADAM = (
    "multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, "
    "FusedAdamMathFunctor<c10::BFloat16, 4, ADAM_MODE 0, false>>"
)
LIST = tensors((10, 10), (20,))

CASES: list[tuple[OperatorCall, str, tuple[int, int, int]]] = [
    # Matrix products: left, right and added values are read.
    (call("mm", tensor(2, 3), tensor(3, 5)), "sgemm", (4 * (6 + 15), 40, 60)),
    (
        call("addmm", tensor(5, dtype=BF16), tensor(2, 3, dtype=BF16), tensor(3, 5, dtype=BF16)),
        "nvjet",
        (2 * (5 + 6 + 15), 20, 60),
    ),
    (call("bmm", tensor(4, 2, 3), tensor(4, 3, 5)), "gemm", (4 * 4 * 21, 160, 240)),
    (call("mv", tensor(7, 3), tensor(3)), "gemv", (4 * 24, 28, 42)),
    # An 8-bit product has the result's type as an argument: 15 is bfloat16.
    (
        call(
            "_scaled_mm",
            tensor(2, 3, dtype="c10::Float8_e4m3fn"),
            tensor(3, 5, dtype="c10::Float8_e4m3fn"),
            tensor(),
            tensor(),
            None,
            None,
            15,
        ),
        "gemm",
        (6 + 15 + 8, 20, 60),
    ),
    # 1 image of 2 channels and 4x4, 3 filters of 3x3, padding 1: 3x4x4 results of 18 products.
    (
        call("cudnn_convolution", tensor(1, 2, 4, 4), tensor(3, 2, 3, 3), [1, 1], [1, 1], [1, 1]),
        "fprop",
        (4 * (32 + 54), 4 * 48, 2 * 48 * 18),
    ),
    # vLLM's operators write into tensors that they get.
    (
        call("_C::rms_norm", *[tensor(16, 1024, dtype=BF16)] * 2, tensor(1024, dtype=BF16), 1e-6),
        "rms_norm_kernel",
        (16 * 2048 + 2048, 16 * 2048, 0),
    ),
    (
        call(
            "_C::fused_add_rms_norm",
            *[tensor(16, 1024, dtype=BF16)] * 2,
            tensor(1024, dtype=BF16),
            1e-6,
        ),
        "fused_add_rms_norm_kernel",
        (2 * 16 * 2048 + 2048, 2 * 16 * 2048, 0),
    ),
    (
        call("_C::silu_and_mul", tensor(16, 3072, dtype=BF16), tensor(16, 6144, dtype=BF16)),
        "act_and_mul_kernel",
        (16 * 12288, 16 * 6144, 0),
    ),
    # Each of 16 tokens reads its row of 128 cosines and sines.
    (
        call(
            "_C::rotary_embedding",
            tensor(16, dtype=LONG),
            tensor(16, 2048, dtype=BF16),
            tensor(16, 1024, dtype=BF16),
            128,
            tensor(4096, 128, dtype=BF16),
            True,
        ),
        "rotary_embedding_kernel",
        (16 * 8 + 16 * 6144 + 16 * 256, 16 * 6144, 0),
    ),
    (
        call(
            "_C_cache_ops::reshape_and_cache_flash",
            *[tensor(16, 8, 128, dtype=BF16)] * 2,
            *[tensor(500, 16, 8, 128, dtype=BF16)] * 2,
            tensor(16, dtype=LONG),
        ),
        "reshape_and_cache_flash_kernel",
        (2 * 16 * 2048 + 16 * 8, 2 * 16 * 2048, 0),
    ),
    # A filter of 1x1 with a stride of 2 skips every other row, ...
    (
        call("cudnn_convolution", tensor(1, 2, 8, 8), tensor(3, 2, 1, 1), [0, 0], [2, 2], [1, 1]),
        "fprop",
        (4 * (2 * 4 * 8 + 6), 4 * 48, 2 * 48 * 2),
    ),
    # ... and every other pixel of a row if its channels are adjacent.
    (
        call(
            "cudnn_convolution",
            tensor(1, 2, 8, 8, strides=(128, 1, 16, 2)),
            tensor(3, 2, 1, 1),
            [0, 0],
            [2, 2],
            [1, 1],
        ),
        "fprop",
        (4 * (2 * 4 * 4 + 6), 4 * 48, 2 * 48 * 2),
    ),
    # The fourth tensor is the result.
    (
        call("where", tensor(8, 1, dtype="bool"), tensor(), tensor(8, 4), tensor(8, 4)),
        POINTWISE,
        (8 + 4 + 128, 128, 0),
    ),
    # Attention in full: 2 products of 8 queries, 8 keys and a width of 16, for 2 heads.
    (
        call(
            "_cudnn_attention_forward",
            *[tensor(1, 2, 8, 16, dtype=BF16)] * 3,
            *[None] * 6,
            0.0,
            False,
        ),
        "flash",
        (3 * 512, 512, 2 * 2 * 64 * 32),
    ),
    # Causal: 36 of the 64 pairs.
    (
        call(
            "_flash_attention_forward",
            *[tensor(1, 8, 2, 16, dtype=BF16)] * 3,
            *[None] * 4,
            0.0,
            True,
        ),
        "flash",
        (3 * 512, 512, 2 * 2 * 36 * 32),
    ),
    # Elementwise: an expanded operand is read once, a comparison writes bytes.
    (call("add", tensor(4, 8), tensor(4, 8, strides=(0, 1))), POINTWISE, (128 + 32, 128, 0)),
    (call("mul", tensor(4, 8), tensor(4, 1)), POINTWISE, (128 + 16, 128, 0)),
    (call("gt", tensor(4, 8), 0), POINTWISE, (128, 32, 0)),
    (call("mul", tensor(8, dtype=BF16), tensor()), POINTWISE, (16 + 4, 16, 0)),
    (call("add_", tensor(8), tensor(8)), POINTWISE, (64, 32, 0)),
    (call("uniform_", tensor(8), 0.0, 1.0), "distribution_elementwise_grid", (0, 32, 0)),
    # The result is an argument, which the operator may resize first.
    (call("abs", tensor(8), tensor(0)), POINTWISE, (32, 32, 0)),
    (call("mul", tensor(8), tensor(8), tensor(8)), POINTWISE, (64, 32, 0)),
    (call("copy_", tensor(8, dtype=HALF), tensor(8)), POINTWISE, (32, 16, 0)),
    (call("fill_", tensor(8, dtype=LONG), 0), POINTWISE, (0, 64, 0)),
    (call("arange", 2, 10, 3, tensor(0, dtype=LONG)), POINTWISE, (0, 24, 0)),
    # The lower triangle of 3 rows and 4 columns has 6 values, with one more diagonal 9.
    (call("tril", tensor(3, 4), 0), "triu_tril_kernel", (24, 48, 0)),
    (call("tril", tensor(3, 4), 1), "triu_tril_kernel", (36, 48, 0)),
    (call("triu", tensor(3, 4), 0), "triu_tril_kernel", (36, 48, 0)),
    # Reductions.
    (call("sum", tensor(4, 8), [0], True), "reduce_kernel", (128, 32, 0)),
    (call("sum", tensor(4, 8), None), "reduce_kernel", (128, 4, 0)),
    (call("argmax", tensor(4, 8), -1, False), "reduce_kernel", (128, 32, 0)),
    (call("_softmax", tensor(4, 8, dtype=HALF), -1, True), "softmax", (64, 128, 0)),
    (
        call("native_layer_norm", tensor(4, 8), "[8]", tensor(8), tensor(8), 1e-5),
        "layer_norm",
        (128 + 64, 128, 0),
    ),
    (call("native_dropout", tensor(8), 0.1, True), "fused_dropout", (32, 40, 0)),
    # Lists have the data type of the kernel.
    (call("cat", LIST, 0), "CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 2>", (240, 240, 0)),
    (
        call("_foreach_add_", LIST, LIST, 1),
        "multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 2>>",
        (960, 480, 0),
    ),
    (call("_fused_adamw_", LIST, LIST, LIST, LIST, tensors(), LIST), ADAM, (960, 720, 0)),
    # 8x8 in windows of 3, steps of 2, padding 1: 4x4 values and positions.
    (
        call("max_pool2d_with_indices", tensor(1, 1, 8, 8), [3, 3], [2, 2], [1, 1], [1, 1], False),
        "pool",
        (256, 16 * 12, 0),
    ),
    (call("upsample_nearest2d", tensor(1, 2, 4, 4), [8, 8], 2.0), "up", (128, 512, 0)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].name)
def test_the_work_of_an_operator(case: tuple[OperatorCall, str, tuple[int, int, int]]) -> None:
    operator, kernel, (read, writes, flops) = case
    work = compute_call_work(operator, (kernel,))
    assert isinstance(work, Work)
    assert (work.read_bytes, work.written_bytes, work.flops) == (read, writes, flops)
    assert work.bound is Bound.EXACT


def test_large_strides_are_kept() -> None:
    strides = (1 << 30, 0, 1 << 20, 1 << 10)
    expanded = call("neg", tensor(2, 4, 2, 2, strides=strides))
    (parsed,) = expanded.tensors
    assert (parsed.strides, parsed.distinct_elements) == (strides, 8)


def test_paged_attention_reads_the_longest_sequence_for_all() -> None:
    # Each of 4 queries reads 100 keys and values of 2 heads of 64 from the cache; 2 * 2 * 64
    # operations for each key and head of the query.
    work = compute_call_work(
        call(
            "_vllm_fa3_C::fwd",
            tensor(4, 8, 64, dtype=BF16),
            *[tensor(500, 16, 2, 64, dtype=BF16)] * 2,
            *[None] * 8,
            tensor(4, dtype="int"),
            1,
            100,
        ),
        ("FlashAttnFwdSm90",),
    )
    rows = 4 * 8 * 64 * 2
    cache = 2 * 4 * 100 * 2 * 64 * 2
    assert work == Work(rows + cache, rows, Bound.UPPER, 4 * 8 * 100 * 256, BF16)


def test_the_result_of_indexing_is_unknown() -> None:
    operator = call("index", tensor(16, 1024, dtype=BF16), None)
    assert compute_call_work(operator, ("index_elementwise_kernel<128, 4>",)) is None


def test_bounds() -> None:
    rows = compute_call_work(
        call("index_select", tensor(100, 8), 0, tensor(5, dtype=LONG)), ("index",)
    )
    assert rows == Work(5 * 32 + 40, 5 * 32, Bound.UPPER)
    # Three bags of ten rows of 64 values.
    bags = compute_call_work(
        call("_embedding_bag", tensor(100, 64), tensor(10, dtype=LONG), tensor(3, dtype=LONG)),
        ("EmbeddingBag_updateOutputKernel_sum_mean",),
    )
    assert bags == Work(10 * 256 + 13 * 8, 3 * 256, Bound.UPPER)
    # An index that is the same along the last dimension selects rows.
    rows = compute_call_work(
        call("gather", tensor(100, 64), 0, tensor(5, 64, dtype=LONG, strides=(1, 0))),
        ("vectorized_gather_kernel",),
    )
    assert rows == Work(5 * 256 + 40, 5 * 256, Bound.UPPER)
    norm = compute_call_work(call("native_batch_norm", tensor(2, 3, 4, 4)), ("bn",))
    assert norm == Work(384, 384, Bound.LOWER)
    compiled = compute_call_work(
        parse("triton_poi_fused_add_0", tensor(8), tensor(8)), ("triton_poi_fused_add_0",)
    )
    assert compiled == Work(32, 32, Bound.LOWER)
    gathered = compute_call_work(
        parse("triton_poi_fused_embedding_0", tensor(100, 8), tensor(8)), ("triton",)
    )
    assert isinstance(gathered, Work)
    assert gathered.bound is Bound.UPPER


@pytest.mark.parametrize(
    ("kernel", "names", "work"),
    [
        ("poi_fused_gelu_0", ("in_out_ptr0", "in_ptr0"), Work(64, 32, Bound.EXACT)),
        ("per_fused_mean_0", ("in_ptr0", "out_ptr1"), Work(32, 32, Bound.EXACT)),
        # A loop may read its inputs again.
        ("red_fused_softmax_0", ("in_ptr0", "in_out_ptr0"), Work(64, 32, Bound.LOWER)),
        ("poi_fused_embedding_0", ("in_ptr0", "out_ptr0"), Work(32, 32, Bound.UPPER)),
        ("poi_fused_add_0", ("in_ptr0", "seed_ptr"), Work(32, 32, Bound.LOWER)),
    ],
)
def test_parameters_of_inductors_kernels_have_a_direction(
    kernel: str, names: tuple[str, ...], work: Work
) -> None:
    inputs = encode_inputs(tensor(8), tensor(8))
    inputs["input_values"] = json.dumps(names)
    compiled = parse_call(f"triton_{kernel}", *inputs.values())
    assert compiled is not None
    assert compute_call_work(compiled, (f"triton_{kernel}",)) == work


def test_products_of_inductor_have_operations() -> None:
    # A bias, two operands of 6x8 and 8x10, and the result of the fused activation.
    shapes = [tensor(10, dtype=BF16), tensor(6, 8, dtype=BF16), tensor(8, 10, dtype=BF16)]
    result = tensor(6, 10, dtype=BF16)
    work = compute_call_work(
        parse("triton_tem_fused_addmm_relu_0", *shapes, result), ("triton_tem",)
    )
    assert work == Work(2 * (10 + 48 + 80), 2 * 60, Bound.LOWER, 2 * 6 * 8 * 10, BF16)
    batched = compute_call_work(
        parse("triton_tem_fused_bmm_1", tensor(3, 6, 8), tensor(3, 8, 10), tensor(3, 6, 10)),
        ("triton_tem",),
    )
    assert isinstance(batched, Work)
    assert batched.flops == 2 * 3 * 6 * 8 * 10
    other = compute_call_work(
        parse("triton_tem_fused_bmm_2", tensor(3, 6, 8), tensor(3, 6, 10)), ("triton_tem",)
    )
    assert isinstance(other, Work)
    assert (other.flops, other.dtype) == (0, None)


def test_parts_of_backward_operators() -> None:
    parts = compute_call_work(
        call(
            "convolution_backward",
            tensor(1, 3, 4, 4),
            tensor(1, 2, 4, 4),
            tensor(3, 2, 3, 3),
            None,
            [1, 1],
            [1, 1],
            [1, 1],
            False,
            [0, 0],
            1,
            [True, True, False],
        ),
        ("wgrad", "dgrad"),
    )
    assert isinstance(parts, tuple)
    image, weight = (part.work for part in parts)
    assert (image.read_bytes, image.written_bytes) == (4 * (48 + 54), 4 * 32)
    assert (weight.read_bytes, weight.written_bytes) == (4 * (48 + 32), 4 * 54)
    assert image.flops == weight.flops == 2 * 48 * 18


@pytest.mark.parametrize(
    "unknown",
    [
        call("mm", tensor(2, 3), tensor(4, 5)),
        call("mm", tensor(2, 3), None),
        call("unheard_of", tensor(2, 3)),
        # The profiler leaves out the shapes of long lists.
        call("_fused_adamw_", *[tensors()] * 6),
        call("cudnn_convolution", tensor(1, 2, 4, 4), tensor(3, 2, 3, 3), None, None, None),
        call("cudnn_convolution", tensor(1, 2, 4, 4), tensor(3, 2, 3, 3), [1], [0], [1]),
    ],
    ids=lambda one: one.name,
)
def test_unknown_work(unknown: OperatorCall) -> None:
    assert compute_call_work(unknown, ("kernel",)) is None


@pytest.mark.parametrize(
    "texts",
    [
        (None, None, None, None),
        ("[[2,3]]", None, None, None),
        ("[[2,3", '["float"]', None, None),
        ("[[2,3],[3]]", '["float"]', None, None),
        ("{}", "{}", None, None),
    ],
)
def test_malformed_inputs(texts: tuple[str | None, ...]) -> None:
    assert parse_call("aten::mm", *texts) is None


@pytest.mark.parametrize(
    "dims", ['[["a"]]', "[[-1]]", "[3]", "[[1e99]]", "[null]", f"[{[1 << 40] * 40}]"]
)
def test_malformed_shapes_are_no_tensors(dims: str) -> None:
    parsed = parse_call("aten::mm", dims, '["float"]', None, None)
    assert parsed is not None
    assert parsed.tensors == ()


def parse(name: str, *arguments: Any) -> OperatorCall:
    return OperatorCall(name, call("x", *arguments).arguments)
