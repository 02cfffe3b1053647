from __future__ import annotations

import pytest

from graphviz_dash.analysis.graph.device_launch import LaunchFinding, LaunchRule
from graphviz_dash.features.graph.device_launch import format_finding
from graphviz_dash.model.graph import NodeKind

GRAPH = "graph-0"


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (
            LaunchFinding(
                LaunchRule.KINDS, is_violated=True, graph=GRAPH, node=1, kind=NodeKind.HOST
            ),
            "a node of kind Host; only Kernel, Memcpy, Memset, ChildGraph may be",
        ),
        (
            LaunchFinding(LaunchRule.ONE_DEVICE, is_violated=True, graph=GRAPH, devices=(0, 2)),
            "its nodes are on devices 0, 2",
        ),
        (
            LaunchFinding(
                LaunchRule.ONE_DEVICE, is_violated=False, graph=GRAPH, unknown_nodes=1200
            ),
            "the bundle does not record the device of 1,200 of its nodes",
        ),
        (
            LaunchFinding(LaunchRule.COOPERATIVE, is_violated=True, graph=GRAPH, node=1),
            "a cooperative launch, and MPS was in use",
        ),
        (
            LaunchFinding(LaunchRule.COOPERATIVE, is_violated=False, graph=GRAPH, node=1),
            "a cooperative launch; the bundle does not record whether MPS was in use",
        ),
    ],
)
def test_a_finding_says_what_is_against_it(finding: LaunchFinding, text: str) -> None:
    assert format_finding(finding) == text


@pytest.mark.parametrize("rule", [rule for rule in LaunchRule if rule is not LaunchRule.PARAMETERS])
def test_every_violation_has_its_words(rule: LaunchRule) -> None:
    finding = LaunchFinding(rule, is_violated=True, graph=GRAPH, kind=NodeKind.HOST, devices=())
    assert format_finding(finding)
