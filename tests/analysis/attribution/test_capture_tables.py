from __future__ import annotations

from graphviz_dash.analysis.attribution.attribution import attribute_graph
from graphviz_dash.model.marks import MODULE, SOURCE
from tests.analysis.scenes import ENGINE, EVALUATE, Scene, graph_of, kernel


class TestForwardOperator:
    def _scene(self) -> Scene:
        """A forward operator in a module, and its backward on the engine's thread."""
        scene = Scene()
        scene.capture(100, 1000)
        scene.mark(MODULE + "Net.fc", 200, 300)
        scene.mark(SOURCE + "net.py:7", 210, 290)
        # Reads the counter before the operator that makes the node does.
        scene.op("aten::empty", 150, 160, sequence=5, forward_tid=0)
        scene.op("aten::linear", 220, 280, sequence=5, forward_tid=0)
        scene.op("aten::addmm", 230, 270, sequence=5, forward_tid=0)
        scene.op("aten::relu", 310, 320, sequence=6, forward_tid=0)
        scene.mark(SOURCE + "train.py:9", 500, 900)
        scene.op(EVALUATE + "AddmmBackward0", 600, 700, tid=ENGINE, sequence=5, forward_tid=1)
        scene.op("AddmmBackward0", 610, 690, tid=ENGINE, sequence=5, forward_tid=1)
        mm = scene.op("aten::mm", 620, 650, tid=ENGINE, input_dims="[[2,3]]", input_types='["f"]')
        scene.launch(630, tid=ENGINE, external=mm)
        return scene

    def test_module_and_line_are_those_of_the_forward_operator(self) -> None:
        origin = attribute_graph(graph_of([kernel(0)]), self._scene().trace()).origins[0]
        assert origin.phase == "backward"
        assert (origin.module, origin.source) == ("Net.fc", "net.py:7")
        assert origin.source_method == "forward op"
        assert origin.op_path == (EVALUATE + "AddmmBackward0", "AddmmBackward0", "aten::mm")
        assert (origin.input_dims, origin.input_types) == ("[[2,3]]", '["f"]')

    def test_another_thread_with_the_same_numbers_is_not_mistaken(self) -> None:
        scene = self._scene()
        scene.mark(MODULE + "Other", 200, 300, tid=44)
        scene.op("aten::other", 240, 260, tid=44, sequence=5, forward_tid=0)
        # The engine shows one more number that only the main thread has.
        scene.op(EVALUATE + "ReluBackward0", 550, 560, tid=ENGINE, sequence=6, forward_tid=1)
        origin = attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0]
        assert origin.module == "Net.fc"

    def test_threads_that_cannot_be_told_apart_give_no_forward_operator(self) -> None:
        scene = self._scene()
        scene.mark(MODULE + "Other", 200, 300, tid=44)
        scene.op("aten::other", 240, 260, tid=44, sequence=5, forward_tid=0)
        origin = attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0]
        assert origin.module is None
        assert (origin.source, origin.source_method) == ("train.py:9", "enclosing call")

    def test_accumulation_has_the_call_that_waits_for_it(self) -> None:
        scene = self._scene()
        add = scene.op(EVALUATE + "torch::autograd::AccumulateGrad", 720, 760, tid=ENGINE)
        scene.launch(730, tid=ENGINE, external=add)
        origin = attribute_graph(graph_of([kernel(0), kernel(1)]), scene.trace()).origins[1]
        assert origin.phase == "backward"
        assert origin.module is None
        assert (origin.source, origin.source_method) == ("train.py:9", "enclosing call")

    def test_backward_on_the_calling_thread_still_leads_to_forward(self) -> None:
        scene = Scene()
        scene.capture(100, 1000)
        scene.mark(MODULE + "Net.fc", 200, 300)
        scene.mark(SOURCE + "net.py:7", 210, 290)
        scene.op("aten::mul", 220, 280, sequence=5, forward_tid=0)
        scene.mark(SOURCE + "train.py:9", 500, 900)
        op = scene.op(EVALUATE + "MulBackward0", 600, 700, sequence=5, forward_tid=1)
        scene.launch(630, external=op)
        origin = attribute_graph(graph_of([kernel(0)]), scene.trace()).origins[0]
        assert (origin.source, origin.source_method) == ("net.py:7", "forward op")
        assert origin.module == "Net.fc"
