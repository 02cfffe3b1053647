from __future__ import annotations

import msgspec
import pytest

from graphviz_dash.analysis.graph.device_launch import (
    DeviceLaunch,
    DeviceLaunchVerdict,
    check_device_launch_rules,
)
from graphviz_dash.model.gpu import Gpu
from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphNode,
    KernelParams,
    MemcpyParams,
    MemsetParams,
    NodeKind,
    Params,
)
from graphviz_dash.model.run import Environment

KERNEL = KernelParams(
    "k", "k", (1, 1, 1), (32, 1, 1), 0, 0, 16, None, False, 0, dynamic_parallelism=False
)
COPY = MemcpyParams("device", "device", "DtoD", 64, 64, 1, 1, pageable=False)
MACHINE = Environment(
    Gpu("GPU", (9, 0), 1 << 30, 100), 1, "580", "13.0", "13.0", None, "2.11", "13", "3.12", "CPU",
    8, "Linux", mps=False,
)  # fmt: skip


def _check(
    *nodes: tuple[NodeKind, Params | None],
    machine: Environment | None = MACHINE,
    devices: tuple[int | None, ...] = (),
) -> DeviceLaunch:
    placed = [*devices, *([None] * len(nodes))]
    graph = CapturedGraph(
        "graph-0",
        tuple(
            GraphNode(index, kind, params, device=placed[index])
            for index, (kind, params) in enumerate(nodes)
        ),
        (),
        "test",
    )
    return check_device_launch_rules([graph], machine)


def test_kernels_copies_and_sets_of_one_device_are_launchable() -> None:
    found = _check(
        (NodeKind.KERNEL, KERNEL),
        (NodeKind.MEMCPY, COPY),
        (NodeKind.MEMSET, MemsetParams(0, 4, 1, 1, 4)),
    )
    assert found.verdict is DeviceLaunchVerdict.YES


@pytest.mark.parametrize(
    "kind",
    sorted(
        set(NodeKind) - {NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET, NodeKind.CHILD_GRAPH}
    ),
)
def test_other_kinds_are_not(kind: NodeKind) -> None:
    found = _check((NodeKind.KERNEL, KERNEL), (kind, None))
    assert found.verdict is DeviceLaunchVerdict.NO
    assert [(one.rule, one.graph, one.node) for one in found.violations] == [
        ("kinds", "graph-0", 1)
    ]


def test_a_graph_without_work_is_not() -> None:
    assert [one.rule for one in _check().violations] == ["work"]
    assert {one.rule for one in _check((NodeKind.EMPTY, None)).violations} == {"work", "kinds"}


@pytest.mark.parametrize(
    ("kind", "params", "rule"),
    [
        (
            NodeKind.KERNEL,
            msgspec.structs.replace(KERNEL, dynamic_parallelism=True),
            "dynamic parallelism",
        ),
        (NodeKind.MEMCPY, msgspec.structs.replace(COPY, target="array"), "arrays"),
        (
            NodeKind.MEMCPY,
            msgspec.structs.replace(COPY, source="host", direction="HtoD", pageable=True),
            "pinned memory",
        ),
    ],
)
def test_a_violation_names_its_node(kind: NodeKind, params: Params, rule: str) -> None:
    found = _check((NodeKind.KERNEL, KERNEL), (kind, params))
    assert [(one.rule, one.node) for one in found.violations] == [(rule, 1)]


@pytest.mark.parametrize(
    ("kind", "params", "rule"),
    [
        (
            NodeKind.KERNEL,
            msgspec.structs.replace(KERNEL, dynamic_parallelism=None),
            "dynamic parallelism",
        ),
        (
            NodeKind.MEMCPY,
            msgspec.structs.replace(COPY, source="host", direction="HtoD", pageable=None),
            "pinned memory",
        ),
        (
            NodeKind.MEMCPY,
            msgspec.structs.replace(COPY, source="unified", direction="unknown", pageable=None),
            "pinned memory",
        ),
        (NodeKind.KERNEL, None, "parameters"),
    ],
)
def test_unread_parameters_make_the_verdict_unknown(
    kind: NodeKind, params: Params | None, rule: str
) -> None:
    found = _check((kind, params))
    assert found.verdict is DeviceLaunchVerdict.UNKNOWN
    assert [one.rule for one in found.unknown] == [rule]


def test_a_copy_within_the_device_needs_no_word_on_pinning() -> None:
    unread = msgspec.structs.replace(COPY, pageable=None)
    assert _check((NodeKind.MEMCPY, unread)).verdict is DeviceLaunchVerdict.YES


@pytest.mark.parametrize(
    ("mps", "verdict"),
    [
        (False, DeviceLaunchVerdict.YES),
        (True, DeviceLaunchVerdict.NO),
        (None, DeviceLaunchVerdict.UNKNOWN),
    ],
)
def test_a_cooperative_launch_depends_on_mps(
    mps: bool | None, verdict: DeviceLaunchVerdict
) -> None:
    together = msgspec.structs.replace(KERNEL, cooperative=True)
    machine = msgspec.structs.replace(MACHINE, mps=mps)
    assert _check((NodeKind.KERNEL, together), machine=machine).verdict is verdict


def test_all_nodes_must_be_on_one_device() -> None:
    several = msgspec.structs.replace(MACHINE, gpu_count=2)
    work = ((NodeKind.KERNEL, KERNEL), (NodeKind.KERNEL, KERNEL))
    assert _check(*work, machine=several, devices=(1, 1)).verdict is DeviceLaunchVerdict.YES
    apart = _check(*work, machine=several, devices=(0, 1))
    assert [one.rule for one in apart.violations] == ["one device"]
    assert _check(*work, machine=several).verdict is DeviceLaunchVerdict.UNKNOWN
    assert _check(*work, machine=several, devices=(1,)).verdict is DeviceLaunchVerdict.UNKNOWN


def test_bodies_are_held_to_the_same_rules() -> None:
    outer = CapturedGraph(
        "graph-0", (GraphNode(0, NodeKind.CHILD_GRAPH, None, ("graph-0.0",)),), (), "test"
    )
    inner = CapturedGraph(
        "graph-0.0",
        (GraphNode(0, NodeKind.KERNEL, KERNEL), GraphNode(1, NodeKind.HOST, None)),
        (),
        "test",
        ("graph-0", 0),
    )
    found = check_device_launch_rules([outer, inner], MACHINE)
    assert [(one.graph, one.node) for one in found.violations] == [("graph-0.0", 1)]
