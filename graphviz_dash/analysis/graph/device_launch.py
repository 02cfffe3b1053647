"""Whether a captured graph could be instantiated for launches from the device.

Rules: CUDA Programming Guide, "Device Graph Launch", requirements; CUDA Driver API,
cuGraphInstantiate, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH. They hold for the bodies of child
graphs too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

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


class Launchable(StrEnum):
    """The verdict on a graph."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class LaunchFinding:
    """A requirement that is not met, or cannot be checked."""

    rule: str
    """The requirement in a word or two."""
    reason: str
    """What is against it, or what is not known."""
    graph: str
    """Id of the graph."""
    node: int | None = None
    """Index of the node; None where it is the graph as a whole."""


@dataclass(frozen=True)
class DeviceLaunch:
    """``violations`` are requirements that are not met, ``unknown`` those that the bundle does not
    let us check; in the order of graphs and nodes."""

    violations: tuple[LaunchFinding, ...]
    unknown: tuple[LaunchFinding, ...]

    @property
    def verdict(self) -> Launchable:
        """NO with any violation, else UNKNOWN with anything unknown, else YES."""
        if self.violations:
            return Launchable.NO
        return Launchable.UNKNOWN if self.unknown else Launchable.YES


def device_launch(graphs: Sequence[CapturedGraph], environment: Environment | None) -> DeviceLaunch:
    """Checks the first of ``graphs``, the others being its bodies. ``environment`` is that of the
    run that captured it; None: nothing is known of it."""
    findings = [*_whole_graph(graphs, environment)]
    for graph in graphs:
        for node in graph.nodes:
            findings += _node(graph, node, environment)
    return DeviceLaunch(
        tuple(finding for proved, finding in findings if proved),
        tuple(finding for proved, finding in findings if not proved),
    )


def _whole_graph(
    graphs: Sequence[CapturedGraph], environment: Environment | None
) -> Iterator[tuple[bool, LaunchFinding]]:
    """Findings, each with whether it is a violation."""
    top = graphs[0].id
    nodes = [node for graph in graphs for node in graph.nodes]
    if not any(node.kind in _WORK for node in nodes):
        yield True, LaunchFinding("work", "it holds no kernel, memcpy or memset node", top)
    devices = {node.device for node in nodes if node.device is not None}
    if len(devices) > 1:
        listed = ", ".join(map(str, sorted(devices)))
        yield True, LaunchFinding("one device", f"its nodes are on devices {listed}", top)
    elif environment is None or environment.gpu_count != 1:
        untold = sum(node.device is None and node.kind in _WORK for node in nodes)
        if untold:
            reason = f"the bundle does not tell the device of {untold:,} of its nodes"
            yield False, LaunchFinding("one device", reason, top)


def _node(
    graph: CapturedGraph, node: GraphNode, environment: Environment | None
) -> Iterator[tuple[bool, LaunchFinding]]:
    def finding(rule: str, reason: str) -> LaunchFinding:
        return LaunchFinding(rule, reason, graph.id, node.index)

    if node.kind not in _ALLOWED:
        yield (
            True,
            finding(
                "kinds",
                f"a node of kind {node.kind.value}; only Kernel, Memcpy, Memset, ChildGraph may be",
            ),
        )
        return
    match node.params:
        case KernelParams() as kernel:
            if kernel.dynamic_parallelism:
                yield True, finding("dynamic parallelism", "the kernel launches kernels itself")
            elif kernel.dynamic_parallelism is None:
                reason = "the bundle does not tell whether the kernel launches kernels itself"
                yield False, finding("dynamic parallelism", reason)
            shared = None if environment is None else environment.mps
            if kernel.cooperative and shared:
                yield True, finding("cooperative", "a cooperative launch, and MPS was in use")
            elif kernel.cooperative and shared is None:
                reason = "a cooperative launch; the bundle does not tell whether MPS was in use"
                yield False, finding("cooperative", reason)
        case MemcpyParams() as copy:
            if "array" in (copy.source, copy.target):
                yield True, finding("arrays", "the copy involves a CUDA array")
            if copy.pageable:
                yield True, finding("pinned memory", "the copy involves pageable host memory")
            elif copy.pageable is None and "H" in copy.direction.replace("unknown", "H"):
                reason = "the bundle does not tell whether the host memory of the copy is pinned"
                yield False, finding("pinned memory", reason)
        case None if node.kind in _WORK:
            yield False, finding("parameters", "its parameters were not read")
