"""Check whether a captured graph can be instantiated for device launch.

Rules: CUDA Programming Guide, "Device Graph Launch"; CUDA Driver API, cuGraphInstantiate,
CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.model.graph import (
    CapturedGraph,
    GraphNode,
    KernelParams,
    MemcpyParams,
    NodeKind,
)
from graphviz_dash.model.run import Environment

_WORK: Final = frozenset({NodeKind.KERNEL, NodeKind.MEMCPY, NodeKind.MEMSET})
_ALLOWED: Final = _WORK | {NodeKind.CHILD_GRAPH}


class DeviceLaunchVerdict(StrEnum):
    """Verdict on a graph."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class LaunchRule(StrEnum):
    """Requirement for device launch."""

    WORK = "work"
    """Contains work: a kernel, memcpy or memset node."""
    ONE_DEVICE = "one device"
    """All nodes are on one device."""
    KINDS = "kinds"
    """All nodes have a kind that supports device launch."""
    DYNAMIC_PARALLELISM = "dynamic parallelism"
    """No kernel launches kernels."""
    COOPERATIVE = "cooperative"
    """No launch is cooperative while MPS is in use."""
    ARRAYS = "arrays"
    """No copy involves a CUDA array."""
    PINNED_MEMORY = "pinned memory"
    """No copy involves pageable host memory."""
    PARAMETERS = "parameters"
    """The parameters of all nodes are known."""


class LaunchFinding(Struct, frozen=True):
    """A requirement that is violated or cannot be checked."""

    rule: LaunchRule
    is_violated: bool
    """True if violated; False if the bundle lacks the data for the check."""
    graph: str
    node: int | None = None
    """None for the graph as a whole."""
    kind: NodeKind | None = None
    """Kind of the node for KINDS; None for other rules."""
    devices: tuple[int, ...] = ()
    """Devices of the nodes, for a violated ONE_DEVICE."""
    unknown_nodes: int = 0
    """Nodes with an unknown device, for an unchecked ONE_DEVICE."""


class DeviceLaunch(Struct, frozen=True):
    """Result of the check, in the order of graphs and nodes.

    ``violations`` are violated requirements, ``unknown`` those that the bundle cannot answer.
    """

    violations: tuple[LaunchFinding, ...]
    unknown: tuple[LaunchFinding, ...]

    @property
    def verdict(self) -> DeviceLaunchVerdict:
        """NO with any violation, else UNKNOWN with anything unknown, else YES."""
        if self.violations:
            return DeviceLaunchVerdict.NO
        return DeviceLaunchVerdict.UNKNOWN if self.unknown else DeviceLaunchVerdict.YES


def check_device_launch_rules(
    graphs: Sequence[CapturedGraph], environment: Environment | None
) -> DeviceLaunch:
    """Check the first of ``graphs``; the others are its bodies.

    ``environment`` is that of the capturing run; None if unknown.
    """
    findings = [*_check_graph(graphs, environment)]
    for graph in graphs:
        for node in graph.nodes:
            findings += [
                LaunchFinding(rule, is_violated, graph.id, node.index, kind)
                for rule, is_violated, kind in _check_node(node, environment)
            ]
    return DeviceLaunch(
        tuple(finding for finding in findings if finding.is_violated),
        tuple(finding for finding in findings if not finding.is_violated),
    )


def _check_graph(
    graphs: Sequence[CapturedGraph], environment: Environment | None
) -> Iterator[LaunchFinding]:
    top = graphs[0].id
    nodes = [node for graph in graphs for node in graph.nodes]
    if not any(node.kind in _WORK for node in nodes):
        yield LaunchFinding(LaunchRule.WORK, is_violated=True, graph=top)
    devices = tuple(sorted({node.device for node in nodes if node.device is not None}))
    if len(devices) > 1:
        yield LaunchFinding(LaunchRule.ONE_DEVICE, is_violated=True, graph=top, devices=devices)
    elif environment is None or environment.gpu_count != 1:
        unknown = sum(node.device is None and node.kind in _WORK for node in nodes)
        if unknown:
            yield LaunchFinding(
                LaunchRule.ONE_DEVICE, is_violated=False, graph=top, unknown_nodes=unknown
            )


def _check_node(
    node: GraphNode, environment: Environment | None
) -> Iterator[tuple[LaunchRule, bool, NodeKind | None]]:
    """Check a node: rule, violation flag, and the kind for KINDS."""
    if node.kind not in _ALLOWED:
        yield LaunchRule.KINDS, True, node.kind
        return
    match node.params:
        case KernelParams() as kernel:
            if kernel.dynamic_parallelism is not False:
                yield LaunchRule.DYNAMIC_PARALLELISM, kernel.dynamic_parallelism is True, None
            shared = None if environment is None else environment.mps
            if kernel.cooperative and shared is not False:
                yield LaunchRule.COOPERATIVE, shared is True, None
        case MemcpyParams() as copy:
            if "array" in (copy.source, copy.target):
                yield LaunchRule.ARRAYS, True, None
            if copy.pageable:
                yield LaunchRule.PINNED_MEMORY, True, None
            elif copy.pageable is None and "H" in copy.direction.replace("unknown", "H"):
                yield LaunchRule.PINNED_MEMORY, False, None
        case None if node.kind in _WORK:
            yield LaunchRule.PARAMETERS, False, None
