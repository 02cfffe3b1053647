"""Texts are of drivers 570 and 580, shortened."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats.debug_dot import read_debug_dot
from graphviz_dash.ingest.limits import Limits
from graphviz_dash.model.graph import (
    ConditionalType,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
)
from tests.bundle.test_debug_dot import TEXT as PLAIN

VERBOSE = r"""digraph dot {
subgraph cluster_1 {
label="graph_1" graph[style="dashed"];
"graph_1_node_0"[style="bold" shape="record" label="{KERNEL
| {ID | 0 (topoId: 3) | _Z4fillPf\<\<\<\{16,24\},\{32,4\},6912\>\>\>}
| {{node handle | func handle} | {0x000000004A64D630 | 0x000000004029F520}}
| {accessPolicyWindow | {base_ptr | num_bytes | hitRatio | hitProp | missProp} | {0x0 | 0 | 0.000000 | N | N}}
| {cooperative | 1}
| {priority | -2}
}"];

"graph_1_node_1"[style="bold" shape="record" label="{KERNEL
| {ID | 1 (topoId: 2) | gemm_\<float\>\<\<\<512,128,0\>\>\>}
| {{node handle | func handle} | {0x000000004A64DD98 | 0x0000000041C88840}}
| {cooperative | 0}
| {priority | 0}
}"];

"graph_1_node_2"[style="solid" shape="record" label="{
MEMCPY
| {{ID | node handle} | {2 (topoId: 1) | 0x000055E7277A6AC0}}
| {kind | DtoH (DEVICE to HOST)}
| {{srcPtr | dstPtr} | {pitch | ptr | xsize | ysize | pitch | ptr | xsize | ysize} | {0 | 0x0 | 0 | 0 | 0 | 0x0 | 0 | 0}}
| {{srcPos | {{x | 0} | {y | 0} | {z | 0}}} | {dstPos | {{x | 0} | {y | 0} | {z | 0}}} | {Extent | {{Width | 4096} | {Height | 2} | {Depth | 1}}}}
}"];

"graph_1_node_13"[style="solid" style="solid" shape="record" label="{MEMSET
| {{ID | node handle | dptr | pitch | value | elementSize | width | height} | {13 (topoId: 0) | 0x000000004A653678 | 0x00007F490D680000 | 0 | 7 | 4 | 1024 | 1}}}"];

"graph_1_node_0" -> "graph_1_node_1" [headlabel=0];
"graph_1_node_1" -> "graph_1_node_2" [headlabel=0];
"graph_1_node_1" -> "graph_1_node_13" [headlabel=0];
}
}
"""  # noqa: E501  (as the driver writes it)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


class TestVerbose:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return written(tmp_path / "graph.dot", VERBOSE)

    def test_kernels_with_their_launch(self, file: Path) -> None:
        (graph,) = read_debug_dot(file)
        first = graph.nodes[0].params
        assert isinstance(first, KernelParams)
        assert (first.name, first.demangled) == ("_Z4fillPf", "fill(float*)")
        assert (first.grid, first.block, first.dynamic_shared) == ((16, 24, 1), (32, 4, 1), 6912)
        assert (first.cooperative, first.priority, first.static_shared) == (True, -2, None)
        second = graph.nodes[1].params
        assert isinstance(second, KernelParams)
        assert second.name == "gemm_<float>"

    def test_copies_and_sets_with_their_bytes(self, file: Path) -> None:
        (graph,) = read_debug_dot(file)
        copy = MemcpyParams("device", "host", "DtoH", 8192, 4096, 2, 1)
        assert graph.nodes[2].params == copy
        assert graph.nodes[3].params == MemsetParams(7, 4, 1024, 1, 4096)

    def test_edges_by_place_where_numbers_have_gaps(self, file: Path) -> None:
        (graph,) = read_debug_dot(file)
        assert [node.index for node in graph.nodes] == [0, 1, 2, 3]
        assert [(edge.source, edge.target) for edge in graph.edges] == [(0, 1), (1, 2), (1, 3)]

    def test_compressed(self, tmp_path: Path, file: Path) -> None:
        packed = tmp_path / "graph.dot.gz"
        packed.write_bytes(gzip.compress(file.read_bytes()))
        assert read_debug_dot(packed) == read_debug_dot(file)


class TestPlain:
    def test_kinds_names_and_bodies(self, tmp_path: Path) -> None:
        whole = PLAIN.rstrip().removesuffix("}") + "".join(
            f'subgraph cluster_{n} {{\nlabel="graph_{n}" graph[style="dashed"];\n}}\n'
            for n in (78, 81, 82, 83, 84)
        )
        graphs = read_debug_dot(written(tmp_path / "plain.dot", whole + "}\n"))
        root = graphs[0]
        assert [node.kind for node in root.nodes] == [
            NodeKind.KERNEL,
            NodeKind.MEMCPY,
            NodeKind.CHILD_GRAPH,
            NodeKind.CONDITIONAL,
            NodeKind.CONDITIONAL,
            NodeKind.CONDITIONAL,
        ]
        kernel = root.nodes[0].params
        assert isinstance(kernel, KernelParams)
        assert kernel.name.startswith("_ZN2at6native29vectorized_elementwise_kernelILi4E")
        assert kernel.grid is kernel.block is kernel.dynamic_shared is None
        assert root.nodes[1].params == MemcpyParams("host", "device", "HtoD", 4096, 4096, 1, 1)
        held = {graph.id: graph.parent for graph in graphs[1:]}
        assert held["graph-0.2"] == ("graph-0", 2)
        assert root.nodes[5].bodies == ("graph-0.5.0", "graph-0.5.1", "graph-0.5.2")
        assert getattr(root.nodes[3].params, "type", None) is ConditionalType.IF

    def test_a_graph_that_two_nodes_hold_is_two(self, tmp_path: Path) -> None:
        text = (
            'digraph dot {\nsubgraph cluster_1 {\n"graph_1_node_0"[label="0\ngraph_2\n"];\n'
            '"graph_1_node_1"[label="1\ngraph_2\n"];\n}\n'
            'subgraph cluster_2 {\n"graph_2_node_0"[label="0\nEMPTY\n"];\n}\n}\n'
        )
        graphs = read_debug_dot(written(tmp_path / "twice.dot", text))
        assert [graph.id for graph in graphs] == ["graph-0", "graph-0.0", "graph-0.1"]


def doubling(levels: int) -> str:
    """Each graph holds the next one twice: 2 ** levels graphs in a few lines."""
    parts = ["digraph dot {\n"]
    for level in range(levels):
        nodes = "".join(
            f'"graph_{level}_node_{n}"[label="{n}\ngraph_{level + 1}\n"];\n' for n in range(2)
        )
        parts.append(f"subgraph cluster_{level} {{\n{nodes}}}\n")
    last = f'"graph_{levels}_node_0"[label="0\nEMPTY\n"];\n'
    return "".join(parts) + f"subgraph cluster_{levels} {{\n{last}}}\n}}\n"


class TestRefused:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("digraph { a -> b }", "no graph with a node"),
            (VERBOSE.replace("MEMSET", "TELEPORT"), "a node of unknown kind: {TELEPORT"),
            (VERBOSE.replace('node_13" [', 'node_99" ['), "an edge to node 99"),
            (
                "digraph dot {\nsubgraph cluster_1 {\n"
                '"graph_1_node_0"[label="0\ngraph_1\n"];\n}\n}',
                "only graphs inside other graphs",
            ),
        ],
    )
    def test_an_invalid_graph_text_is_refused(self, tmp_path: Path, text: str, found: str) -> None:
        with pytest.raises(InputError) as error:
            read_debug_dot(written(tmp_path / "bad.dot", text))
        assert found in error.value.found

    def test_graphs_that_multiply(self, tmp_path: Path) -> None:
        file = written(tmp_path / "bomb.dot", doubling(40))
        with pytest.raises(InputError, match="limit nodes"):
            read_debug_dot(file, Limits(nodes=10_000))

    def test_graphs_nested_too_deeply(self, tmp_path: Path) -> None:
        file = written(tmp_path / "deep.dot", doubling(40).replace('node_1"[', 'none"['))
        with pytest.raises(InputError, match="limit nesting"):
            read_debug_dot(file, Limits(nesting=8))

    def test_a_label_without_end(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="limit string_length"):
            read_debug_dot(written(tmp_path / "long.dot", VERBOSE), Limits(string_length=100))
