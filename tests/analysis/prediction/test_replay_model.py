from __future__ import annotations

from pathlib import Path

import pytest

from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.analysis.prediction.replay_model import ReplayTerm, compute_gpu_demand
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.marks import STEP
from tests.analysis.predictions import TERMS, line_trace, predicted, with_terms
from tests.trace_builder import TraceBuilder


class TestReplay:
    def test_a_line_is_launch_kernels_and_gaps(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, kernels=10, duration=2_000))
        assert found.step_ns.value == 5_000 + 10 * 2_000 + 10 * 300
        assert (found.step_ns.low, found.step_ns.high) == pytest.approx((25_200, 30_800))

    def test_back_to_back_the_launch_lies_beside_the_work(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, kernels=10, duration=2_000))
        assert found.interval_ns.value == 1_000 + 10 * 2_000 + 10 * 300

    def test_short_kernels_wait_for_the_cpu(self, tmp_path: Path) -> None:
        found = predicted(line_trace(tmp_path, kernels=2, duration=700))
        assert found.interval_ns.value == 4_000 + 2 * 5

    def test_random_numbers_cost_a_replay_once(self, tmp_path: Path) -> None:
        plain = predicted(line_trace(tmp_path))
        drawn = predicted(line_trace(tmp_path, name="fused_dropout_kernel_vec"))
        assert drawn.step_ns.value - plain.step_ns.value == TERMS[ReplayTerm.RANDOM]

    def test_the_parts_add_up(self, tmp_path: Path) -> None:
        trace = line_trace(tmp_path, duration=30_000, gap=40_000, name="nvjet_tst_128x64")
        replay = predicted(trace, with_terms(heat=0.05)).replay
        told = replay.fixed_ns + replay.random_ns + replay.work_ns + replay.slowed_ns
        assert replay.total_ns == told + replay.heat_ns + replay.gap_ns
        assert replay.heat_ns == pytest.approx(0.05 * 10 * 30_000)

    def test_only_long_kernels_on_tensor_cores_reach_the_power_limit(self, tmp_path: Path) -> None:
        hot = with_terms(heat=0.05)
        short = predicted(line_trace(tmp_path, name="nvjet_tst_128x64"), hot).replay
        plain = predicted(line_trace(tmp_path, duration=30_000, gap=40_000), hot).replay
        assert (short.heat_ns, plain.heat_ns) == (0, 0)


class TestDemand:
    @staticmethod
    def of(folder: Path, name: str, blocks: int, threads: int) -> float:
        trace = TraceBuilder()
        correlation = trace.runtime("cudaLaunchKernel", 1_000, 1_000)
        shape = {"grid": (blocks, 1, 1), "block": (threads, 1, 1)}
        trace.kernel(name, 5_000, 2_000, correlation=correlation, **shape)
        trace.annotation(f"{STEP}0", 0, 10_000)
        step = build_eager_step(read_trace(trace.write(folder / "t.json")))
        assert isinstance(step, EagerStep)
        return float(compute_gpu_demand(step, 132, 10.0)[0])

    def test_a_block_asks_for_one_multiprocessor_at_most(self, tmp_path: Path) -> None:
        assert self.of(tmp_path, "relu", 33, 1_024) == 33 / 132
        assert self.of(tmp_path, "relu", 33, 160) == 33 / 132 / 2

    def test_products_fill_the_gpu_with_fewer_warps(self, tmp_path: Path) -> None:
        gemm = self.of(tmp_path, "sm80_xmma_gemm_f32f32", 132, 64)
        assert gemm == 2 * self.of(tmp_path, "vectorized_elementwise", 132, 64)

    def test_it_is_never_more_than_the_gpu(self, tmp_path: Path) -> None:
        assert self.of(tmp_path, "relu", 5_000, 256) == 1
