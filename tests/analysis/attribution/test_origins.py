from __future__ import annotations

import pytest

from graphviz_dash.analysis.attribution.attribution import attribute_graph
from graphviz_dash.analysis.attribution.origins import select_near
from graphviz_dash.model.marks import MODULE
from tests.analysis.frames import Frames
from tests.analysis.scenes import Scene, graph_of, kernel


class TestNear:
    def frames(self) -> Frames:
        frames = Frames()
        frames.op("around all", 0, 10_000)
        frames.op("long ago", 100, 200)
        frames.op("before", 3_500, 3_600)
        frames.op("within", 4_200, 4_300)
        frames.op("after", 5_100, 5_200)
        return frames

    @pytest.mark.parametrize(
        ("margin", "kept"),
        [
            (None, ["around all", "before", "within"]),
            (0, ["around all", "within"]),
            (3_900, ["around all", "long ago", "before", "within"]),
        ],
    )
    def test_only_frames_in_the_step_or_within_the_margin_before_it_are_kept(
        self, margin: int | None, kept: list[str]
    ) -> None:
        found = select_near(self.frames().trace(), 4_000, 5_000, margin)
        assert found.ops["name"].to_list() == kept

    def test_work_and_calls_keep_their_rows(self) -> None:
        frames = self.frames()
        frames.kernel("gemm", launched=150, ts=160, dur=5)
        trace = frames.trace()
        found = select_near(trace, 4_000, 5_000)
        assert found.gpu is trace.gpu
        assert found.runtime is trace.runtime

    def test_nothing_is_near_in_an_empty_trace(self) -> None:
        assert not len(select_near(Frames().trace(), 4_000, 5_000).ops)


class TestPhase:
    def _phase(self, scene: Scene) -> str:
        scene.capture(100, 1000)
        return attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0].phase

    def test_optimizer(self) -> None:
        scene = Scene()
        scene.mark("Optimizer.step#SGD.step", 200, 400)
        scene.launch(250, external=scene.op("aten::add_", 240, 260, sequence=3, forward_tid=0))
        assert self._phase(scene) == "optimizer"

    def test_zero_grad(self) -> None:
        scene = Scene()
        scene.mark("Optimizer.zero_grad#SGD.zero_grad", 200, 400)
        scene.launch(250, external=scene.op("aten::zero_", 240, 260))
        assert self._phase(scene) == "optimizer"

    def test_forward_within_an_optimizer_that_calls_a_closure(self) -> None:
        scene = Scene()
        scene.mark("Optimizer.step#LBFGS.step", 200, 400)
        scene.mark(MODULE + "Net", 220, 300)
        scene.launch(250, external=scene.op("aten::mm", 240, 260))
        assert self._phase(scene) == "forward"

    def test_an_operator_that_autograd_numbered(self) -> None:
        scene = Scene()
        scene.op("aten::mse_loss", 230, 270, sequence=3, forward_tid=0)
        scene.launch(250, external=scene.op("aten::sub", 240, 260))
        assert self._phase(scene) == "forward"

    def test_the_seed_gradient_is_made_inside_the_call_of_backward(self) -> None:
        scene = Scene()
        scene.frame("torch/_tensor.py(576): backward", 200, 400)
        scene.op("aten::ones_like", 230, 270, sequence=9, forward_tid=0)
        scene.launch(250, external=scene.op("aten::fill_", 240, 260))
        assert self._phase(scene) == "backward"

    def test_other(self) -> None:
        scene = Scene()
        scene.launch(250, external=scene.op("aten::copy_", 240, 260))
        assert self._phase(scene) == "other"


class TestSource:
    def test_the_innermost_function_that_is_not_a_library_s(self) -> None:
        scene = Scene()
        scene.capture(100, 1000)
        frames = (
            ("collectors/passes/worker.py(48): _run", 105),
            ("train.py(3): main", 110),
            ("collectors/workloads/mlp.py(35): forward", 120),
            ("torch/nn/functional.py(9): linear", 130),
            ("/opt/site-packages/lib/x.py(1): f", 140),
            ("collectors/passes/annotate.py(34): __torch_function__", 150),
            ("contextlib.py(80): inner", 160),
            ("nn.Module: Linear_0", 170),
            ("<built-in function linear>", 180),
        )
        for name, start in frames:
            scene.frame(name, start, 500)
        scene.launch(250, external=scene.op("aten::mm", 240, 260))
        origin = attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0]
        assert (origin.source, origin.source_method) == (
            "collectors/workloads/mlp.py:35",
            "python stack",
        )

    def test_calls_around_one_that_was_not_seen_to_return(self) -> None:
        # As xDiT's captures: code that the compiler wrote, behind a generator's missing return.
        scene = Scene()
        scene.capture(100, 1000)
        frames = (
            ("flux.py(124): _run_pipe", 110, 880),
            ("nn.Module: Transformer_0", 120, 860),
            ("transformer_flux.py(268): forward", 125, 850),
            ("torch/_inductor/cudagraph_trees.py(1230): _record", 130, 840),
            ("<built-in function next>", 140, 2_000),
            ("/tmp/torchinductor_root/ag/cag.py(3979): partition_0", 150, 800),
        )
        for name, start, duration in frames:
            scene.frame(name, start, start + duration)
        scene.launch(250, external=scene.op("aten::mm", 240, 260))
        origin = attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0]
        assert (origin.module, origin.source) == ("Transformer_0", "transformer_flux.py:268")

    def test_modules_and_the_model_s_line_of_python_stacks(self) -> None:
        # As serving engines call kernels: layers and wrappers are written once for many models.
        scene = Scene()
        scene.capture(100, 1000)
        calls = [
            ("runner.py(9): execute_model", 110, 900),
            ("nn.Module: Decoder_0", 120, 880),
            ("models/qwen3.py(222): forward", 125, 870),
            ("nn.Module: Attention_0", 130, 200),
            ("models/qwen3.py(167): forward", 135, 190),
            ("nn.Module: QKVLinear_0", 140, 100),
            ("layers/linear.py(395): forward", 145, 90),
            ("aiter/tuned_gemm.py(395): mm", 150, 80),
            ("nn.Module: MLP_0", 400, 100),
            ("models/qwen2.py(94): forward", 405, 90),
            ("nn.Module: UpLinear_0", 410, 80),
            ("layers/linear.py(395): forward", 415, 70),
            ("aiter/tuned_gemm.py(395): mm", 420, 60),
            ("nn.Module: RMSNorm_0", 600, 100),
            ("layers/layernorm.py(281): forward_aiter", 605, 90),
            ("sampler.py(5): sample", 1500, 50),
        ]
        for name, start, length in calls:
            scene.frame(name, start, start + length)
        for at in (160, 430, 610):
            scene.launch(at, external=scene.op("aten::mm", at - 2, at + 5))
        graph = graph_of([kernel(0), kernel(1), kernel(2)])
        found = attribute_graph(graph, scene.trace()).origins
        assert [(origin.module, origin.source) for origin in found] == [
            ("Decoder_0.Attention_0.QKVLinear_0", "models/qwen3.py:167"),
            ("Decoder_0.MLP_0.UpLinear_0", "models/qwen2.py:94"),
            ("Decoder_0.RMSNorm_0", "models/qwen3.py:222"),
        ]
        assert {origin.phase for origin in found} == {"forward"}

    def test_no_line_has_a_reason(self) -> None:
        scene = Scene()
        scene.capture(100, 1000)
        # What called the module was the collector: that is no line of the workload.
        scene.frame("collectors/passes/modes.py(108): _graph_modules", 110, 500)
        scene.launch(250, external=scene.op("aten::mm", 240, 260))
        origin = attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0]
        assert origin.source is None
        assert "no collector range" in str(origin.reason)

    def test_an_external_id_of_a_range_leads_to_the_operator_around(self) -> None:
        scene = Scene()
        scene.capture(100, 1000)
        scene.op("triton_op", 240, 260)
        scene.launch(250, external=4711)
        assert attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0].op == "triton_op"
