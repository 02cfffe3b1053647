from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.replays.replays import (
    match_replays,
)
from graphviz_dash.analysis.trace import signatures
from graphviz_dash.analysis.trace.signatures import find_distinct_rows, normalise_name
from graphviz_dash.model.graph import (
    KernelParams,
)
from tests.analysis.replays.known_replays import (
    line_rows,
    match_one,
)
from tests.analysis.scenes import Scene, graph_of, kernel, memcpy, memset


class TestSignature:
    def test_grid_block_and_shared_memory_tell_kernels_of_one_name_apart(self) -> None:
        graph = graph_of([kernel(0, grid=1), kernel(1, grid=2)], [])
        found = match_one(graph, line_rows([1, 0]))
        assert found.node.tolist() == [1, 0]
        assert found.confidence.tolist() == [1.0, 1.0]

    def test_without_static_shared_memory_the_sum_is_not_compared(self) -> None:
        graph = graph_of([kernel(0, static=None), kernel(1, "b", static=None)])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        for index, node in enumerate(graph.nodes):
            scene.work(node, 110 + 10 * index, correlation, shared=9999)
        assert match_replays((graph,), scene.trace()).node.tolist() == [0, 1]

    def test_another_amount_of_shared_memory_is_another_kernel(self) -> None:
        graph = graph_of([kernel(0, static=8), kernel(1, "b")])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        scene.work(graph.nodes[0], 110, correlation, shared=16)
        scene.work(graph.nodes[1], 120, correlation)
        assert match_replays((graph,), scene.trace()).node.tolist() == [-1, 1]

    def test_copies_and_sets_by_their_bytes(self) -> None:
        graph = graph_of([memcpy(0, 8), memcpy(1, 16), memset(2, 8)], [])
        assert match_one(graph, line_rows([2, 1, 0])).node.tolist() == [2, 1, 0]

    def test_small_copies_that_the_driver_does_by_kernels_of_its_own(self) -> None:
        graph = graph_of([kernel(0), memcpy(1, 8), memcpy(2, 4), memset(3), kernel(4, "z")])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        for place, name in enumerate(["k", "memcpy32_post", "memcpy32_post", "memset32", "z"]):
            node = graph.nodes[place] if place in (0, 4) else kernel(place, name)
            scene.work(node, 110 + 10 * place, correlation)
        found = match_replays((graph,), scene.trace())
        assert found.node.tolist() == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("traced", "captured"),
        [
            ("void f<(int)4, (bool)1>(float const*)", "void f<4, 1>(float const*)"),
            ("void f<3ul>(char const*)", "void f<3>(const char*)"),
            ("void (anonymous namespace)::f<int>()", "void <unnamed>::f<int>()"),
            ("void f(int) [clone .kd]", "void f(int)"),
        ],
    )
    def test_demanglers_differ(self, traced: str, captured: str) -> None:
        assert normalise_name(traced) == normalise_name(captured)
        assert normalise_name("void f1<3>(int)") != normalise_name("void f<3>(int)")

    def test_a_mangled_name_in_the_trace(self) -> None:
        graph = graph_of([kernel(0, "a"), kernel(1, "b")])
        scene = Scene()
        correlation = scene.call("hipGraphLaunch", 100)
        for index, node in enumerate(graph.nodes):
            assert isinstance(node.params, KernelParams)
            scene.work(node, 110 + 10 * index, correlation, name=node.params.name)
        assert match_replays((graph,), scene.trace()).node.tolist() == [0, 1]

    def test_a_name_that_differs_in_its_templates_only(self) -> None:
        graph = graph_of([kernel(0, "void f<A>(int)"), kernel(1, "void g(int)")])
        scene = Scene()
        correlation = scene.call("cudaGraphLaunch", 100)
        scene.work(graph.nodes[0], 110, correlation, name="void f<lib::A>(int)")
        scene.work(graph.nodes[1], 120, correlation)
        assert match_replays((graph,), scene.trace()).node.tolist() == [0, 1]

    def test_a_name_in_templates_is_not_guessed_where_another_row_fits(self) -> None:
        graph = graph_of([kernel(0, "void f<A>(int)"), kernel(1, "g"), kernel(2, "h")])
        scene = Scene()
        correlation = scene.replay(graph, 100, line_rows([0, 1, 2]))
        scene.work(graph.nodes[0], 125, correlation, name="void f<B>(int)")
        assert match_replays((graph,), scene.trace()).node.tolist() == [0, 1, -1, 2]


class TestDistinctRows:
    TABLE = np.array(list(product((1, 2), (-1, 7), (0, 3))) * 2, dtype=np.int64)

    def columns(self) -> Iterator[Ints]:
        yield from self.TABLE.T

    @pytest.mark.parametrize("mix", [0x9E3779B97F4A7C15, 0], ids=["hashed", "all hashes alike"])
    def test_equal_rows_alone_are_one(self, mix: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(signatures, "_MIX", np.uint64(mix))
        distinct, inverse = find_distinct_rows(self.columns)
        assert len(distinct) == 8
        assert (distinct[inverse] == self.TABLE).all()
