"""The driver's debug DOT tells the nodes of each graph; the text is driver 580's own, shortened."""

from __future__ import annotations

from graphviz_dash.bundle.debug_dot import DotNode, parse_dot_nodes
from graphviz_dash.model.graph import ConditionalType

TEXT = """digraph dot {
subgraph cluster_76 {
label="graph_76" graph[style="dashed"];
"graph_76_node_0"[style="bold" shape="octagon" label="0
_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_21CUDAFunctorOnSelf_addIfEEEEviT0_T1_
node handle: 0x000000000B61C280
func handle: 0x000000000C003990
"];

"graph_76_node_1"[style="solid" shape="trapezium"label="1
MEMCPY
node handle: 0x000000000B61E020
(HtoD,4096)
"];

"graph_76_node_2"[style="solid" shape="rectangle" label="2
graph_78
node handle: 0x000000000B620C90
"];

"graph_76_node_3"[style="bold" shape="record" label="{
CONDITIONAL
| {ID | 3 (topoId: 10)}
| {node handle| 0x000000000B624068}
| {Conditional Handle|1}
| {Conditional Type| IF}
| {True | graph_79}
| {False| graph_80}
}
"];

"graph_76_node_4"[style="bold" shape="record" label="{
CONDITIONAL
| {ID | 4 (topoId: 8)}
| {node handle| 0x000000000C4911F8}
| {Conditional Type| WHILE}
| {True|graph_81}
}
"];

"graph_76_node_10"[style="bold" shape="record" label="{
CONDITIONAL
| {ID | 10 (topoId: 6)}
| {node handle| 0x000000000C492830}
| {Conditional Type| SWITCH}
| {0|  graph_82}
| {1|  graph_83}
| {2|  graph_84}
}
"];

"graph_76_node_0" -> "graph_76_node_1" [headlabel=0];
"graph_76_node_1" -> "graph_76_node_2" [headlabel=0];
}
subgraph cluster_79 {
label="graph_79" graph[style="dashed"];
"graph_79_node_0"[style="bold" shape="octagon" label="0
body_if
node handle: 0x000000000B6247D0
func handle: 0x000000000B53A830
"];

"graph_79_node_1"[style="solid" shape="invtrapezium"label="1
MEMSET
node handle: 0x000000000C48FBC0
(0,4)
"];

"graph_79_node_0" -> "graph_79_node_1" [headlabel=0];
}
subgraph cluster_80 {
label="graph_80" graph[style="dashed"];
}
}
"""


def test_nodes_by_graph_in_the_order_of_their_ids() -> None:
    found = parse_dot_nodes(TEXT)
    assert [node.handle for node in found[76]] == [
        0xB61C280,
        0xB61E020,
        0xB620C90,
        0xB624068,
        0xC4911F8,
        0xC492830,
    ]
    assert [node.handle for node in found[79]] == [0xB6247D0, 0xC48FBC0]
    assert found[80] == ()


def test_conditionals_name_their_bodies_in_the_order_of_values() -> None:
    nodes = parse_dot_nodes(TEXT)[76]
    assert nodes[2] == DotNode(0xB620C90, None, ())
    assert [(node.type, node.bodies) for node in nodes[3:]] == [
        (ConditionalType.IF, (79, 80)),
        (ConditionalType.WHILE, (81,)),
        (ConditionalType.SWITCH, (82, 83, 84)),
    ]


def test_another_text_tells_nothing() -> None:
    assert parse_dot_nodes("") == {}
    assert parse_dot_nodes("digraph { a -> b }") == {}
    assert parse_dot_nodes(TEXT.replace("node handle", "id"))[76] == ()
